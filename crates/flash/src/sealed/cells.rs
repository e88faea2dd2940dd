//! Units and tickets on the medium: sealed, programmed, read, opened. Knows where they lie, not which of them count.

use atrest_cipher::aead::{Aead, OpenError};
use atrest_codec::{decode, encode};
use atrest_device::FlashCause;

use super::keys::Keys;
use super::layout::{SealedLayout, TICKET_LEN};
use super::record::Stamp;
use super::serial::{self, Epoch, SALT_LEN, SALTS_LEN, SERIAL_LEN, Salt};
use super::{FlashDevice, twin};

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

pub(crate) const UNIT: u8 = 1;
pub(crate) const TICKET: u8 = 2;
/// Bytes of associated data: two less than a cipher block, which CCM fills with their length.
pub(crate) const ASSOCIATED: usize = 14;
/// How often a unit that does not verify is read: a marginal cell or a disturbed bus may read right the next time.
const READS: usize = 3;

#[twin]
impl<A: Aead, D: FlashDevice, B: AsMut<[u8]>> Cells<A, D, B> {
    /// `buffer` has room for a unit, which the caller has checked.
    pub(crate) fn new(device: D, keys: Keys<A>, layout: SealedLayout, buffer: B) -> Self {
        Self { device, keys, layout, buffer }
    }

    /// Device and buffer, back.
    pub(crate) fn into_parts(self) -> (D, B) {
        (self.device, self.buffer)
    }

