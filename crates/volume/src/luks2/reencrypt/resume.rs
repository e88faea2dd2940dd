//! Who goes on with a re-encryption: whoever has each key or opens a keyslot of it; where all data is done, the new one is enough.

use atrest_device::Media;
use atrest_format::luks2::{ReencryptMode, Reencryption};

use super::zone::Course;
use super::{ReencryptError, Rewriting, SegmentKeys};
use crate::luks2::{Luks2, keyslot};
use crate::{ChangeError, Devices, Passphrase, UnlockError, UnlockOptions, Volume, VolumeKey};

/// What a re-encryption is gone on with: for each key that it is of, one of the volume keys, or a passphrase that opens a keyslot.
#[derive(Clone, Copy, Default)]
pub struct ReencryptKeys<'a> {
    /// Volume keys, in any order. Those of other volumes are not used.
    pub volume_keys: &'a [VolumeKey],
    /// Opens a keyslot of each key that is not among them.
    pub passphrase: Option<&'a Passphrase>,
}

impl<'a> ReencryptKeys<'a> {
    /// A passphrase alone.
    pub const fn of_passphrase(passphrase: &'a Passphrase) -> Self {
        Self { volume_keys: &[], passphrase: Some(passphrase) }
    }

    /// Volume keys alone.
    pub const fn of_volume_keys(volume_keys: &'a [VolumeKey]) -> Self {
        Self { volume_keys, passphrase: None }
    }
}

/// A re-encryption, and its keys before and afterwards.
type Resumed<'a> = (Rewriting<'a>, Option<VolumeKey>, Option<VolumeKey>);

