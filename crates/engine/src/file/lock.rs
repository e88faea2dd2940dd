//! cryptsetup's metadata lock, so that it and we never change a header at the same time.
//!
//! As cryptsetup 2.6 does it: a regular file is `flock`ed on itself, through a descriptor of its own; for a block
//! device `/run/cryptsetup/L_<major>:<minor>` is `flock`ed and removed by whoever releases it last, so after locking
//! one must check that the name still means the same file. Where that directory can't be used (no root), the
//! device node itself is `flock`ed: that keeps our own processes and udev's probing apart, but not cryptsetup, which
//! can't lock either without root.
//!
//! A header in a file can be reached through loop devices as well. There the lock is taken under both names, in one
//! order: first the lock files of the block devices, by name, then the file behind them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use atrest_device::{Cause, LockMode};
use rustix::fs::FlockOperation;

use super::below;
use super::loops::{self, Identity};
use crate::sys;

/// Where cryptsetup keeps its lock files (its build default).
pub const LOCK_DIRECTORY: &str = "/run/cryptsetup";

/// The metadata lock of one device: shared by its threads, nested within each.
#[derive(Debug)]
pub struct MetadataLock {
    place: Place,
    state: Mutex<State>,
    released: Condvar,
}

/// What is locked.
#[derive(Debug)]
enum Place {
    /// A regular file, and the loop devices over it.
    File(Identity),
    /// A block device, by the name of its lock file, and the file behind it.
    Device(PathBuf),
}

#[derive(Debug, Default)]
struct State {
    held: Option<Held>,
    /// One entry for each lock not yet released.
    holders: Vec<ThreadId>,
}

#[derive(Debug)]
struct Held {
    mode: LockMode,
    locks: Vec<Lock>,
}

#[derive(Debug)]
pub struct Lock {
    file: File,
    /// The lock file to remove when nobody else waits for it.
    resource: Option<PathBuf>,
}

impl MetadataLock {
    pub fn on_file(file: Identity) -> Self {
        Self { place: Place::File(file), state: Mutex::default(), released: Condvar::new() }
    }

    pub fn on_block_device(device_number: u64) -> Self {
        let number = format!("{}:{}", rustix::fs::major(device_number), rustix::fs::minor(device_number));
        Self { place: Place::Device(resource(&number)), state: Mutex::default(), released: Condvar::new() }
    }

