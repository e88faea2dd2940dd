//! Plain volumes, of which nothing on the device tells anything.

use atrest_device::DeviceError;
use atrest_engine::contents::{Contents, in_the_way};
use atrest_kdf::plain::PlainHash;
use atrest_volume::plain::{PlainKey, PlainOpenError, PlainOptions, open, place};
use atrest_volume::{Devices, UnlockError, UnlockOptions, Volume, VolumeFormat};

use crate::token::TokenKey;
use crate::{Key, Locked};

struct Plain<'a> {
    devices: Devices<'a>,
    options: PlainOptions,
    hash: Option<PlainHash>,
}

pub(crate) fn locked(
    devices: Devices<'_>,
    options: PlainOptions,
    hash: Option<PlainHash>,
) -> Box<dyn Locked + '_> {
    Box::new(Plain { devices, options, hash })
}

impl Locked for Plain<'_> {
    fn format(&self) -> VolumeFormat {
        VolumeFormat::Plain
    }

    fn check(&self) -> Result<(), UnlockError> {
        place(self.devices.data, &self.options)?;
        Ok(())
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let key = match key {
            // No header, no token: none gives a key of this kind.
            Key::Passphrase(passphrase) | Key::Token(TokenKey { passphrase, .. }) => {
                PlainKey::Passphrase(passphrase, self.hash.ok_or(PlainOpenError::NoHash)?)
            }
            Key::File(bytes) => PlainKey::KeyFile(bytes.expose()),
            Key::Volume(key) => PlainKey::KeyFile(key.expose()),
        };
        Ok(open(self.devices.data, &self.options, key, options)?)
    }

    fn in_the_way(&self) -> Result<Option<Contents>, DeviceError> {
        match place(self.devices.data, &self.options) {
            Ok(range) => in_the_way(self.devices.data, range),
            // `check` says why there is no place for it.
            Err(_) => Ok(None),
        }
    }
}
