//! Open directories.

use std::fs::File;
use std::sync::Arc;

use atrest_filetree::Kind;
use atrest_filetree::posix::{Outcome, PosixDirectory, PosixEntry};
use rustix::fs::{Dir, FileType};

use super::Layer;
use super::tree::Inner;

pub(super) struct OpenDirectory<M: Layer> {
    pub tree: Arc<Inner<M>>,
    pub directory: File,
}

impl<M: Layer> PosixDirectory for OpenDirectory<M> {
    fn entries(&self) -> Outcome<Vec<PosixEntry>> {
        let mut entries = Vec::new();
        // A descriptor of its own: the position is not shared with another listing.
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let lower = entry.file_name().to_bytes();
            if matches!(lower, b"." | b"..") {
                continue;
            }
            let node = self.tree.nodes.number_of_entry(entry.ino());
            let name = self.tree.layer.plain_name(lower).into_owned();
            entries.push(PosixEntry { name, kind: kind_of(entry.file_type()), node });
        }
        Ok(entries)
    }

    fn sync(&self) -> Outcome<()> {
        rustix::fs::fsync(&self.directory)
    }
}

/// What an entry is; none if the directory does not tell.
pub(crate) fn kind_of(kind: FileType) -> Option<Kind> {
    Some(match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => return None,
    })
}
