//! What a re-encryption in progress needs before it can go on: a verification, or the zone in which it was interrupted.

use atrest_format::luks2::ReencryptionFault as Fault;

use super::zone::Course;
use super::{ReencryptError, ReencryptKeys, verification_digest};
use crate::luks2::Luks2;
use crate::luks2::session::Session;
use crate::{ChangeError, Devices, Passphrase, VolumeKey};

/// How far a re-encryption in progress is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// None is in progress.
    Nothing,
    /// It can be gone on with.
    Whole,
    /// It stopped in the middle of a zone: that zone has to be completed before anything else can be read there.
    Interrupted,
    /// Nothing binds it to the keys, as in headers of cryptsetup before 2.4.3: anybody who can write to the device may have made it.
    Unverified,
}

impl Luks2 {
    /// What the re-encryption in progress needs, as far as the header says without a key.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] if the header asks for something that is not known here, [`ReencryptError::State`] if another
    /// program has to finish it, or if it is damaged.
    pub fn unfinished(&self) -> Result<Unfinished, ReencryptError> {
        self.check_requirements_known()?;
        match self.metadata().reencryption() {
            Ok(state) if state.hot.is_some() => Ok(Unfinished::Interrupted),
            Ok(_) => Ok(Unfinished::Whole),
            Err(Fault::None) => Ok(Unfinished::Nothing),
            Err(Fault::Unverifiable) => Ok(Unfinished::Unverified),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Binds a re-encryption that nothing verifies to the keys that it is of, as it is now. Whoever calls this has asked a person
    /// whether it is meant. The passphrase must open a keyslot of each key.
    ///
    /// # Errors
    /// As [`resume_reencryption`](Self::resume_reencryption). Nothing is written then.
    pub fn add_verification(
        &mut self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
    ) -> Result<(), ReencryptError> {
        let mut session = Session::begin_any(devices.header)?;
        if session.volume.uuid() != self.uuid() {
            return Err(ChangeError::ChangedMeanwhile.into());
        }
        session.volume.check_requirements_known()?;
        session.refuse_pinned()?;
        let state = session.metadata().unverified_reencryption()?;
        let key_of = |digest: Option<u32>| -> Result<Option<VolumeKey>, ReencryptError> {
            let keys = ReencryptKeys::of_passphrase(passphrase);
            let key = digest.map(|digest| session.volume.key_of_digest(devices.header, keys, digest));
            Ok(key.transpose()?)
        };
        let old = key_of(state.digest_previous)?;
        let new = match state.digest_last == state.digest_previous {
            true => None,
            false => key_of(state.digest_last)?,
        };
        let course = Course::new(state, devices, session.volume.header_size())?;
        let metadata = session.metadata();
        let id = match metadata.reencryption_digest(&course.state) {
            // It verifies in an older way, and gives way.
            Some(old) if old.segments.is_empty() && old.keyslots == [course.state.keyslot] => old.id,
            Some(_) => return Err(Fault::Digests.into()),
            None => metadata.free_digest().ok_or(ChangeError::NoFreeDigest)?,
        };
        let digest = verification_digest(&course.state, old.as_ref(), new.as_ref(), id, false)?;
        let next = metadata.compose().digest(&digest).requirements(&metadata.requirements_of(&course.state));
        let next = session.next(next.finish().map_err(ChangeError::Header)?)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }
}
