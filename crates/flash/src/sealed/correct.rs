//! One wrong bit put right. A cell whose tag verifies once a single bit of it is inverted was sealed for its place: nobody can make such a
//! cell who could not make the sealed one. Nothing on the medium is changed here.

use atrest_cipher::aead::Aead;
use atrest_device::FlashCause;

use super::cells::{ASSOCIATED, Cells, Sealing, TICKET, UNIT, associated};
use super::layout::TICKET_LEN;
use super::record::Stamp;
use super::serial::{self, Epoch, SALTS_LEN, SERIAL_LEN, Salt};
use super::{FlashDevice, twin};

/// A cell that verifies with one bit inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrected {
    /// Its serial.
    pub(crate) serial: u64,
    /// The bit: of the cell's bytes in their order, of each from the lowest.
    pub(crate) bit: u32,
}

/// A cell to be put right: where it lies, and what it would be sealed as.
struct Wanted {
    address: u64,
    len: u32,
    data_len: u32,
    salt: Salt,
    /// The first serial that can't be there.
    limit: u64,
}

const BITS: u32 = 8;
/// A bit of this many is in the serial.
const SERIAL_BITS: u32 = SERIAL_LEN as u32 * BITS;

#[twin]
impl<A: Aead, D: FlashDevice, B: AsMut<[u8]>> Cells<A, D, B> {
    /// A unit of an epoch that verifies with one bit inverted; its payload is in the buffer then.
    ///
    /// Takes as many reads and openings as a unit has bits, unless its serial can't be one below `limit`.
    pub(crate) async fn correct_unit(
        &mut self,
        block: u32,
        unit: u32,
        epoch: Epoch,
        limit: u64,
    ) -> Result<Option<Corrected>, FlashCause> {
        let wanted = self.wanted(block, unit, epoch.salt, limit);
        self.correct(&wanted, |serial| {
            (unit != 0 || serial == epoch.serial).then(|| associated(UNIT, block, unit, epoch))
        })
        .await
    }

    /// The epoch of a block whose unit 0 verifies with one bit inverted, under one of the salts behind it.
    pub(crate) async fn correct_first(
        &mut self,
        block: u32,
        limit: u64,
    ) -> Result<Option<Epoch>, FlashCause> {
        let Some([first, second]) = self.salts(block).await? else { return Ok(None) };
        let found = self.correct_first_under(block, first, limit).await?;
        if found.is_some() || first == second {
            return Ok(found);
        }
        self.correct_first_under(block, second, limit).await
    }

    async fn correct_first_under(
        &mut self,
        block: u32,
        salt: Salt,
        limit: u64,
    ) -> Result<Option<Epoch>, FlashCause> {
        let wanted = self.wanted(block, 0, salt, limit);
        let found =
            self.correct(&wanted, |serial| Some(associated(UNIT, block, 0, Epoch { serial, salt }))).await?;
        Ok(found.map(|found| Epoch { serial: found.serial, salt }))
    }

    fn wanted(&self, block: u32, unit: u32, salt: Salt, limit: u64) -> Wanted {
        Wanted {
            address: self.layout.unit_address(block, unit),
            len: self.layout.unit_len(unit),
            data_len: self.layout.payload(),
            salt,
            limit,
        }
    }

    /// The first bit of a salt behind unit 0 that is not as in its epoch, counted from the unit's first byte on.
    pub(crate) async fn wrong_salt_bit(
        &mut self,
        block: u32,
        epoch: Epoch,
    ) -> Result<Option<u32>, FlashCause> {
        let Some(salts) = self.salts(block).await? else { return Ok(None) };
        // cannot underflow: unit 0 ends with the salts.
        let at = self.layout.unit_len(0).saturating_sub(SALTS_LEN as u32);
        let stands = salts.as_flattened().iter();
        let wrong = stands.zip(epoch.salt.iter().cycle()).map(|(stands, salt)| stands ^ salt);
        let first = (at..).zip(wrong).find(|(_, wrong)| *wrong != 0);
        // cannot overflow: a cell is shorter than an erase block, and its bits are counted by 32.
        Ok(first.map(|(byte, wrong)| byte.saturating_mul(BITS).saturating_add(wrong.trailing_zeros())))
    }

