//! What is known of one entry of a source.

use atrest_filetree::{Kind, Timestamp};
use rustix::fs::Stat;

use super::attributes::Attribute;

/// One file, directory or the like, however many names it has.
pub(super) struct Found {
    /// The directory where it was found first, and its name there.
    pub(super) parent: usize,
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) owner: (u32, u32),
    pub(super) size: u64,
    pub(super) links: u32,
    pub(super) device: (u32, u32),
    pub(super) accessed: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) attributes: Vec<Attribute>,
    pub(super) target: Vec<u8>,
    /// Names in a directory, and what they name.
    pub(super) children: Vec<(Vec<u8>, usize)>,
    /// Blocks of the image that a file's data takes.
    pub(super) blocks: u64,
    pub(super) identity: (u64, u64),
}

impl Found {
    pub(super) fn new(stat: &Stat, parent: usize, name: &[u8]) -> Self {
        let time = |seconds, nanoseconds| Timestamp {
            seconds,
            // cannot miss: the kernel gives less than a second.
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        Self {
            parent,
            name: name.to_vec(),
            kind: Kind::of_mode(stat.st_mode),
            mode: (stat.st_mode & 0o7777) as u16,
            owner: (stat.st_uid, stat.st_gid),
            // cannot miss: no size is negative.
            size: u64::try_from(stat.st_size).unwrap_or(0),
            links: 0,
            device: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            attributes: Vec::new(),
            target: Vec::new(),
            children: Vec::new(),
            blocks: 0,
            identity: (stat.st_dev, stat.st_ino),
        }
    }
}
