//! The system calls that no safe wrapper offers, each as one safe function.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

use atrest_device::{Cause, LockMode};

/// `BLKGETSIZE64`: `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::Ioctl = libc::_IOR::<libc::size_t>(0x12, 114);
/// `BLKDISCARD`: `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = libc::_IO(0x12, 119);
/// `BLKIOOPT`: `_IO(0x12, 121)`.
const BLKIOOPT: libc::Ioctl = libc::_IO(0x12, 121);
/// `BLKALIGNOFF`: `_IO(0x12, 122)`.
const BLKALIGNOFF: libc::Ioctl = libc::_IO(0x12, 122);

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

/// Bytes from the beginning of a block device to its first whole physical block.
pub fn block_device_alignment_offset(device: &File) -> io::Result<u32> {
    let mut offset: libc::c_int = 0;
    // SAFETY: the descriptor is open, and BLKALIGNOFF writes one int to the address given.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKALIGNOFF, &raw mut offset) })?;
    // The kernel's -1 is a device that nothing is aligned on.
    u32::try_from(offset).map_err(|_| io::ErrorKind::Unsupported.into())
}

/// Tells a block device that `offset..offset + len` is no longer used. Both must be multiples of its logical block.
pub fn block_device_discard(device: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the descriptor is open, and BLKDISCARD reads two u64 from the address given.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, range.as_ptr()) })
}

/// What a loop device is attached to (`struct loop_info64`).
#[derive(Clone, Copy, Debug)]
pub struct LoopStatus {
    /// Number of the device that the file lies on, as in `st_dev`.
    pub device: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file's own device number, if it is a block device; otherwise 0.
    pub disk: u64,
    /// The byte of the file with which the device begins.
    pub offset: u64,
    /// It goes with its last user, as one that was made for a mapping or a mount does.
    pub is_transient: bool,
}

/// `LOOP_GET_STATUS64`.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
/// `struct loop_info64` has 232 bytes, which begin with five 64-bit numbers and four 32-bit ones. The last of them are
/// the flags.
const LOOP_INFO64: usize = 232 / 8;
/// `LO_FLAGS_AUTOCLEAR`.
const AUTOCLEAR: u32 = 4;

/// What a loop device, or a partition of one, is attached to. Fails for any other device.
pub fn loop_status(device: &File) -> io::Result<LoopStatus> {
    let metadata = device.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut info = [0_u64; LOOP_INFO64];
    // SAFETY: the descriptor is an open block device. A loop device writes one `struct loop_info64`, which is no longer
    // than the array and aligned as it is; other block devices refuse the number, which is that of loop devices alone.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) })?;
    let [device, inode, disk, offset, _, _, flags, ..] = info;
    let [_, _, _, _, flags @ ..] = flags.to_ne_bytes();
    let is_transient = u32::from_ne_bytes(flags) & AUTOCLEAR != 0;
    Ok(LoopStatus { device, inode, disk, offset, is_transient })
}

/// Takes a lock on a whole file that belongs to the open file description (`F_OFD_SETLK`), without waiting.
/// It is independent of `flock`, which cryptsetup uses for metadata.
pub fn lock_description(file: &File, mode: LockMode) -> io::Result<()> {
    // No bytes at all stand for all of them, those behind the end too.
    lock_range(file, mode, 0, 0)
}

/// Takes such a lock on a range of a file; a length of 0 stands for everything behind `start`.
pub fn lock_range(file: &File, mode: LockMode, start: u64, len: u64) -> io::Result<()> {
    let too_far = |_| io::Error::from_raw_os_error(libc::EOVERFLOW);
    let kind = match mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    // SAFETY: `flock` is plain data for which zero is a valid value of every field.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start.try_into().map_err(too_far)?;
    lock.l_len = len.try_into().map_err(too_far)?;
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

/// What an error of `rustix` means for a device.
pub fn errno_cause(errno: rustix::io::Errno) -> Cause {
    cause(&errno.into())
}

/// The serial number of a key of this type that this process can find. No program is started to make one.
pub fn request_key(kind: &CStr, description: &CStr) -> io::Result<i32> {
    // SAFETY: two strings that end in a zero byte, only read; the null pointer and the 0 say that no program is asked, and no keyring
    // gets the key.
    let key = unsafe {
        libc::syscall(
            libc::SYS_request_key,
            kind.as_ptr(),
            description.as_ptr(),
            core::ptr::null::<libc::c_char>(),
            0,
        )
    };
    serial(key)
}

/// Adds a key to a keyring, or gives the one of this type and description that is there another payload. Returns its serial number.
pub fn add_key(kind: &CStr, description: &CStr, payload: &[u8], keyring: i32) -> io::Result<i32> {
    // SAFETY: two strings that end in a zero byte and a payload with its length, all only read.
    let key = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            description.as_ptr(),
            payload.as_ptr(),
            payload.len(),
            keyring,
        )
    };
    serial(key)
}

fn serial(key: libc::c_long) -> io::Result<i32> {
    match i32::try_from(key) {
        Ok(key) if key >= 0 => Ok(key),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `KEYCTL_READ`: a key's payload into `payload`, as much of it as has room. Returns its length.
pub fn read_key(key: i32, payload: &mut [u8]) -> io::Result<usize> {
    const KEYCTL_READ: libc::c_int = 11;
    filled(KEYCTL_READ, key, payload)
}

/// `KEYCTL_DESCRIBE`: a key's type, owners, permissions and description into `text`, with a zero byte at the end. Returns its length.
pub fn describe_key(key: i32, text: &mut [u8]) -> io::Result<usize> {
    const KEYCTL_DESCRIBE: libc::c_int = 6;
    filled(KEYCTL_DESCRIBE, key, text)
}

fn filled(operation: libc::c_int, key: i32, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: both operations that come here write no more than the length given to the address given, which is `room`.
    let has = unsafe { libc::syscall(libc::SYS_keyctl, operation, key, room.as_mut_ptr(), room.len()) };
    usize::try_from(has).map_err(|_| io::Error::last_os_error())
}

/// `KEYCTL_UNLINK`: takes a key out of a keyring.
pub fn unlink_key(key: i32, keyring: i32) -> io::Result<()> {
    const KEYCTL_UNLINK: libc::c_int = 9;
    linked(KEYCTL_UNLINK, key, keyring)
}

/// `KEYCTL_LINK`: puts a key into a keyring as well.
pub fn link_key(key: i32, keyring: i32) -> io::Result<()> {
    const KEYCTL_LINK: libc::c_int = 8;
    linked(KEYCTL_LINK, key, keyring)
}

fn linked(operation: libc::c_int, key: i32, keyring: i32) -> io::Result<()> {
    // SAFETY: numbers alone; no memory of ours is touched.
    match unsafe { libc::syscall(libc::SYS_keyctl, operation, key, keyring) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// `KEYCTL_SEARCH`: the serial number of a key in a keyring, or else in one that is in that.
pub fn search_key(keyring: i32, kind: &CStr, description: &CStr) -> io::Result<i32> {
    const KEYCTL_SEARCH: libc::c_int = 10;
    // SAFETY: two strings that end in a zero byte, only read; the 0 says that no keyring gets the key.
    let key = unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_SEARCH, keyring, kind.as_ptr(), description.as_ptr(), 0)
    };
    serial(key)
}
