//! Partition tables: GPT (UEFI 2.10, chapter 5) and MBR with extended partitions.
//!
//! Three questions are asked of them, and each believes more than the one before it: [`partitions`] reads a table whose
//! checksums and places are right, for use; [`partition_name`] names a partition that the kernel has found already;
//! [`scheme`] and [`claims`] see a table wherever one may be, so that it is not overwritten.

mod claims;
mod gpt;
mod mbr;
mod name;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use atrest_device::{BlockDevice, DeviceError, SECTOR_SIZE};

pub use claims::{claims, scheme};
pub use name::{PartitionName, partition_name};

/// A partition table and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// Which kind of table it is.
    pub scheme: Scheme,
    /// Bytes in the sectors that the table counts in.
    pub sector_size: u32,
    /// The disk's GUID (GPT) or signature (MBR).
    pub id: String,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
    /// A copy of the GPT that is damaged while the other one is good.
    pub damaged_copy: Option<TableCopy>,
}

/// Kind of partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// GUID partition table.
    Gpt,
    /// Master boot record.
    Mbr,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        })
    }
}

/// One of the two copies of a GPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCopy {
    /// At the start of the disk.
    Primary,
    /// At its end.
    Backup,
}

/// One partition. Its range lies inside the device and overlaps no other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1; logical partitions of an MBR count from 5.
    pub number: u32,
    /// First byte on the device.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// The type GUID (GPT) or the type byte as two hexadecimal digits (MBR).
    pub type_id: String,
    /// The partition's own GUID; empty in an MBR.
    pub id: String,
    /// Its name; empty in an MBR.
    pub name: String,
}

/// Reads the partition table of a device; none if there is none.
///
/// A device on which a filesystem starts at byte 0 has no MBR, even where its boot sector looks like one. A GPT counts
/// only with the protective MBR in front of it, or with both its copies intact.
///
/// # Errors
/// [`PartitionError::BothCopiesDamaged`] if the protective MBR promises a GPT that is not there.
/// [`PartitionError::OutOfBounds`] or [`PartitionError::Overlap`] if partitions contradict the device or each
/// other. [`PartitionError::ExtendedChain`] or [`PartitionError::ExtendedSignature`] if the logical partitions of
/// an MBR can't be followed. [`PartitionError::Device`] if reading fails.
pub fn partitions(device: &dyn BlockDevice) -> Result<Option<PartitionTable>, PartitionError> {
    if device.size() < SECTOR_SIZE {
        return Ok(None);
    }
    let mut first = [0; SECTOR_SIZE as usize];
    device.read_at(0, &mut first)?;
    if let Some(table) = gpt::read(device, mbr::is_protective(&first))? {
        return Ok(Some(table));
    }
    if crate::detect(device)?.is_some() {
        return Ok(None);
    }
    mbr::read(device, &first)
}

/// Why a partition table can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionError {
    /// The media failed.
    Device(DeviceError),
    /// The protective MBR promises a GPT, but both copies are damaged.
    BothCopiesDamaged {
        /// What is wrong with the first.
        primary: GptDamage,
        /// What is wrong with the second.
        backup: GptDamage,
    },
    /// A partition does not lie inside the device (or the usable area of the GPT).
    OutOfBounds {
        /// Number of the partition.
        number: u32,
        /// Its first byte.
        start: u64,
        /// Size in bytes.
        len: u64,
    },
    /// Two partitions share bytes.
    Overlap {
        /// Number of the one.
        a: u32,
        /// Number of the other.
        b: u32,
    },
    /// The chain of extended boot records runs in a circle or is too long.
    ExtendedChain {
        /// Links followed.
        links: u32,
    },
    /// An extended boot record has no signature.
    ExtendedSignature {
        /// Its first byte.
        offset: u64,
    },
}

/// What is wrong with one copy of a GPT.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GptDamage {
    /// The device ends before it, or it names places that do not exist.
    OutOfBounds,
    /// The signature is not there.
    Signature,
    /// The header's size is impossible.
    HeaderSize(u32),
    /// The header's checksum is wrong.
    HeaderChecksum,
    /// The header says that it lies elsewhere.
    Position(u64),
    /// Size or number of the entries are impossible.
    EntryArray {
        /// Entries.
        count: u32,
        /// Bytes in each.
        size: u32,
    },
    /// The checksum of the entries is wrong.
    EntryChecksum,
}

impl fmt::Display for GptDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds => f.write_str("it lies outside the device"),
            Self::Signature => f.write_str("its signature is missing"),
            Self::HeaderSize(size) => write!(f, "its header size is {size}"),
            Self::HeaderChecksum => f.write_str("its header checksum is wrong"),
            Self::Position(lba) => write!(f, "its header says that it lies in sector {lba}"),
            Self::EntryArray { count, size } => write!(f, "it claims {count} entries of {size} bytes"),
            Self::EntryChecksum => f.write_str("the checksum of its entries is wrong"),
        }
    }
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::BothCopiesDamaged { primary, backup } => {
                write!(f, "both copies of the GPT are damaged (primary: {primary}; backup: {backup})")
            }
            Self::OutOfBounds { number, start, len } => {
                write!(f, "partition {number} ({len} bytes at {start}) lies outside the disk")
            }
            Self::Overlap { a, b } => write!(f, "partitions {a} and {b} overlap"),
            Self::ExtendedChain { links } => {
                write!(f, "the chain of extended boot records does not end after {links} links")
            }
            Self::ExtendedSignature { offset } => write!(f, "no extended boot record at byte {offset}"),
        }
    }
}

impl core::error::Error for PartitionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DeviceError> for PartitionError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Fails if two partitions share bytes. Every range must lie inside a device.
fn check_overlap(partitions: &[Partition]) -> Result<(), PartitionError> {
    let mut by_start: Vec<&Partition> = partitions.iter().collect();
    by_start.sort_by_key(|p| p.start);
    for pair in by_start.windows(2) {
        if let [a, b] = pair
            // cannot overflow: every range lies inside the device.
            && a.start.saturating_add(a.len) > b.start
        {
            return Err(PartitionError::Overlap { a: a.number, b: b.number });
        }
    }
    Ok(())
}
