//! Mounting, and waiting for the end of a mount however it comes: by us, by `fusermount3 -u`, by `umount`.

use super::FILE_NAME;
use super::filesystem::VolumeDirectory;
use super::unmount::{UnmountError, fusermount, unmount};
use crate::bytes::ByteDevice;
use atrest_device::{BlockDevice, DeviceError};
use core::fmt;
use fuser::{Config, MountOption, Session};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that serve requests.
    pub threads: usize,
    /// Let the kernel cache the file's pages. Off, every read and write reaches the volume (direct I/O).
    pub cached: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: (cores + 2).clamp(4, 16), cached: false }
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
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Session(error) => write!(f, "the FUSE session failed: {error}"),
            WaitError::Flush(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            WaitError::Session(error) => Some(error),
            WaitError::Flush(error) => Some(error),
        }
    }
}

/// A mounted volume. Dropping it without [`wait`](Self::wait) takes it out of sight and leaves its users to finish.
pub struct Mount {
    directory: PathBuf,
    device: Arc<ByteDevice>,
    /// Absent once it is waited for.
    session: Option<JoinHandle<io::Result<()>>>,
}

/// Ends a [`Mount`] from any thread.
#[derive(Clone)]
pub struct Unmounter {
    directory: PathBuf,
    device: Arc<ByteDevice>,
}

/// Mounts a device as `directory/volume`. The file can be used when this returns.
pub fn mount(device: Arc<dyn BlockDevice>, directory: &Path, options: &Options) -> Result<Mount, MountError> {
    let directory = check_directory(directory)?;
    check_fuse()?;
    let read_only = device.is_read_only();
    let device = Arc::new(ByteDevice::new(device));
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("atrest".into()),
        MountOption::Subtype("atrest".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::NoAtime,
        if read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.n_threads = Some(options.threads.max(1));
    // A file descriptor per thread spares the threads a shared lock in the kernel.
    config.clone_fd = true;
    let failed = |error| MountError::Mount { path: directory.clone(), error };
    let filesystem = VolumeDirectory::new(device.clone(), options.cached);
    let session = Session::new(filesystem, &directory, &config).map_err(failed)?;
    let session =
        std::thread::Builder::new().name("fuse".into()).spawn(move || session.run()).map_err(failed)?;
    let mount = Mount { directory: directory.clone(), device, session: Some(session) };
    // The first request goes all the way: threads run and answer.
    let metadata = std::fs::metadata(mount.file()).map_err(failed)?;
    if metadata.len() != mount.device.size() {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    }
    Ok(mount)
}

impl Mount {
    /// Where it is mounted, as an absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The volume's file.
    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// The way to end it.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { directory: self.directory.clone(), device: self.device.clone() }
    }

    /// Waits until it is unmounted and nobody uses the file any more, then flushes the device.
    pub fn wait(mut self) -> Result<(), WaitError> {
        let ended = self.session.take().map_or(Ok(()), |session| {
            session.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        let flushed = if self.device.is_read_only() { Ok(()) } else { self.device.flush() };
        ended.map_err(WaitError::Session)?;
        flushed.map_err(WaitError::Flush)
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
    /// Unmounts it; [`UnmountError::Busy`] if the file is in use, and then all stays as it is.
    pub fn unmount(&self) -> Result<(), UnmountError> {
        unmount(&self.directory, false)
    }

    /// Takes it out of sight at once. Whoever uses the file can go on; the mount ends with the last of them. What
    /// was written before is made durable now.
    pub fn detach(&self) -> Result<(), UnmountError> {
        if !self.device.is_read_only() {
            // The error stays with the device, and the next flush reports it.
            let _ = self.device.flush();
        }
        unmount(&self.directory, true)
    }
}

fn check_directory(path: &Path) -> Result<PathBuf, MountError> {
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
