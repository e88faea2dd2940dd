//! FAT12, FAT16 and FAT32, read and write: Microsoft's FAT specification of 2005.
//!
//! Our own: of the library for it (`fatfs` 0.3) fsck finds fault with every directory it makes, a read error while it
//! frees clusters makes it run for ever, and it uses cluster numbers without checking them.
//!
//! Tables and directories are changed in memory and written by a flush; file contents go to the device at once. From the
//! first change to the end of the next flush the filesystem is marked as in use. After a write that failed half-way
//! nothing more is written. A rename is durable when it returns.
//!
//! Nothing is freed unless each cluster has one owner in the whole filesystem: freeing a shared one would destroy the other's.

mod cache;
mod dir;
mod name;
mod owners;
mod rename;
mod table;
mod time;
pub(crate) use time::timestamp;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_device::BlockDevice;
use atrest_filetree::{
    About, Capacity, Cursor, Entry, FileTree, IfExists, Kind, Listed, Metadata, Note, Space, Stop, Timestamp,
    TreeError, TreePath, WalkError, Wanted,
};
use atrest_probe::fat::{BootSector, FatError};

use cache::Cache;
use dir::{Directory, Found, Place};
use owners::{Entered, Start};
use table::{Run, Table};

use crate::fault::Damage;

/// Bytes handed to and from callers at once.
const PIECE: usize = 1 << 20;
/// Sizes have 32 bits.
const MAX_FILE: u64 = u32::MAX as u64;

/// A FAT filesystem.
pub(crate) struct FatTree {
    about: About,
    state: Mutex<State>,
}

struct State {
    table: Table,
    /// The chain that was used last, by its first cluster: reading a file in pieces follows it once.
    last_chain: Option<(u32, Vec<Run>)>,
    /// The directory that was listed last.
    last_listed: Option<(TreePath, Directory)>,
    entered: Entered,
    /// Each cluster has one owner, as was found. What is written here does not change that.
    is_unshared: bool,
    /// The change that is under way has begun to change something.
    begun: bool,
    /// Changed since the last flush; the media says so.
    changed: bool,
    /// A write failed half-way.
    failed: bool,
}

