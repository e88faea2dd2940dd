//! Who goes on with a re-encryption: whoever opens a keyslot of each key, and, where all data is done, of the new one.

use atrest_device::Media;
use atrest_format::luks2::{ReencryptMode, Reencryption};

use super::zone::Course;
use super::{ReencryptError, Rewriting};
use crate::luks2::Luks2;
use crate::{ChangeError, Devices, Passphrase, UnlockError, UnlockOptions, Volume, VolumeKey};

impl Luks2 {
    /// Goes on with the re-encryption in progress. The passphrase must open a keyslot of each key. Writes nothing.
    ///
    /// Where all data is done, the new key is enough: cryptsetup destroys the old keyslots before it removes the mark.
    ///
    /// # Errors
    /// [`ReencryptError::State`] if none is in progress that can be resumed here, [`ReencryptError::Change`]
    /// if the passphrase does not open a keyslot of each key, [`ReencryptError::OldKeyGone`] if none of the
    /// old key is left and data needs it. [`ReencryptError::NotVerified`] if the metadata was changed without
    /// the keys, [`ReencryptError::Row`], [`ReencryptError::DeviceSize`] or [`ReencryptError::UnknownKind`]
    /// if it describes no step that is known.
    pub fn resume_reencryption<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        Ok(self.resume_with_keys(devices, passphrase)?.0)
    }

    /// Opens a volume whose re-encryption is unfinished, in its present state. The passphrase must open a keyslot of each key.
    ///
    /// # Errors
    /// [`UnlockError::ReencryptionInProgress`] if a zone is half-written, so that it must be recovered first,
    /// or if the re-encryption can't be resumed for another reason. [`UnlockError::WrongPassphrase`] and its
    /// like as in [`unlock`](Self::unlock).
    pub(in crate::luks2) fn unlock_unfinished(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let unfinished = |error| match error {
            ReencryptError::Change(change) => match *change {
                ChangeError::Unlock(error) => error,
                _ => UnlockError::ReencryptionInProgress,
            },
            _ => UnlockError::ReencryptionInProgress,
        };
        // dm-crypt would need the keys, and no other keyslot than one of each key is of use.
        if options.keep_key || options.slot.is_some() {
            return Err(UnlockError::ReencryptionInProgress);
        }
        let (rewriting, old, new) = self.resume_with_keys(devices, passphrase).map_err(unfinished)?;
        let volume = rewriting.into_volume(old.as_ref(), new.as_ref()).map_err(unfinished)?;
        let read_only = options.read_only || devices.data.is_read_only();
        volume.map(|volume| volume.with_read_only(read_only)).ok_or(UnlockError::ReencryptionInProgress)
    }

    fn resume_with_keys<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
    ) -> Result<(Rewriting<'a>, Option<VolumeKey>, Option<VolumeKey>), ReencryptError> {
        self.check_requirements_known()?;
        let state = self.metadata().reencryption()?;
        let key_of = |digest: Option<u32>| -> Result<Option<VolumeKey>, UnlockError> {
            digest.map(|digest| self.key_of_digest(devices.header, passphrase, digest)).transpose()
        };
        let old = match key_of(state.digest_previous) {
            Ok(old) => old,
            Err(error) if is_lost(&error) => {
                let rewriting = self.resume_without_old_key(devices, passphrase, state, error)?;
                return Ok((rewriting, None, None));
            }
            Err(error) => return Err(error.into()),
        };
        let new = match state.digest_last {
            same if same == state.digest_previous => {
                old.as_ref().map(|key| VolumeKey::copy_from(key.expose()))
            }
            other => key_of(other)?,
        };
        let rewriting = Rewriting::new(devices, self.clone(), state, old.as_ref(), new.as_ref())?;
        Ok((rewriting, old, new))
    }

    /// Goes on where the passphrase opens no keyslot of the old key, as `refused` says. Only the end can be reached: no
    /// data is read or written, so nothing has to be verified with the old key.
    fn resume_without_old_key<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
        state: Reencryption,
        refused: UnlockError,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        let digests = self.metadata().digests();
        let mut of_old = digests.iter().filter(|digest| Some(digest.id) == state.digest_previous);
        let none_left = of_old.all(|digest| digest.keyslots.is_empty());
        if state.mode == ReencryptMode::Decrypt {
            // Only plaintext is left where all is done, for which there is no key.
            let course = Course::new(state, devices, self.header_size())?;
            return match none_left && course.only_marked() {
                true => Rewriting::from_parts(devices, self.clone(), course, None, None),
                false if none_left => Err(ReencryptError::OldKeyGone),
                false => Err(refused.into()),
            };
        }
        let last = state.digest_last.filter(|last| Some(*last) != state.digest_previous);
        let Some(last) = last else { return Err(refused.into()) };
        let new = match self.key_of_digest(devices.header, passphrase, last) {
            Err(error) if is_lost(&error) => return Err(refused.into()),
            new => new?,
        };
        let course = Course::new(state, devices, self.header_size())?;
        match course.only_marked() {
            true => Rewriting::from_parts(devices, self.clone(), course, None, Some(&new)),
            false if none_left => Err(ReencryptError::OldKeyGone),
            false => Err(refused.into()),
        }
    }

    fn key_of_digest(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        digest: u32,
    ) -> Result<VolumeKey, UnlockError> {
        let bound = self.metadata().digests().iter().find(|candidate| candidate.id == digest);
        // intended: no digest, no keyslots.
        let slots = bound.map(|digest| digest.keyslots.clone()).unwrap_or_default();
        let mut failure = UnlockError::WrongPassphrase;
        for slot in slots {
            match self.keyslot_key(header, passphrase, Some(slot)) {
                Ok((_, key)) => return Ok(key),
                Err(UnlockError::WrongPassphrase) => {}
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }
}

/// Whether a key can't be had from its keyslots with this passphrase, so that they may be destroyed.
fn is_lost(error: &UnlockError) -> bool {
    matches!(
        error,
        UnlockError::WrongPassphrase
            | UnlockError::WrongPassphraseOrDamaged { .. }
            | UnlockError::KeyslotDamaged { .. }
    )
}
