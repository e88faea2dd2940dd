//! FAT12, FAT16 and FAT32, read and write, through the `fatfs` library.
//!
//! The library is opened anew for each operation and closed at its end, so that its counters and the dirty flag are
//! settled after every one. What it can't take is kept from it: the boot sector is checked first (`boot`), table entries
//! as they are read (`disk`), and a panic on what is left ends as [`Damage::FatStructure`]. After a write that failed
//! half-way nothing more is written.

mod boot;
mod disk;
mod time;

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atrest_device::BlockDevice;
use fatfs::{Dir, DirEntry, FileAttributes, FileSystem, FsOptions};

pub(crate) use boot::BootSector;
use disk::FatDisk;

use crate::error::{Damage, Field, TreeError};
use crate::path::{TreePath, is_valid_name};
use crate::tree::{About, Entry, FileTree, Kind, Metadata, Note, Stop, Timestamp};

/// Bytes of directory that one component of a path may cost: a directory has at most 2 MiB, and the library may walk
/// it several times to find a free short name, a few bytes at a time.
const DIRECTORY_BUDGET: u64 = 48 << 20;
/// What a step along a cluster chain, which may change the entry in both tables, costs at most.
const STEP_BUDGET: u64 = 64;
/// Bytes handed to and from callers at once.
const PIECE: usize = 256 * 1024;
/// Sizes have 32 bits.
const MAX_FILE: u64 = u32::MAX as u64;

type Fs<'a> = FileSystem<&'a mut FatDisk>;
type Folder<'a, 'b> = Dir<'a, &'b mut FatDisk>;
type Found<'a, 'b> = DirEntry<'a, &'b mut FatDisk>;

/// A FAT filesystem.
pub(crate) struct FatTree {
    disk: Mutex<FatDisk>,
    about: About,
    clusters: u64,
    /// The disk's budget for the running operation.
    budget: Arc<AtomicU64>,
    /// A write failed half-way.
    failed: AtomicBool,
}

impl FatTree {
    /// Opens the filesystem that starts at the first byte of `device`, for reading only or for both.
    pub(crate) fn open(device: Arc<dyn BlockDevice>, writable: bool) -> Result<Self, TreeError> {
        let mut sector = [0; 512];
        device.read_at(0, &mut sector)?;
        let boot = BootSector::parse(&sector)?;
        if boot.size() > device.size() {
            return Err(TreeError::LargerThanDevice { needs: boot.size(), has: device.size() });
        }
        let serial = boot.serial;
        let about = About {
            kind: boot.kind,
            label: boot.label.clone(),
            id: format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff),
            size: boot.size(),
            block_size: boot.cluster_size(),
            writable: writable && !device.is_read_only(),
            notes: if boot.dirty { vec![Note::NotCleanlyUnmounted] } else { Vec::new() },
        };
        let clusters = boot.clusters.into();
        let budget = Arc::new(AtomicU64::new(0));
        let mut disk = FatDisk::new(device, boot, budget.clone());
        disk.check_fat12()?;
        let tree = Self { disk: Mutex::new(disk), about, clusters, budget, failed: AtomicBool::new(false) };
        // The library's own checks, and a first look at the root directory.
        tree.run(&TreePath::root(), 0, |fs| fs.root_dir().iter().next().transpose().map(|_| Ok(())))?;
        Ok(tree)
    }

    /// Allows what it takes at most to find `path` and to follow one cluster chain, and in it to move `len` bytes, for which
    /// clusters may have to be found.
    fn allow(&self, path: &TreePath, len: u64) {
        let steps = path.components().count().saturating_add(1) as u64;
        // A new cluster is searched for through the whole table, in the worst case twice.
        let searches = len.div_ceil(self.about.block_size.max(512).into()).saturating_add(4).saturating_mul(2);
        let budget = steps
            .saturating_mul(DIRECTORY_BUDGET)
            .saturating_add(len.saturating_mul(4))
            .saturating_add(self.clusters.saturating_mul(STEP_BUDGET))
            .saturating_add(self.clusters.saturating_mul(searches).saturating_mul(8));
        self.budget.store(budget, Ordering::Relaxed);
    }

    /// Runs one operation of the library. The outer error is the library's, the inner one ours.
    fn run<R>(
        &self,
        path: &TreePath,
        len: u64,
        op: impl FnOnce(&Fs<'_>) -> io::Result<Result<R, TreeError>>,
    ) -> Result<R, TreeError> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.begin();
        self.allow(path, len);
        let options = FsOptions::new().time_provider(&time::CLOCK);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let fs = match FileSystem::new(&mut *disk, options) {
                Ok(fs) => fs,
                Err(_) => return Ok(Err(Damage::Superblock(Field::InfoSector).into())),
            };
            let result = op(&fs);
            // Its own error counts first.
            let closed = fs.unmount();
            let result = result?;
            closed?;
            Ok(result)
        }));
        match outcome {
            Ok(Ok(Ok(value))) => match disk.take_failure() {
                // The library drops errors of its destructors; they are kept here.
                Some(failure) => Err(failure),
                None => Ok(value),
            },
            Ok(Ok(Err(own))) => Err(disk.take_failure().unwrap_or(own)),
            Ok(Err(error)) => Err(disk.take_failure().unwrap_or_else(|| translate(&error))),
            Err(_) => Err(disk.take_failure().unwrap_or(Damage::FatStructure.into())),
        }
    }

    /// Runs a writing operation; when it fails half-way, nothing that it left in the cache reaches the media.
    fn change<R>(
        &self,
        path: &TreePath,
        len: u64,
        op: impl FnOnce(&Fs<'_>) -> io::Result<Result<R, TreeError>>,
    ) -> Result<R, TreeError> {
        if !self.about.writable {
            return Err(TreeError::ReadOnly);
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(TreeError::EarlierWriteFailed);
        }
        let result = self.run(path, len, op);
        if let Err(TreeError::Device(_) | TreeError::Corrupt(_)) = &result {
            self.failed.store(true, Ordering::Release);
            self.disk.lock().unwrap_or_else(PoisonError::into_inner).discard();
        }
        result
    }
}

