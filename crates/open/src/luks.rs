//! LUKS1 and LUKS2.

use atrest_engine::reencrypt::recover_interrupted;
use atrest_secret::Passphrase;
use atrest_volume::luks2::PinError;
use atrest_volume::{Devices, LockedVolume, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat};

use crate::token::{Token, TokenKey, recovery};
use crate::{Key, Locked, MayBeWrongKey};

struct Luks<'a> {
    devices: Devices<'a>,
    header: LockedVolume,
}

pub(crate) fn probe<'a>(devices: Devices<'a>) -> Result<Option<Box<dyn Locked + 'a>>, OpenError> {
    match LockedVolume::read(devices.header) {
        Ok(header) => Ok(Some(Box::new(Luks { devices, header }))),
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

    /// Completes the zone in which a re-encryption was interrupted, and unlocks the volume in the state in which it is then.
    fn recovered(&self, passphrase: &Passphrase, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let refused = UnlockError::ReencryptionInProgress;
        // It writes before the key could be compared with what the caller expects.
        if options.expects() {
            return Err(refused);
        }
        let Some(luks2) = self.header.luks2() else { return Err(refused) };
        let Ok(mut rewriting) = luks2.resume_reencryption(self.devices, passphrase) else {
            return Err(refused);
        };
        match recover_interrupted(&mut rewriting) {
            Err(_) => return Err(refused),
            Ok(_) => drop(rewriting),
        }
        let Ok(header) = LockedVolume::read(self.devices.header) else { return Err(refused) };
        header.unlock(self.devices, passphrase, options)
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