/// What keeps a re-encryption from being resumed, to somebody who wants to open the volume.
fn unfinished(error: ReencryptError) -> UnlockError {
    match error {
        ReencryptError::Change(change) => match *change {
            ChangeError::Unlock(error) => error,
            _ => UnlockError::ReencryptionInProgress,
        },
        _ => UnlockError::ReencryptionInProgress,
    }
}

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
        self.resume_reencryption_with(devices, ReencryptKeys::of_passphrase(passphrase))
    }

    /// Goes on with the re-encryption in progress, with volume keys where no keyslot has them. Writes nothing.
    ///
    /// # Errors
    /// As [`resume_reencryption`](Self::resume_reencryption); [`UnlockError::WrongVolumeKey`] if neither a key
    /// nor a passphrase was given that opens.
    pub fn resume_reencryption_with<'a>(
        &self,
        devices: Devices<'a>,
        keys: ReencryptKeys<'_>,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        Ok(self.resume_with_keys(devices, keys)?.0)
    }

    /// The volume keys of the re-encryption in progress, before and afterwards, for a process that goes on with it.
    ///
    /// # Errors
    /// As [`resume_reencryption_with`](Self::resume_reencryption_with).
    pub fn reencryption_keys(
        &self,
        devices: Devices<'_>,
        keys: ReencryptKeys<'_>,
    ) -> Result<Vec<VolumeKey>, ReencryptError> {
        let (_, old, new) = self.resume_with_keys(devices, keys)?;
        Ok(old.into_iter().chain(new).collect())
    }

    /// Goes on with the re-encryption in progress, and keeps the volume keys before and afterwards for a kernel that has the volume open.
    /// Plaintext has none. Writes nothing.
    ///
    /// # Errors
    /// As [`resume_reencryption_with`](Self::resume_reencryption_with).
    pub fn resume_reencryption_for_kernel<'a>(
        &self,
        devices: Devices<'a>,
        keys: ReencryptKeys<'_>,
    ) -> Result<(Rewriting<'a>, Option<VolumeKey>, Option<VolumeKey>), ReencryptError> {
        self.resume_with_keys(devices, keys)
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
        let (rewriting, old, new) = self.resume_to_unlock(devices, passphrase, options)?;
        let keys = SegmentKeys { old: old.as_ref(), new: new.as_ref(), keep: options.keep_key };
        let volume = rewriting.into_volume(&keys).map_err(unfinished)?;
        let read_only = options.read_only || devices.data.is_read_only();
        volume.map(|volume| volume.with_read_only(read_only)).ok_or(UnlockError::ReencryptionInProgress)
    }

    /// A re-encryption that was interrupted in the middle of a zone, and the volume as it is as soon as that zone is completed: nothing is
    /// left to refuse then. Writes nothing.
    ///
    /// # Errors
    /// [`UnlockError::ReencryptionInProgress`] if no zone was interrupted, or it can't be completed. Others as in
    /// [`unlock`](Self::unlock).
    pub fn unlock_interrupted<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<(Rewriting<'a>, Volume), UnlockError> {
        let (rewriting, old, new) = self.resume_to_unlock(devices, passphrase, options)?;
        let keys = SegmentKeys { old: old.as_ref(), new: new.as_ref(), keep: options.keep_key };
        let volume = rewriting.volume_recovered(&keys).map_err(unfinished)?;
        Ok((rewriting, volume.ok_or(UnlockError::ReencryptionInProgress)?))
    }

    /// Unlocks, with the volume key, a volume whose header says that a re-encryption has begun, as long as no data has been touched: it is
    /// what it was before. For whoever keeps others from going on with it.
    ///
    /// # Errors
    /// [`UnlockError::ReencryptionInProgress`] if anything is done. Others as in [`unlock_with_key`](Self::unlock_with_key).
    pub fn unlock_untouched(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_requirements_known()?;
        let state = self.metadata().reencryption().map_err(|_| UnlockError::ReencryptionInProgress)?;
        let course = Course::new(state, devices, self.header_size()).map_err(unfinished)?;
        // The only segment of a beginning is compared with the one before. Elsewhere it would be one of several, or flagged.
        let is_untouched = course.state.hot.is_none()
            && course.state.active.len() == 1
            && course.done().map_err(unfinished)? == 0;
        if !is_untouched {
            return Err(UnlockError::ReencryptionInProgress);
        }
        self.check_counts(devices)?;
        self.check_volume_key(key)?;
        self.volume(devices, key, None, options)
    }

    fn resume_to_unlock<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Resumed<'a>, UnlockError> {
        // No other keyslot than one of each key is of use.
        if options.slot.is_some() {
            return Err(UnlockError::ReencryptionInProgress);
        }
        let resumed =
            self.resume_with_keys(devices, ReencryptKeys::of_passphrase(passphrase)).map_err(unfinished)?;
        // One of the two keys is the expected one.
        let mut keys = resumed.1.iter().chain(&resumed.2).map(|key| options.check_key(key));
        if let Some(refused) = keys.next()
            && refused.is_err()
            && !keys.any(|checked| checked.is_ok())
        {
            return refused.and(Err(UnlockError::ReencryptionInProgress));
        }
        Ok(resumed)
    }

    fn resume_with_keys<'a>(
        &self,
        devices: Devices<'a>,
        keys: ReencryptKeys<'_>,
    ) -> Result<Resumed<'a>, ReencryptError> {
        self.check_requirements_known()?;
        if self.is_pinned() {
            return Err(ChangeError::PinnedReencryption.into());
        }
        self.check_counts(devices)?;
        let state = self.metadata().reencryption()?;
        let key_of = |digest: Option<u32>| -> Result<Option<VolumeKey>, UnlockError> {
            digest.map(|digest| self.key_of_digest(devices.header, keys, digest)).transpose()
        };
        let old = match key_of(state.digest_previous) {
            Ok(old) => old,
            Err(error) if is_lost(&error) => {
                let rewriting = self.resume_without_old_key(devices, keys, state, error)?;
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

    /// Goes on where the old key was not given, and the passphrase opens no keyslot of it, as `refused` says. Only the end can be reached: no
    /// data is read or written, so nothing has to be verified with the old key.
    fn resume_without_old_key<'a>(
        &self,
        devices: Devices<'a>,
        keys: ReencryptKeys<'_>,
        state: Reencryption,
        refused: UnlockError,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        let digests = self.metadata().digests();
        let mut of_old = digests.iter().filter(|digest| Some(digest.id) == state.digest_previous);
        // Without keyslots there may have been none before; whoever gives volume keys is told that none is the right one.
        let none_left =
            of_old.all(|digest| digest.keyslots.is_empty()) && refused != UnlockError::WrongVolumeKey;
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
        let new = match self.key_of_digest(devices.header, keys, last) {
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

    pub(super) fn key_of_digest(
        &self,
        header: &dyn Media,
        keys: ReencryptKeys<'_>,
        digest: u32,
    ) -> Result<VolumeKey, UnlockError> {
        let bound = self.metadata().digests().iter().find(|candidate| candidate.id == digest);
        for key in keys.volume_keys {
            if bound.map_or(Ok(false), |bound| keyslot::verifies(bound, key))? {
                return Ok(VolumeKey::copy_from(key.expose()));
            }
        }
        let Some(passphrase) = keys.passphrase else { return Err(UnlockError::WrongVolumeKey) };
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
            | UnlockError::WrongVolumeKey
            | UnlockError::WrongPassphraseOrDamaged { .. }
            | UnlockError::KeyslotDamaged { .. }
    )
}