impl FatTree {
    /// Opens the filesystem that starts at the first byte of `device`, for reading only or for both.
    pub(crate) fn open(device: Arc<dyn BlockDevice>, writable: bool) -> Result<Self, TreeError> {
        let mut sector = [0; 512];
        device.read_at(0, &mut sector)?;
        let boot = BootSector::parse(&sector).map_err(|error| match error {
            FatError::Impossible(field) => Damage::Superblock(field).into(),
            _ => TreeError::UnknownFilesystem,
        })?;
        if boot.size() > device.size() {
            return Err(TreeError::LargerThanDevice { needs: boot.size(), has: device.size() });
        }
        let about = About {
            name: boot.kind.name(),
            label: boot.label.clone(),
            id: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xffff),
            size: boot.size(),
            capacity: Capacity::Dense,
            block_size: boot.cluster_size(),
            writable: writable && !device.is_read_only(),
            notes: if boot.dirty { vec![Note::NotCleanlyUnmounted] } else { Vec::new() },
        };
        let cache = Cache::new(device, boot.size());
        let mut state = State {
            table: Table::new(boot, cache)?,
            last_chain: None,
            last_listed: None,
            entered: Entered::default(),
            is_unshared: false,
            begun: false,
            changed: false,
            failed: false,
        };
        state.directory(&TreePath::root())?;
        Ok(Self { about, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change. One that fails in the middle ends all writing; what is in memory then never reaches the media.
    fn change<R>(&self, op: impl FnOnce(&mut State) -> Result<R, TreeError>) -> Result<R, TreeError> {
        if !self.about.writable {
            return Err(TreeError::ReadOnly);
        }
        let mut state = self.lock();
        if state.failed {
            return Err(TreeError::EarlierWriteFailed);
        }
        state.last_chain = None;
        state.last_listed = None;
        state.begun = false;
        let result = op(&mut state);
        if let Err(TreeError::Device(_) | TreeError::Corrupt(_)) = &result
            && state.begun
        {
            state.failed = true;
            state.table.cache.discard();
            state.entered.clear();
        }
        result
    }
}

impl State {
    /// The directory at `path`.
    fn directory(&mut self, path: &TreePath) -> Result<Directory, TreeError> {
        Ok(self.way(path)?.0)
    }

    /// The directory at `path`, and the numbers of all on the way to it, its own included.
    fn way(&mut self, path: &TreePath) -> Result<(Directory, Vec<u64>), TreeError> {
        let root = dir::root(&self.table);
        let mut directory = Directory::read(&mut self.table, root)?;
        self.entered.enter(&directory, None)?;
        let mut way = vec![directory.number()];
        for name in path.components() {
            let found = directory.find(name).ok_or(TreeError::NotFound)?;
            if !found.is_dir() {
                return Err(TreeError::NotADirectory);
            }
            let place = Place::Chain(found.cluster(&self.table));
            let inner = Directory::read(&mut self.table, place)?;
            self.entered.enter(&inner, Some((&directory, found)))?;
            directory = inner;
            way.push(directory.number());
        }
        Ok((directory, way))
    }

    /// Fails unless each cluster has one owner. Looks at the whole filesystem, once.
    fn check_unshared(&mut self) -> Result<(), TreeError> {
        match self.survey(&TreePath::root()) {
            Ok(()) => Ok(()),
            Err(WalkError::SharedCluster { cluster, .. }) => Err(Damage::SharedCluster(cluster).into()),
            Err(WalkError::Tree { error, .. }) => Err(error),
            // A survey has no other limits.
            Err(_) => Err(Damage::FatStructure.into()),
        }
    }

    fn survey(&mut self, path: &TreePath) -> Result<(), WalkError> {
        if self.is_unshared {
            return Ok(());
        }
        let failed = |error| WalkError::Tree { path: path.clone(), error };
        let start = match path.is_root() {
            true => Start::Directory(dir::root(&self.table)),
            false => {
                let (_, found) = self.find(path).map_err(failed)?;
                match (found.is_dir(), found.cluster(&self.table)) {
                    (true, cluster) => Start::Directory(Place::Chain(cluster)),
                    (false, cluster) => Start::File(cluster),
                }
            }
        };
        owners::survey(&mut self.table, path, &start)?;
        self.is_unshared = path.is_root();
        Ok(())
    }

    /// The directory behind an entry, which must be empty.
    fn empty(&mut self, found: &Found) -> Result<Directory, TreeError> {
        let place = Place::Chain(found.cluster(&self.table));
        let inner = Directory::read(&mut self.table, place)?;
        if inner.entries.is_empty() { Ok(inner) } else { Err(TreeError::NotEmpty) }
    }

    /// The directory in which `path` lies, and its last name.
    fn parent<'p>(&mut self, path: &'p TreePath) -> Result<(Directory, &'p [u8]), TreeError> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(TreeError::IsADirectory);
        };
        Ok((self.directory(&parent)?, name))
    }

    fn find(&mut self, path: &TreePath) -> Result<(Directory, Found), TreeError> {
        let (dir, name) = self.parent(path)?;
        let found = dir.find(name).ok_or(TreeError::NotFound)?.clone();
        Ok((dir, found))
    }

    fn file(&mut self, path: &TreePath) -> Result<(Directory, Found), TreeError> {
        match self.find(path)? {
            (_, found) if found.is_dir() => Err(TreeError::IsADirectory),
            other => Ok(other),
        }
    }

    /// The clusters that a file of `size` bytes needs.
    fn needed(&self, size: u64) -> u32 {
        // intended: a file that needs more clusters than have numbers finds no room. A cluster has bytes.
        u32::try_from(size.div_ceil(self.table.boot.cluster_size().into())).unwrap_or(u32::MAX)
    }

