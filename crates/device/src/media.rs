//! What a volume lies on.

use crate::{BlockDevice, DeviceError};

/// A device that may hold a volume's header. Other processes may use it at the same time, and wiped bytes must be gone
/// from it.
///
/// No method has a default. A device that forgot one of them would let two processes change a header at once, serve a
/// header as data, or call a keyslot wiped that is still there. A device that no other process can reach needs no lock.
pub trait Media: BlockDevice {
    /// The file or disk that holds the bytes, if that is known. It shows that two devices are one.
    fn storage(&self) -> Option<Storage>;

    /// Reads from the media itself rather than from a cache, to verify that a wipe reached it. Only whole
    /// [`Geometry::physical_block`](crate::Geometry::physical_block)s can be asked for. A device without a cache reads
    /// as usual.
    ///
    /// # Errors
    /// Why not all of it could be read.
    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Takes the lock that protects a volume's metadata, as cryptsetup does. Waits for it. Locks nest.
    ///
    /// # Errors
    /// The lock can't be had: its file can't be made or opened, or a shared lock would have to become an exclusive one.
    fn lock_metadata(&self, mode: LockMode) -> Result<(), DeviceError>;

    /// Releases one [`lock_metadata`](Self::lock_metadata).
    fn unlock_metadata(&self);
}

/// A device that no other process can reach and that has no cache: memory. It is [`Media`] that needs no lock.
pub trait Unshared: BlockDevice {}

impl<D: Unshared> Media for D {
    fn storage(&self) -> Option<Storage> {
        None
    }

    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read_at(offset, buf)
    }

    fn lock_metadata(&self, _mode: LockMode) -> Result<(), DeviceError> {
        Ok(())
    }

    fn unlock_metadata(&self) {}
}

/// Where the bytes of a device lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The file or disk.
    pub id: StorageId,
    /// The device's first byte, counted from the start of the file or disk.
    pub offset: u64,
}

/// Tells a file or disk from all others of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageId {
    /// A regular file.
    File {
        /// Number of the device that the file system is on (`st_dev`).
        device: u64,
        /// Number of the inode (`st_ino`).
        inode: u64,
    },
    /// A whole disk.
    Disk {
        /// Its device number (`st_rdev`).
        number: u64,
    },
}

/// How a metadata lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Several readers.
    Shared,
    /// One writer.
    Exclusive,
}
