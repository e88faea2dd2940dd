//! A lower directory as a tree of files, to be read.
//!
//! No link of the lower directory is followed, whoever made it: each directory on the way is opened below the one before.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_filetree::{
    About, Capacity, Entry, FileTree, Kind, LowerError, Metadata, Space, Stop, TreeError, TreePath,
    is_valid_name,
};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{EcryptfsError, EncryptedFile, Keys, LowerFile, NameCipher, NameError};
use crate::flags;
use crate::lower::{kind_of, times};

/// Open files that are kept: whoever reads one piece of a file reads the next.
const KEPT_FILES: usize = 16;
/// Directories whose names are kept.
const KEPT_DIRECTORIES: usize = 256;
/// Read at once where a whole file is wanted: enough for every core to have a part.
const PIECE: usize = 4 << 20;

/// A lower directory, opened with keys for contents and names.
///
/// Names that are not encrypted, or that no key is there for, are shown as they stand in the lower directory.
pub struct LowerTree {
    root: OwnedFd,
    keys: Keys,
    names: NameCipher,
    passthrough: bool,
    directories: Mutex<HashMap<TreePath, Arc<Directory>>>,
    files: Mutex<Vec<(TreePath, Arc<Contents>)>>,
}

/// Plain names and what they are in the lower directory.
#[derive(Default)]
struct Directory {
    lower: HashMap<Vec<u8>, Vec<u8>>,
    entries: Vec<Entry>,
}

/// An open file.
enum Contents {
    Encrypted(EncryptedFile),
    /// Not encrypted, and to be read all the same.
    Plain(File),
}

impl LowerTree {
    /// Opens a lower directory. With `passthrough`, files that have no header are read as they are (mount option
    /// `ecryptfs_passthrough`).
    ///
    /// # Errors
    /// [`TreeError::NotFound`], [`TreeError::NotADirectory`] or [`TreeError::Lower`] if the directory can't be
    /// opened.
    pub fn open(directory: &Path, keys: Keys, passthrough: bool) -> Result<Self, TreeError> {
        let root = rustix::fs::openat(CWD, directory, flags::DIRECTORY, Mode::empty()).map_err(host)?;
        let names = NameCipher::reading(&keys);
        let (directories, files) = Default::default();
        Ok(Self { root, keys, names, passthrough, directories, files })
    }

    /// The path in the lower directory of what is at `path`.
    ///
    /// # Errors
    /// [`TreeError::NotFound`] or [`TreeError::NotADirectory`] if the path leads nowhere, [`TreeError::Lower`] if a
    /// directory on the way can't be read.
    pub fn lower_path(&self, path: &TreePath) -> Result<TreePath, TreeError> {
        let (mut at, mut lower) = (TreePath::root(), TreePath::root());
        for name in path.components() {
            let directory = self.directory(&at, &lower)?;
            let found = directory.lower.get(name).ok_or(TreeError::NotFound)?;
            lower = lower.join(found)?;
            at = at.join(name)?;
        }
        Ok(lower)
    }

    /// The keys that it was opened with.
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether files that are not encrypted are read as they are.
    pub(super) fn passes_through(&self) -> bool {
        self.passthrough
    }

    /// Bytes in the lower file at `path`, which is not opened.
    pub(super) fn lower_len(&self, path: &TreePath) -> Result<u64, TreeError> {
        Ok(self.stat(&self.lower_path(path)?)?.st_size as u64)
    }

    /// The lower file at `path`, opened to be read.
    ///
    /// # Errors
    /// [`TreeError::IsADirectory`] or [`TreeError::NotAFile`] if it is no regular file, [`TreeError::Lower`] if the
    /// system does not open it. Otherwise it fails where [`lower_path`](Self::lower_path) does.
    pub fn open_lower(&self, path: &TreePath) -> Result<File, TreeError> {
        self.open_lower_for(path, OFlags::RDONLY)
    }

    pub(super) fn open_lower_for(&self, path: &TreePath, access: OFlags) -> Result<File, TreeError> {
        let lower = self.lower_path(path)?;
        self.open_file(&lower, access)
    }