    /// The runs of a file's contents, which must be as many as its size needs.
    fn chain(&mut self, found: &Found) -> Result<Vec<Run>, TreeError> {
        let first = found.cluster(&self.table);
        if let Some((known, runs)) = &self.last_chain
            && *known == first
        {
            return Ok(runs.clone());
        }
        let needed = self.needed(found.size().into());
        let runs = self.table.chain(first, needed)?;
        // intended: more clusters than memory has addresses are more than there are.
        if table::clusters(&runs).count() < usize::try_from(needed).unwrap_or(usize::MAX) {
            return Err(Damage::FatStructure.into());
        }
        self.last_chain = Some((first, runs.clone()));
        Ok(runs)
    }

    /// Moves bytes at `offset` of some runs: calls `f` with a place on the media and a range of the caller's bytes.
    fn transfer(
        &mut self,
        runs: &[Run],
        offset: u64,
        len: usize,
        mut f: impl FnMut(&mut Cache, u64, core::ops::Range<usize>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let size = u64::from(self.table.boot.cluster_size());
        let mut start: u64 = 0;
        let mut done: usize = 0;
        for run in runs {
            // cannot overflow: clusters lie in the filesystem, and what is moved is in memory and in a file of 32 bits.
            let bytes = size.saturating_mul(run.len.into());
            let at = offset.saturating_add(done as u64);
            if at < start.saturating_add(bytes) && done < len {
                // cannot overflow: it begins in this run, and not all of it is done.
                let within = at.saturating_sub(start);
                let step = bytes.saturating_sub(within).min((len.saturating_sub(done)) as u64) as usize;
                let first = self.table.boot.cluster(run.first).ok_or(Damage::Cluster(run.first))?;
                // cannot overflow: it lies in this run.
                f(&mut self.table.cache, first.saturating_add(within), done..done.saturating_add(step))?;
                done = done.saturating_add(step);
            }
            // cannot overflow: clusters lie in the filesystem.
            start = start.saturating_add(bytes);
        }
        if done == len { Ok(()) } else { Err(Damage::FatStructure.into()) }
    }

    fn read(&mut self, found: &Found, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        // intended: nothing is left behind the end. More than memory has is more than the buffer takes.
        let left = u64::from(found.size()).saturating_sub(offset);
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        let runs = self.chain(found)?;
        self.transfer(&runs, offset, len, |cache, at, range| {
            // cannot miss: `transfer` hands out parts of the length that it was given.
            Ok(cache.device().read_at(at, buf.get_mut(range).unwrap_or(&mut []))?)
        })?;
        Ok(len)
    }

    fn write(&mut self, runs: &[Run], offset: u64, data: &[u8]) -> Result<(), TreeError> {
        self.transfer(runs, offset, data.len(), |cache, at, range| {
            // cannot miss: `transfer` hands out parts of the length that it was given.
            Ok(cache.write_through(at, data.get(range).unwrap_or(&[]))?)
        })
    }

    /// Before the first change: says on the media that the filesystem is in use.
    fn mark(&mut self) -> Result<(), TreeError> {
        self.begun = true;
        if !self.changed {
            self.set_state(true)?;
            self.changed = true;
        }
        Ok(())
    }

    /// Sets or clears the flag. One that was set when the filesystem was opened stays: only a check may clear it.
    fn set_state(&mut self, in_use: bool) -> Result<(), TreeError> {
        if self.table.boot.dirty {
            return Ok(());
        }
        let at = self.table.boot.state_byte();
        let mut state = [0];
        self.table.cache.device().read_at(at, &mut state)?;
        let [old] = state;
        self.table.cache.write_through(at, &[if in_use { old | 1 } else { old & !1 }])?;
        Ok(self.table.cache.device().flush()?)
    }

    /// Fills an empty file from `source`.
    fn fill(
        &mut self,
        source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
        first: &mut u32,
        total: &mut u64,
    ) -> Result<(), TreeError> {
        let mut piece = vec![0; PIECE];
        // Runs behind `done`, of which `spare` bytes are still free.
        let (mut last, mut tail, mut tail_start): (u32, Vec<Run>, u64) = (0, Vec::new(), 0);
        let size = u64::from(self.table.boot.cluster_size());
        loop {
            let len = source(&mut piece).map_err(|Stop| TreeError::Stopped { at: *total })?;
            // cannot miss: a source fills no more than there is.
            let data = piece.get(..len).unwrap_or(&[]);
            if data.is_empty() {
                return Ok(());
            }
            // cannot overflow: a file has 32 bits, and a piece is small.
            let end = total.saturating_add(len as u64);
            if end > MAX_FILE {
                return Err(TreeError::TooLarge { limit: MAX_FILE });
            }
            // cannot overflow: clusters lie in the filesystem.
            let have = tail_start.saturating_add(
                tail.iter().fold(0, |sum: u64, run| sum.saturating_add(size.saturating_mul(run.len.into()))),
            );
            // intended: what is there already may be enough.
            let missing = self.needed(end.saturating_sub(have));
            if missing > 0 {
                let new = self.table.allocate(last, missing)?;
                if *first == 0 {
                    *first = new.first().map_or(0, |run| run.first);
                }
                // cannot overflow: clusters have 28 bits, and a run has one at least.
                last = new.last().map_or(last, |run| run.first.saturating_add(run.len).saturating_sub(1));
                tail.extend(new);
            }
            // cannot overflow: only what is full is left out of the tail.
            self.write(&tail, total.saturating_sub(tail_start), data)?;
            *total = end;
            // Only the last run can still take something.
            if tail.len() > 1 {
                // cannot overflow: there is more than one; clusters lie in the filesystem.
                let full = tail.drain(..tail.len().saturating_sub(1));
                let bytes =
                    // cannot overflow: clusters lie in the filesystem.
                    full.fold(0, |sum: u64, run| sum.saturating_add(size.saturating_mul(run.len.into())));
                // cannot overflow: clusters lie in the filesystem.
                tail_start = tail_start.saturating_add(bytes);
            }
        }
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        self.table.write_info()?;
        self.table.cache.write_back()?;
        self.table.cache.device().flush()?;
        self.set_state(false)?;
        self.changed = false;
        Ok(())
    }
}

/// The number of a directory, which names it as an inode does elsewhere.
fn number(found: &Found, table: &Table) -> u64 {
    if found.is_dir() { found.cluster(table).into() } else { 0 }
}

fn entry(found: Found, table: &Table) -> Entry {
    let (kind, inode) = (metadata(&found, table).kind, number(&found, table));
    Entry { name: found.name.into_bytes(), kind, inode }
}

fn metadata(found: &Found, table: &Table) -> Metadata {
    let (kind, mode) = if found.is_dir() { (Kind::Directory, 0o755) } else { (Kind::File, 0o644) };
    Metadata {
        kind,
        size: found.size().into(),
        mode: if found.is_read_only() { mode & 0o555 } else { mode },
        uid: 0,
        gid: 0,
        links: 1,
        inode: number(found, table),
        allocated: found.size().into(),
        modified: found.modified(),
        accessed: found.accessed(),
        changed: found.created(),
    }
}

impl FileTree for FatTree {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn space(&self) -> Result<Space, TreeError> {
        let mut state = self.lock();
        let free = u64::from(state.table.free()?);
        let (block_size, blocks) = (state.table.boot.cluster_size(), u64::from(state.table.boot.clusters));
        Ok(Space { block_size, blocks, free })
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        if path.is_root() {
            let never = Timestamp::default();
            let inode = self.lock().table.boot.root_cluster.into();
            let (uid, gid, links, size, allocated) = (0, 0, 1, 0, 0);
            let (kind, mode) = (Kind::Directory, 0o755);
            let (modified, accessed, changed) = (never, never, never);
            return Ok(Metadata {
                kind,
                size,
                mode,
                uid,
                gid,
                links,
                inode,
                allocated,
                modified,
                accessed,
                changed,
            });
        }
        let mut state = self.lock();
        let (_, found) = state.find(path)?;
        Ok(metadata(&found, &state.table))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let mut state = self.lock();
        let directory = state.directory(path)?;
        Ok(directory.entries.into_iter().map(|found| entry(found, &state.table)).collect())
    }

