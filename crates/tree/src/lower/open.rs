//! Open files: one shared state for each lower file, however many have it open.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use atrest_filetree::Timestamp;
use atrest_filetree::posix::{Errno, Opened, Outcome, PosixFile};
use rustix::fs::{Mode, OFlags, Stat};

use super::nodes::LowerNode;
use super::write_behind::WriteBehind;
use super::{Layer, LayerFile, times};

/// What a node knows of those who have it open.
pub(super) struct OpenState<F> {
    handles: usize,
    shared: Option<Shared<F>>,
    /// What the lower file looked like when the last of them was done.
    left: Option<Stamp>,
    /// The size that it had when somebody looked.
    pub size: Option<(Stamp, u64)>,
}

impl<F> Default for OpenState<F> {
    fn default() -> Self {
        Self { handles: 0, shared: None, left: None, size: None }
    }
}

struct Shared<F> {
    file: Arc<F>,
    writable: bool,
}

impl<F: LayerFile> OpenState<F> {
    /// The lower file of an open one.
    #[cfg(test)]
    pub fn lower(&self) -> Option<(&File, u64)> {
        self.shared.as_ref().and_then(|shared| shared.file.lower())
    }

    /// Bytes of contents, of an open file.
    pub fn open_len(&self) -> Option<u64> {
        self.shared.as_ref().and_then(|shared| shared.file.plain_len())
    }
}

/// Changes when anybody changes the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    size: i64,
    modified: Timestamp,
    changed: Timestamp,
}

impl Stamp {
    pub fn of(stat: &Stat) -> Self {
        let [modified, _, changed] = times(stat);
        Self { size: stat.st_size, modified, changed }
    }
}

/// Opens lower files again by the descriptors of their nodes.
pub(super) struct Opener {
    /// `/proc/self/fd`.
    pub proc_fds: OwnedFd,
    pub writable: bool,
}

impl Opener {
    /// The lower file itself, which is what a node's descriptor stands for, whatever its names are by now.
    pub fn reopen(&self, place: impl AsFd, flags: OFlags) -> Outcome<File> {
        let flags = flags.union(crate::flags::REOPENED);
        Ok(rustix::fs::openat(&self.proc_fds, proc_name(place), flags, Mode::empty())?.into())
    }

    /// A file for the handles of one node, whose descriptor is `place`. The caller holds the node's state.
    fn share<M: Layer>(
        &self,
        layer: &M,
        place: impl AsFd,
        state: &mut OpenState<M::File>,
        write: bool,
    ) -> Outcome<()> {
        if state.shared.as_ref().is_some_and(|shared| shared.writable || !write) {
            return Ok(());
        }
        // Whoever comes later may want to write, and contents that are encrypted are read before they are written.
        let (lower, writable) = match self.writable.then(|| self.reopen(&place, OFlags::RDWR)) {
            Some(Ok(file)) => (file, true),
            Some(Err(error)) if write => return Err(error),
            None if write => return Err(Errno::ROFS),
            _ => (self.reopen(&place, OFlags::RDONLY)?, false),
        };
        let file = Arc::new(layer.open(lower, writable)?);
        state.shared = Some(Shared { file, writable });
        Ok(())
    }

    /// Opens the file of a node, whose descriptor is `place`.
    pub fn open<M: Layer>(
        &self,
        layer: &M,
        (node, place): (&Arc<LowerNode<M::File>>, impl AsFd),
        write: bool,
    ) -> Outcome<Opened> {
        if !node.is_file() {
            return Err(Errno::INVAL);
        }
        let mut state = node.state();
        let unchanged = match (state.handles, state.left) {
            (0, None) => false,
            (0, Some(left)) => Stamp::of(&rustix::fs::fstat(&place)?) == left,
            _ => true,
        };
        self.share(layer, place, &mut state, write)?;
        Ok(Opened { file: Handle::new(node, &mut state), unchanged })
    }

    /// Opens the file of a node that was made just now.
    pub fn open_new<M: Layer>(
        &self,
        layer: &M,
        node: &Arc<LowerNode<M::File>>,
        lower: File,
    ) -> Outcome<Opened> {
        let mut state = node.state();
        state.shared = Some(Shared { file: Arc::new(layer.create(lower)?), writable: true });
        Ok(Opened { file: Handle::new(node, &mut state), unchanged: false })
    }

    /// Sets the size of a file, whether somebody has it open or not.
    pub fn set_len<M: Layer>(
        &self,
        layer: &M,
        (node, place): (&LowerNode<M::File>, impl AsFd),
        len: u64,
    ) -> Outcome<()> {
        if !node.is_file() {
            return Err(Errno::INVAL);
        }
        let mut state = node.state();
        self.share(layer, place, &mut state, true)?;
        let file = state.shared.as_ref().map(|shared| Arc::clone(&shared.file)).ok_or(Errno::IO)?;
        let outcome = file.set_len(len);
        if state.handles == 0 {
            state.shared = None;
            (state.size, state.left) = (None, None);
        }
        outcome
    }
}

/// A name by which the system finds again below `/proc/self/fd` what a descriptor stands for.
pub(super) fn proc_name(fd: impl AsFd) -> String {
    fd.as_fd().as_raw_fd().to_string()
}

/// One who has a file open.
struct Handle<F: LayerFile> {
    node: Arc<LowerNode<F>>,
    behind: WriteBehind,
}

impl<F: LayerFile> Handle<F> {
    fn new(node: &Arc<LowerNode<F>>, state: &mut OpenState<F>) -> Box<Self> {
        // cannot overflow: each is an open file.
        state.handles = state.handles.saturating_add(1);
        Box::new(Self { node: Arc::clone(node), behind: WriteBehind::default() })
    }

    fn file(&self) -> Outcome<Arc<F>> {
        self.node.state().shared.as_ref().map(|shared| Arc::clone(&shared.file)).ok_or(Errno::BADF)
    }
}

impl<F: LayerFile> PosixFile for Handle<F> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize> {
        self.file()?.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        let file = self.file()?;
        file.write_at(offset, data)?;
        self.behind.wrote(file.lower(), offset, data.len());
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Outcome<()> {
        self.file()?.sync(data_only)
    }

    fn allocate(&self, mode: u32, offset: u64, len: u64) -> Outcome<()> {
        self.file()?.allocate(mode, offset, len)
    }
}

impl<F: LayerFile> Drop for Handle<F> {
    fn drop(&mut self) {
        let mut state = self.node.state();
        // cannot be less: this one was counted.
        state.handles = state.handles.saturating_sub(1);
        if state.handles == 0 {
            let shared = state.shared.take();
            // Clocks of files are coarse: what was seen before says nothing.
            state.size = None;
            let lower = shared.as_ref().and_then(|shared| shared.file.lower());
            state.left = lower.and_then(|(file, _)| rustix::fs::fstat(file).ok()).as_ref().map(Stamp::of);
            drop(state);
            drop(shared);
        }
    }
}
