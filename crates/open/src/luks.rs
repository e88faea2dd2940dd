//! LUKS1 and LUKS2.

use atrest_volume::{
    Devices, LockedVolume, OpenError, TokenInfo, UnlockError, UnlockOptions, Volume, VolumeFormat,
};

use crate::{Key, Locked};

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

impl Locked for Luks<'_> {
    fn format(&self) -> VolumeFormat {
        self.header.format()
    }

    fn check(&self) -> Result<(), UnlockError> {
        self.header.check_place(self.devices)
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        match key {
            Key::Passphrase(passphrase) | Key::File(passphrase) => {
                self.header.unlock(self.devices, passphrase, options)
            }
            Key::Volume(key) => self.header.unlock_with_key(self.devices, key, options),
        }
    }

    fn tokens(&self) -> Vec<TokenInfo> {
        self.header.info().tokens
    }
}