    /// Takes the lock, waiting for other processes and for other threads of this one. A thread that holds it may
    /// take it again, but not turn a shared lock into an exclusive one: what it read meanwhile might be stale.
    pub fn acquire(&self, mode: LockMode, device: &File, writable: bool) -> Result<(), Cause> {
        let me = std::thread::current().id();
        let mut state = self.state();
        loop {
            let mine = state.holders.contains(&me);
            match state.held.as_ref().map(|held| held.mode) {
                None => break,
                Some(LockMode::Shared) if mode == LockMode::Shared => {
                    state.holders.push(me);
                    return Ok(());
                }
                Some(LockMode::Exclusive) if mine => {
                    state.holders.push(me);
                    return Ok(());
                }
                Some(LockMode::Shared) if mine => return Err(Cause::Unsupported),
                Some(_) => state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let locks = self.place.lock(mode, device, writable).map_err(|error| sys::cause(&error))?;
        state.held = Some(Held { mode, locks });
        state.holders.push(me);
        Ok(())
    }

    /// Gives back one lock of this thread (or of any, when this one holds none).
    pub fn release(&self) {
        let me = std::thread::current().id();
        let mut state = self.state();
        match state.holders.iter().rposition(|holder| *holder == me) {
            Some(index) => drop(state.holders.swap_remove(index)),
            None => drop(state.holders.pop()),
        }
        if state.holders.is_empty() {
            if let Some(held) = state.held.take() {
                held.release();
            }
            self.released.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn lock(&self, mode: LockMode, device: &File, writable: bool) -> io::Result<Vec<Lock>> {
        let mut locks = Vec::new();
        match self {
            Self::File(identity) => {
                let mut names: Vec<PathBuf> = Vec::new();
                for device in loops::over(*identity) {
                    names.extend(device.numbers()?.iter().map(|numbers| resource(numbers)));
                }
                names.sort();
                for name in names {
                    match lock_resource(mode, &name) {
                        Err(error) if is_unusable(&error) => break,
                        lock => locks.push(lock?),
                    }
                }
                locks.push(lock_itself(mode, device, writable)?);
            }
            Self::Device(name) => {
                match lock_resource(mode, name) {
                    Err(error) if is_unusable(&error) => locks.push(lock_itself(mode, device, writable)?),
                    lock => locks.push(lock?),
                }
                if let Some(file) = below::file_behind(device, writable) {
                    locks.push(lock_itself(mode, &file, writable)?);
                }
            }
        }
        Ok(locks)
    }
}

/// The lock file of a block device.
fn resource(number: &str) -> PathBuf {
    Path::new(LOCK_DIRECTORY).join(format!("L_{number}"))
}

impl Held {
    fn release(self) {
        // In the order in which they are waited for, the last one first.
        self.locks.into_iter().rev().for_each(Lock::release);
    }
}

impl Lock {
    /// Unlocks; closing alone would not, while a process that is being started has a copy of the descriptor. The lock
    /// file goes too, if the exclusive lock shows that nobody else holds it and the name still means this file.
    pub fn release(self) {
        if let Some(resource) = &self.resource
            && rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_same_file(&self.file, resource)
        {
            // Left behind, it does no harm: the next holder uses it again.
            let _ = std::fs::remove_file(resource);
        }
        // It can fail only for what is no descriptor, and closing follows.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn lock_itself(mode: LockMode, device: &File, writable: bool) -> io::Result<Lock> {
    // A descriptor of its own: a lock on the device's would be shared with whoever inherits it. By way of /proc the
    // very same file is opened even if its name means another one by now. NFS locks want write access for exclusive.
    let file = OpenOptions::new()
        .read(true)
        .write(writable)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", device.as_raw_fd()))
        .or_else(|_| device.try_clone())?;
    flock(&file, mode)?;
    Ok(Lock { file, resource: None })
}

fn lock_resource(mode: LockMode, resource: &Path) -> io::Result<Lock> {
    lock_resource_by(resource, |file| flock(file, mode))
}

/// The exclusive lock of a lock file, if nobody holds it; otherwise the error is `WouldBlock`.
pub fn lock_resource_at_once(resource: &Path) -> io::Result<Lock> {
    lock_resource_by(resource, |file| Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?))
}

fn lock_resource_by(resource: &Path, lock: impl Fn(&File) -> io::Result<()>) -> io::Result<Lock> {
    match DirBuilder::new().mode(0o700).create(LOCK_DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(resource)?;
        lock(&file)?;
        if is_same_file(&file, resource) {
            return Ok(Lock { file, resource: Some(resource.to_path_buf()) });
        }
        // Its last holder removed it while we waited: the lock we got guards nothing.
    }
}

fn flock(file: &File, mode: LockMode) -> io::Result<()> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::LockShared,
        LockMode::Exclusive => FlockOperation::LockExclusive,
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.ino() == b.ino() && a.dev() == b.dev() && a.nlink() > 0,
        _ => false,
    }
}

pub fn is_unusable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_a_lock_that_was_released() {
        let dir = atrest_testkit::Scratch::new();
        let file = File::open(dir.file("file", b"")).expect("a file");
        let lock = lock_itself(LockMode::Exclusive, &file, true).expect("locked");
        let copy = lock.file.try_clone().expect("a copy");
        lock.release();
        let next = lock_itself(LockMode::Exclusive, &file, true).expect("locked");
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).expect_err("held");
        drop((copy, next));
    }
}