    /// Seals a unit, of 0xFF without a payload, and programs it.
    pub(crate) async fn prog_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Epoch,
        serial: u64,
        payload: Option<&[u8]>,
    ) -> Result<(), FlashCause> {
        let sealing = Sealing { serial, salt: epoch.salt, associated: associated(UNIT, block, unit, epoch) };
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.unit_len(unit));
        let data_len = self.layout.payload() as usize;
        self.prog(address, len, &sealing, data_len, payload, unit == 0).await
    }

    /// Seals a ticket into the slot of a block and programs it.
    pub(crate) async fn prog_ticket(
        &mut self,
        block: u32,
        epoch: Epoch,
        serial: u64,
        victim: Stamp,
    ) -> Result<(), FlashCause> {
        let associated = associated(TICKET, block, self.layout.units(), epoch);
        let sealing = Sealing { serial, salt: epoch.salt, associated };
        let (address, len) = (self.layout.slot_address(block), self.layout.slot());
        self.prog(address, len, &sealing, TICKET_LEN, Some(&victim.to_bytes()), false).await
    }

    /// Reads a unit of an epoch and opens it: its serial, and its payload in `out`. None if it is not what was sealed for
    /// this place. Unit 0 has its epoch for serial.
    pub(crate) async fn read_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Epoch,
        out: &mut [u8],
    ) -> Result<Option<u64>, FlashCause> {
        let serial = self.open_repeatedly(block, unit, epoch).await?;
        if serial.is_some() {
            let len = self.layout.payload();
            let payload = self.buffer.as_mut().get(..out.len()).ok_or(too_small(len))?;
            out.copy_from_slice(payload);
        }
        Ok(serial)
    }

    /// Reads a unit of an epoch into the buffer and opens it there, several times if it does not verify: its serial. None if
    /// it is not what was sealed for this place.
    pub(crate) async fn open_repeatedly(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Epoch,
    ) -> Result<Option<u64>, FlashCause> {
        for _ in 0..READS {
            let found = self.open_unit(block, unit, epoch).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads a unit of an epoch into the buffer once and opens it there: its serial. None if it is not what was sealed for
    /// this place.
    pub(crate) async fn open_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Epoch,
    ) -> Result<Option<u64>, FlashCause> {
        let Some(serial) = self.read_unit_cell(block, unit).await? else { return Ok(None) };
        if unit == 0 && serial != epoch.serial {
            return Ok(None);
        }
        let payload = self.layout.payload() as usize;
        let sealing = Sealing { serial, salt: epoch.salt, associated: associated(UNIT, block, unit, epoch) };
        Ok(self.open(&sealing, payload)?.then_some(serial))
    }

    /// Reads unit 0 of a block, of whichever epoch, and opens it under one of the two salts behind it: the epoch of the block.
    pub(crate) async fn open_first(&mut self, block: u32) -> Result<Option<Epoch>, FlashCause> {
        let Some(serial) = self.read_unit_cell(block, 0).await? else { return Ok(None) };
        let len = self.layout.unit_len(0);
        let cell = self.buffer.as_mut().get(..len as usize).ok_or(too_small(len))?;
        let [first, second] = salts_of(cell).ok_or(too_small(len))?;
        let found = self.open_first_in_buffer(block, Epoch { serial, salt: first })?;
        if found.is_some() || first == second {
            return Ok(found);
        }
        // Opening has made zeros of the first try.
        let Some(serial) = self.read_unit_cell(block, 0).await? else { return Ok(None) };
        self.open_first_in_buffer(block, Epoch { serial, salt: second })
    }

    fn open_first_in_buffer(&mut self, block: u32, epoch: Epoch) -> Result<Option<Epoch>, FlashCause> {
        let associated = associated(UNIT, block, 0, epoch);
        let sealing = Sealing { serial: epoch.serial, salt: epoch.salt, associated };
        Ok(self.open(&sealing, self.layout.payload() as usize)?.then_some(epoch))
    }

    /// Reads a unit into the buffer: the serial that stands in it.
    pub(crate) async fn read_unit_cell(&mut self, block: u32, unit: u32) -> Result<Option<u64>, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.unit_len(unit));
        self.read(address, len, self.layout.payload() as usize).await
    }

    /// The two salts behind unit 0 of a block, read without the rest of it where they have prog units of their own. None if the medium's own
    /// code refuses to read them.
    pub(crate) async fn salts(&mut self, block: u32) -> Result<Option<[Salt; 2]>, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, 0), self.layout.unit_len(0));
        let tail = if self.layout.head() == 0 { len } else { self.layout.head() };
        // cannot underflow: the salts' units are the last of unit 0, which lies on the medium.
        let start = address.saturating_add(len.saturating_sub(tail).into());
        let Some(bytes) = self.read_bytes(start, tail).await? else { return Ok(None) };
        salts_of(bytes).map(Some).ok_or(too_small(tail))
    }

    /// Reads unit 0 of a block, of whichever epoch, several times if it does not verify under either of the salts behind it:
    /// the epoch of the block.
    pub(crate) async fn open_first_repeatedly(&mut self, block: u32) -> Result<Option<Epoch>, FlashCause> {
        for _ in 0..READS {
            let found = self.open_first(block).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads the ticket in the slot of a block and opens it: its serial, and what it announces.
    pub(crate) async fn open_ticket(
        &mut self,
        block: u32,
        epoch: Epoch,
    ) -> Result<Option<(u64, Stamp)>, FlashCause> {
        let (address, len) = (self.layout.slot_address(block), self.layout.slot());
        let Some(serial) = self.read(address, len, TICKET_LEN).await? else { return Ok(None) };
        let associated = associated(TICKET, block, self.layout.units(), epoch);
        let sealing = Sealing { serial, salt: epoch.salt, associated };
        if !self.open(&sealing, TICKET_LEN)? {
            return Ok(None);
        }
        let stamp = self.buffer.as_mut().first_chunk().map(Stamp::from_bytes);
        Ok(stamp.map(|stamp| (serial, stamp)))
    }

    /// Whether the medium has nothing in a block from a unit on.
    pub(crate) async fn is_blank_from(&mut self, block: u32, unit: u32) -> Result<bool, FlashCause> {
        let start = self.layout.unit_address(block, unit);
        let end = self.layout.unit_address(block, self.layout.units());
        // cannot underflow: no unit begins behind the end of its block.
        match self.device.is_blank(start, end.saturating_sub(start), self.buffer.as_mut()).await {
            Ok(blank) => Ok(blank),
            Err(error) if error.cause == FlashCause::Uncorrectable => Ok(false),
            Err(error) => Err(error.cause),
        }
    }

    /// Whether the medium has something where a unit goes. No, if it can't tell.
    pub(crate) async fn is_programmed(&mut self, block: u32, unit: u32) -> Result<bool, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.unit_len(unit));
        match self.device.is_blank(address, len.into(), self.buffer.as_mut()).await {
            Ok(blank) => Ok(!blank),
            Err(error) => match error.cause {
                FlashCause::Unsupported => Ok(false),
                FlashCause::Uncorrectable | FlashCause::BadBlock { .. } => Ok(true),
                cause => Err(cause),
            },
        }
    }

    /// Whether an opening will find a unit, as the next one reads it: unit 0 by the salts that stand behind it.
    pub(crate) async fn verifies(&mut self, block: u32, unit: u32, epoch: Epoch) -> Result<bool, FlashCause> {
        match unit {
            0 => Ok(self.open_first(block).await? == Some(epoch)),
            unit => Ok(self.open_unit(block, unit, epoch).await?.is_some()),
        }
    }

    /// How many units of an epoch verify, from the first on, of `most`.
    pub(crate) async fn count(&mut self, block: u32, epoch: Epoch, most: u32) -> u32 {
        for unit in 0..most {
            if !matches!(self.verifies(block, unit, epoch).await, Ok(true)) {
                return unit;
            }
        }
        most
    }

    pub(crate) async fn erase(&mut self, block: u32) -> Result<(), FlashCause> {
        let (address, len) = (self.layout.block_address(block), self.layout.medium().erase_size());
        self.device.erase(address, len.into()).await.map_err(|error| error.cause)
    }

    /// Destroys what says that a block holds anything, on a medium that can be overwritten and has no erase to speak of.
    pub(crate) async fn overwrite(&mut self, block: u32) -> Result<(), FlashCause> {
        let address = self.layout.block_address(block);
        let len = self.layout.unit_len(0);
        let zeros = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        zeros.fill(0);
        self.device.prog(address, zeros).await.map_err(|error| error.cause)
    }

    pub(crate) async fn sync(&mut self) -> Result<(), FlashCause> {
        self.device.sync().await.map_err(|error| error.cause)
    }

    /// Fills the buffer with data, serial, tag and zeros, and programs that.
    async fn prog(
        &mut self,
        address: u64,
        len: u32,
        sealing: &Sealing,
        data_len: usize,
        plain: Option<&[u8]>,
        salted: bool,
    ) -> Result<(), FlashCause> {
        let cell = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        let data = cell.get_mut(..data_len).ok_or(too_small(len))?;
        data.fill(0xff);
        // intended: without a payload the unit is 0xFF.
        data.iter_mut().zip(plain.unwrap_or_default()).for_each(|(to, from)| *to = *from);
        self.seal(len, sealing, data_len, salted)?;
        let cell = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        self.device.prog(address, cell).await.map_err(|error| error.cause)
    }

    /// Seals the data at the start of the buffer, and puts serial, tag and zeros behind it: a cell of so many bytes.
    pub(crate) fn seal(
        &mut self,
        len: u32,
        sealing: &Sealing,
        data_len: usize,
        salted: bool,
    ) -> Result<(), FlashCause> {
        let cell = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        let Some((data, rest)) = cell.split_at_mut_checked(data_len) else { return Err(too_small(len)) };
        let Ok(tag) = self.keys.cipher.seal(&nonce::<A>(sealing), &sealing.associated, data) else {
            data.fill(0);
            return Err(FlashCause::Cipher);
        };
        let behind = serial::to_bytes(sealing.serial).into_iter().chain(tag.as_ref().iter().copied());
        rest.iter_mut().zip(behind.chain(core::iter::repeat(0))).for_each(|(to, from)| *to = from);
        if salted {
            *cell.last_chunk_mut::<SALTS_LEN>().ok_or(too_small(len))? = encode((sealing.salt, sealing.salt));
        }
        Ok(())
    }

    /// Where cells are read to and opened.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.buffer.as_mut()
    }

    /// The medium, and where cells are read to.
    pub(crate) fn device_and_buffer(&mut self) -> (&mut D, &mut [u8]) {
        (&mut self.device, self.buffer.as_mut())
    }

    /// Reads a cell into the buffer: its serial. None if the medium's own code refuses to read it.
    pub(crate) async fn read(
        &mut self,
        address: u64,
        len: u32,
        data: usize,
    ) -> Result<Option<u64>, FlashCause> {
        let Some(cell) = self.read_bytes(address, len).await? else { return Ok(None) };
        let serial = cell.get(data..).and_then(|rest| rest.first_chunk::<SERIAL_LEN>());
        Ok(serial.map(|bytes| serial::from_bytes(*bytes)))
    }

    /// Reads bytes into the buffer. None if the medium's own code refuses to.
    pub(crate) async fn read_bytes(&mut self, address: u64, len: u32) -> Result<Option<&[u8]>, FlashCause> {
        let bytes = self.buffer.as_mut().get_mut(..len as usize).ok_or(too_small(len))?;
        match self.device.read(address, bytes).await {
            Ok(()) => Ok(Some(bytes)),
            Err(error) => match error.cause {
                FlashCause::Uncorrectable | FlashCause::BadBlock { .. } => Ok(None),
                cause => Err(cause),
            },
        }
    }

    /// Opens the data at the start of the buffer, behind which serial and tag stand: whether they verify. An error if the cipher could
    /// not tell.
    pub(crate) fn open(&mut self, sealing: &Sealing, len: usize) -> Result<bool, FlashCause> {
        let Some((data, rest)) = self.buffer.as_mut().split_at_mut_checked(len) else { return Ok(false) };
        let tag = rest.get(SERIAL_LEN..).and_then(|rest| rest.get(..A::TAG_LEN));
        let Some(tag) = tag.and_then(|tag| A::Tag::try_from(tag).ok()) else { return Ok(false) };
        match self.keys.cipher.open(&nonce::<A>(sealing), &sealing.associated, data, &tag) {
            Ok(()) => Ok(true),
            Err(OpenError::Forged) => Ok(false),
            Err(_) => Err(FlashCause::Cipher),
        }
    }
}

