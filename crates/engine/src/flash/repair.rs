//! Repairing a sealed volume on the desk. docs/SEALED-FLASH.md, "Damage".

use std::sync::Arc;

use atrest_device::{BlockDevice, FlashError, FlashOperation};
use atrest_flash::sealed::{HeaderAnchor, RecordFields, SealedError, SealedOptions, UnitState};
use atrest_keyslot::flash::FlashKey;

use super::sealed::{How, Opens, Parts, sealed_layout};
use super::{FlashOpenError, FlashVolume, MemoryStore, SealedPlain};
use crate::{FileDevice, TrustedFile};

/// What is wrong with a sealed volume, and the volume as it would be after the repair: in memory, to be read.
#[derive(Debug)]
pub struct Examined {
    /// Units that are not as they were stored.
    pub units: Vec<FailedUnit>,
    /// Why the trusted store does not confirm the header, if it does not.
    pub header: Option<SealedError>,
    /// Why the trusted store does not confirm the medium, if it does not.
    pub refused: Option<SealedError>,
    /// The plaintext, with what one wrong bit has spoilt put right. What reads of it fail can't be restored.
    pub plain: SealedPlain,
}

/// A unit that is not as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedUnit {
    /// Erase block of the medium.
    pub block: u64,
    /// Unit in it.
    pub unit: u32,
    /// The byte of the medium and the bit in it that are to be inverted to restore the unit, if one is enough.
    pub bit: Option<(u64, u8)>,
}

/// Looks at the whole volume. Nothing is written.
///
/// # Errors
/// What no repair can help: another volume's store, one that is empty or older than the medium, a medium that fails.
pub fn examine_sealed(
    volume: impl Fn() -> Result<FlashVolume, FlashOpenError>,
    key: &FlashKey,
    store: &TrustedFile,
) -> Result<Examined, FlashOpenError> {
    let record = store.record().map_err(FlashOpenError::Store)?;
    let open = |record, how| Parts::with_record(volume()?)?.run(key, Opens::peeking(record, how));
    // What is behind a header that is not the newest is held against the record all the same.
    let (record, header, opened) = match open(record, How::Mount) {
        Err(FlashOpenError::Sealed(
            error @ (SealedError::HeaderOlder { .. } | SealedError::HeaderOther { .. }),
        )) => {
            let found = volume()?.found().map_err(FlashOpenError::Header)?;
            let mut anchor = HeaderAnchor::new(MemoryStore::holding(record));
            anchor.adopt(found).map_err(FlashOpenError::Sealed)?;
            let adopted =
                anchor.into_store().record().map_err(|error| FlashOpenError::Header(error.into()))?;
            let adopted = adopted.ok_or(FlashOpenError::Sealed(SealedError::StoreEmpty))?;
            (adopted, Some(error), open(adopted, How::Mount))
        }
        opened => (record, None, opened),
    };
    let (mut plain, refused) = match opened {
        Ok(plain) => (plain, None),
        Err(FlashOpenError::Sealed(error @ (SealedError::NotAnchored { .. } | SealedError::Gap { .. }))) => {
            (open(record, How::Adopt)?, Some(error))
        }
        Err(error) => return Err(error),
    };
    let params = *volume()?.header().map_err(FlashOpenError::Header)?.params();
    let (layout, first) = (sealed_layout(&params)?, params.sizes.first_data_block());
    let start = first * u64::from(params.sizes.erase_size);
    let mut units = Vec::new();
    for block in 0..layout.medium().block_count() as u32 {
        for (unit, state) in plain.failed_units(block)? {
            let bit = match state {
                UnitState::OneBit { bit } => {
                    Some((start + layout.unit_address(block, unit) + u64::from(bit / 8), (bit % 8) as u8))
                }
                _ => None,
            };
            units.push(FailedUnit { block: first + u64::from(block), unit, bit });
        }
    }
    Ok(Examined { units, header, refused, plain })
}

/// Inverts on the medium what one wrong bit has spoilt, and makes it durable. Each write is of one byte that makes a unit what it was:
/// whatever interrupts it, nothing is lost, and the rest can be done later.
///
/// # Errors
/// [`FlashError`] if reading, writing or flushing fails. What was put right before stays.
pub fn put_right(device: &Arc<FileDevice>, units: &[FailedUnit]) -> Result<u64, FlashError> {
    let failed = |operation| move |error| FlashError::of_device(operation, error);
    let mut done = 0;
    for (at, bit) in units.iter().filter_map(|unit| unit.bit) {
        let mut byte = [0];
        device.read_at(at, &mut byte).map_err(failed(FlashOperation::Read))?;
        device.write_at(at, &[byte[0] ^ 1 << bit]).map_err(failed(FlashOperation::Prog))?;
        done += 1;
    }
    device.flush().map_err(failed(FlashOperation::Sync))?;
    Ok(done)
}

/// Anchors what the medium holds, as far as it verifies, in the store: the owner has said so. Dropped, the volume is closed in
/// good order.
///
/// # Errors
/// Fails where [`open_sealed`](super::open_sealed) does, but for what the medium holds against the store.
/// [`FlashOpenError::Sealed`] if the store is empty, of another volume, or older than the medium.
pub fn adopt_sealed(
    volume: FlashVolume,
    key: &FlashKey,
    store: TrustedFile,
) -> Result<SealedPlain, FlashOpenError> {
    Parts::with_record(volume)?.run(key, Opens::writing(store, How::Adopt))
}

/// Anchors the header that is on the medium, in the store: the owner has said so.
///
/// # Errors
/// [`FlashOpenError::Header`] if an earlier change of the header failed, [`FlashOpenError::Sealed`] if the
/// store has no record or can't be written.
pub fn adopt_header(volume: &FlashVolume, store: &mut TrustedFile) -> Result<(), FlashOpenError> {
    let found = volume.found().map_err(FlashOpenError::Header)?;
    HeaderAnchor::new(store).adopt(found).map_err(FlashOpenError::Sealed)
}

/// Lets the store allow the header that is on the medium and no other, if a change of it was cut short and both copies are whole by now.
///
/// # Errors
/// [`FlashOpenError::Sealed`] if the store does not allow this header, or can't be read or written. Nothing
/// has changed then.
pub fn confirm_header(volume: &FlashVolume, store: &mut TrustedFile) -> Result<(), FlashOpenError> {
    let found = volume.found().map_err(FlashOpenError::Header)?;
    HeaderAnchor::new(store).confirm(found).map_err(FlashOpenError::Sealed)
}

/// Whether each power loss costs the volume of this store more serials than it has to.
///
/// # Errors
/// [`FlashOpenError::Store`] if there is no record, [`FlashOpenError::Sealed`] if another version wrote it or
/// another store has the volume.
pub fn wants_smaller_reserve(store: &TrustedFile) -> Result<bool, FlashOpenError> {
    let record = store.record().map_err(FlashOpenError::Store)?;
    let fields = RecordFields::read(&record).map_err(FlashOpenError::Sealed)?;
    Ok(fields.reserve > SealedOptions::default().reserve)
}
