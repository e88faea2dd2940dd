//! LUKS1 and LUKS2.

use std::path::Path;
use std::sync::Arc;

use atrest_device::{DeviceError, Media, Operation};
use atrest_engine::reencrypt::{RewriteError, recover_interrupted};
use atrest_engine::{Access, ReencryptionLock};
use atrest_secret::Passphrase;
use atrest_volume::luks2::reencrypt::ReencryptError;
use atrest_volume::luks2::{Luks2, PinCounter, PinError, PinRecord, VolumeKeyId};
use atrest_volume::{
    ChangeError, Devices, LockedVolume, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat,
};

use crate::reopen::is_marked;
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
        if !is_marked(&self.header) {
            return self.header.unlock(self.devices, passphrase, options);
        }
        let lock = self.only_one()?;
        // Whoever had it may have gone on since the header was read.
        let header = LockedVolume::read(self.devices.header).map_err(|error| match error {
            OpenError::Device(error) => UnlockError::Device(error),
            _ => UnlockError::ReencryptionInProgress,
        })?;
        let volume = match header.unlock(self.devices, passphrase, options) {
            Err(UnlockError::ReencryptionInProgress) if !options.read_only => {
                self.recovered(&header, passphrase, options)
            }
            unlocked => unlocked,
        }?;
        // Readers keep nobody away.
        Ok(if options.read_only && !options.keep_key { volume } else { volume.with_lock(Arc::new(lock)) })
    }

    /// Keeps everybody from going on with the re-encryption.
    fn only_one(&self) -> Result<ReencryptionLock, UnlockError> {
        // intended: LUKS1 has no re-encryption that lasts.
        let uuid = self.header.luks2().map(Luks2::uuid).unwrap_or_default();
        let lock =
            ReencryptionLock::take(uuid).map_err(|cause| DeviceError::new(Operation::Lock, 0, 0, cause))?;
        lock.ok_or(UnlockError::ReencryptionRuns)
    }

    fn by_token(&self, token: &TokenKey, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        token.try_keyslots(options.slot, |passphrase, slot| {
            self.by_passphrase(passphrase, &UnlockOptions { slot: Some(slot), ..options.clone() })
        })
    }

    /// Completes the zone in which a re-encryption was interrupted. The volume is what it is then, and is put together before: whatever
    /// can be refused is refused while nothing has been written.
    fn recovered(
        &self,
        header: &LockedVolume,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let Some(luks2) = header.luks2() else { return Err(UnlockError::ReencryptionInProgress) };
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

    fn pin_counter(&self) -> Result<PinCounter, PinError> {
        self.header.luks2().ok_or(PinError::NotLuks2)?.pin_counter()
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