/// What the library means by an error of its own. It tells most of them apart by their text only.
fn translate(error: &io::Error) -> TreeError {
    match error.kind() {
        io::ErrorKind::NotFound => return TreeError::NotFound,
        io::ErrorKind::AlreadyExists => return TreeError::Exists,
        // The root directory of FAT12 and FAT16 has a fixed size: its end is met when it is full.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => return TreeError::NoSpace,
        _ => {}
    }
    let text = error.to_string();
    let meanings = [
        ("No space left", TreeError::NoSpace),
        ("not empty", TreeError::NotEmpty),
        ("Is a directory", TreeError::IsADirectory),
        ("Not a directory", TreeError::NotADirectory),
    ];
    meanings.into_iter().find(|(part, _)| text.contains(part)).map_or(Damage::FatStructure.into(), |(_, e)| e)
}

/// A name as the library takes it. It stores UTF-16 and accepts no more than 255 bytes of UTF-8 from the basic plane.
fn text(name: &[u8]) -> Result<&str, TreeError> {
    core::str::from_utf8(name).map_err(|_| TreeError::UnsupportedName { len: name.len() })
}

fn storable(name: &[u8]) -> Result<&str, TreeError> {
    let name = text(name)?;
    let fits = name.len() <= 255 && !name.ends_with(['.', ' ']);
    let allowed = |c: char| (c as u32) >= 0x20 && (c as u32) < 0x1_0000 && !"\"*/:<>?\\|\x7f".contains(c);
    let ok = fits && name.chars().all(allowed);
    if ok { Ok(name) } else { Err(TreeError::UnsupportedName { len: name.len() }) }
}

/// Names that differ in case only are the same name.
fn same_name(entry: &Found<'_, '_>, name: &str) -> bool {
    let fold = |s: &str| s.chars().flat_map(char::to_uppercase).collect::<String>();
    let wanted = fold(name);
    fold(&entry.file_name()) == wanted || fold(&entry.short_file_name()) == wanted
}

fn is_dot(entry: &Found<'_, '_>) -> bool {
    matches!(entry.short_file_name_as_bytes(), b"." | b"..")
}

/// The entry `name` of a directory.
fn entry<'a, 'b>(dir: &Folder<'a, 'b>, name: &[u8]) -> io::Result<Result<Found<'a, 'b>, TreeError>> {
    let Ok(name) = text(name) else { return Ok(Err(TreeError::NotFound)) };
    for found in dir.iter() {
        let found = found?;
        if !is_dot(&found) && same_name(&found, name) {
            return Ok(Ok(found));
        }
    }
    Ok(Err(TreeError::NotFound))
}

/// The directory at `path`.
fn folder<'a, 'b>(fs: &'a Fs<'b>, path: &TreePath) -> io::Result<Result<Folder<'a, 'b>, TreeError>> {
    let mut dir = fs.root_dir();
    for name in path.components() {
        dir = match entry(&dir, name)? {
            Ok(found) if found.is_dir() => found.to_dir(),
            Ok(_) => return Ok(Err(TreeError::NotADirectory)),
            Err(error) => return Ok(Err(error)),
        };
    }
    Ok(Ok(dir))
}

