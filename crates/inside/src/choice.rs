//! Which part of a device holds the filesystem that is meant: the whole device, or one partition.

use core::fmt;
use std::sync::Arc;

use atrest_device::{BlockDevice, DeviceError};
use atrest_probe::partition::{Partition, PartitionError, partitions};
use atrest_probe::{FilesystemKind, Window, detect};

/// A partition and what it holds.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The partition.
    pub partition: Partition,
    /// Its filesystem, if that is a known one.
    pub filesystem: Option<FilesystemKind>,
}

/// Why no filesystem could be chosen.
#[non_exhaustive]
#[derive(Debug)]
pub enum ChoiceError {
    /// The media failed.
    Device(DeviceError),
    /// The partition table can't be used.
    Table(PartitionError),
    /// A partition was asked for, but there is no partition table.
    NoTable,
    /// No partition has the number.
    NoSuchPartition {
        /// The number.
        number: u32,
        /// Those that there are.
        candidates: Vec<Candidate>,
    },
    /// No partition holds a known filesystem.
    NoFilesystem {
        /// All partitions.
        candidates: Vec<Candidate>,
    },
    /// Several partitions hold known filesystems, and none was asked for.
    Several {
        /// All partitions.
        candidates: Vec<Candidate>,
    },
}

/// The device on which the filesystem starts: partition `number`, or else the only one with a known filesystem; all of
/// `device` where it has no partition table.
///
/// # Errors
/// [`ChoiceError::NoTable`] or [`ChoiceError::NoSuchPartition`] if there is no partition `number`. Without a
/// number, [`ChoiceError::NoFilesystem`] or [`ChoiceError::Several`] unless exactly one partition has a known
/// filesystem. [`ChoiceError::Table`] if the table can't be used, [`ChoiceError::Device`] if a partition can't be
/// read.
pub fn filesystem_device(
    device: Arc<dyn BlockDevice>,
    number: Option<u32>,
) -> Result<Arc<dyn BlockDevice>, ChoiceError> {
    let Some(table) = partitions(&*device).map_err(ChoiceError::Table)? else {
        return match number {
            None => Ok(device),
            Some(_) => Err(ChoiceError::NoTable),
        };
    };
    let mut candidates = Vec::new();
    let mut found: Vec<Arc<dyn BlockDevice>> = Vec::new();
    for partition in table.partitions {
        let window = Window::new(device.clone(), partition.start, partition.len);
        let window = Arc::new(window.map_err(ChoiceError::Device)?);
        if number == Some(partition.number) {
            return Ok(window);
        }
        let filesystem = detect(&*window).map_err(ChoiceError::Device)?;
        if number.is_none() && filesystem.is_some() {
            found.push(window);
        }
        candidates.push(Candidate { partition, filesystem });
    }
    match (number, found.pop(), found.is_empty()) {
        (Some(number), ..) => Err(ChoiceError::NoSuchPartition { number, candidates }),
        (None, Some(only), true) => Ok(only),
        (None, None, _) => Err(ChoiceError::NoFilesystem { candidates }),
        (None, Some(_), false) => Err(ChoiceError::Several { candidates }),
    }
}

impl ChoiceError {
    /// The partitions that there are to choose from.
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Self::NoSuchPartition { candidates, .. }
            | Self::NoFilesystem { candidates }
            | Self::Several { candidates } => candidates,
            Self::Device(_) | Self::Table(_) | Self::NoTable => &[],
        }
    }
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::NoTable => {
                f.write_str("there is no partition table inside, so there is nothing to choose from")
            }
            Self::NoSuchPartition { number, .. } => write!(f, "there is no partition {number}"),
            Self::NoFilesystem { .. } => f.write_str("no partition holds a known filesystem"),
            Self::Several { .. } => f.write_str("several partitions hold filesystems"),
        }
    }
}

impl core::error::Error for ChoiceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Table(error) => Some(error),
            _ => None,
        }
    }
}

/// `2: ext4 root (1048576 bytes)`
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { number, name, len, .. } = &self.partition;
        write!(f, "{number}: ")?;
        match self.filesystem {
            Some(kind) => write!(f, "{kind}")?,
            None => f.write_str("unknown")?,
        }
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        write!(f, " ({len} bytes)")
    }
}
