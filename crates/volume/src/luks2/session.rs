//! A change in progress: the exclusive lock is held, the headers have been read under it, and nothing is written
//! until every check has passed.

use atrest_device::{Cause, DeviceError, LockMode, Media, Operation};
use atrest_format::luks2::{BinaryHeader, Header, Metadata};

use super::{Luks2, media};
use crate::lock::MetadataLock;
use crate::{ChangeError, Credential, Passphrase, UnlockError, VolumeKey};

pub(super) struct Session<'a> {
    pub(super) device: &'a dyn Media,
    pub(super) volume: Luks2,
    /// The pin stays as it is, and does not fit what the header says then.
    pub(super) leaves_pin: bool,
    _lock: MetadataLock<'a>,
}

impl<'a> Session<'a> {
    /// Takes the lock and reads the headers again. Fails if the volume is another one by now, or one that this
    /// program must not change, or if a pinned header is not the one that is known.
    pub(super) fn begin(known: &Luks2, device: &'a dyn Media) -> Result<Self, ChangeError> {
        let mut session = Self::begin_any(device)?;
        if session.volume.uuid() != known.uuid() {
            return Err(ChangeError::ChangedMeanwhile);
        }
        // A store has been asked about the header that was read first. Media that answer an older one now get no change built upon it.
        if known.is_pinned() && session.volume.pair.header.fields(None) != known.pair.header.fields(None) {
            return Err(ChangeError::ChangedMeanwhile);
        }
        session.volume.check_usable()?;
        session.volume.pin.clone_from(&known.pin);
        session.volume.expected = known.expected;
        Ok(session)
    }

    /// Takes the lock and reads the headers. Unlike [`begin`](Self::begin), it checks neither which volume is there nor what
    /// that requires.
    pub(super) fn begin_any(device: &'a dyn Media) -> Result<Self, ChangeError> {
        // Said at once, not after the seconds that a key derivation takes.
        if device.is_read_only() {
            return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
        }
        let lock = MetadataLock::take(device, LockMode::Exclusive)?;
        let volume = Luks2 { pair: media::read_pair(device)?, pin: None, expected: None };
        Ok(Self { device, volume, leaves_pin: false, _lock: lock })
    }

    pub(super) fn metadata(&self) -> &Metadata {
        self.volume.metadata()
    }

    /// The key of the data, from whatever the caller has. It renews the pin of the header, if there is one.
    pub(super) fn data_key(&mut self, credential: Credential<'_>) -> Result<VolumeKey, UnlockError> {
        let key = match credential {
            Credential::Passphrase(passphrase, slot) => {
                self.volume.volume_key(self.device, passphrase, slot).map(|(_, key)| key)?
            }
            Credential::VolumeKey(key) => {
                self.volume.check_volume_key(key)?;
                VolumeKey::copy_from(key.expose())
            }
        };
        self.show_key(&key);
        Ok(key)
    }

    /// Any keyslot's number and key. That of the data renews the pin of the header, if there is one.
    pub(super) fn keyslot_key(
        &mut self,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        let (slot, key) = self.volume.keyslot_key(self.device, passphrase, slot)?;
        if self.volume.opens_data(slot) {
            self.show_key(&key);
        }
        Ok((slot, key))
    }

    /// The change is one after which nobody can open the volume, or pins it anew.
    pub(super) fn leave_pin(&mut self) {
        self.leaves_pin = true;
    }

    /// Fails if the header is pinned: a re-encryption changes it at each step, without the pin's key.
    pub(super) fn refuse_pinned(&self) -> Result<(), ChangeError> {
        if self.volume.is_pinned() { Err(ChangeError::PinnedReencryption) } else { Ok(()) }
    }

    /// The header with other metadata, one step newer. Checks that it fits, so that nothing is written for nothing.
    pub(super) fn next(&self, metadata: Metadata) -> Result<Header, ChangeError> {
        let mut binary = self.volume.pair.header.binary.clone();
        binary.sequence = binary.sequence.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
        self.fitting(self.with_pin(Header { binary, metadata })?)
    }

    /// The header, if it fits.
    pub(super) fn fitting(&self, header: Header) -> Result<Header, ChangeError> {
        check_fits(&header.metadata, &header.binary)?;
        Ok(header)
    }

    /// Writes both copies, and makes them durable one after the other.
    pub(super) fn commit(&mut self, header: Header) -> Result<(), ChangeError> {
        // Again: the caller may have given it other names.
        let header = self.with_pin(header)?;
        media::write_pair(self.device, &self.volume.pair, &header)?;
        self.volume.pair.header = header;
        self.volume.pair.primary = None;
        self.volume.pair.secondary = None;
        Ok(())
    }

    /// Gives the caller's view of the volume what is on the device now.
    pub(super) fn finish(self, known: &mut Luks2) {
        *known = self.volume;
    }
}

/// Fails unless the text of the metadata fits in a header copy, with a zero behind it.
pub(crate) fn check_fits(metadata: &Metadata, binary: &BinaryHeader) -> Result<(), ChangeError> {
    // cannot overflow: the length of a text in memory.
    let (needs, has) = ((metadata.to_json().len() as u64).saturating_add(1), binary.json_size());
    if needs > has { Err(ChangeError::MetadataFull { needs, has }) } else { Ok(()) }
}
