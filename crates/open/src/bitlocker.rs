//! BitLocker volumes.

use std::path::Path;

use atrest_volume::bitlocker::{LockedBitLocker, Opened, is_one};
use atrest_volume::{
    Devices, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat, begins_as_a_file_system,
};

use crate::token::TokenKey;
use crate::{Key, Locked};

/// Bytes of the longest sector.
const SECTOR: u64 = 4096;

struct BitLocker<'a> {
    devices: Devices<'a>,
    header: Result<LockedBitLocker, UnlockError>,
}

/// The volume on these devices; [`Locked::check`] says it if there is none.
pub(crate) fn locked(devices: Devices<'_>) -> Box<dyn Locked + '_> {
    Box::new(BitLocker { devices, header: LockedBitLocker::read(devices.header) })
}

pub(crate) fn probe<'a>(
    devices: Devices<'a>,
    _: Option<&'a Path>,
) -> Result<Option<Box<dyn Locked + 'a>>, OpenError> {
    Ok(is_one(devices.header).then(|| locked(devices)))
}

impl BitLocker<'_> {
    fn header(&self) -> Result<&LockedBitLocker, UnlockError> {
        self.header.as_ref().map_err(Clone::clone)
    }

    fn volume(&self, opened: Opened, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let size = self.devices.data.size();
        // cannot be cut off: 4096 bytes at most.
        let mut sector = vec![0; size.min(SECTOR) as usize];
        self.devices.data.read_at(0, &mut sector).map_err(UnlockError::Device)?;
        self.header()?.volume(opened, &sector, size, options)
    }
}

impl Locked for BitLocker<'_> {
    fn format(&self) -> VolumeFormat {
        VolumeFormat::BitLocker
    }

    fn check(&self) -> Result<(), UnlockError> {
        self.header()?.check(self.devices.data.size())
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let header = self.header()?;
        let opened = match key {
            Key::Passphrase(passphrase) | Key::File(passphrase) | Key::Token(TokenKey { passphrase, .. }) => {
                header.unlock(passphrase, options.slot)?
            }
            // Nothing verifies it, and what a wrong key writes destroys the volume.
            Key::Volume(key) => {
                let volume = self.volume(header.unlock_with_key(key)?, options)?;
                let shown = begins_as_a_file_system(&volume, self.devices.data)?;
                let read_only = volume.read_only() || !shown;
                return Ok(volume.with_read_only(read_only));
            }
        };
        self.volume(opened, options)
    }

    fn without_key(&self, options: &UnlockOptions) -> Result<Option<Volume>, UnlockError> {
        let opened = self.header()?.unlock_with_clear_key()?;
        opened.map(|opened| self.volume(opened, options)).transpose()
    }
}
