//! LittleFS, read and write, on flash and on block devices. Times and permissions are not stored.
//!
//! littlefs makes a file durable when it is closed, and copies the last block of one that is opened again to be continued.
//! So the file used last stays open until something else is asked for: writing it in pieces costs what writing it
//! at once does. Until then, or until a flush, a power loss takes what was written to it.

mod block;
mod error;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_device::{BlockDevice, FlashDevice, FlashGeometry};
use atrest_filetree::{
    About, ByHash, Capacity, Cursor, Entry, Fault, FileTree, IfExists, Kind, Listed, Metadata, Note, Space,
    Stop, Timestamp, TreeError, TreePath, Wanted, is_valid_name,
};
use atrest_littlefs::{
    FileId, FormatOptions, LittleFs, LittleFsError, MAX_FILE_LEN, MAX_NAME_LEN, MountError, OpenMode, format,
    probe,
};

use atrest_probe::FilesystemKind;
use block::BlockFlash;
pub use error::{LittleFsDamage, LittleFsFault};

/// Bytes handed to and from callers at once.
const PIECE: usize = 1 << 20;
/// A file that is to replace another one, until it is whole.
const PARTIAL: &[u8] = b".atrest-partial";

/// A mounted littlefs.
pub(crate) struct LittleFsTree<D: FlashDevice> {
    about: About,
    state: Mutex<State<D>>,
}

struct State<D: FlashDevice> {
    fs: LittleFs<D>,
    open: Option<Open>,
}

/// The file that was used last.
struct Open {
    path: TreePath,
    file: FileId,
    writable: bool,
}

/// Opens the littlefs that starts at the first byte of a block device, with the sizes of its superblock.
pub(crate) fn on_blocks(
    device: Arc<dyn BlockDevice>,
    writable: bool,
) -> Result<Box<dyn FileTree>, TreeError> {
    let size = device.size();
    let read = |at: u64, buf: &mut [u8]| device.read_at(at, buf).is_ok();
    let found = probe(read).ok_or(TreeError::UnknownFilesystem)?;
    // cannot overflow: 32 bits times 32 bits.
    let needs = u64::from(found.block_size).saturating_mul(found.block_count.into());
    if needs > size {
        return Err(TreeError::LargerThanDevice { needs, has: size });
    }
    let writable = writable && !device.is_read_only();
    let flash =
        BlockFlash::new(device, found.block_size, found.block_count).map_err(LittleFsFault::Geometry)?;
    Ok(Box::new(LittleFsTree::open(flash, writable)?))
}

/// Whether littlefs can use such a medium.
pub(crate) fn fits(geometry: FlashGeometry) -> Result<(), TreeError> {
    atrest_littlefs::fits(geometry).map_err(mount_error)
}

impl<D: FlashDevice> LittleFsTree<D> {
    pub(crate) fn open(device: D, writable: bool) -> Result<Self, TreeError> {
        let geometry = device.geometry();
        let fs = LittleFs::mount(device, writable).map_err(mount_error)?;
        let about = About {
            name: FilesystemKind::LittleFs.name(),
            label: Vec::new(),
            id: String::new(),
            size: geometry.size(),
            capacity: Capacity::Dense,
            block_size: geometry.erase_size(),
            writable,
            notes: if fs.was_interrupted() { vec![Note::Interrupted] } else { Vec::new() },
        };
        Ok(Self { about, state: Mutex::new(State { fs, open: None }) })
    }

    /// Makes an empty one.
    pub(crate) fn create(device: D) -> Result<Self, TreeError> {
        let device = format(device, &FormatOptions::default()).map_err(mount_error)?;
        Self::open(device, true)
    }

    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for a change; no file is open.
    fn change(&self) -> Result<MutexGuard<'_, State<D>>, TreeError> {
        let mut state = self.writable()?;
        state.settle()?;
        Ok(state)
    }

    fn writable(&self) -> Result<MutexGuard<'_, State<D>>, TreeError> {
        if self.about.writable { Ok(self.lock()) } else { Err(TreeError::ReadOnly) }
    }
}

impl<D: FlashDevice> State<D> {
    /// Closes the file that was used last, which makes it durable.
    fn settle(&mut self) -> Result<(), TreeError> {
        match self.open.take() {
            Some(open) => self.fs.close(open.file).map_err(tree_error),
            None => Ok(()),
        }
    }

    /// The open file at `path`, and the filesystem to use it with.
    fn file(&mut self, path: &TreePath, writable: bool) -> Result<(&mut LittleFs<D>, &FileId), TreeError> {
        if !self.open.as_ref().is_some_and(|open| open.path == *path && (open.writable || !writable)) {
            self.settle()?;
            let mode = if writable { OpenMode::ReadWrite } else { OpenMode::Read };
            let file = self.fs.open(path.as_bytes(), mode).map_err(tree_error)?;
            self.open = Some(Open { path: path.clone(), file, writable });
        }
        let Self { fs, open } = self;
        open.as_ref().map(|open| (fs, &open.file)).ok_or(TreeError::NotFound)
    }

