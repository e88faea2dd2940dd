//! cpio archives in the format `newc`, the one that the kernel unpacks into its first root file system, and the chains
//! of them, compressed or not, that an initramfs file is.

mod chain;
mod error;
mod read;
mod write;

pub use chain::{Limits, Segment, read_chain};
pub use error::CpioError;
pub use read::{Entry, Kind, read_archive};
pub use write::{Archive, Content, PathError};

/// Length of the header in front of each name.
const HEADER: usize = 110;
/// The kernel takes no longer names, and no longer symbolic links.
const PATH_MAX: usize = 4096;
/// The name that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";
/// Names and contents are padded to this.
const ALIGN: usize = 4;
/// The bits of a mode that say what kind of file it is.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
