//! What can be wrong with the file systems that are read here, with the numbers a person needs. A tree reports it as the
//! [`Fault`] in a [`TreeError`].

use core::fmt;

use atrest_filetree::{Fault, TreeError};
pub use atrest_probe::Field;
use atrest_probe::FilesystemKind;

/// Why what was found can't be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// It is a filesystem, or something else, for which there is no reader.
    Filesystem(FilesystemKind),
    /// The filesystem uses a feature that the reader lacks.
    Feature(Feature),
}

/// A feature that a filesystem uses and we lack.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Incompatible feature bits of an ext filesystem.
    ExtIncompat(u32),
    /// Feature bits of an ext filesystem that forbid writing.
    ExtRoCompat(u32),
    /// The journal lies on another device and holds data that is needed.
    ExternalJournal,
    /// The journal holds fast-commit records that are needed; mount the filesystem once to recover it.
    FastCommit,
    /// Incompatible feature bits of an ext journal.
    JournalIncompat(u32),
    /// Windows encrypts the file itself (EFS), with a key of a user.
    NtfsEncryption,
    /// Another program keeps the contents of the file, under this tag.
    NtfsReparse {
        /// Its tag.
        tag: u32,
    },
    /// An NTFS of a version that is not known.
    NtfsVersion {
        /// Before the dot.
        major: u8,
        /// Behind it.
        minor: u8,
    },
}

/// What is damaged, and where.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A superblock or boot-sector field has an impossible value.
    Superblock(Field),
    /// The superblock's checksum is wrong.
    SuperblockChecksum,
    /// A group descriptor is wrong, or its checksum is.
    GroupDescriptor {
        /// Number of the group.
        group: u32,
    },
    /// An inode number is outside the filesystem.
    InodeNumber(u64),
    /// An inode holds impossible values.
    Inode(u64),
    /// An inode's checksum is wrong.
    InodeChecksum(u64),
    /// A file's block map or extent tree is wrong.
    BlockMap {
        /// The inode.
        inode: u64,
    },
    /// A block number is outside the filesystem.
    BlockNumber {
        /// The block.
        block: u64,
    },
    /// A directory's contents are wrong.
    Directory {
        /// The inode, or the first cluster.
        inode: u64,
        /// Byte in the directory.
        at: u64,
    },
    /// A directory holds a name that no name may be (`/`, NUL, `..`, empty).
    Name {
        /// The inode, or the first cluster.
        inode: u64,
    },
    /// The journal is wrong.
    Journal {
        /// Block in the journal.
        block: u64,
    },
    /// A FAT entry or a directory entry names a cluster that does not exist.
    Cluster(u32),
    /// A cluster belongs to more than one file or directory.
    SharedCluster(u32),
    /// A cluster chain is longer than it can be: it runs in a circle.
    EndlessChain,
    /// FAT structures contradict each other: a file is longer than its clusters, a slot lies outside its directory.
    FatStructure,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filesystem is damaged: ")?;
        match self {
            Self::Superblock(field) => write!(f, "the superblock's {field} is impossible"),
            Self::SuperblockChecksum => f.write_str("the superblock's checksum is wrong"),
            Self::GroupDescriptor { group } => write!(f, "the descriptor of block group {group} is damaged"),
            Self::InodeNumber(inode) => write!(f, "inode {inode} does not exist"),
            Self::Inode(inode) => write!(f, "inode {inode} is damaged"),
            Self::InodeChecksum(inode) => write!(f, "the checksum of inode {inode} is wrong"),
            Self::BlockMap { inode } => write!(f, "the block map of inode {inode} is damaged"),
            Self::BlockNumber { block } => write!(f, "block {block} lies outside the filesystem"),
            Self::Directory { inode, at } => write!(f, "directory {inode} is damaged at byte {at}"),
            Self::Name { inode } => write!(f, "directory {inode} holds an impossible file name"),
            Self::Journal { block } => write!(f, "block {block} of the journal is damaged"),
            Self::Cluster(cluster) => write!(f, "cluster {cluster} does not exist"),
            Self::SharedCluster(cluster) => {
                write!(f, "cluster {cluster} belongs to more than one file or directory")
            }
            Self::EndlessChain => f.write_str("a cluster chain runs in a circle"),
            Self::FatStructure => f.write_str("FAT structures contradict each other"),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExtIncompat(bits) => write!(f, "incompatible ext features {bits:#x}"),
            Self::ExtRoCompat(bits) => write!(f, "ext features {bits:#x}, which forbid writing here"),
            Self::ExternalJournal => f.write_str("a journal on another device that needs recovery"),
            Self::FastCommit => f.write_str("fast-commit records in the journal that need recovery"),
            Self::JournalIncompat(bits) => write!(f, "incompatible journal features {bits:#x}"),
            Self::NtfsEncryption => f.write_str("encryption by Windows (EFS) for this file"),
            Self::NtfsReparse { tag: 0x8000_0017 } => {
                f.write_str("compression for the system (WOF) for this file")
            }
            Self::NtfsReparse { tag } => {
                write!(f, "a reparse point ({tag:#010x}) for this file: another program keeps its contents")
            }
            Self::NtfsVersion { major, minor } => write!(f, "NTFS version {major}.{minor}"),
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filesystem(kind) => write!(f, "{kind} was found, which cannot be read here"),
            Self::Feature(feature) => write!(f, "the filesystem uses {feature}"),
        }
    }
}

