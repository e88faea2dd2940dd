//! What can go wrong in a tree, with the numbers a person needs.

use atrest_device::{DeviceError, FlashError, FlashGeometry, GeometryError};
use atrest_littlefs as littlefs;
use core::fmt;

use crate::detect::FilesystemKind;
use crate::encryption::{EncryptionFault, KeyName};
use crate::path::PathError;

/// A tree could not be opened, or an operation on it failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The media failed.
    Device(DeviceError),
    /// The flash medium failed.
    Flash(FlashError),
    /// The sizes of a LittleFS do not make a flash medium.
    FlashGeometry(GeometryError),
    /// littlefs can't use a flash medium of these sizes.
    UnusableFlash(FlashGeometry),
    /// A LittleFS can't be mounted on this medium, or refuses for a reason of its own.
    LittleFs(littlefs::MountError),
    /// The metadata of a LittleFS are not what a littlefs writes.
    LittleFsDamage(littlefs::Damage),
    /// No filesystem that we know starts here.
    UnknownFilesystem,
    /// A filesystem (or something else) that we recognise but cannot read.
    UnsupportedFilesystem(FilesystemKind),
    /// The filesystem uses a feature that we do not implement.
    UnsupportedFeature(Feature),
    /// The filesystem says that it is larger than the media it lies on.
    LargerThanDevice {
        /// Bytes that the filesystem claims.
        needs: u64,
        /// Bytes that there are.
        has: u64,
    },
    /// The filesystem is damaged.
    Corrupt(Damage),
    /// A file is encrypted by the filesystem (fscrypt), and the tree was opened without a way to keys.
    Encrypted {
        /// The inode.
        inode: u64,
    },
    /// A file of an encrypted directory can't be read.
    Lower(LowerError),
    /// A file is encrypted by the filesystem (fscrypt), and its key is not here.
    Locked {
        /// The inode.
        inode: u64,
        /// What its policy calls the key.
        key: KeyName,
    },
    /// The encryption of an inode is not what it should be.
    Encryption {
        /// The inode.
        inode: u64,
        /// What is wrong.
        fault: EncryptionFault,
    },
    /// There is no such entry.
    NotFound,
    /// A part of the path that should be a directory is something else.
    NotADirectory,
    /// The operation wants a file, but the path names a directory.
    IsADirectory,
    /// The operation wants a regular file, but the path names a pipe, a socket, a device or a link.
    NotAFile,
    /// The path does not name a symbolic link.
    NotALink,
    /// More links had to be followed than a path may have.
    TooManyLinks {
        /// The limit.
        limit: u32,
    },
    /// The entry exists already.
    Exists,
    /// A directory was to be moved into itself.
    IntoItself,
    /// The directory is not empty.
    NotEmpty,
    /// This tree, or the media under it, is read-only.
    ReadOnly,
    /// Not implemented for this filesystem.
    Unsupported,
    /// The filesystem has no room left.
    NoSpace,
    /// A file can't be that large here.
    TooLarge {
        /// Largest size in bytes.
        limit: u64,
    },
    /// The offset lies behind the end of the file, and this filesystem has no holes.
    BeyondEnd {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The name can't be stored in this filesystem.
    UnsupportedName {
        /// Its length in bytes.
        len: usize,
    },
    /// The file can't grow here: what is there can be overwritten, and no more.
    CannotGrow {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The file is of another size than what should take its place, which can't be changed here.
    OtherSize {
        /// Size of the file in bytes.
        size: u64,
        /// Size that it would need.
        wanted: u64,
    },
    /// A part of the file was never written and has no place on the media, and none can be allocated here.
    NotAllocated {
        /// Where that part begins, in bytes.
        offset: u64,
    },
    /// The file says of itself that it must not be changed (immutable, append-only or verity).
    Protected,
    /// The filesystem must be recovered or checked before anything is written to it.
    NotClean,
    /// The path is malformed.
    Path(PathError),
    /// The source or the sink gave up.
    Stopped {
        /// Bytes transferred before.
        at: u64,
    },
    /// An earlier write failed half-way: nothing more is written, so that the damage does not spread.
    EarlierWriteFailed,
}

/// Why a file, name or link of a directory that is encrypted file by file (eCryptfs) can't be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerError {
    /// The directory that it lies in failed, with this error number (`errno`).
    Host {
        /// The number.
        errno: i32,
    },
    /// None of the keys at hand has the signature that it asks for.
    NoKey {
        /// The signature.
        signature: [u8; 8],
    },
    /// It is wrapped for a public key, which is not supported.
    PublicKey {
        /// Its signature.
        signature: [u8; 8],
    },
    /// It is not encrypted, or its header is lost.
    NoHeader {
        /// Bytes in the lower file.
        len: u64,
    },
    /// Its header is damaged.
    Header,
    /// Its header is of a kind that is not known here.
    UnknownHeader,
    /// The encrypted name or link target is damaged.
    Name,
    /// The lower file ends before the size that its header claims.
    Truncated {
        /// The first extent that is not there in full.
        extent: u64,
        /// Bytes of contents that the header claims.
        size: u64,
        /// Bytes in the lower file.
        lower: u64,
    },
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, signature: &[u8; 8]| {
            signature.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Host { errno } => std::io::Error::from_raw_os_error(*errno).fmt(f),
            Self::NoKey { signature } => {
                f.write_str("none of the keys given opens it: it wants the one with signature ")?;
                hex(f, signature)
            }
            Self::PublicKey { signature } => {
                f.write_str("it is wrapped for a public key, which is not supported: signature ")?;
                hex(f, signature)
            }
            Self::NoHeader { len } => {
                write!(f, "the lower file of {len} bytes has no header: it is not encrypted, or damaged")
            }
            Self::Header => f.write_str("its header is damaged"),
            Self::UnknownHeader => f.write_str("its header is of a kind that is not known"),
            Self::Name => f.write_str("the encrypted name or link target is damaged"),
            Self::Truncated { extent, size, lower } => write!(
                f,
                "the lower file ends after {lower} bytes, within extent {extent}, but its header claims {size} bytes of contents"
            ),
        }
    }
}

