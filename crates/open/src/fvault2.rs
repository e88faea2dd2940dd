//! FileVault 2 on CoreStorage.

use std::path::Path;

use atrest_volume::fvault2::{LockedFileVault, is_one};
use atrest_volume::{
    Devices, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat, begins_as_a_file_system,
};

use crate::token::TokenKey;
use crate::{Key, Locked};

struct FileVault<'a> {
    devices: Devices<'a>,
    header: Result<LockedFileVault, UnlockError>,
}

/// The volume on these devices; [`Locked::check`] says it if there is none.
pub(crate) fn locked(devices: Devices<'_>) -> Box<dyn Locked + '_> {
    // The keys may lie in a file of their own, where other formats have a header.
    let header = match is_one(devices.header) {
        true => LockedFileVault::read(devices.header),
        false => LockedFileVault::read_with(devices.data, devices.header),
    };
    Box::new(FileVault { devices, header })
}

pub(crate) fn probe<'a>(
    devices: Devices<'a>,
    _: Option<&'a Path>,
) -> Result<Option<Box<dyn Locked + 'a>>, OpenError> {
    Ok(is_one(devices.header).then(|| locked(devices)))
}

impl FileVault<'_> {
    fn header(&self) -> Result<&LockedFileVault, UnlockError> {
        self.header.as_ref().map_err(Clone::clone)
    }
}

impl Locked for FileVault<'_> {
    fn format(&self) -> VolumeFormat {
        VolumeFormat::FileVault
    }

    fn check(&self) -> Result<(), UnlockError> {
        self.header()?.check(self.devices.data.size())
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let (header, size) = (self.header()?, self.devices.data.size());
        match key {
            Key::Passphrase(passphrase) | Key::File(passphrase) | Key::Token(TokenKey { passphrase, .. }) => {
                header.volume(&header.unlock(passphrase, options.slot)?, size, options)
            }
            // Nothing verifies it, and what a wrong key writes destroys the volume.
            Key::Volume(key) => {
                let volume = header.volume(key, size, options)?;
                let shown = begins_as_a_file_system(&volume, self.devices.data)?;
                let read_only = volume.read_only() || !shown;
                Ok(volume.with_read_only(read_only))
            }
        }
    }
}