    /// Fills a new file; one that comes to nothing is removed.
    fn create(
        &mut self,
        path: &TreePath,
        source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        let file = self.fs.open(path.as_bytes(), OpenMode::Replace).map_err(tree_error)?;
        let filled = fill(&mut self.fs, &file, source);
        let closed = self.fs.close(file).map_err(tree_error);
        let size = filled.and_then(|size| closed.map(|()| size));
        if size.is_err() {
            // What failed is told; half a file is worse than none.
            let _ = self.fs.remove(path.as_bytes());
        }
        size
    }
}

fn fill<D: FlashDevice>(
    fs: &mut LittleFs<D>,
    file: &FileId,
    source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
) -> Result<u64, TreeError> {
    let mut piece = vec![0; PIECE];
    let mut total: u64 = 0;
    loop {
        let len = source(&mut piece).map_err(|Stop| TreeError::Stopped { at: total })?;
        // cannot miss: a source fills no more than there is.
        let data = piece.get(..len).unwrap_or(&[]);
        if data.is_empty() {
            return Ok(total);
        }
        fs.write_at(file, total, data).map_err(tree_error)?;
        // cannot overflow: a file has 31 bits.
        total = total.saturating_add(len as u64);
    }
}

impl<D: FlashDevice + Send> FileTree for LittleFsTree<D> {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn space(&self) -> Result<Space, TreeError> {
        let mut state = self.lock();
        state.settle()?;
        let space = state.fs.space().map_err(tree_error)?;
        // intended: littlefs counts blocks twice that two files share.
        let free = u64::from(space.blocks.saturating_sub(space.used));
        Ok(Space { block_size: space.block_size, blocks: space.blocks.into(), free })
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        let mut state = self.lock();
        // The size of the open file is known to it alone.
        if let Some(open) = &state.open
            && open.path == *path
        {
            let (fs, file) = state.file(path, false)?;
            let size = fs.file_size(file).map_err(tree_error)?;
            return Ok(metadata(Kind::File, size));
        }
        let entry = state.fs.stat(path.as_bytes()).map_err(tree_error)?;
        Ok(metadata(kind(entry.kind), entry.size))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let entries = self.lock().fs.read_dir(path.as_bytes()).map_err(tree_error)?;
        let valid = entries.into_iter().filter(|entry| is_valid_name(&entry.name));
        Ok(valid.map(|entry| Entry { name: entry.name, kind: kind(entry.kind), inode: 0 }).collect())
    }

    /// A cursor is the hash of a name: places that the library gives move with whatever is added and removed. Each portion goes
    /// over the whole directory, of which it keeps what it returns.
    fn list_from(&self, path: &TreePath, from: Cursor, wanted: Wanted) -> Result<Vec<Listed>, TreeError> {
        let mut state = self.lock();
        let mut portion = ByHash::new(from, wanted.entries);
        let take = &mut |entry: atrest_littlefs::Entry| {
            if is_valid_name(&entry.name) {
                let size = entry.size;
                portion.add(Entry { name: entry.name, kind: kind(entry.kind), inode: 0 }, size);
            }
        };
        state.fs.each_entry(path.as_bytes(), take).map_err(tree_error)?;
        // The size of the open file is known to it alone.
        let open = match &state.open {
            Some(open) if open.path.parent().as_ref() == Some(path) => {
                let path = open.path.clone();
                let (fs, file) = state.file(&path, false)?;
                let size = fs.file_size(file).map_err(tree_error)?;
                path.name().map(|name| (name.to_vec(), size))
            }
            _ => None,
        };
        let listed = portion.finish().into_iter().map(|(next, entry, stored)| {
            let own = open.as_ref().filter(|(name, _)| *name == entry.name);
            let size = own.map_or(stored, |(_, size)| *size);
            let metadata = wanted.metadata.then(|| Ok(metadata(entry.kind, size)));
            Listed { entry, metadata, next }
        });
        Ok(listed.collect())
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        let mut state = self.lock();
        let (fs, file) = state.file(path, false)?;
        fs.read_at(file, offset, buf).map_err(tree_error)
    }