/// The directory in which `path` lies, and its last name; an error for the root.
fn place<'a, 'b, 'p>(
    fs: &'a Fs<'b>,
    path: &'p TreePath,
) -> io::Result<Result<(Folder<'a, 'b>, &'p [u8]), TreeError>> {
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(Err(TreeError::IsADirectory)) };
    Ok(folder(fs, &parent)?.map(|dir| (dir, name)))
}

/// The file at `path`.
fn file<'a, 'b>(fs: &'a Fs<'b>, path: &TreePath) -> io::Result<Result<Found<'a, 'b>, TreeError>> {
    let (dir, name) = match place(fs, path)? {
        Ok(place) => place,
        Err(error) => return Ok(Err(error)),
    };
    Ok(match entry(&dir, name)? {
        Ok(found) if found.is_dir() => Err(TreeError::IsADirectory),
        other => other,
    })
}

/// `Ok(value)` of an inner result, or the function's return with its error.
macro_rules! inner {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

fn metadata(found: &Found<'_, '_>) -> Metadata {
    let read_only = found.attributes().contains(FileAttributes::READ_ONLY);
    let (kind, mode) = if found.is_dir() { (Kind::Directory, 0o755) } else { (Kind::File, 0o644) };
    let accessed = found.accessed();
    Metadata {
        kind,
        size: if found.is_dir() { 0 } else { found.len() },
        mode: if read_only { mode & 0o555 } else { mode },
        uid: 0,
        gid: 0,
        links: 1,
        inode: 0,
        allocated: if found.is_dir() { 0 } else { found.len() },
        modified: time::timestamp(found.modified()),
        accessed: time::timestamp(fatfs::DateTime {
            date: accessed,
            time: fatfs::Time { hour: 0, min: 0, sec: 0, millis: 0 },
        }),
        changed: time::timestamp(found.created()),
    }
}

impl FileTree for FatTree {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        if path.is_root() {
            return Ok(Metadata {
                kind: Kind::Directory,
                size: 0,
                mode: 0o755,
                uid: 0,
                gid: 0,
                links: 1,
                inode: 0,
                allocated: 0,
                modified: Timestamp::default(),
                accessed: Timestamp::default(),
                changed: Timestamp::default(),
            });
        }
        self.run(path, 0, |fs| {
            let (dir, name) = inner!(place(fs, path)?);
            Ok(entry(&dir, name)?.map(|found| metadata(&found)))
        })
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        self.run(path, 0, |fs| {
            let dir = inner!(folder(fs, path)?);
            let mut entries = Vec::new();
            for found in dir.iter() {
                let found = found?;
                if is_dot(&found) {
                    continue;
                }
                let name = found.file_name().into_bytes();
                if !is_valid_name(&name) {
                    return Ok(Err(Damage::Name { inode: 0 }.into()));
                }
                let kind = if found.is_dir() { Kind::Directory } else { Kind::File };
                entries.push(Entry { name, kind, inode: 0 });
            }
            Ok(Ok(entries))
        })
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        self.run(path, buf.len() as u64, |fs| {
            let found = inner!(file(fs, path)?);
            let mut file = found.to_file();
            if offset >= found.len() || file.seek(SeekFrom::Start(offset))? != offset {
                return Ok(Ok(0));
            }
            let want = buf.len().min(usize::try_from(found.len().saturating_sub(offset)).unwrap_or(usize::MAX));
            let mut done = 0;
            while let Some(rest) = buf.get_mut(done..want).filter(|rest| !rest.is_empty()) {
                match file.read(rest)? {
                    // The chain is shorter than the size says.
                    0 => return Ok(Err(Damage::FatStructure.into())),
                    len => done = done.saturating_add(len),
                }
            }
            Ok(Ok(done))
        })
    }

    fn read_to(&self, path: &TreePath, sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>) -> Result<u64, TreeError> {
        self.run(path, 0, |fs| {
            let found = inner!(file(fs, path)?);
            let mut file = found.to_file();
            let mut piece = vec![0; PIECE];
            let mut total: u64 = 0;
            while total < found.len() {
                self.allow(path, PIECE as u64);
                let left = usize::try_from(found.len().saturating_sub(total)).unwrap_or(PIECE).min(PIECE);
                let mut filled: usize = 0;
                while let Some(rest) = piece.get_mut(filled..left).filter(|rest| !rest.is_empty()) {
                    match file.read(rest)? {
                        0 => return Ok(Err(Damage::FatStructure.into())),
                        len => filled = filled.saturating_add(len),
                    }
                }
                inner!(
                    sink(piece.get(..filled).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: total })
                );
                total = total.saturating_add(filled as u64);
            }
            Ok(Ok(total))
        })
    }

    fn write_from(
        &self,
        path: &TreePath,
        source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        self.change(path, 0, |fs| {
            let (dir, name) = inner!(place(fs, path)?);
            let (mut file, name) = match entry(&dir, name)? {
                Ok(found) if found.is_dir() => return Ok(Err(TreeError::IsADirectory)),
                Ok(found) => {
                    let mut file = found.to_file();
                    file.truncate()?;
                    (file, found.file_name())
                }
                Err(TreeError::NotFound) => {
                    let name = inner!(storable(name));
                    (dir.create_file(name)?, name.to_owned())
                }
                Err(error) => return Ok(Err(error)),
            };
            let mut piece = vec![0; PIECE];
            let mut total: u64 = 0;
            let failure = loop {
                let Ok(len) = source(&mut piece) else { break Ok(TreeError::Stopped { at: total }) };
                let Some(data) = piece.get(..len).filter(|data| !data.is_empty()) else {
                    file.flush()?;
                    return Ok(Ok(total));
                };
                if total.saturating_add(len as u64) > MAX_FILE {
                    break Ok(TreeError::TooLarge { limit: MAX_FILE });
                }
                self.allow(path, PIECE as u64);
                if let Err(error) = file.write_all(data) {
                    break Err(error);
                }
                total = total.saturating_add(len as u64);
            };
            // Half a file is worse than none.
            file.flush()?;
            drop(file);
            dir.remove(&name)?;
            failure.map(Err)
        })
    }

    fn write_at(&self, path: &TreePath, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        if offset.saturating_add(data.len() as u64) > MAX_FILE {
            return Err(TreeError::TooLarge { limit: MAX_FILE });
        }
        self.change(path, data.len() as u64, |fs| {
            let found = inner!(file(fs, path)?);
            let size = found.len();
            if offset > size {
                return Ok(Err(TreeError::BeyondEnd { size }));
            }
            let mut file = found.to_file();
            if file.seek(SeekFrom::Start(offset))? != offset {
                return Ok(Err(Damage::FatStructure.into()));
            }
            file.write_all(data)?;
            file.flush()?;
            Ok(Ok(()))
        })
    }

    fn truncate(&self, path: &TreePath, size: u64) -> Result<(), TreeError> {
        self.change(path, 0, |fs| {
            let found = inner!(file(fs, path)?);
            if size > found.len() {
                return Ok(Err(TreeError::BeyondEnd { size: found.len() }));
            }
            let mut file = found.to_file();
            if file.seek(SeekFrom::Start(size))? != size {
                return Ok(Err(Damage::FatStructure.into()));
            }
            file.truncate()?;
            file.flush()?;
            Ok(Ok(()))
        })
    }

    fn make_dir(&self, path: &TreePath) -> Result<(), TreeError> {
        self.change(path, 0, |fs| {
            let (dir, name) = inner!(place(fs, path)?);
            match entry(&dir, name)? {
                Ok(_) => return Ok(Err(TreeError::Exists)),
                Err(TreeError::NotFound) => {}
                Err(error) => return Ok(Err(error)),
            }
            dir.create_dir(inner!(storable(name)))?;
            Ok(Ok(()))
        })
    }

    fn remove(&self, path: &TreePath) -> Result<(), TreeError> {
        self.change(path, 0, |fs| {
            let (dir, name) = inner!(place(fs, path)?);
            let found = inner!(entry(&dir, name)?);
            dir.remove(&found.file_name())?;
            Ok(Ok(()))
        })
    }

    #[allow(deprecated)] // The library would rather be given a clock, but each file has a time of its own.
    fn set_modified(&self, path: &TreePath, time: Timestamp) -> Result<(), TreeError> {
        self.change(path, 0, |fs| {
            let mut file = inner!(file(fs, path)?).to_file();
            file.set_modified(time::date_time(time));
            file.flush()?;
            Ok(Ok(()))
        })
    }

    fn flush(&self) -> Result<(), TreeError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(TreeError::EarlierWriteFailed);
        }
        if !self.about.writable {
            return Ok(());
        }
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).write_back()
    }
}

impl Drop for FatTree {
    /// Writes what is left. Who wants to know whether that worked calls [`FileTree::flush`] first.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
