//! The FUSE face: a directory that holds the volume as one regular file, `DIR/volume` ([`mount`]), or the files of a tree
//! inside the volume ([`mount_tree`]), or a tree with POSIX behaviour ([`mount_posix`]).
//!
//! About the one file:
//!
//! The file has the volume's size and mode 0600 (0400 if read-only), belongs to the caller, and the kernel lets
//! nobody else see it: there is no `allow_other`. Reads and writes are direct: they reach the volume at once and
//! in the size in which they were made, without a second copy in the page cache. `fsync` and `close` after writes
//! flush the volume.
//!
//! The file behaves like a disk: its size is fixed, writing past its end fails with `ENOSPC` and truncating
//! it with `EPERM`. Opening it with `O_TRUNC` (`cp FILE DIR/volume`, `dd of=DIR/volume`) changes neither size nor contents, but
//! what the program then skips between its writes is filled with zeros when it closes the file. `fallocate` with
//! `ZERO_RANGE` writes zeros; with `PUNCH_HOLE` it fails with `EOPNOTSUPP`, because a hole must read as zeros (loop devices
//! and QEMU rely on it) and a discarded range of an encrypted volume does not. Trimming is offered by [`nbd`](crate::nbd)
//! only. Nothing can be made, renamed or removed in the directory (`EPERM`).
//!
//! Requests come by `/dev/fuse` to [`Options::threads`] threads, or on rings of io_uring where the kernel offers them
//! ([`Options::rings`]): to three threads or more for each processor, without a copy and with half the system calls.
//!
//! Memory: at most 1 MiB and some KiB for each thread, which is taken when the first large request comes.

mod cache;
mod filesystem;
pub(crate) mod kernel;
mod looks;
mod mount;
mod posix;
mod protocol;
mod read_ahead;
mod session;
mod tree;
mod truncated;
mod unmount;
mod volume;

pub use cache::KernelCache;
pub(crate) use mount::check_directory;
pub use mount::{
    KnownSize, Mount, MountError, Options, Unmounter, WaitError, mount, mount_posix, mount_tree,
};
pub use unmount::{MountId, UnmountError};

/// Name of the file in the mounted directory.
pub const FILE_NAME: &str = "volume";
