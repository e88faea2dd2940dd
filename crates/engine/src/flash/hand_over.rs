//! A sealed volume goes over from one trusted store to another. docs/SEALED-FLASH.md, "The header".

use atrest_device::TRUSTED_RECORD_LEN;
use atrest_flash::sealed::{HandOver, SealedError};
use atrest_flash::{FlashHeaderError, NewSlot};
use atrest_keyslot::flash::{AnyKdf, FlashKey};
use atrest_secret::{OsRandom, Passphrase};

use super::sealed::{How, Opens, Parts};
use super::{FlashOpenError, FlashVolume};
use crate::{TrustedFile, TrustedFileError};

/// What a hand-over found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedOver {
    /// The volume was with the old store.
    Now,
    /// An earlier attempt had brought it to the new one already. The old store is void now, too.
    Finished,
}

/// Makes `new`, which is empty, the store of the volume, and the old one void with all its copies: the header is written anew, with another salt
/// in the keyslot that the passphrase opens. `volume` opens the header each time.
///
/// Wherever power fails, one store opens the volume and the other one does not. The same call then finishes.
///
/// # Errors
/// [`FlashOpenError::Store`] if a store can't be used. [`FlashOpenError::Sealed`] if neither store opens the
/// volume, with the reason of `old`. [`FlashOpenError::Header`] if `new` holds another volume's record, the
/// passphrase does not fit, or the header can't be written.
pub fn hand_over(
    volume: impl Fn() -> Result<FlashVolume, FlashOpenError>,
    (slot, key, passphrase): (usize, &FlashKey, &Passphrase),
    old: &mut TrustedFile,
    new: &mut TrustedFile,
) -> Result<HandedOver, FlashOpenError> {
    let opens = |record: [u8; TRUSTED_RECORD_LEN]| {
        Parts::with_record(volume()?)?.run(key, Opens::peeking(record, How::Mount)).map(drop)
    };
    let taken = match new.record() {
        Err(TrustedFileError::Missing | TrustedFileError::Empty) => None,
        record => Some(record.map_err(FlashOpenError::Store)?),
    };
    let mut header = volume()?;
    match opens(old.record().map_err(FlashOpenError::Store)?) {
        Ok(()) => {}
        Err(FlashOpenError::Sealed(
            refused @ (SealedError::HandedOver { .. }
            | SealedError::HeaderOlder { .. }
            | SealedError::HeaderOther { .. }),
        )) => {
            let Some(record) = taken else { return Err(FlashOpenError::Sealed(refused)) };
            opens(record).map_err(|_| FlashOpenError::Sealed(refused))?;
            header.repair().map_err(FlashOpenError::Header)?;
            let found = header.found().map_err(FlashOpenError::Header)?;
            HandOver::new(old, new).finish(found).map_err(FlashOpenError::Sealed)?;
            return Ok(HandedOver::Finished);
        }
        Err(error) => return Err(error),
    }
    let cost = header.header().map_err(FlashOpenError::Header)?.slot(slot).map(|slot| slot.kdf);
    let cost = cost.ok_or(FlashOpenError::Header(FlashHeaderError::SlotNotInUse { slot }))?;
    let again = NewSlot {
        passphrase: passphrase.expose(),
        cost,
        kdf: &mut AnyKdf,
        device: None,
        random: &mut OsRandom,
    };
    let mut stores = HandOver::new(old, new);
    header.change_key(slot, key, again, Some(&mut stores)).map_err(FlashOpenError::Header)?;
    Ok(HandedOver::Now)
}
