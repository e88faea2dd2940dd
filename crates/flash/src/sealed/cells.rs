//! Units and tickets on the medium: sealed, programmed, read, opened. Knows where they lie, not which of them count.

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashDevice};

use super::keys::Keys;
use super::layout::{SealedLayout, TICKET_LEN};
use super::record::Stamp;
use super::serial::{self, SERIAL_LEN};

/// A medium, the keys, and a buffer for one unit.
pub(crate) struct Cells<A, D, B> {
    pub(crate) device: D,
    pub(crate) keys: Keys<A>,
    pub(crate) layout: SealedLayout,
    buffer: B,
}

/// One place in a block that is sealed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A unit, by its number.
    Unit(u32),
    /// The slot for a ticket.
    Slot,
}

pub(super) const UNIT: u8 = 1;
pub(super) const TICKET: u8 = 2;
/// Bytes of associated data: two less than a cipher block, which CCM fills with their length.
pub(super) const ASSOCIATED: usize = 14;
/// How often a unit that does not verify is read: a marginal cell or a disturbed bus may read right the next time.
const READS: usize = 3;

impl<A: Aead, D: FlashDevice, B: AsMut<[u8]>> Cells<A, D, B> {
    /// `buffer` has room for a unit, which the caller has checked.
    pub(crate) fn new(device: D, keys: Keys<A>, layout: SealedLayout, buffer: B) -> Self {
        Self { device, keys, layout, buffer }
    }

