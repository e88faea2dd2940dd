//! The file or device that a volume lies on, and that of a detached header, locked against everybody else.

use std::path::Path;
use std::sync::Arc;

use atrest_device::Media;
#[cfg(not(feature = "sealed"))]
use atrest_engine::DiskError;
use atrest_engine::{Access, Disk, DiskOptions, PartitionPlace, is_same};
use atrest_volume::{Devices, OpenError, UnlockOptions, Volume};

use crate::locked::find;
#[cfg(feature = "sealed")]
use crate::sealed::{SealedData, SealedError, SealedOptions};
use crate::{Device, DiskOpenError, Format, HeldError, Locked, Reopen};

/// The file or block device of a volume, and that of a detached header. Both are locked: nobody else writes to the data,
/// and nobody formats or restores the header. Keyslots can be changed all the same. An NBD export in their place can't be
/// locked.
#[derive(Debug)]
pub struct Held {
    media: Device,
    header: Option<Arc<Device>>,
    #[cfg(feature = "sealed")]
    sealed: SealedOptions,
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
        Self {
            media,
            header: None,
            #[cfg(feature = "sealed")]
            sealed: SealedOptions::default(),
        }
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

    /// Opens the drive of a partition as the device of the header, as encrypted systems have it, unless another was named. Nothing changes if the
    /// data is no partition. The drive is neither locked nor written: its other partitions are in use.
    ///
    /// # Errors
    /// [`HeldError`] if it can't be opened.
    pub fn with_drive(mut self) -> Result<Self, HeldError> {
        if let (Some(place), None) = (self.partition()?, &self.header) {
            self.header = Some(Arc::new(device(&place.drive, Access::ReadOnly)?));
        }
        Ok(self)
    }

    /// Where the data lies on its drive, if it is a partition.
    ///
    /// # Errors
    /// [`HeldError`] if the kernel's answer can't be read.
    pub fn partition(&self) -> Result<Option<PartitionPlace>, HeldError> {
        self.media.partition().map_err(|error| HeldError { path: self.media.path().into(), error })
    }

    /// Says how a sealed volume is opened, if it is one.
    #[cfg(feature = "sealed")]
    #[must_use]
    pub fn with_sealed(mut self, options: SealedOptions) -> Self {
        self.sealed = options;
        self
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
    pub fn disk(self, volume: Volume, options: DiskOptions) -> Result<Disk, DiskOpenError> {
        if volume.sealed().is_some() || self.media.is_sealed() {
            return self.sealed_disk(volume, options);
        }
        let disk = Disk::new(Arc::new(self.media), volume, options)?;
        Ok(match self.header {
            Some(header) => disk.with_header(header),
            None => disk,
        })
    }

    /// The sealed volume, for what a disk can't do: snapshots, space, its size. What keeps other processes of this machine away comes with it.
    ///
    /// # Errors
    /// [`SealedError`]: it is no sealed volume, or does not open.
    #[cfg(feature = "sealed")]
    pub fn sealed_volume(
        self,
        volume: &Volume,
        write: bool,
    ) -> Result<(atrest_sealedvolume::SealedVolume, Option<std::fs::File>), SealedError> {
        let (Some(device), Some(key)) = (self.media.sealed(), volume.sealed()) else {
            return Err(SealedError::NoStore);
        };
        self.sealed.open(device, key, write)
    }

    #[cfg(feature = "sealed")]
    fn sealed_disk(self, volume: Volume, mut options: DiskOptions) -> Result<Disk, DiskOpenError> {
        let (Some(device), Some(key)) = (self.media.sealed(), volume.sealed()) else {
            return Err(DiskOpenError::Sealed(SealedError::NoStore));
        };
        let read_only = options.read_only || volume.read_only();
        let opened = SealedData::open(device, key, self.sealed, read_only);
        let data = Arc::new(opened.map_err(DiskOpenError::Sealed)?);
        // A trim shows the store's owner no more than how much is in use.
        options.allow_discards = true;
        Ok(Disk::identity(data, options)?)
    }

    #[cfg(not(feature = "sealed"))]
    fn sealed_disk(self, _: Volume, _: DiskOptions) -> Result<Disk, DiskOpenError> {
        // cannot be reached: without the feature nobody asks for the key of a sealed volume.
        Err(DiskError::Fixed.into())
    }

    /// The plaintext, and what it is opened again with when its key was taken away: a sealed volume can't be. Both keep the devices open and locked.
    ///
    /// # Errors
    /// Fails where [`disk`](Self::disk) does.
    pub fn disk_for_long(
        self,
        volume: Volume,
        options: DiskOptions,
        (format, unlock): (Format, UnlockOptions),
    ) -> Result<(Disk, Option<Reopen>), DiskOpenError> {
        if volume.sealed().is_some() || self.media.is_sealed() {
            return Ok((self.sealed_disk(volume, options)?, None));
        }
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
            Some(reopen),
        ))
    }

    /// Gives out the devices of data and header, for whoever leaves the encryption to the kernel.
    pub fn into_devices(self) -> (Device, Option<Arc<Device>>) {
        (self.media, self.header)
    }
}
