//! ext2, ext3 and ext4: kernel Documentation/filesystems/ext4. Read; contents can be overwritten in place.
//!
//! Our own reader: the library for it (`ext4-view` 1.0) returns stale media contents for extents that were allocated
//! but never written, ignores a journal that wraps and revokes across transactions, and rejects times after 2038. The
//! tests hold this reader against it, against `debugfs` and against the kernel.

mod blocks;
mod dir;
mod inode;
mod journal;
mod map;
mod overwrite;
mod superblock;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_device::BlockDevice;

use blocks::Blocks;
use inode::{Inode, ROOT, flag};
pub(crate) use superblock::{MAGIC, kind};
use superblock::{Superblock, incompat};

use crate::error::{Damage, Feature, Field, TreeError};
use crate::path::TreePath;
use crate::tree::{About, Entry, FileTree, Kind, Metadata, Note, Space, Stop, Timestamp};

/// Directories whose names are kept for look-ups.
const CACHED_DIRECTORIES: usize = 16;
/// Names kept of all of them together, at some 100 bytes each. A larger directory is scanned on each look-up instead.
const CACHED_NAMES: usize = 1_000_000;
/// Bytes handed over at once by `read_to`.
const PIECE: usize = 1 << 20;

type Names = Arc<HashMap<Vec<u8>, u32>>;

/// An ext2, ext3 or ext4 filesystem.
pub(crate) struct ExtTree {
    sb: Superblock,
    blocks: Blocks,
    notes: Vec<Note>,
    /// Contents of files may be overwritten.
    overwrites: bool,
    /// Most recently used last.
    directories: Mutex<Vec<(u32, Names)>>,
}

impl ExtTree {
    /// Opens the filesystem that starts at the first byte of `device`. Never writes, whatever state it is in.
    pub(crate) fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let mut bytes = vec![0; superblock::AT];
        device.read_at(superblock::AT as u64, &mut bytes)?;
        let mut sb = Superblock::parse(&bytes, device.size())?;
        let mut blocks = Blocks::new(device.clone(), sb.block_size, sb.blocks);
        let mut notes = Vec::new();
        if sb.needs_recovery() {
            if sb.journal_inode == 0 {
                return Err(TreeError::UnsupportedFeature(Feature::ExternalJournal));
            }
            let inode = Inode::read(&sb, &blocks, sb.journal_inode)?;
            if inode.kind != Kind::File {
                return Err(Damage::Superblock(Field::JournalInode).into());
            }
            let replay = journal::replay(&blocks, &inode)?;
            notes.push(Note::JournalReplayed {
                transactions: replay.transactions,
                blocks: replay.replaced.len(),
            });
            blocks.replaced = replay.replaced;
            // The superblock may be among the replaced blocks.
            let home = if sb.block_size == 1024 { 1 } else { 0 };
            if blocks.replaced.contains_key(&home) {
                let block = blocks.read(home)?;
                let at = if home == 0 { superblock::AT } else { 0 };
                sb =
                    Superblock::parse(crate::bytes::Fields(&block).slice(at, superblock::AT), device.size())?;
                if sb.block_size != blocks.size() {
                    return Err(Damage::Superblock(Field::BlockSize).into());
                }
            }
        } else if !sb.clean {
            notes.push(Note::NotCleanlyUnmounted);
        }
        if sb.errors {
            notes.push(Note::ErrorsRecorded);
        }
        let tree = Self { sb, blocks, notes, overwrites: false, directories: Mutex::default() };
        // A filesystem without a readable root is not worth opening.
        if tree.inode(ROOT)?.kind != Kind::Directory {
            return Err(Damage::Inode(ROOT.into()).into());
        }
        Ok(tree)
    }

    fn inode(&self, number: u32) -> Result<Inode, TreeError> {
        Inode::read(&self.sb, &self.blocks, number)
    }

    fn find(&self, path: &TreePath) -> Result<Inode, TreeError> {
        let mut inode = self.inode(ROOT)?;
        for name in path.components() {
            inode = self.inode(self.child(&inode, name)?)?;
        }
        Ok(inode)
    }

    fn child(&self, dir: &Inode, name: &[u8]) -> Result<u32, TreeError> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = directories.iter().position(|(number, _)| *number == dir.number) {
            let known = directories.remove(at);
            let found = known.1.get(name).copied();
            directories.push(known);
            return found.ok_or(TreeError::NotFound);
        }
        drop(directories);
        let entries = dir::entries(&self.sb, &self.blocks, dir)?;
        // The first of two equal names counts, in a damaged directory, as for the kernel.
        let found = entries.iter().find(|entry| entry.name == name).map(|entry| entry.inode);
        let names = entries.into_iter().rev().map(|entry| (entry.name, entry.inode)).collect();
        self.remember(dir.number, Arc::new(names));
        found.ok_or(TreeError::NotFound)
    }

    /// Keeps the names of a directory, and fewer of others if need be.
    fn remember(&self, directory: u32, names: Names) {
        if names.len() > CACHED_NAMES {
            return;
        }
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let kept =
            |all: &[(u32, Names)]| all.iter().fold(names.len(), |sum, (_, n)| sum.saturating_add(n.len()));
        while directories.len() >= CACHED_DIRECTORIES || kept(&directories) > CACHED_NAMES {
            directories.remove(0);
        }
        directories.push((directory, names));
    }

    fn file(&self, path: &TreePath) -> Result<Inode, TreeError> {
        let inode = self.find(path)?;
        match inode.kind {
            Kind::File if inode.is_encrypted() => Err(TreeError::Encrypted { inode: inode.number.into() }),
            Kind::File => Ok(inode),
            Kind::Directory => Err(TreeError::IsADirectory),
            _ => Err(TreeError::NotAFile),
        }
    }

    /// Fills `buf` with the contents of an inode from byte `offset` on, and returns how many bytes there were.
    fn read_inode(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        let left = usize::try_from(inode.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        let buf = buf.get_mut(..len).unwrap_or(&mut []);
        if inode.flags & flag::INLINE_DATA != 0 {
            let data = inode.inline_data();
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let part =
                data.get(start..start.saturating_add(len)).ok_or(Damage::Inode(inode.number.into()))?;
            buf.copy_from_slice(part);
            return Ok(len);
        }
        let size = u64::from(self.sb.block_size);
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            let within = at.checked_rem(size).unwrap_or(0);
            let run = map::run(&self.blocks, inode, at.checked_div(size).unwrap_or(0))?;
            let there = run.len.saturating_mul(size).saturating_sub(within);
            let step = rest.len().min(usize::try_from(there).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at_mut(step);
            match run.block {
                Some(block) => self.blocks.read_run(block, within, now)?,
                None => now.fill(0),
            }
            rest = later;
            at = at.saturating_add(step as u64);
        }
        Ok(len)
    }
}

