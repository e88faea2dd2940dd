//! LUKS1 and LUKS2.

use std::path::Path;

use atrest_device::Media;
use atrest_engine::Access;
use atrest_engine::reencrypt::{RewriteError, recover_interrupted};
use atrest_secret::Passphrase;
use atrest_volume::luks2::reencrypt::ReencryptError;
use atrest_volume::luks2::{PinError, PinRecord, VolumeKeyId};
use atrest_volume::{
    ChangeError, Devices, LockedVolume, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat,
};

use crate::token::{Token, TokenKey, recovery};
use crate::{Device, DeviceOpenError, Key, Locked, MayBeWrongKey};

struct Luks<'a> {
    devices: Devices<'a>,
    /// Where a detached header lies: it was opened for reading alone.
    header_path: Option<&'a Path>,
    header: LockedVolume,
}

pub(crate) fn probe<'a>(
    devices: Devices<'a>,
    header_path: Option<&'a Path>,
) -> Result<Option<Box<dyn Locked + 'a>>, OpenError> {
    match LockedVolume::read(devices.header) {
        Ok(header) => Ok(Some(Box::new(Luks { devices, header_path, header }))),
        Err(OpenError::NotLuks) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Luks<'_> {
    fn by_passphrase(&self, passphrase: &Passphrase, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        match self.header.unlock(self.devices, passphrase, options) {
            Err(UnlockError::ReencryptionInProgress) if !options.read_only && !options.keep_key => {
                self.recovered(passphrase, options)
            }
            unlocked => unlocked,
        }
    }

    fn by_token(&self, token: &TokenKey, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        token.try_keyslots(options.slot, |passphrase, slot| {
            self.by_passphrase(passphrase, &UnlockOptions { slot: Some(slot), ..options.clone() })
        })
    }

    /// Completes the zone in which a re-encryption was interrupted. The volume is what it is then, and is put together before: whatever
    /// can be refused is refused while nothing has been written.
    fn recovered(&self, passphrase: &Passphrase, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let Some(luks2) = self.header.luks2() else { return Err(UnlockError::ReencryptionInProgress) };
        // It stays locked by the one that was opened for reading.
        let header = self.header_path.map(|path| Device::open(path, Access::ReadWrite)).transpose();
        let header = header.map_err(|error| match error {
            DeviceOpenError::Device(error) => UnlockError::Device(error),
            _ => UnlockError::ReencryptionInProgress,
        })?;
        let devices = match &header {
            Some(header) => Devices::with_header(Some(header as &dyn Media), self.devices.data),
            None => self.devices,
        };
        let (mut rewriting, volume) = luks2.unlock_interrupted(devices, passphrase, options)?;
        match recover_interrupted(&mut rewriting) {
            Ok(_) => Ok(volume),
            Err(RewriteError::Data(error)) => Err(UnlockError::Device(error)),
            Err(RewriteError::State(error)) => Err(match *error {
                ReencryptError::Change(error) => match *error {
                    ChangeError::Device(error) => UnlockError::Device(error),
                    ChangeError::Unlock(error) => error,
                    _ => UnlockError::ReencryptionInProgress,
                },
                _ => UnlockError::ReencryptionInProgress,
            }),
            Err(_) => Err(UnlockError::ReencryptionInProgress),
        }
    }
}

impl Locked for Luks<'_> {
    fn format(&self) -> VolumeFormat {
        self.header.format()
    }

    fn check(&self) -> Result<(), UnlockError> {
        self.header.check_place(self.devices)
    }

    fn check_expected(&self, options: &UnlockOptions) -> Result<(), UnlockError> {
        match self.header.luks2() {
            Some(luks2) => luks2.check_policy(options),
            None if options.expects() => Err(UnlockError::Pin(PinError::NotLuks2)),
            None => Ok(()),
        }
    }

    fn pin_record(&self, key: VolumeKeyId) -> Option<PinRecord> {
        // A pin that can't be read has not let anybody in.
        self.header.luks2()?.pin_record(key).ok()?
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        match key {
            Key::Passphrase(passphrase) => match self.by_passphrase(passphrase, options) {
                Err(error) if error.is_wrong_key() => match recovery::meant(&self.tokens(), passphrase) {
                    Some(key) => self.by_token(&key, options),
                    None => Err(error),
                },
                done => done,
            },
            Key::File(passphrase) => self.by_passphrase(passphrase, options),
            Key::Token(token) => self.by_token(token, options),
            Key::Volume(key) => self.header.unlock_with_key(self.devices, key, options),
        }
    }

    fn tokens(&self) -> Vec<Token> {
        Token::all(&self.header)
    }
}