    /// The ticket in a block's slot, if it verifies with one bit inverted: its serial, and what it announces.
    pub(crate) async fn correct_ticket(
        &mut self,
        block: u32,
        epoch: Epoch,
        limit: u64,
    ) -> Result<Option<(u64, Stamp)>, FlashCause> {
        let wanted = Wanted {
            address: self.layout.slot_address(block),
            len: self.layout.slot(),
            data_len: TICKET_LEN as u32,
            salt: epoch.salt,
            limit,
        };
        let units = self.layout.units();
        let found = self.correct(&wanted, |_| Some(associated(TICKET, block, units, epoch))).await?;
        let stamp = self.buffer().first_chunk().map(Stamp::from_bytes);
        Ok(found.zip(stamp).map(|(found, stamp)| (found.serial, stamp)))
    }

    /// Tries each bit. `sealed_as` gives the associated data for a serial, or none if no such cell can have that serial.
    async fn correct(
        &mut self,
        wanted: &Wanted,
        sealed_as: impl Fn(u64) -> Option<[u8; ASSOCIATED]>,
    ) -> Result<Option<Corrected>, FlashCause> {
        let data_len = wanted.data_len as usize;
        let Some(stands) = self.read(wanted.address, wanted.len, data_len).await? else { return Ok(None) };
        let Some(serial_at) = wanted.data_len.checked_mul(BITS) else { return Ok(None) };
        // A cell is shorter than an erase block, of which 32 bits count the bytes.
        let bits =
            // cannot overflow: a cell is shorter than an erase block, and its bits are counted by 32.
            serial_at.saturating_add(SERIAL_BITS).saturating_add((A::TAG_LEN as u32).saturating_mul(BITS));
        for bit in 0..bits {
            let of_serial = bit.checked_sub(serial_at).filter(|bit| *bit < SERIAL_BITS);
            let serial = of_serial.map_or(stands, |bit| stands ^ 1_u64.wrapping_shl(bit));
            // No cell has 0 for serial: that is what a card's erased blocks show.
            if serial == 0 || serial >= wanted.limit {
                continue;
            }
            let Some(associated) = sealed_as(serial) else { continue };
            // Opening has made zeros of the last try.
            if self.read(wanted.address, wanted.len, data_len).await? != Some(stands) {
                return Ok(None);
            }
            if let Some(byte) = self.buffer().get_mut((bit / BITS) as usize) {
                *byte ^= 1_u8.rotate_left(bit);
            }
            if self.open(&Sealing { serial, salt: wanted.salt, associated }, data_len)? {
                return Ok(Some(Corrected { serial, bit }));
            }
        }
        Ok(None)
    }

    /// Whether something may stand where a unit goes: only a medium that knows blank units can say no.
    pub(crate) async fn may_stand(&mut self, block: u32, unit: u32) -> Result<bool, FlashCause> {
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.unit_len(unit));
        let (device, buffer) = self.device_and_buffer();
        match device.is_blank(address, len.into(), buffer).await {
            Ok(blank) => Ok(!blank),
            Err(error) => match error.cause {
                FlashCause::Unsupported | FlashCause::Uncorrectable | FlashCause::BadBlock { .. } => Ok(true),
                cause => Err(cause),
            },
        }
    }

    /// The last unit of an epoch that verifies; 0 if none does.
    pub(crate) async fn last(&mut self, block: u32, epoch: Epoch) -> Result<u32, FlashCause> {
        for unit in (1..self.layout.units()).rev() {
            if self.open_unit(block, unit, epoch).await?.is_some() {
                return Ok(unit);
            }
        }
        Ok(0)
    }

    /// The serial that stands in a unit, if it can be one below `limit`; whether the unit verifies nobody has asked.
    pub(crate) async fn serial_of(
        &mut self,
        block: u32,
        unit: u32,
        limit: u64,
    ) -> Result<Option<u64>, FlashCause> {
        let serial = self.read_unit_cell(block, unit).await?;
        Ok(serial.filter(|serial| *serial != 0 && *serial < limit))
    }
}

const _: () = assert!(serial::SERIAL_END >> SERIAL_BITS == 1, "a serial's bits are those of its bytes");
