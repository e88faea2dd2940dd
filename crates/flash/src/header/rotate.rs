//! The header while the volume key is rotated: a passphrase gives the new key, and that the old one. docs/SEALED-FLASH.md, "Rotating the
//! volume key".

use core::borrow::BorrowMut;

use atrest_keyslot::flash::{
    FlashKey, Freshness, HEADER_LEN, Protection, SLOTS, SlotError, open_previous, seal_previous,
};

use super::change::{Anchor, NewSlot, check_anchor};
use super::{FlashDevice, FlashHeader};
use crate::header::FlashHeaderError;

impl<D: FlashDevice, B: AsMut<[u8]>, H: BorrowMut<[u8; HEADER_LEN]>> FlashHeader<D, B, H> {
    /// Prepares a rotation of the volume key: draws a new one, which `new` holds afterwards, and puts it into keyslot `slot` for one
    /// passphrase. `old` is the volume key of now. In one step: before it all passphrases open the volume, after it this one does.
    ///
    /// **All other keyslots are emptied**, as the new key can't be put into them without their passphrases;
    /// [`add_key`](Self::add_key) adds them with `new`. One keyslot holds the old key, wrapped under the new one, until
    /// [`end_rotation`](Self::end_rotation). Next, `RotatingFlash::open_rotating` begins with the volume itself.
    ///
    /// # Errors
    /// [`FlashHeaderError::Rotating`] if a rotation is not over, [`FlashHeaderError::NotSealed`] if the volume is not sealed, or has
    /// no trusted store,
    /// [`FlashHeaderError::SlotNotInUse`] for a number that no keyslot has. Otherwise it fails where
    /// [`add_key`](Self::add_key) does. `new` is empty after an error, but for the last ones of those.
    pub fn begin_rotation(
        &mut self,
        slot: usize,
        old: &FlashKey,
        mut first: NewSlot<'_>,
        new: &mut FlashKey,
        anchor: Anchor<'_>,
    ) -> Result<(), FlashHeaderError> {
        new.clear();
        let header = self.header()?;
        let params = *header.params();
        let Protection::Sealed { store: Freshness::Record | Freshness::Counter, .. } = params.protection
        else {
            return Err(FlashHeaderError::NotSealed);
        };
        if header.previous().is_some() {
            return Err(FlashHeaderError::Rotating);
        }
        check_anchor(&header, &anchor)?;
        if slot >= SLOTS {
            return Err(FlashHeaderError::SlotNotInUse { slot });
        }
        new.generate(&params, first.random)?;
        let failed = |new: &mut FlashKey, error| {
            new.clear();
            FlashHeaderError::Slot { slot, error }
        };
        let sealed = first.seal(&params, new).map_err(|error| failed(new, error))?;
        let previous = seal_previous(&params, new, old).map_err(|error| failed(new, error))?;
        // The last one that is another.
        let place = (0..SLOTS).rfind(|number| *number != slot);
        self.commit(anchor, |edit| {
            (0..SLOTS).all(|number| {
                let bytes = match number {
                    number if number == slot => Some(&sealed),
                    number if Some(number) == place => Some(&previous),
                    _ => None,
                };
                edit.put_slot(number, bytes)
            })
        })
    }

    /// Gives the old volume key during a rotation, with the new one, which a passphrase has opened. False, and no key, if there is none: the
    /// volume opens with the one key.
    ///
    /// # Errors
    /// [`FlashHeaderError::Slot`] with [`SlotError::WrongKey`] or [`SlotError::OtherVolume`] if `key` is another one,
    /// [`FlashHeaderError::Reopen`] as in [`header`](Self::header).
    pub fn previous_key(&self, key: &FlashKey, previous: &mut FlashKey) -> Result<bool, FlashHeaderError> {
        previous.clear();
        let header = self.header()?;
        let Some((slot, wrapped)) = header.previous() else { return Ok(false) };
        let failed = |error: SlotError| FlashHeaderError::Slot { slot, error };
        open_previous(header.params(), wrapped, key, previous).map_err(failed)?;
        Ok(true)
    }

    /// Forgets the old volume key, once `finish_rotation` has returned: from then on nothing gives it. Does nothing if there is none.
    ///
    /// # Errors
    /// [`FlashHeaderError::Rotating`] if the trusted store says that the volume still needs it. Otherwise it fails where
    /// [`remove_key`](Self::remove_key) does.
    pub fn end_rotation(&mut self, mut anchor: Anchor<'_>) -> Result<(), FlashHeaderError> {
        let header = self.header()?;
        check_anchor(&header, &anchor)?;
        let Some((slot, _)) = header.previous() else { return Ok(()) };
        if let Some(anchor) = &mut anchor
            && anchor.needs_previous_key().map_err(|error| FlashHeaderError::NotAnnounced { error })?
        {
            return Err(FlashHeaderError::Rotating);
        }
        self.commit(anchor, |edit| edit.put_slot(slot, None))
    }
}