    /// A cursor is the slot behind an entry's own: an entry keeps its slot as long as it keeps its name. A directory has 65536
    /// slots at most, and the one that was listed last stays in memory until something is changed.
    fn list_from(&self, path: &TreePath, from: Cursor, wanted: Wanted) -> Result<Vec<Listed>, TreeError> {
        let mut state = self.lock();
        let directory = match state.last_listed.take() {
            Some((listed, directory)) if listed == *path => directory,
            _ => state.directory(path)?,
        };
        // intended: no slot has such a number, and none is behind it.
        let from = usize::try_from(from.0).unwrap_or(usize::MAX);
        let first = directory.entries.partition_point(|found| found.slot() < from);
        let portion = directory.entries.iter().skip(first).take(wanted.entries);
        let listed = portion.map(|found| Listed {
            metadata: wanted.metadata.then(|| Ok(metadata(found, &state.table))),
            // cannot overflow: a directory has 65536 slots at most.
            next: Cursor(found.slot().saturating_add(1) as u64),
            entry: entry(found.clone(), &state.table),
        });
        let listed = listed.collect();
        state.last_listed = Some((path.clone(), directory));
        Ok(listed)
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        let mut state = self.lock();
        let (_, found) = state.file(path)?;
        state.read(&found, offset, buf)
    }

    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let (_, found) = self.lock().file(path)?;
        let mut piece = vec![0; usize::try_from(found.size()).unwrap_or(PIECE).min(PIECE)];
        let mut total: u64 = 0;
        while total < found.size().into() {
            // Others may use the tree while the piece is being taken.
            let len = self.lock().read(&found, total, &mut piece)?;
            // cannot miss or overflow: what was read is a part of the piece, and of the file.
            sink(piece.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: total })?;
            total = total.saturating_add(len as u64);
        }
        Ok(total)
    }

    fn write_from(
        &self,
        path: &TreePath,
        source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        self.change(|state| {
            let (mut dir, name) = state.parent(path)?;
            let now = time::now();
            // An existing file keeps its contents until all of the new are there.
            let (mut found, existed) = match dir.find(name).cloned() {
                Some(found) if found.is_dir() => return Err(TreeError::IsADirectory),
                Some(found) => {
                    state.check_unshared()?;
                    state.mark()?;
                    (found, true)
                }
                None => {
                    state.mark()?;
                    (dir.add(&mut state.table, name, false, now)?, false)
                }
            };
            let old = found.cluster(&state.table);
            let (mut first, mut total) = (0, 0);
            match state.fill(source, &mut first, &mut total) {
                Ok(()) => {
                    let size = u32::try_from(total).map_err(|_| TreeError::TooLarge { limit: MAX_FILE })?;
                    found.set_contents(first, size);
                    found.set_modified(now);
                    dir.update(&mut state.table, &found)?;
                    if old != 0 {
                        state.last_chain = None;
                        state.table.release(old)?;
                    }
                    Ok(total)
                }
                Err(
                    error @ (TreeError::NoSpace | TreeError::Stopped { .. } | TreeError::TooLarge { .. }),
                ) => {
                    // Half a file is worse than none.
                    if !existed {
                        dir.remove(&mut state.table, &found)?;
                    }
                    if first != 0 {
                        state.table.release(first)?;
                    }
                    Err(error)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn write_at(&self, path: &TreePath, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        // intended: what ends behind all numbers is too large for a file.
        let end = offset.saturating_add(data.len() as u64);
        if end > MAX_FILE {
            return Err(TreeError::TooLarge { limit: MAX_FILE });
        }
        self.change(|state| {
            let (mut dir, mut found) = state.file(path)?;
            let size = u64::from(found.size());
            if offset > size {
                return Err(TreeError::BeyondEnd { size });
            }
            let mut runs = state.chain(&found)?;
            state.last_chain = None;
            state.mark()?;
            let mut first = found.cluster(&state.table);
            // intended: what is there already may be enough.
            let missing = state.needed(end).saturating_sub(state.needed(size));
            if missing > 0 {
                // cannot overflow: clusters have 28 bits, and a run has one at least.
                let last = runs.last().map_or(0, |run| run.first.saturating_add(run.len).saturating_sub(1));
                let new = state.table.allocate(last, missing)?;
                if first == 0 {
                    first = new.first().map_or(0, |run| run.first);
                }
                runs.extend(new);
            }
            state.write(&runs, offset, data)?;
            let size = u32::try_from(size.max(end)).map_err(|_| TreeError::TooLarge { limit: MAX_FILE })?;
            found.set_contents(first, size);
            found.set_modified(time::now());
            dir.update(&mut state.table, &found)
        })
    }

    fn truncate(&self, path: &TreePath, size: u64) -> Result<(), TreeError> {
        self.change(|state| {
            let (mut dir, mut found) = state.file(path)?;
            let Ok(new) = u32::try_from(size) else {
                return Err(TreeError::BeyondEnd { size: found.size().into() });
            };
            if new > found.size() {
                return Err(TreeError::BeyondEnd { size: found.size().into() });
            }
            let runs = state.chain(&found)?;
            state.last_chain = None;
            state.check_unshared()?;
            state.mark()?;
            let keep = usize::try_from(state.needed(size)).map_err(|_| Damage::FatStructure)?;
            let first = found.cluster(&state.table);
            found.set_contents(if keep == 0 { 0 } else { first }, new);
            found.set_modified(time::now());
            dir.update(&mut state.table, &found)?;
            match keep.checked_sub(1).and_then(|last| table::clusters(&runs).nth(last)) {
                Some(last) => state.table.cut(last),
                None if first != 0 => state.table.release(first),
                None => Ok(()),
            }
        })
    }

    fn make_dir(&self, path: &TreePath) -> Result<(), TreeError> {
        self.change(|state| {
            let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
                return Err(TreeError::Exists);
            };
            let above = if parent.is_root() { 0 } else { state.find(&parent)?.1.cluster(&state.table) };
            let mut dir = state.directory(&parent)?;
            if dir.find(name).is_some() {
                return Err(TreeError::Exists);
            }
            state.mark()?;
            let now = time::now();
            let mut found = dir.add(&mut state.table, name, true, now)?;
            match dir::make(&mut state.table, above, now) {
                Ok(cluster) => {
                    found.set_contents(cluster, 0);
                    dir.update(&mut state.table, &found)
                }
                Err(error) => {
                    dir.remove(&mut state.table, &found)?;
                    Err(error)
                }
            }
        })
    }

    fn remove(&self, path: &TreePath) -> Result<(), TreeError> {
        self.change(|state| {
            let (mut dir, found) = state.find(path)?;
            let inner = if found.is_dir() { Some(state.empty(&found)?) } else { None };
            state.check_unshared()?;
            state.mark()?;
            dir.remove(&mut state.table, &found)?;
            if let Some(inner) = inner {
                state.entered.forget(&inner);
            }
            match found.cluster(&state.table) {
                0 => Ok(()),
                first => state.table.release(first),
            }
        })
    }

    fn rename(&self, from: &TreePath, to: &TreePath, if_exists: IfExists) -> Result<(), TreeError> {
        self.change(|state| state.rename(from, to, if_exists))
    }

    fn check_unshared(&self, path: &TreePath) -> Result<(), WalkError> {
        self.lock().survey(path)
    }

    fn set_modified(&self, path: &TreePath, time: Timestamp) -> Result<(), TreeError> {
        self.change(|state| {
            let (mut dir, mut found) = state.find(path)?;
            state.mark()?;
            found.set_modified(time);
            dir.update(&mut state.table, &found)
        })
    }

    fn flush(&self) -> Result<(), TreeError> {
        let mut state = self.lock();
        if state.failed {
            return Err(TreeError::EarlierWriteFailed);
        }
        if !state.changed {
            return Ok(());
        }
        let result = state.flush();
        if result.is_err() {
            state.failed = true;
        }
        result
    }
}

impl Drop for FatTree {
    /// Writes what is left. Who wants to know whether that worked calls [`FileTree::flush`] first.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