impl core::error::Error for Damage {}
impl core::error::Error for Unsupported {}

impl From<Damage> for TreeError {
    fn from(damage: Damage) -> Self {
        Self::Corrupt(Fault::new(damage))
    }
}

impl From<Unsupported> for TreeError {
    fn from(unsupported: Unsupported) -> Self {
        Self::UnsupportedFormat(Fault::new(unsupported))
    }
}

impl From<Feature> for TreeError {
    fn from(feature: Feature) -> Self {
        Unsupported::Feature(feature).into()
    }
}

#[cfg(test)]
mod tests {
    use core::error::Error as _;

    use atrest_device::FlashGeometry;
    use atrest_littlefs as littlefs;

    use super::*;
    use crate::littlefs::{LittleFsDamage, LittleFsFault};

    #[test]
    fn a_tree_says_all_that_a_reader_has_found_and_gives_it_back() {
        let geometry = FlashGeometry::new(1, 1, 64, 1).expect("a geometry");
        let version = littlefs::MountError::Version { version: 0x0003_0001 };
        for (error, text) in [
            (
                Damage::InodeChecksum(12).into(),
                "the filesystem is damaged: the checksum of inode 12 is wrong",
            ),
            (
                TreeError::SharedDirectory { inode: 12 },
                "the filesystem is damaged: directory 12 is found in more than one place",
            ),
            (
                Feature::FastCommit.into(),
                "the filesystem uses fast-commit records in the journal that need recovery",
            ),
            (Unsupported::Filesystem(FilesystemKind::Xfs).into(), "XFS was found, which cannot be read here"),
            (
                TreeError::Corrupt(Fault::new(LittleFsDamage(littlefs::Damage::NoSuperblock))),
                "the LittleFS is damaged: there is no superblock",
            ),
            (
                LittleFsFault::Unusable(geometry).into(),
                "a LittleFS has no room in 1 x 64 bytes: it takes two erase blocks of 128 bytes at least",
            ),
            (LittleFsFault::Refused(version).into(), "LittleFS version 3.1 is not known"),
        ] {
            assert_eq!(error.to_string(), text);
        }
        let damaged = TreeError::from(Damage::Cluster(7));
        assert_eq!(damaged.fault(), Some(&Damage::Cluster(7)));
        assert_eq!((damaged.clone(), damaged.fault::<Unsupported>()), (Damage::Cluster(7).into(), None));
        let source = damaged.source().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&Damage::Cluster(7)));
        let refused = TreeError::from(LittleFsFault::Refused(version));
        let source = refused.source().and_then(|fault| fault.source());
        assert_eq!(source.and_then(|source| source.downcast_ref()), Some(&version));
    }
}