impl core::error::Error for LowerError {}

impl From<LowerError> for TreeError {
    fn from(error: LowerError) -> Self {
        Self::Lower(error)
    }
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
    /// A directory is found in more than one place.
    SharedDirectory {
        /// The inode.
        inode: u64,
    },
    /// A cluster chain is longer than it can be: it runs in a circle.
    EndlessChain,
    /// FAT structures contradict each other: a file is longer than its clusters, a slot lies outside its directory.
    FatStructure,
}

/// Fields that can be wrong in a superblock or boot sector.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    BlockSize,
    BlockCount,
    BlocksPerGroup,
    InodesPerGroup,
    InodeSize,
    InodeCount,
    DescriptorSize,
    FirstDataBlock,
    JournalInode,
    SectorSize,
    ClusterSize,
    ReservedSectors,
    FatCount,
    FatSize,
    RootEntries,
    RootCluster,
    SectorCount,
    InfoSector,
    Version,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockSize => "block size",
            Self::BlockCount => "block count",
            Self::BlocksPerGroup => "blocks per group",
            Self::InodesPerGroup => "inodes per group",
            Self::InodeSize => "inode size",
            Self::InodeCount => "inode count",
            Self::DescriptorSize => "group descriptor size",
            Self::FirstDataBlock => "first data block",
            Self::JournalInode => "journal inode",
            Self::SectorSize => "sector size",
            Self::ClusterSize => "cluster size",
            Self::ReservedSectors => "number of reserved sectors",
            Self::FatCount => "number of FATs",
            Self::FatSize => "size of a FAT",
            Self::RootEntries => "number of root directory entries",
            Self::RootCluster => "first cluster of the root directory",
            Self::SectorCount => "sector count",
            Self::InfoSector => "information sector",
            Self::Version => "version",
        })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Self::SharedDirectory { inode } => write!(f, "directory {inode} is found in more than one place"),
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
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Flash(error) => error.fmt(f),
            Self::FlashGeometry(error) => error.fmt(f),
            Self::UnusableFlash(geometry) => write!(
                f,
                "a LittleFS has no room in {} x {} bytes: it takes two erase blocks of 128 bytes at least",
                geometry.block_count(),
                geometry.erase_size()
            ),
            Self::LittleFs(error) => error.fmt(f),
            Self::LittleFsDamage(damage) => write!(f, "the LittleFS is damaged: {damage}"),
            Self::UnknownFilesystem => f.write_str("no known filesystem was found"),
            Self::UnsupportedFilesystem(kind) => write!(f, "{kind} was found, which cannot be read here"),
            Self::UnsupportedFeature(feature) => write!(f, "the filesystem uses {feature}"),
            Self::LargerThanDevice { needs, has } => {
                write!(f, "the filesystem claims {needs} bytes but only {has} are there")
            }
            Self::Corrupt(damage) => write!(f, "the filesystem is damaged: {damage}"),
            Self::Encrypted { inode } => write!(f, "inode {inode} is encrypted by the filesystem (fscrypt)"),
            Self::Lower(error) => error.fmt(f),
            Self::Locked { inode, key } => {
                write!(
                    f,
                    "inode {inode} is encrypted by the filesystem (fscrypt), and its key {key} is not here"
                )
            }
            Self::Encryption { inode, fault } => write!(f, "inode {inode}: {fault}"),
            Self::NotFound => f.write_str("no such file or directory"),
            Self::NotADirectory => f.write_str("a part of the path is not a directory"),
            Self::IsADirectory => f.write_str("it is a directory"),
            Self::NotAFile => f.write_str("it is not a regular file"),
            Self::NotALink => f.write_str("it is not a symbolic link"),
            Self::TooManyLinks { limit } => write!(f, "more than {limit} symbolic links on the way"),
            Self::Exists => f.write_str("it exists already"),
            Self::IntoItself => f.write_str("a directory cannot be moved into itself"),
            Self::NotEmpty => f.write_str("the directory is not empty"),
            Self::ReadOnly => f.write_str("the file tree is read-only"),
            Self::Unsupported => f.write_str("this cannot be done in such a filesystem here"),
            Self::NoSpace => f.write_str("no space is left in the filesystem"),
            Self::TooLarge { limit } => write!(f, "a file cannot be larger than {limit} bytes here"),
            Self::BeyondEnd { size } => {
                write!(f, "the offset lies behind the end of the file of {size} bytes")
            }
            Self::UnsupportedName { len } => {
                write!(f, "the name of {len} bytes cannot be stored in this filesystem")
            }
            Self::CannotGrow { size } => {
                write!(f, "the file of {size} bytes can be overwritten here, but it can't grow")
            }
            Self::OtherSize { size, wanted } => write!(
                f,
                "the file has {size} bytes, not {wanted}: contents can be overwritten here, but no file can grow or shrink"
            ),
            Self::NotAllocated { offset } => {
                write!(f, "from byte {offset} on the file has a hole, which can't be filled here")
            }
            Self::Protected => {
                f.write_str("the file must not be changed: it is immutable, append-only or has fs-verity")
            }
            Self::NotClean => f.write_str(
                "the filesystem was not unmounted cleanly or has errors, so nothing is written to it",
            ),
            Self::Path(error) => error.fmt(f),
            Self::Stopped { at } => write!(f, "the transfer was stopped after {at} bytes"),
            Self::EarlierWriteFailed => {
                f.write_str("an earlier write failed half-way, so nothing more is written")
            }
        }
    }
}

impl core::error::Error for TreeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Flash(error) => Some(error),
            Self::LittleFs(error) => Some(error),
            Self::LittleFsDamage(error) => Some(error),
            Self::Path(error) => Some(error),
            Self::Lower(error) => Some(error),
            Self::Encryption { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

impl From<PathError> for TreeError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<Damage> for TreeError {
    fn from(damage: Damage) -> Self {
        Self::Corrupt(damage)
    }
}