    /// Seals a unit, of 0xFF without a payload, and programs it.
    pub(crate) fn prog_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: u64,
        serial: u64,
        payload: Option<&[u8]>,
    ) -> Result<(), FlashCause> {
        let associated = associated(UNIT, block, unit, epoch);
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.stride());
        let data_len = self.layout.payload() as usize;
        self.prog(address, len, serial, &associated, data_len, payload)
    }

    /// Seals a ticket into the slot of a block and programs it.
    pub(crate) fn prog_ticket(
        &mut self,
        block: u32,
        epoch: u64,
        serial: u64,
        victim: Stamp,
    ) -> Result<(), FlashCause> {
        let associated = associated(TICKET, block, self.layout.units(), epoch);
        let (address, len) = (self.layout.slot_address(block), self.layout.slot());
        self.prog(address, len, serial, &associated, TICKET_LEN, Some(&victim.to_bytes()))
    }

    /// Reads a unit of an epoch and opens it: its serial, and its payload in `out`. None if it is not what was sealed for
    /// this place. Unit 0 has its epoch for serial.
    pub(crate) fn read_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: u64,
        out: &mut [u8],
    ) -> Result<Option<u64>, FlashCause> {
        let serial = self.open_repeatedly(block, unit, Some(epoch))?;
        if serial.is_some() {
            let payload = self.buffer.as_mut().get(..out.len()).unwrap_or_default();
            out.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
        }
        Ok(serial)
    }

    /// The same without the payload.
    pub(crate) fn open_repeatedly(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Option<u64>,
    ) -> Result<Option<u64>, FlashCause> {
        for _ in 0..READS {
            let serial = self.open_unit(block, unit, epoch)?;
            if serial.is_some() {
                return Ok(serial);
            }
        }
        Ok(None)
    }

    /// The same, read once. Without an epoch, unit 0 of whichever stands there.
    pub(crate) fn open_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Option<u64>,
    ) -> Result<Option<u64>, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.stride());
        let payload = self.layout.payload() as usize;
        let Some(serial) = self.read(address, len, payload)? else { return Ok(None) };
        let epoch = epoch.unwrap_or(serial);
        if unit == 0 && serial != epoch {
            return Ok(None);
        }
        let opened = self.open(serial, &associated(UNIT, block, unit, epoch), payload);
        Ok(opened.then_some(serial))
    }

    /// Reads the ticket in the slot of a block and opens it: its serial, and what it announces.
    pub(crate) fn open_ticket(&mut self, block: u32, epoch: u64) -> Result<Option<(u64, Stamp)>, FlashCause> {
        let (address, len) = (self.layout.slot_address(block), self.layout.slot());
        let Some(serial) = self.read(address, len, TICKET_LEN)? else { return Ok(None) };
        let associated = associated(TICKET, block, self.layout.units(), epoch);
        if !self.open(serial, &associated, TICKET_LEN) {
            return Ok(None);
        }
        let stamp = self.buffer.as_mut().first_chunk().map(Stamp::from_bytes);
        Ok(stamp.map(|stamp| (serial, stamp)))
    }

    /// Whether the medium has nothing in a block from a unit on.
    pub(crate) fn is_blank_from(&mut self, block: u32, unit: u32) -> Result<bool, FlashCause> {
        let start = self.layout.unit_address(block, unit);
        let end = self.layout.unit_address(block, self.layout.units());
        match self.device.is_blank(start, end.saturating_sub(start), self.buffer.as_mut()) {
            Ok(blank) => Ok(blank),
            Err(error) if error.cause == FlashCause::Uncorrectable => Ok(false),
            Err(error) => Err(error.cause),
        }
    }

    /// Whether the medium has something where a unit goes. No, if it can't tell.
    pub(crate) fn is_programmed(&mut self, block: u32, unit: u32) -> Result<bool, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.stride());
        match self.device.is_blank(address, len.into(), self.buffer.as_mut()) {
            Ok(blank) => Ok(!blank),
            Err(error) => match error.cause {
                FlashCause::Unsupported => Ok(false),
                FlashCause::Uncorrectable | FlashCause::BadBlock { .. } => Ok(true),
                cause => Err(cause),
            },
        }
    }

    /// How many units of an epoch verify, from the first on, of `most`.
    pub(crate) fn count(&mut self, block: u32, epoch: u64, most: u32) -> u32 {
        let found = (0..most).find(|unit| !matches!(self.open_unit(block, *unit, Some(epoch)), Ok(Some(_))));
        found.unwrap_or(most)
    }

    pub(crate) fn erase(&mut self, block: u32) -> Result<(), FlashCause> {
        let (address, len) = (self.layout.block_address(block), self.layout.medium().erase_size());
        self.device.erase(address, len.into()).map_err(|error| error.cause)
    }

    /// Destroys what says that a block holds anything, on a medium that can be overwritten and has no erase to speak of.
    pub(crate) fn overwrite(&mut self, block: u32) -> Result<(), FlashCause> {
        let address = self.layout.block_address(block);
        let len = self.layout.stride();
        let zeros = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        zeros.fill(0);
        self.device.prog(address, zeros).map_err(|error| error.cause)
    }

    pub(crate) fn sync(&mut self) -> Result<(), FlashCause> {
        self.device.sync().map_err(|error| error.cause)
    }

    /// Fills the buffer with data, serial, tag and zeros, and programs that.
    fn prog(
        &mut self,
        address: u64,
        len: u32,
        serial: u64,
        associated: &[u8],
        data_len: usize,
        plain: Option<&[u8]>,
    ) -> Result<(), FlashCause> {
        let cell = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        let Some((data, rest)) = cell.split_at_mut_checked(data_len) else { return Err(too_small(len)) };
        data.fill(0xff);
        data.iter_mut().zip(plain.unwrap_or_default()).for_each(|(to, from)| *to = *from);
        let nonce = nonce::<A>(serial);
        let Ok(tag) = self.keys.cipher.seal(&nonce, associated, data) else {
            data.fill(0);
            return Err(FlashCause::Cipher);
        };
        let behind = serial::to_bytes(serial).into_iter().chain(tag.as_ref().iter().copied());
        rest.iter_mut().zip(behind.chain(core::iter::repeat(0))).for_each(|(to, from)| *to = from);
        self.device.prog(address, cell).map_err(|error| error.cause)
    }

    /// Where cells are read to and opened.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        self.buffer.as_mut()
    }

    /// The medium, and where cells are read to.
    pub(super) fn device_and_buffer(&mut self) -> (&mut D, &mut [u8]) {
        (&mut self.device, self.buffer.as_mut())
    }

    /// Reads a cell into the buffer: its serial. None if the medium's own code refuses to read it.
    pub(super) fn read(&mut self, address: u64, len: u32, data: usize) -> Result<Option<u64>, FlashCause> {
        let cell = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        match self.device.read(address, cell) {
            Ok(()) => {}
            Err(error) => match error.cause {
                FlashCause::Uncorrectable | FlashCause::BadBlock { .. } => return Ok(None),
                cause => return Err(cause),
            },
        }
        let serial = cell.get(data..).and_then(|rest| rest.first_chunk::<SERIAL_LEN>());
        Ok(serial.map(|bytes| serial::from_bytes(*bytes)))
    }

    /// Opens the data at the start of the buffer, behind which serial and tag stand.
    pub(super) fn open(&mut self, serial: u64, associated: &[u8], len: usize) -> bool {
        let Some((data, rest)) = self.buffer.as_mut().split_at_mut_checked(len) else { return false };
        let tag = rest.get(SERIAL_LEN..).and_then(|rest| rest.get(..A::TAG_LEN));
        let Some(tag) = tag.and_then(|tag| A::Tag::try_from(tag).ok()) else { return false };
        self.keys.cipher.open(&nonce::<A>(serial), associated, data, &tag).is_ok()
    }
}

fn too_small(needs: u32) -> FlashCause {
    FlashCause::BufferTooSmall { needs, has: 0 }
}

/// A serial, padded with zeros.
fn nonce<A: Aead>(serial: u64) -> A::Nonce {
    let mut nonce = A::Nonce::default();
    nonce.as_mut().iter_mut().zip(serial::to_bytes(serial)).for_each(|(to, from)| *to = from);
    nonce
}

/// What a cell is and where: it opens nowhere else, and under no other epoch of its block.
pub(super) fn associated(kind: u8, block: u32, unit: u32, epoch: u64) -> [u8; ASSOCIATED] {
    let [a, b, c, d] = block.to_le_bytes();
    let [e, f, g, h] = unit.to_le_bytes();
    let [i, j, k, l, m] = serial::to_bytes(epoch);
    [kind, a, b, c, d, e, f, g, h, i, j, k, l, m]
}
