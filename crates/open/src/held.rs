//! The file or device that a volume lies on, and that of a detached header, locked against everybody else.

use std::path::Path;
use std::sync::Arc;

use atrest_device::Media;
use atrest_engine::{Access, Disk, DiskError, DiskOptions, is_same};
use atrest_volume::{Devices, OpenError, UnlockOptions, Volume};

use crate::locked::find;
use crate::{Device, Format, HeldError, Locked, Reopen};

/// The file or block device of a volume, and that of a detached header. Both are locked: nobody else writes to the data,
/// and nobody formats or restores the header. Keyslots can be changed all the same. An NBD export in their place can't be
/// locked.
#[derive(Debug)]
pub struct Held {
    media: Device,
    header: Option<Arc<Device>>,
}

fn device(path: &Path, access: Access) -> Result<Device, HeldError> {
    Device::open(path, access).map_err(|error| HeldError { path: path.into(), error })
}

impl Held {
    /// Opens and locks them. With `write` nobody else may have the data open; otherwise other readers may.
    ///
    /// # Errors
    /// [`HeldError`] names the path that can't be opened or is in use.
    pub fn open(path: &Path, header: Option<&Path>, write: bool) -> Result<Self, HeldError> {
        let access = if write { Access::ReadWriteExclusive } else { Access::ReadOnlyShared };
        let held = Self::over(device(path, access)?);
        match header {
            Some(header) => held.with_header(header),
            None => Ok(held),
        }
    }

    /// Takes a device that is open already, in the way that [`open`](Self::open) would open it.
    pub fn over(media: Device) -> Self {
        Self { media, header: None }
    }

    /// Opens and locks the device of a detached header as well. If that is the volume's own, nothing changes.
    ///
    /// # Errors
    /// [`HeldError`] if it can't be opened or is in use.
    pub fn with_header(mut self, header: &Path) -> Result<Self, HeldError> {
        // The volume's own device is locked already.
        if !is_same(header, self.media.path()) {
            self.header = Some(Arc::new(device(header, Access::ReadOnlyShared)?));
        }
        Ok(self)
    }

    /// Maps the data into memory: long reads need no copy of the ciphertext.
    ///
    /// # Errors
    /// [`HeldError`] names the path, and why it can't be mapped.
    pub fn mapped(mut self) -> Result<Self, HeldError> {
        let path = self.media.path().to_owned();
        self.media.map().map_err(|error| HeldError { path, error })?;
        Ok(self)
    }

    /// Holds the data.
    pub fn media(&self) -> &Device {
        &self.media
    }

    /// Holds the header.
    pub fn header(&self) -> &Device {
        self.header.as_deref().unwrap_or(&self.media)
    }

    /// Whether the header lies on a device of its own.
    pub fn is_detached(&self) -> bool {
        self.header.is_some()
    }

    /// Header and data, for the operations of a format.
    pub fn devices(&self) -> Devices<'_> {
        let header = self.header.as_deref().map(|header| header as &dyn Media);
        Devices::with_header(header, &self.media)
    }

    /// The volume on them.
    ///
    /// # Errors
    /// [`OpenError::NotLuks`] if no header is found; otherwise what is wrong with the one that is there.
    pub fn locked(&self, format: &Format) -> Result<Box<dyn Locked + '_>, OpenError> {
        find(self.devices(), self.header.as_deref().map(Device::path), format)
    }

    /// The plaintext. It keeps both devices open and locked.
    ///
    /// # Errors
    /// The volume does not fit its media, or only the kernel can serve it.
    pub fn disk(self, volume: Volume, options: DiskOptions) -> Result<Disk, DiskError> {
        let disk = Disk::new(Arc::new(self.media), volume, options)?;
        Ok(match self.header {
            Some(header) => disk.with_header(header),
            None => disk,
        })
    }

    /// The plaintext, and what it is opened again with when its key was taken away. Both keep the devices open and locked.
    ///
    /// # Errors
    /// Fails where [`disk`](Self::disk) does.
    pub fn disk_for_long(
        self,
        volume: Volume,
        options: DiskOptions,
        (format, unlock): (Format, UnlockOptions),
    ) -> Result<(Disk, Reopen), DiskError> {
        let media = Arc::new(self.media);
        let reopen = Reopen {
            media: media.clone(),
            header: self.header.clone(),
            header_path: self.header.as_deref().map(|header| {
                // intended: a URI stays as it is, and of a path that is gone the opening tells.
                header.path().canonicalize().unwrap_or_else(|_| header.path().into())
            }),
            format,
            unlock,
            disk: options.clone(),
            size: volume.size().into(),
        };
        let disk = Disk::new(media, volume, options)?;
        Ok((
            match self.header {
                Some(header) => disk.with_header(header),
                None => disk,
            },
            reopen,
        ))
    }

    /// Gives out the devices of data and header, for whoever leaves the encryption to the kernel.
    pub fn into_devices(self) -> (Device, Option<Arc<Device>>) {
        (self.media, self.header)
    }
}