impl FileTree for ExtTree {
    fn about(&self) -> About {
        let mut id = String::new();
        for (i, byte) in self.sb.uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            id.push_str(&format!("{dash}{byte:02x}"));
        }
        About {
            kind: self.sb.kind,
            label: self.sb.label.clone(),
            id,
            size: self.blocks.count().saturating_mul(self.sb.block_size.into()),
            block_size: self.sb.block_size,
            writable: false,
            notes: self.notes.clone(),
        }
    }

    fn space(&self) -> Result<Space, TreeError> {
        let (block_size, blocks, free) = (self.sb.block_size, self.sb.blocks, self.sb.free_blocks);
        Ok(Space { block_size, blocks, free })
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        Ok(self.find(path)?.metadata())
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let dir = self.find(path)?;
        let mut entries = Vec::new();
        for stored in dir::entries(&self.sb, &self.blocks, &dir)? {
            let kind = match stored.kind {
                Some(kind) => kind,
                None => self.inode(stored.inode)?.kind,
            };
            entries.push(Entry { name: stored.name, kind, inode: stored.inode.into() });
        }
        Ok(entries)
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        self.read_inode(&self.file(path)?, offset, buf)
    }

    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let inode = self.file(path)?;
        let mut piece = vec![0; usize::try_from(inode.size).unwrap_or(PIECE).min(PIECE)];
        let mut offset: u64 = 0;
        while offset < inode.size {
            let len = self.read_inode(&inode, offset, &mut piece)?;
            sink(piece.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: offset })?;
            offset = offset.saturating_add(len as u64);
        }
        Ok(offset)
    }

    fn overwrites(&self) -> bool {
        self.overwrites
    }

    fn write_at(&self, path: &TreePath, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        self.overwrite(path, offset, data)
    }

    fn set_modified(&self, path: &TreePath, time: Timestamp) -> Result<(), TreeError> {
        self.overwrite_time(path, time)
    }

    fn flush(&self) -> Result<(), TreeError> {
        if self.overwrites { self.blocks.flush() } else { Ok(()) }
    }

    fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, TreeError> {
        // The kernel's limit, PATH_MAX.
        const MAX_TARGET: u64 = 4095;
        let inode = self.find(path)?;
        if inode.kind != Kind::Link {
            return Err(TreeError::NotALink);
        }
        if inode.is_encrypted() {
            return Err(TreeError::Encrypted { inode: inode.number.into() });
        }
        if inode.size == 0 || inode.size > MAX_TARGET {
            return Err(Damage::Inode(inode.number.into()).into());
        }
        let len = usize::try_from(inode.size).unwrap_or(0);
        // Up to 59 bytes lie in the inode itself, in place of the map.
        if len < 60 {
            return Ok(inode.map().get(..len).unwrap_or(&[]).to_vec());
        }
        let mut target = vec![0; len];
        self.read_inode(&inode, 0, &mut target)?;
        Ok(target)
    }
}