    fn open_file(&self, lower: &TreePath, access: OFlags) -> Result<File, TreeError> {
        let Some((parent, name)) = lower.parent().zip(lower.name()) else {
            return Err(TreeError::IsADirectory);
        };
        let parent = self.open_directory(&parent)?;
        let flags = access.union(flags::INNER_FILE);
        let file = rustix::fs::openat(&parent, name, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NXIO => TreeError::NotAFile,
            error => host(error),
        })?;
        let stat = rustix::fs::fstat(&file).map_err(host)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            FileType::Directory => Err(TreeError::IsADirectory),
            _ => Err(TreeError::NotAFile),
        }
    }

    fn open_directory(&self, lower: &TreePath) -> Result<OwnedFd, TreeError> {
        let flags = flags::INNER_DIRECTORY;
        let mut directory = rustix::fs::openat(&self.root, c".", flags, Mode::empty()).map_err(host)?;
        for name in lower.components() {
            directory = rustix::fs::openat(&directory, name, flags, Mode::empty()).map_err(host)?;
        }
        Ok(directory)
    }

    /// What is in a directory, as far as it was read before.
    fn directory(&self, path: &TreePath, lower: &TreePath) -> Result<Arc<Directory>, TreeError> {
        let kept = self.directories.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        match kept {
            Some(kept) => Ok(kept),
            None => self.read_directory(path, lower),
        }
    }

    fn read_directory(&self, path: &TreePath, lower: &TreePath) -> Result<Arc<Directory>, TreeError> {
        let opened = self.open_directory(lower)?;
        let mut directory = Directory::default();
        let mut left = Vec::new();
        // Numbers of another filesystem that is mounted below may be the same.
        let is_ours = self.is_ours(&rustix::fs::fstat(&opened).map_err(host)?)?;
        let inode = |inode: u64| if is_ours { inode } else { 0 };
        for entry in Dir::read_from(&opened).map_err(host)? {
            let entry = entry.map_err(host)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match kind_of(entry.file_type()) {
                Some(kind) => kind,
                None => {
                    kind_of(FileType::from_raw_mode(stat_at(&opened, name)?.st_mode)).unwrap_or(Kind::File)
                }
            };
            match self.names.decode(name) {
                Ok(plain) if is_valid_name(&plain) => directory.add(plain, name, kind, inode(entry.ino())),
                _ => left.push((name.to_vec(), kind, inode(entry.ino()))),
            }
        }
        // After those that were encrypted: a name in plain can't take the place of one of them.
        for (name, kind, inode) in left {
            directory.add(name.clone(), &name, kind, inode);
        }
        let directory = Arc::new(directory);
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if directories.len() >= KEPT_DIRECTORIES {
            directories.clear();
        }
        directories.insert(path.clone(), Arc::clone(&directory));
        Ok(directory)
    }

    /// Whether something lies in the filesystem of the lower directory itself.
    fn is_ours(&self, stat: &Stat) -> Result<bool, TreeError> {
        Ok(stat.st_dev == rustix::fs::fstat(&self.root).map_err(host)?.st_dev)
    }

    fn stat(&self, lower: &TreePath) -> Result<Stat, TreeError> {
        match lower.parent().zip(lower.name()) {
            Some((parent, name)) => stat_at(&self.open_directory(&parent)?, name),
            None => rustix::fs::fstat(&self.root).map_err(host),
        }
    }

    /// Bytes of contents, or of a link's target; where that can't be found out, what the lower file has.
    fn size(&self, path: &TreePath, lower: &TreePath, kind: Kind, stat: &Stat) -> u64 {
        let raw = stat.st_size as u64;
        match kind {
            Kind::File => {
                match self.open_file(lower, OFlags::RDONLY).and_then(|file| Ok(EncryptedFile::header(&file)?))
                {
                    Ok((header, _)) => header.size,
                    Err(_) => raw,
                }
            }
            Kind::Link => self.read_link(path).map_or(raw, |target| target.len() as u64),
            _ => raw,
        }
    }

    fn contents(&self, path: &TreePath) -> Result<Arc<Contents>, TreeError> {
        let kept = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let at = files.iter().position(|(kept, _)| kept == path);
            at.map(|at| {
                let last = files.remove(at);
                let contents = Arc::clone(&last.1);
                files.push(last);
                contents
            })
        };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let file = self.open_lower(path)?;
        let opened = match EncryptedFile::open(file, &self.keys) {
            Ok(opened) => Contents::Encrypted(opened),
            // Whoever has the directory read as it is has no keys for what is not encrypted.
            Err(EcryptfsError::NoHeader { .. }) if self.passthrough => {
                Contents::Plain(self.open_lower(path)?)
            }
            Err(error) => return Err(error.into()),
        };
        let opened = Arc::new(opened);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= KEPT_FILES {
            files.remove(0);
        }
        files.push((path.clone(), Arc::clone(&opened)));
        Ok(opened)
    }
}

