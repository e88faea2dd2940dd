//! ext2, ext3 and ext4: kernel Documentation/filesystems/ext4. Read; contents can be overwritten in place.
//!
//! Our own reader: the library for it (`ext4-view` 1.0) returns stale media contents for extents that were allocated
//! but never written, ignores a journal that wraps and revokes across transactions, and rejects times after 2038. The
//! tests hold this reader against it, against `debugfs` and against the kernel.

mod ahead;
pub(crate) use ahead::read as read_ahead;
mod blocks;
mod casefold;
mod dir;
mod encrypted;
mod hash;
mod inode;
mod journal;
mod map;
mod nokey;
mod overwrite;
mod superblock;
mod xattr;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_device::BlockDevice;
use atrest_filetree::{
    About, Capacity, Cursor, Encryption, Entry, FileTree, InodeCipher, Kind, Listed, Metadata, Note, Space,
    Stop, Timestamp, TreeError, TreePath, Wanted,
};

use blocks::Blocks;
use inode::{Inode, ROOT, flag};
use superblock::{AT, Superblock, incompat};

use crate::fault::{Damage, Feature, Field};

/// Directories whose names are kept for look-ups.
const CACHED_DIRECTORIES: usize = 16;
/// Names kept of all of them together, at some 100 bytes each. A larger directory is scanned on each look-up instead.
const CACHED_NAMES: usize = 1_000_000;
/// A whole directory, from its first byte on.
const ALL: (u64, usize) = (0, usize::MAX);
/// Bytes handed over at once by `read_to`.
const PIECE: usize = 1 << 20;

/// Inodes of names, and where in the directory they stand.
type Names = Arc<HashMap<Vec<u8>, (u32, u64)>>;

/// The names of one directory.
struct Known {
    directory: u32,
    /// Of the keys: other keys show other names.
    generation: u64,
    names: Names,
}

/// An ext2, ext3 or ext4 filesystem.
pub(crate) struct ExtTree {
    sb: Superblock,
    blocks: Blocks,
    notes: Vec<Note>,
    /// Contents of files may be overwritten.
    overwrites: bool,
    /// Most recently used last.
    directories: Mutex<Vec<Known>>,
    /// By which entry of which directory each directory was entered: there is only one in a sound filesystem.
    entered: Mutex<HashMap<u32, (u32, u64)>>,
    encryption: Option<Arc<dyn Encryption>>,
}

