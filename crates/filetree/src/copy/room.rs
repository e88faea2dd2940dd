//! How much a copy may come to: no filesystem holds more than it has room for, unless it is damaged.
//!
//! A damaged or forged filesystem lets many files have the same blocks. One of a megabyte would fill the host's disk.

use std::collections::HashMap;

use crate::tree::{About, Capacity, Metadata};

/// Data is counted in pieces of this many bytes: no filesystem that knows holes allocates less.
const PIECE: usize = 1024;

/// What the files of one copy may have together.
pub(super) struct Room {
    /// Bytes in the filesystem; none where nobody knows.
    size: Option<u64>,
    /// Whether files have room for all that they show, holes included.
    dense: bool,
    /// Bytes that were copied, without holes.
    copied: u64,
    /// How often files that have several names were copied, by inode.
    names: HashMap<u64, u32>,
}

/// What one file takes of the room.
pub(super) struct Share {
    counts: bool,
}

impl Room {
    pub(super) fn new(about: &About) -> Self {
        let size = (about.capacity != Capacity::Unbounded).then_some(about.size);
        let dense = about.capacity == Capacity::Dense;
        Self { size, dense, copied: 0, names: HashMap::new() }
    }

    /// Begins a file, of which so much was copied before it. Fails with the filesystem's size if it can't be as large as it shows.
    pub(super) fn enter(&mut self, metadata: &Metadata, before: u64) -> Result<Share, u64> {
        let whole = before.checked_add(metadata.size);
        if let Some(size) = self.size.filter(|&size| self.dense && whole.is_none_or(|whole| whole > size)) {
            return Err(size);
        }
        // A file has its room once, however many names it has. What it has more of is forged.
        let mut counts = true;
        if metadata.links > 1 {
            let names = self.names.entry(metadata.inode).or_insert(0);
            counts = *names == 0 || *names >= metadata.links;
            // intended: so many names are forged.
            *names = names.saturating_add(1);
        }
        Ok(Share { counts })
    }

    /// Takes room for the data that is copied next. Fails with the filesystem's size if there is none.
    pub(super) fn take(&mut self, share: &Share, data: &[u8]) -> Result<(), u64> {
        if !share.counts {
            return Ok(());
        }
        let pieces = data.chunks(PIECE).filter(|piece| piece.iter().any(|&byte| byte != 0));
        let stored: usize = pieces.map(<[u8]>::len).sum();
        // intended: more than any filesystem.
        self.copied = self.copied.saturating_add(stored as u64);
        match self.size.filter(|&size| self.copied > size) {
            Some(size) => Err(size),
            None => Ok(()),
        }
    }
}
