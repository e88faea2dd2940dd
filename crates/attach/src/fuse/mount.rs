//! Mounting, and waiting for the end of a mount however it comes: by us, by `fusermount3 -u`, by `umount`.

use super::FILE_NAME;
use super::cache::KernelCache;
use super::filesystem::Filesystem;
use super::kernel;
use super::posix::PosixDirectoryServer;
use super::read_ahead;
use super::session::{Notifier, Session, StartError};
use super::tree::TreeDirectory;
use super::unmount::{MountId, UnmountError, fusermount};
use super::volume::{VOLUME, VolumeDirectory};
use atrest_device::{BlockDevice, DeviceError};
use atrest_filetree::posix::{Errno, PosixTree};
use atrest_filetree::{FileTree, TreeError};
use core::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that serve requests. With [`rings`](Self::rings), at least as many.
    pub threads: usize,
    /// Let the kernel cache the file's pages. Off, every read and write reaches the volume (direct I/O).
    pub cached: bool,
    /// Let other users see what is mounted, as far as permissions allow (`allow_other`).
    pub shared: bool,
    /// Let programs that are mounted be run.
    pub executable: bool,
    /// Take requests by rings of io_uring where the kernel offers them (Linux 6.14 and later, with the module's parameter
    /// `enable_uring`).
    pub rings: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: (cores + 2).clamp(4, 16),
            cached: false,
            shared: false,
            executable: false,
            rings: true,
        }
    }
}

/// Why a volume can't be mounted.
#[non_exhaustive]
#[derive(Debug)]
pub enum MountError {
    /// The kernel offers no FUSE.
    NoFuseDevice,
    /// `/dev/fuse` can't be opened by this user.
    FuseDevice(io::Error),
    /// The program that mounts for unprivileged users is missing.
    NoFusermount,
    /// The directory does not exist or can't be read.
    Directory {
        /// The directory that was asked for.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// Something that is not a directory was asked for.
    NotADirectory {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Files in the directory would be hidden.
    NotEmpty {
        /// The directory that was asked for.
        path: PathBuf,
    },
    /// The kernel or `fusermount3` refused.
    Mount {
        /// The directory that was asked for.
        path: PathBuf,
        /// What they said.
        error: io::Error,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoFuseDevice => {
                f.write_str("there is no /dev/fuse; load the kernel module fuse or serve the volume by NBD")
            }
            MountError::FuseDevice(error) => write!(f, "cannot open /dev/fuse: {error}"),
            MountError::NoFusermount => f.write_str(
                "fusermount3 is missing and only root can mount without it; install the package fuse3",
            ),
            MountError::Directory { path, error } => write!(f, "cannot use {}: {error}", path.display()),
            MountError::NotADirectory { path } => write!(f, "{} is not a directory", path.display()),
            MountError::NotEmpty { path } => {
                write!(f, "{} is not empty, and its files would be hidden", path.display())
            }
            MountError::Mount { path, error } => write!(f, "cannot mount at {}: {error}", path.display()),
        }
    }
}

impl core::error::Error for MountError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            MountError::FuseDevice(error)
            | MountError::Directory { error, .. }
            | MountError::Mount { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why a mount ended otherwise than it should.
#[non_exhaustive]
#[derive(Debug)]
pub enum WaitError {
    /// Requests could not be served any more.
    Session(io::Error),
    /// The last flush failed: writes without an `fsync` may be lost.
    Flush(DeviceError),
    /// The last flush of a tree failed: writes without an `fsync` may be lost.
    FlushTree(TreeError),
    /// The last flush of a tree with POSIX behaviour failed: writes without an `fsync` may be lost.
    FlushPosix(Errno),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Session(error) => write!(f, "the FUSE session failed: {error}"),
            WaitError::Flush(error) => write!(f, "{error}"),
            WaitError::FlushTree(error) => write!(f, "what was written can't be made durable: {error}"),
            WaitError::FlushPosix(error) => write!(f, "what was written can't be made durable: {error}"),
        }
    }
}

impl core::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            WaitError::Session(error) => Some(error),
            WaitError::Flush(error) => Some(error),
            WaitError::FlushTree(error) => Some(error),
            WaitError::FlushPosix(error) => Some(error),
        }
    }
}

/// A mounted volume. Dropping it without [`wait`](Self::wait) takes it out of sight and leaves its users to finish.
pub struct Mount {
    directory: PathBuf,
    id: MountId,
    served: Served,
    /// Of a tree.
    cache: Option<KernelCache>,
    size: Option<KnownSize>,
    /// Absent once it is waited for.
    session: Option<Session>,
}

/// Ends a [`Mount`] from any thread.
#[derive(Clone)]
pub struct Unmounter {
    directory: PathBuf,
    id: MountId,
    served: Served,
}

