//! The system calls that no safe wrapper offers, each as one safe function.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use atrest_device::{Cause, LockMode};

/// `BLKGETSIZE64`: `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::Ioctl = libc::_IOR::<libc::size_t>(0x12, 114);
/// `BLKDISCARD`: `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = libc::_IO(0x12, 119);
/// `BLKIOOPT`: `_IO(0x12, 121)`.
const BLKIOOPT: libc::Ioctl = libc::_IO(0x12, 121);

/// Size of a block device in bytes.
pub fn block_device_size(device: &File) -> io::Result<u64> {
    let mut size: u64 = 0;
    // SAFETY: the descriptor is open, and BLKGETSIZE64 writes one u64 to the address given, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut size) })?;
    Ok(size)
}

/// `optimal_io_size` of a block device in bytes, 0 where the device names none.
pub fn block_device_optimal_io(device: &File) -> io::Result<u32> {
    let mut size: libc::c_uint = 0;
    // SAFETY: the descriptor is open, and BLKIOOPT writes one unsigned int to the address given.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKIOOPT, &raw mut size) })?;
    Ok(size)
}

/// Tells a block device that `offset..offset + len` is no longer used. Both must be multiples of its logical block.
pub fn block_device_discard(device: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the descriptor is open, and BLKDISCARD reads two u64 from the address given.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, range.as_ptr()) })
}

/// Takes a lock on a whole file that belongs to the open file description (`F_OFD_SETLK`), without waiting.
/// It is independent of `flock`, which cryptsetup uses for metadata.
pub fn lock_description(file: &File, mode: LockMode) -> io::Result<()> {
    let kind = match mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    // SAFETY: `flock` is plain data for which zero is a valid value of every field.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and F_OFD_SETLK only reads the structure, whose l_pid is 0 as it demands.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an operating system error means for a device.
pub fn cause(error: &io::Error) -> Cause {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => Cause::NoSpace,
        Some(libc::EAGAIN | libc::EBUSY | libc::ETXTBSY) => Cause::Busy,
        Some(libc::EROFS) => Cause::ReadOnly,
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => Cause::Unsupported,
        Some(libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM) => Cause::Gone,
        Some(errno) => Cause::Os(errno),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Cause::UnexpectedEnd,
        None => Cause::Os(libc::EIO),
    }
}

/// As [`cause`], for an error of `rustix`.
pub fn errno_cause(errno: rustix::io::Errno) -> Cause {
    cause(&errno.into())
}
