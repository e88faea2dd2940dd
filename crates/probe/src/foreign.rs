//! What something is that holds no volume of ours: other programs' encrypted volumes, by their signatures, and what can't be told.

use atrest_device::{BlockDevice, DeviceError};

use crate::detect::first;
use crate::partition::{Scheme, partitions};
use crate::{FilesystemKind, detect};

/// What was found in place of a volume.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// BitLocker: a drive of Windows, or one that can be carried (BitLocker To Go).
    BitLocker,
    /// FileVault 2 on CoreStorage.
    FileVault,
    /// An APFS container, which FileVault may encrypt.
    Apfs,
    /// A filesystem in the clear.
    Filesystem(FilesystemKind),
    /// A partition table of this scheme.
    Partitions(Scheme),
    /// Nothing at all: no bytes, or the first ones are zeros.
    Blank,
    /// Bytes that look random: VeraCrypt, TrueCrypt, loop-AES and plain dm-crypt look so, and compressed data too.
    Random,
    /// Something else.
    Unknown,
}

/// Bytes from the start that are held to be random or not.
const SAMPLE: usize = 4096;
/// Of 4096 random bytes, fewer than 240 different values happen about never.
const VALUES: usize = 240;

/// What is on a device that holds no volume of ours.
///
/// # Errors
/// If the first bytes can't be read. A partition table that can't be used is no error, and counts as none.
pub fn foreign(device: &dyn BlockDevice) -> Result<Foreign, DeviceError> {
    let start = first(device, SAMPLE)?;
    match detect(device)? {
        Some(FilesystemKind::BitLocker) => return Ok(Foreign::BitLocker),
        Some(FilesystemKind::CoreStorage) => return Ok(Foreign::FileVault),
        Some(FilesystemKind::Apfs) => return Ok(Foreign::Apfs),
        Some(kind) => return Ok(Foreign::Filesystem(kind)),
        None => {}
    }
    if let Ok(Some(table)) = partitions(device) {
        return Ok(Foreign::Partitions(table.scheme));
    }
    if start.iter().all(|byte| *byte == 0) {
        return Ok(Foreign::Blank);
    }
    let values = (0..=u8::MAX).filter(|value| start.contains(value)).count();
    Ok(if start.len() == SAMPLE && values >= VALUES { Foreign::Random } else { Foreign::Unknown })
}