impl FileTree for LowerTree {
    fn about(&self) -> About {
        let space = self.space().unwrap_or(Space { block_size: 4096, blocks: 0, free: 0 });
        About {
            name: "eCryptfs",
            label: Vec::new(),
            id: String::new(),
            // intended: for people; more than 2^64 bytes are as many.
            size: space.blocks.saturating_mul(u64::from(space.block_size)),
            // The host has no loops, and may know no size.
            capacity: Capacity::Unbounded,
            block_size: space.block_size,
            writable: false,
            notes: Vec::new(),
        }
    }

    fn space(&self) -> Result<Space, TreeError> {
        let found = rustix::fs::fstatvfs(&self.root).map_err(host)?;
        // intended: no block is so large.
        let block_size = u32::try_from(found.f_frsize).unwrap_or(u32::MAX);
        Ok(Space { block_size, blocks: found.f_blocks, free: found.f_bavail })
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        let lower = self.lower_path(path)?;
        let stat = self.stat(&lower)?;
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(Kind::File);
        let [modified, accessed, changed] = times(&stat);
        Ok(Metadata {
            kind,
            size: self.size(path, &lower, kind, &stat),
            mode: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // intended: for people; more links than that are as many.
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            inode: if self.is_ours(&stat)? { stat.st_ino } else { 0 },
            // intended: for people; no file has so many blocks.
            allocated: (stat.st_blocks as u64).saturating_mul(512),
            modified,
            accessed,
            changed,
        })
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let lower = self.lower_path(path)?;
        Ok(self.read_directory(path, &lower)?.entries.clone())
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        match &*self.contents(path)? {
            Contents::Encrypted(file) => Ok(file.read_at(offset, buf)?),
            Contents::Plain(file) => Ok(LowerFile::read_at(file, offset, buf).map_err(EcryptfsError::from)?),
        }
    }

    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let mut piece = vec![0; PIECE];
        let mut offset: u64 = 0;
        loop {
            let len = self.read_at(path, offset, &mut piece)?;
            if len == 0 {
                atrest_secret::wipe(&mut piece);
                return Ok(offset);
            }
            // cannot be out of range: no more was asked for.
            sink(piece.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: offset })?;
            // cannot overflow: inside the file.
            offset = offset.saturating_add(len as u64);
        }
    }

    fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, TreeError> {
        let lower = self.lower_path(path)?;
        let (parent, name) = lower.parent().zip(lower.name()).ok_or(TreeError::NotALink)?;
        let parent = self.open_directory(&parent)?;
        let target = rustix::fs::readlinkat(&parent, OsStr::from_bytes(name), Vec::new());
        let target = target.map_err(|error| match error {
            Errno::INVAL => TreeError::NotALink,
            error => host(error),
        })?;
        match self.names.decode(target.to_bytes()) {
            Ok(plain) => Ok(plain),
            Err(NameError::Plain) => Ok(target.into_bytes()),
            Err(NameError::NoKey { wanted }) => Err(LowerError::NoKey { signature: wanted.0 }.into()),
            Err(NameError::Damaged) => Err(LowerError::Name.into()),
        }
    }
}

impl Directory {
    /// The first of two that have the same name stays.
    fn add(&mut self, plain: Vec<u8>, lower: &[u8], kind: Kind, inode: u64) {
        if !self.lower.contains_key(&plain) {
            self.lower.insert(plain.clone(), lower.to_vec());
            self.entries.push(Entry { name: plain, kind, inode });
        }
    }
}

fn stat_at(directory: &OwnedFd, name: &[u8]) -> Result<Stat, TreeError> {
    rustix::fs::statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).map_err(host)
}

fn host(error: Errno) -> TreeError {
    match error {
        Errno::NOENT => TreeError::NotFound,
        Errno::NOTDIR | Errno::LOOP => TreeError::NotADirectory,
        error => LowerError::Host { errno: error.raw_os_error() }.into(),
    }
}

impl core::fmt::Debug for LowerTree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LowerTree").field("keys", &self.keys).finish_non_exhaustive()
    }
}