/// The two salts that unit 0 ends with.
fn salts_of(cell: &[u8]) -> Option<[Salt; 2]> {
    let (first, second) = decode(cell.last_chunk::<SALTS_LEN>()?);
    Some([first, second])
}

fn too_small(needs: u32) -> FlashCause {
    FlashCause::BufferTooSmall { needs, has: 0 }
}

/// What a cell is sealed under.
pub(crate) struct Sealing {
    pub(crate) serial: u64,
    pub(crate) salt: Salt,
    pub(crate) associated: [u8; ASSOCIATED],
}

/// Serial and salt, padded with zeros.
fn nonce<A: Aead>(sealing: &Sealing) -> A::Nonce {
    const { assert!(A::NONCE_LEN >= SERIAL_LEN + SALT_LEN) };
    let mut nonce = A::Nonce::default();
    let bytes = serial::to_bytes(sealing.serial).into_iter().chain(sealing.salt);
    nonce.as_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    nonce
}

/// What a cell is and where: it opens nowhere else, and under no other epoch of its block.
pub(crate) fn associated(kind: u8, block: u32, unit: u32, epoch: Epoch) -> [u8; ASSOCIATED] {
    let [a, b, c, d] = block.to_le_bytes();
    let [e, f, g, h] = unit.to_le_bytes();
    let [i, j, k, l, m] = serial::to_bytes(epoch.serial);
    [kind, a, b, c, d, e, f, g, h, i, j, k, l, m]
}