/// What is mounted.
#[derive(Clone)]
enum Served {
    Volume(Arc<dyn BlockDevice>),
    Tree(Arc<dyn FileTree>),
    Posix(Arc<dyn PosixTree>),
}

impl Served {
    fn is_read_only(&self) -> bool {
        match self {
            Self::Volume(device) => device.is_read_only(),
            Self::Tree(tree) => !tree.about().writable,
            Self::Posix(tree) => !tree.is_writable(),
        }
    }

    fn flush(&self) -> Result<(), WaitError> {
        match self {
            _ if self.is_read_only() => Ok(()),
            Self::Volume(device) => device.flush().map_err(WaitError::Flush),
            Self::Tree(tree) => tree.flush().map_err(WaitError::FlushTree),
            Self::Posix(tree) => tree.flush().map_err(WaitError::FlushPosix),
        }
    }

    /// Whether files and directories are seen rather than a volume's one file.
    fn is_tree(&self) -> bool {
        !matches!(self, Self::Volume(_))
    }
}

/// Mounts a device as `directory/volume`. The file can be used when this returns.
///
/// # Errors
/// [`MountError::Directory`], [`MountError::NotADirectory`] or [`MountError::NotEmpty`] if nothing can be mounted
/// there. [`MountError::NoFuseDevice`], [`MountError::FuseDevice`] or [`MountError::NoFusermount`] if nothing can
/// be mounted here by this user. [`MountError::Mount`] if the kernel or `fusermount3` refuses, or what was mounted
/// does not answer.
pub fn mount(device: Arc<dyn BlockDevice>, directory: &Path, options: &Options) -> Result<Mount, MountError> {
    let filesystem = VolumeDirectory::new(device.clone(), options.cached);
    let (mut mount, notifier) = mount_served(Served::Volume(device), filesystem, directory, options)?;
    mount.size = Some(KnownSize(notifier));
    Ok(mount)
}

/// What the kernel believes of the size of a volume's file.
#[derive(Clone)]
pub struct KnownSize(Notifier);

impl KnownSize {
    /// Makes the kernel ask again: the volume has another size by now. Not to be used by what answers the kernel's requests.
    pub fn forget(&self) {
        self.0.forget_node(VOLUME);
    }
}

/// Mounts a file tree. Its files can be used when this returns.
///
/// # Errors
/// Fails where [`mount`] does.
pub fn mount_tree(tree: Arc<dyn FileTree>, directory: &Path, options: &Options) -> Result<Mount, MountError> {
    let filesystem = TreeDirectory::new(tree.clone());
    let nodes = filesystem.known();
    let (mut mount, notifier) = mount_served(Served::Tree(tree), filesystem, directory, options)?;
    mount.cache = Some(KernelCache::new(notifier, nodes));
    Ok(mount)
}

/// Mounts a tree with POSIX behaviour. Its files can be used when this returns.
///
/// # Errors
/// Fails where [`mount`] does.
pub fn mount_posix(
    tree: Arc<dyn PosixTree>,
    directory: &Path,
    options: &Options,
) -> Result<Mount, MountError> {
    let filesystem = PosixDirectoryServer::new(tree.clone());
    mount_served(Served::Posix(tree), filesystem, directory, options).map(|(mount, _)| mount)
}

fn mount_served(
    served: Served,
    filesystem: impl Filesystem,
    directory: &Path,
    options: &Options,
) -> Result<(Mount, Notifier), MountError> {
    let directory = check_directory(directory)?;
    check_fuse()?;
    let filesystem: Arc<dyn Filesystem> = Arc::new(filesystem);
    let mounted = match mount_once(&served, &filesystem, &directory, options) {
        // What the kernel offers to new mounts was changed just now.
        Err(StartError::Rings) => {
            mount_once(&served, &filesystem, &directory, &Options { rings: false, ..options.clone() })
        }
        mounted => mounted,
    };
    mounted.map_err(|error| {
        let error = match error {
            StartError::Failed(error) => error,
            // Not without rings.
            StartError::Rings => io::ErrorKind::Unsupported.into(),
        };
        MountError::Mount { path: directory, error }
    })
}

fn mount_once(
    served: &Served,
    filesystem: &Arc<dyn Filesystem>,
    directory: &Path,
    options: &Options,
) -> Result<(Mount, Notifier), StartError> {
    let kernel = kernel::mount(directory, served.is_read_only(), options)?;
    let id = MountId::at(directory)?;
    let mut mount = Mount {
        directory: directory.into(),
        id,
        served: served.clone(),
        cache: None,
        size: None,
        session: None,
    };
    match mount.serve(kernel, filesystem, options) {
        Ok(notifier) => Ok((mount, notifier)),
        Err(error) => {
            // Nobody can have used it yet.
            let _ = id.unmount(directory, true);
            Err(error)
        }
    }
}

