//! What is on a device, for a question before it is overwritten: volumes, file systems and partition tables, by their
//! signatures. Everything is read from untrusted bytes and believed to be a name, no more.

#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::Range;

use atrest_device::{BlockDevice, DeviceError, Geometry, Unshared};
use atrest_keyslot::flash::{HEADER_LEN, Header, Protection};
use atrest_probe::partition::{Scheme, claims, scheme};
use atrest_probe::{ExtSuperblock, FilesystemKind, LOOK_AT, by_signature, fat, further_back};
use atrest_volume::{LockedVolume, OpenError};

use crate::flash::{DetectError, detect};

/// What a person would miss.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A LUKS volume, by either copy of its header.
    Luks {
        /// Its UUID, as the header has it.
        uuid: String,
    },
    /// A LUKS header that can't be used as it is.
    DamagedLuks,
    /// Encrypted flash.
    Flash {
        /// Its UUID; `None` if the header is damaged.
        uuid: Option<[u8; 16]>,
        /// Whether it is sealed.
        sealed: bool,
    },
    /// A file system, or another thing that fills a device.
    Filesystem(FilesystemKind),
    /// FAT12, FAT16 or FAT32.
    Fat,
    /// A partition table.
    Partitions(Scheme),
}

/// What would be lost if these bytes of a device were overwritten: what begins at the first of them, or begins at the
/// device's first byte and reaches as far. `None` if nothing is known to be there.
///
/// # Errors
/// [`DeviceError`] if the device can't be read where signatures would be.
pub fn in_the_way(device: &dyn BlockDevice, range: Range<u64>) -> Result<Option<Contents>, DeviceError> {
    if range.start != 0
        && let Some(found) = look(&From { device, start: range.start })?.filter(|found| found.fills())
    {
        return Ok(Some(found));
    }
    let Some(found) = look(&From { device, start: 0 })? else { return Ok(None) };
    let reaches = match &found {
        Contents::Partitions(_) => claims(device, &range)?,
        // How far the others reach is not asked: a volume or file system owns its device.
        _ => true,
    };
    Ok(reaches.then_some(found))
}

/// What begins at the first byte of a device.
fn look(device: &From<'_>) -> Result<Option<Contents>, DeviceError> {
    match LockedVolume::read(device) {
        Ok(locked) => return Ok(Some(Contents::Luks { uuid: locked.uuid().into() })),
        Err(OpenError::NotLuks) => {}
        Err(OpenError::Device(error)) => return Err(error),
        Err(_) => return Ok(Some(Contents::DamagedLuks)),
    }
    match detect(device, None) {
        Err(DetectError::NotFlash) => {}
        Err(DetectError::Device(error)) => return Err(error),
        Ok(_) | Err(_) => return flash(device).map(Some),
    }
    let len = usize::try_from(device.size()).map_or(LOOK_AT, |size| size.min(LOOK_AT));
    let mut start = vec![0; len];
    device.read_at(0, &mut start)?;
    if let Some(kind) = by_signature(&start).or_else(|| ext(&start)) {
        return Ok(Some(Contents::Filesystem(kind)));
    }
    if start.first_chunk().is_some_and(fat::may_be) {
        return Ok(Some(Contents::Fat));
    }
    if let Some(scheme) = scheme(device)? {
        return Ok(Some(Contents::Partitions(scheme)));
    }
    Ok(further_back(device)?.map(Contents::Filesystem))
}

fn flash(device: &dyn BlockDevice) -> Result<Contents, DeviceError> {
    let mut bytes = [0; HEADER_LEN];
    if device.size() >= bytes.len() as u64 {
        device.read_at(0, &mut bytes)?;
    }
    let header = Header::parse(&bytes).ok();
    let params = header.as_ref().map(Header::params);
    Ok(Contents::Flash {
        uuid: params.as_ref().map(|params| params.uuid),
        sealed: params.is_some_and(|params| params.protection != Protection::Encrypted),
    })
}

/// ext2, ext3 or ext4. Its magic has two bytes only, so the block size must make sense as well.
fn ext(start: &[u8]) -> Option<FilesystemKind> {
    let superblock = ExtSuperblock::find(start).filter(|superblock| superblock.block_size().is_some());
    superblock.map(ExtSuperblock::kind)
}

impl Contents {
    /// Whether it is data rather than a table of where data is. A table in the middle of a device is none.
    fn fills(&self) -> bool {
        !matches!(self, Self::Partitions(_))
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FilesystemKind as Kind;
        match self {
            Self::Luks { uuid } => write!(f, "a LUKS volume (UUID {uuid})"),
            Self::DamagedLuks => f.write_str("a damaged LUKS header"),
            Self::Flash { uuid, sealed } => {
                f.write_str(if *sealed { "sealed flash" } else { "encrypted flash" })?;
                let Some(uuid) = uuid else { return Ok(()) };
                f.write_str(" (UUID ")?;
                for (at, byte) in uuid.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                f.write_str(")")
            }
            Self::Filesystem(
                kind @ (Kind::Swap
                | Kind::Hibernation
                | Kind::Ubi
                | Kind::Lvm
                | Kind::MdRaid
                | Kind::Bcache
                | Kind::DmIntegrity
                | Kind::DmVerity
                | Kind::Vdo
                | Kind::Luks1
                | Kind::Luks2),
            ) => kind.fmt(f),
            Self::Filesystem(kind) => write!(f, "a filesystem ({kind})"),
            Self::Fat => f.write_str("a filesystem (FAT)"),
            Self::Partitions(scheme @ Scheme::Mbr) => write!(f, "an {scheme} partition table"),
            Self::Partitions(scheme) => write!(f, "a {scheme} partition table"),
        }
    }
}

/// A device from some byte on, for reading.
struct From<'a> {
    device: &'a dyn BlockDevice,
    start: u64,
}

/// A look takes no lock. A header that another program is writing meanwhile is found as a damaged one, or not yet.
impl Unshared for From<'_> {}

impl BlockDevice for From<'_> {
    fn size(&self) -> u64 {
        // intended: nothing is behind the end.
        self.device.size().saturating_sub(self.start)
    }

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(atrest_device::Operation::Read, offset, buf.len() as u64)?;
        self.device.read_at(self.start + offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let cause = atrest_device::Cause::ReadOnly;
        Err(DeviceError::new(atrest_device::Operation::Write, offset, data.len() as u64, cause))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
