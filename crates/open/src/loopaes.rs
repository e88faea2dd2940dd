//! loop-AES volumes, of which nothing on the device tells anything.

use atrest_device::DeviceError;
use atrest_engine::contents::{Contents, in_the_way};
use atrest_volume::loopaes::{LoopAesOptions, open, place};
use atrest_volume::{Devices, UnlockError, UnlockOptions, Volume, VolumeFormat};

use crate::token::TokenKey;
use crate::{Key, Locked};

struct LoopAes<'a> {
    devices: Devices<'a>,
    options: LoopAesOptions,
}

pub(crate) fn locked(devices: Devices<'_>, options: LoopAesOptions) -> Box<dyn Locked + '_> {
    Box::new(LoopAes { devices, options })
}

impl Locked for LoopAes<'_> {
    fn format(&self) -> VolumeFormat {
        VolumeFormat::LoopAes
    }

    fn check(&self) -> Result<(), UnlockError> {
        place(self.devices.data, &self.options)?;
        Ok(())
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let file = match key {
            Key::Passphrase(bytes) | Key::File(bytes) | Key::Token(TokenKey { passphrase: bytes, .. }) => {
                bytes.expose()
            }
            Key::Volume(key) => key.expose(),
        };
        Ok(open(self.devices.data, &self.options, file, options)?)
    }

    fn in_the_way(&self) -> Result<Option<Contents>, DeviceError> {
        match place(self.devices.data, &self.options) {
            Ok(range) => in_the_way(self.devices.data, range),
            // `check` says why there is no place for it.
            Err(_) => Ok(None),
        }
    }
}