    fn write_from(
        &self,
        path: &TreePath,
        source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        let mut state = self.change()?;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(TreeError::IsADirectory);
        };
        check_name(name)?;
        match state.fs.stat(path.as_bytes()).map_err(tree_error) {
            Err(TreeError::NotFound) => state.create(path, source),
            Ok(found) if found.kind == atrest_littlefs::Kind::File => {
                // An existing file keeps its contents until all of the new are there.
                let partial = parent.join(PARTIAL)?;
                let size = state.create(&partial, source)?;
                state.fs.rename(partial.as_bytes(), path.as_bytes()).map_err(tree_error)?;
                Ok(size)
            }
            Ok(_) => Err(TreeError::IsADirectory),
            Err(error) => Err(error),
        }
    }

    fn write_at(&self, path: &TreePath, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        let mut state = self.writable()?;
        let (fs, file) = state.file(path, true)?;
        let size = fs.file_size(file).map_err(tree_error)?;
        if offset > size {
            return Err(TreeError::BeyondEnd { size });
        }
        fs.write_at(file, offset, data).map_err(tree_error)
    }

    fn truncate(&self, path: &TreePath, size: u64) -> Result<(), TreeError> {
        let mut state = self.writable()?;
        let (fs, file) = state.file(path, true)?;
        fs.truncate(file, size).map_err(tree_error)
    }

    fn make_dir(&self, path: &TreePath) -> Result<(), TreeError> {
        check_name(path.name().ok_or(TreeError::Exists)?)?;
        self.change()?.fs.mkdir(path.as_bytes()).map_err(tree_error)
    }

    fn remove(&self, path: &TreePath) -> Result<(), TreeError> {
        if path.is_root() {
            return Err(TreeError::NotEmpty);
        }
        self.change()?.fs.remove(path.as_bytes()).map_err(tree_error)
    }

    fn rename(&self, from: &TreePath, to: &TreePath, if_exists: IfExists) -> Result<(), TreeError> {
        check_name(to.name().ok_or(TreeError::Exists)?)?;
        if from.is_root() {
            return Err(TreeError::IsADirectory);
        }
        let mut state = self.change()?;
        let found = state.fs.stat(from.as_bytes()).map_err(tree_error)?;
        // Names are what they look like here: no links, and no letters that are the same.
        let mut below = to.components();
        if from.components().all(|name| below.next() == Some(name))
            && below.next().is_some()
            && found.kind == atrest_littlefs::Kind::Directory
        {
            return Err(TreeError::IntoItself);
        }
        if if_exists == IfExists::Fail {
            match state.fs.stat(to.as_bytes()) {
                Err(LittleFsError::NotFound) => {}
                Ok(_) => return Err(TreeError::Exists),
                Err(error) => return Err(tree_error(error)),
            }
        }
        state.fs.rename(from.as_bytes(), to.as_bytes()).map_err(tree_error)
    }

    /// littlefs stores no times.
    fn set_modified(&self, _path: &TreePath, _time: Timestamp) -> Result<(), TreeError> {
        if self.about.writable { Ok(()) } else { Err(TreeError::ReadOnly) }
    }

    fn flush(&self) -> Result<(), TreeError> {
        let mut state = self.lock();
        state.settle()?;
        state.fs.sync().map_err(tree_error)
    }
}

impl<D: FlashDevice> Drop for LittleFsTree<D> {
    /// Writes what is left. Who wants to know whether that worked calls [`FileTree::flush`] first.
    fn drop(&mut self) {
        let mut state = self.lock();
        let _ = state.settle();
        let _ = state.fs.sync();
    }
}

fn check_name(name: &[u8]) -> Result<(), TreeError> {
    if name.len() > MAX_NAME_LEN { Err(TreeError::UnsupportedName { len: name.len() }) } else { Ok(()) }
}

fn kind(kind: atrest_littlefs::Kind) -> Kind {
    match kind {
        atrest_littlefs::Kind::File => Kind::File,
        atrest_littlefs::Kind::Directory => Kind::Directory,
    }
}

fn metadata(kind: Kind, size: u64) -> Metadata {
    let never = Timestamp::default();
    let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
    let (modified, accessed, changed) = (never, never, never);
    Metadata {
        kind,
        size,
        mode,
        uid: 0,
        gid: 0,
        links: 1,
        inode: 0,
        allocated: size,
        modified,
        accessed,
        changed,
    }
}

fn mount_error(error: MountError) -> TreeError {
    match error {
        MountError::Flash(error) => TreeError::Flash(error),
        MountError::Damaged(damage) => TreeError::Corrupt(Fault::new(LittleFsDamage(damage))),
        MountError::Refused(error) => tree_error(error),
        MountError::UnusableGeometry { device } => LittleFsFault::Unusable(device).into(),
        error => LittleFsFault::Refused(error).into(),
    }
}

fn tree_error(error: LittleFsError) -> TreeError {
    match error {
        LittleFsError::Flash(error) => TreeError::Flash(error),
        LittleFsError::NotFound => TreeError::NotFound,
        LittleFsError::Exists => TreeError::Exists,
        LittleFsError::NotADirectory => TreeError::NotADirectory,
        LittleFsError::IsADirectory => TreeError::IsADirectory,
        LittleFsError::NotEmpty => TreeError::NotEmpty,
        LittleFsError::NoSpace => TreeError::NoSpace,
        LittleFsError::TooLarge => TreeError::TooLarge { limit: MAX_FILE_LEN },
        LittleFsError::ReadOnly => TreeError::ReadOnly,
        error => LittleFsFault::Refused(MountError::Refused(error)).into(),
    }
}