impl ExtTree {
    /// Opens the filesystem that starts at the first byte of `device`. Never writes, whatever state it is in.
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        encryption: Option<Arc<dyn Encryption>>,
    ) -> Result<Self, TreeError> {
        let mut bytes = [0; superblock::LEN];
        device.read_at(AT as u64, &mut bytes)?;
        let mut sb = Superblock::parse(&bytes, device.size())?;
        let mut blocks = Blocks::new(device.clone(), sb.block_size, sb.blocks);
        let mut notes = Vec::new();
        if sb.needs_recovery() {
            if sb.journal_inode == 0 {
                return Err(Feature::ExternalJournal.into());
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
                let at = if home == 0 { AT } else { 0 };
                let bytes = block.get(at..).and_then(|from| from.first_chunk());
                sb = Superblock::parse(bytes.ok_or(Damage::SuperblockChecksum)?, device.size())?;
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
        let (directories, entered) = Default::default();
        let tree = Self { sb, blocks, notes, overwrites: false, directories, entered, encryption };
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
            let entry = self.child(&inode, name)?;
            inode = self.below(&inode, entry)?;
        }
        Ok(inode)
    }

    /// The inode of an entry at some byte of a directory.
    fn below(&self, dir: &Inode, (number, place): (u32, u64)) -> Result<Inode, TreeError> {
        let child = self.inode(number)?;
        if child.kind == Kind::Directory {
            self.enter(&child, (dir.number, place))?;
        }
        self.check_policy(dir, &child)?;
        Ok(child)
    }

    /// Fails if a directory is entered by another entry than before: it may contain itself.
    fn enter(&self, directory: &Inode, entry: (u32, u64)) -> Result<(), TreeError> {
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        if directory.number == ROOT || *entered.entry(directory.number).or_insert(entry) != entry {
            return Err(TreeError::SharedDirectory { inode: directory.number.into() });
        }
        Ok(())
    }

    /// The inode that a name stands for, and the name's place in the directory.
    fn child(&self, dir: &Inode, name: &[u8]) -> Result<(u32, u64), TreeError> {
        let generation = self.generation();
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.retain(|known| known.generation == generation);
        let at = directories.iter().position(|known| known.directory == dir.number);
        let names = match at.map(|at| directories.remove(at)) {
            Some(known) => {
                let names = known.names.clone();
                directories.push(known);
                names
            }
            None => {
                drop(directories);
                let (entries, folds) = (self.entries(dir, ALL)?, self.folds(dir)?);
                let mut names = HashMap::with_capacity(entries.len());
                for entry in entries {
                    let found = (entry.inode, entry.place.0);
                    // The first of two equal names counts, in a damaged directory, as for the kernel.
                    if folds {
                        names.entry(casefold::fold(&entry.name)).or_insert(found);
                    }
                    names.entry(entry.name).or_insert(found);
                }
                let names = Arc::new(names);
                self.remember(Known { directory: dir.number, generation, names: names.clone() });
                names
            }
        };
        let found = match names.get(name).copied() {
            None if self.folds(dir)? => names.get(&casefold::fold(name)).copied(),
            found => found,
        };
        found.ok_or(TreeError::NotFound)
    }

    /// What says that other names may be shown than before.
    fn generation(&self) -> u64 {
        self.encryption.as_ref().map_or(0, |encryption| encryption.generation())
    }

    /// Entries of a directory from a byte on, at most so many, with the names as they are shown.
    fn entries(&self, dir: &Inode, part: (u64, usize)) -> Result<Vec<dir::Stored>, TreeError> {
        let entries = dir::entries(&self.sb, &self.blocks, dir, part)?;
        if dir.is_encrypted() { self.show_names(dir, entries) } else { Ok(entries) }
    }

    fn name_hash(&self, dir: &Inode) -> Result<Option<hash::NameHash>, TreeError> {
        dir::name_hash(&self.sb, &self.blocks, dir)
    }

    /// Keeps the names of a directory, and fewer of others if need be.
    fn remember(&self, new: Known) {
        if new.names.len() > CACHED_NAMES {
            return;
        }
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |all: &[Known]| {
            // cannot overflow: the names are in memory.
            all.iter().fold(new.names.len(), |sum, known| sum.saturating_add(known.names.len()))
        };
        while directories.len() >= CACHED_DIRECTORIES || kept(&directories) > CACHED_NAMES {
            directories.remove(0);
        }
        directories.push(new);
    }

    fn file(&self, path: &TreePath) -> Result<Inode, TreeError> {
        let inode = self.find(path)?;
        match inode.kind {
            Kind::File => Ok(inode),
            Kind::Directory => Err(TreeError::IsADirectory),
            _ => Err(TreeError::NotAFile),
        }
    }

    /// Fills `buf` with the contents of an inode from byte `offset` on, and returns how many bytes there were.
    fn read_inode(
        &self,
        inode: &Inode,
        cipher: Option<&dyn InodeCipher>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, TreeError> {
        // intended: nothing is left behind the end. More than memory has is more than the buffer takes.
        let left = usize::try_from(inode.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        // cannot miss: the length is at most that of the buffer.
        let buf = buf.get_mut(..len).unwrap_or(&mut []);
        if buf.is_empty() {
            return Ok(0);
        }
        if inode.flags & flag::INLINE_DATA != 0 {
            let data = inode.inline_data();
            let part = usize::try_from(offset).ok().and_then(|start| data.get(start..)?.get(..len));
            buf.copy_from_slice(part.ok_or(Damage::Inode(inode.number.into()))?);
            return Ok(len);
        }
        let size = u64::from(self.sb.block_size);
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            // cannot divide by zero: a block has bytes.
            let within = at.checked_rem(size).unwrap_or(0);
            let run = map::run(&self.blocks, inode, at.checked_div(size).unwrap_or(0))?;
            // cannot overflow: a run has 2^32 blocks at most, and one at least. What memory does not hold is cut at the buffer.
            let there = run.len.saturating_mul(size).saturating_sub(within);
            let step = rest.len().min(usize::try_from(there).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at_mut(step);
            match run.block {
                Some(block) => match cipher {
                    Some(cipher) => self.read_decrypted((inode, cipher), (block, within), at, now)?,
                    None => self.blocks.read_run(block, within, now)?,
                },
                None => now.fill(0),
            }
            rest = later;
            // cannot overflow: it stays within the file.
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
            name: self.sb.kind.name(),
            label: self.sb.label.clone(),
            id,
            // cannot overflow: the superblock was checked.
            size: self.blocks.count().saturating_mul(self.sb.block_size.into()),
            capacity: Capacity::Sparse,
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
        self.shown(&self.find(path)?)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let dir = self.find(path)?;
        self.entries(&dir, ALL)?.into_iter().map(|stored| self.entry(stored)).collect()
    }

    /// A cursor is a byte of the directory: entries come in the order of its blocks, those of a hash tree as well. They stay
    /// where they are, because nothing here adds or removes any.
    fn list_from(&self, path: &TreePath, from: Cursor, wanted: Wanted) -> Result<Vec<Listed>, TreeError> {
        let dir = self.find(path)?;
        let listed = self.entries(&dir, (from.0, wanted.entries))?.into_iter().map(|stored| {
            let (number, (place, next)) = (stored.inode, stored.place);
            let look = || self.shown(&self.below(&dir, (number, place))?);
            let metadata = wanted.metadata.then(look);
            Ok(Listed { entry: self.entry(stored)?, metadata, next: Cursor(next) })
        });
        listed.collect()
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        let inode = self.file(path)?;
        let cipher = self.contents_cipher(&inode)?;
        self.read_inode(&inode, cipher.as_deref(), offset, buf)
    }

    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let inode = self.file(path)?;
        let cipher = self.contents_cipher(&inode)?;
        let piece = |buf: &mut Vec<u8>, offset: u64| {
            // intended: nothing is left behind the end.
            let left = usize::try_from(inode.size.saturating_sub(offset)).unwrap_or(PIECE);
            buf.resize(left.min(PIECE), 0);
            self.read_inode(&inode, cipher.as_deref(), offset, buf)
        };
        if inode.size > PIECE as u64 {
            return ahead::read(inode.size, &piece, sink);
        }
        let mut buf = Vec::new();
        let len = piece(&mut buf, 0)?;
        if len > 0 {
            // cannot miss: the piece has as many bytes.
            sink(buf.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: 0 })?;
        }
        Ok(len as u64)
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

    fn check_readable(&self, path: &TreePath) -> Result<(), TreeError> {
        let inode = self.find(path)?;
        if inode.is_encrypted() { self.unlocked(&inode).map(|_| ()) } else { Ok(()) }
    }

    fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, TreeError> {
        self.target(&self.find(path)?)
    }
}

impl ExtTree {
    fn entry(&self, stored: dir::Stored) -> Result<Entry, TreeError> {
        let kind = match stored.kind {
            Some(kind) => kind,
            None => self.inode(stored.inode)?.kind,
        };
        Ok(Entry { name: stored.name, kind, inode: stored.inode.into() })
    }

    fn shown(&self, inode: &Inode) -> Result<Metadata, TreeError> {
        let mut metadata = inode.metadata();
        // What is stored is longer than what a reader gets.
        if inode.kind == Kind::Link && inode.is_encrypted() {
            metadata.size = self.target(inode)?.len() as u64;
        }
        Ok(metadata)
    }

    fn target(&self, inode: &Inode) -> Result<Vec<u8>, TreeError> {
        // The kernel's limit, PATH_MAX.
        const MAX_TARGET: u64 = 4095;
        if inode.kind != Kind::Link {
            return Err(TreeError::NotALink);
        }
        if inode.size == 0 || inode.size > MAX_TARGET {
            return Err(Damage::Inode(inode.number.into()).into());
        }
        // cannot miss: the size was checked above.
        let mut stored = vec![0; usize::try_from(inode.size).unwrap_or(0)];
        // Up to 59 bytes lie in the inode itself, in place of the map.
        match inode.map().get(..stored.len()).filter(|short| short.len() < 60) {
            Some(short) => stored.copy_from_slice(short),
            None => _ = self.read_inode(inode, None, 0, &mut stored)?,
        }
        if inode.is_encrypted() { self.link_target(inode, &stored) } else { Ok(stored) }
    }
}