impl Mount {
    fn serve(
        &mut self,
        kernel: OwnedFd,
        filesystem: &Arc<dyn Filesystem>,
        options: &Options,
    ) -> Result<Notifier, StartError> {
        let session = Session::start(filesystem, kernel, options)?;
        let notifier = session.notifier();
        self.session = Some(session);
        // The first request goes all the way: threads run and answer.
        let found = std::fs::metadata(self.place());
        if self.session.as_ref().is_some_and(Session::is_stopped) {
            return Err(StartError::Rings);
        }
        let found = found?;
        let expected = match &self.served {
            Served::Volume(device) => found.len() == device.size(),
            Served::Tree(_) | Served::Posix(_) => found.is_dir(),
        };
        if !expected {
            return Err(StartError::Failed(io::ErrorKind::InvalidData.into()));
        }
        read_ahead::raise(found.dev());
        Ok(notifier)
    }

    /// Where it is mounted, as an absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What users open: the volume's file, or the directory of a tree.
    pub fn place(&self) -> PathBuf {
        match self.served {
            Served::Volume(_) => self.directory.join(FILE_NAME),
            Served::Tree(_) | Served::Posix(_) => self.directory.clone(),
        }
    }

    /// Whether it shows a tree rather than a volume.
    pub fn is_tree(&self) -> bool {
        self.served.is_tree()
    }

    /// What the kernel keeps of a tree.
    pub fn kernel_cache(&self) -> Option<KernelCache> {
        self.cache.clone()
    }

    /// What the kernel believes of the size of a volume's file; nothing of a tree.
    pub fn known_size(&self) -> Option<KnownSize> {
        self.size.clone()
    }

    /// Whether rings of io_uring carry its requests.
    pub fn has_rings(&self) -> bool {
        self.session.as_ref().is_some_and(Session::has_rings)
    }

    /// What tells it from another mount in the same directory.
    pub fn id(&self) -> MountId {
        self.id
    }

    /// The way to end it.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { directory: self.directory.clone(), id: self.id, served: self.served.clone() }
    }

    /// Waits until it is unmounted and nobody uses the file any more, then flushes the device.
    ///
    /// # Errors
    /// [`WaitError::Session`] if requests could not be served any more. Otherwise it fails where
    /// [`Unmounter::flush`] does. The flush is tried in either case.
    pub fn wait(mut self) -> Result<(), WaitError> {
        let ended = self.session.take().map_or(Ok(()), Session::wait);
        let flushed = self.served.flush();
        ended.map_err(WaitError::Session)?;
        flushed
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.take().is_some() {
            let _ = self.unmounter().detach();
        }
    }
}

impl Unmounter {
    /// The mounted directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes durable what was written up to now.
    ///
    /// # Errors
    /// [`WaitError::Flush`], [`WaitError::FlushTree`] or [`WaitError::FlushPosix`], by what is mounted: what was
    /// written may be lost.
    pub fn flush(&self) -> Result<(), WaitError> {
        self.served.flush()
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// [`UnmountError::Busy`] if the file is in use, and then all stays as it is. Otherwise it fails where
    /// [`MountId::unmount`] does.
    pub fn unmount(&self) -> Result<(), UnmountError> {
        self.id.unmount(&self.directory, false)
    }

    /// Takes it out of sight at once. Whoever uses the file can go on; the mount ends with the last of them. What
    /// was written before is made durable now.
    ///
    /// # Errors
    /// Fails where [`MountId::unmount`] does. A flush that fails is none of these errors: the next one reports it.
    pub fn detach(&self) -> Result<(), UnmountError> {
        // The error stays with the device, and the next flush reports it.
        let _ = self.flush();
        self.id.unmount(&self.directory, true)
    }
}

/// An empty directory, as an absolute path.
pub(crate) fn check_directory(path: &Path) -> Result<PathBuf, MountError> {
    let failed = |error| MountError::Directory { path: path.into(), error };
    let canonical = path.canonicalize().map_err(failed)?;
    if !canonical.is_dir() {
        return Err(MountError::NotADirectory { path: path.into() });
    }
    match std::fs::read_dir(&canonical).map_err(failed)?.next() {
        None => Ok(canonical),
        Some(_) => Err(MountError::NotEmpty { path: path.into() }),
    }
}

fn check_fuse() -> Result<(), MountError> {
    match std::fs::File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
            return Err(MountError::NoFuseDevice);
        }
        Err(error) => return Err(MountError::FuseDevice(error)),
    }
    if rustix::process::geteuid().is_root() || fusermount().is_some() {
        return Ok(());
    }
    Err(MountError::NoFusermount)
}
