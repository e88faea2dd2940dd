//! The system calls of device-mapper, loop devices, keyrings and System V semaphores, which no safe wrapper offers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of `struct loop_config`: descriptor, block size, `struct loop_info64` of 232 bytes, 64 reserved ones.
pub const LOOP_CONFIG: usize = 8 + 232 + 64;
const LOOP_CONFIGURE: u32 = 0x4c0a;
/// A loop device takes the length that its file has by now.
pub const LOOP_SET_CAPACITY: u32 = 0x4c07;

/// What is remembered of a block device is forgotten.
pub const FLUSH_BUFFERS: u32 = 0x1261;

/// Of `prctl`: memory is made for this thread without waiting for a write.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Keys that only this thread finds, and that go with it.
const KEY_SPEC_THREAD_KEYRING: libc::c_long = -1;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// An ioctl of device-mapper. It reads and writes as many bytes as the request's number says, or, if that is more, as the message
/// itself says in its bytes 12 to 15.
pub fn device_mapper(fd: BorrowedFd<'_>, request: u32, message: &mut [u8]) -> io::Result<()> {
    let head = (request >> 16 & 0x3fff) as usize;
    assert!(
        request >> 8 & 0xff == 0xfd && head >= 16 && head <= message.len(),
        "no message of device-mapper"
    );
    let len = u32::from_ne_bytes([message[12], message[13], message[14], message[15]]) as usize;
    assert!(len <= message.len(), "a message that says it is longer than it is");
    // SAFETY: the number is one of device-mapper's, whose ioctls touch no more than the two lengths that were just checked.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, message.as_mut_ptr()) };
    check(libc::c_long::from(done)).map(drop)
}

/// `LOOP_CONFIGURE` (Linux 5.8), with a `struct loop_config`.
pub fn configure_loop(fd: BorrowedFd<'_>, config: &mut [u8; LOOP_CONFIG]) -> io::Result<()> {
    // SAFETY: a loop device reads a `struct loop_config`, which has this many bytes; any other device refuses the number.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), LOOP_CONFIGURE as libc::Ioctl, config.as_mut_ptr()) };
    check(libc::c_long::from(done)).map(drop)
}

/// An ioctl that takes no argument; what it returns.
pub fn ioctl_none(fd: BorrowedFd<'_>, request: u32) -> io::Result<u32> {
    // SAFETY: requests of this kind touch no memory of ours.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, 0) };
    check(libc::c_long::from(done)).map(|value| value as u32)
}

/// Keeps all memory of this process where it is, what it asks for later included, and asks the kernel not to wait for a write where it makes
/// room: the device that it would write to may be one that waits for this process. Threads that are started later inherit that.
pub fn stay_in_memory() -> io::Result<()> {
    // SAFETY: neither call touches memory of ours; the numbers are those of the manual.
    check(libc::c_long::from(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }))?;
    // Linux 5.6. Without it the memory that is locked is what protects.
    // SAFETY: no memory is touched.
    let _ = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    Ok(())
}

/// Adds a key to this thread's keyring. User space can't read back one of type `logon`.
pub fn add_key(kind: &core::ffi::CStr, description: &core::ffi::CStr, payload: &[u8]) -> io::Result<()> {
    // SAFETY: two strings that end in a zero byte and a payload with its length, all only read.
    check(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            description.as_ptr(),
            payload.as_ptr(),
            payload.len(),
            KEY_SPEC_THREAD_KEYRING,
        )
    })
    .map(drop)
}

/// A new set of one System V semaphore with this key and the value 1; its id. Fails with `AlreadyExists` if the key is taken.
pub fn semaphore(key: i32) -> io::Result<i32> {
    // SAFETY: no memory of ours is touched; SETVAL takes a number by value.
    unsafe {
        let id = libc::semget(key, 1, libc::IPC_CREAT | libc::IPC_EXCL | 0o600);
        check(libc::c_long::from(id))?;
        if libc::semctl(id, 0, libc::SETVAL, 1) == -1 {
            let error = io::Error::last_os_error();
            remove_semaphore(id);
            return Err(error);
        }
        Ok(id)
    }
}

/// Adds to a semaphore, or takes from it, without waiting.
pub fn semaphore_add(id: i32, by: i16) -> io::Result<()> {
    let mut operation = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: libc::IPC_NOWAIT as i16 };
    // SAFETY: one operation, valid for the call.
    check(libc::c_long::from(unsafe { libc::semop(id, &mut operation, 1) })).map(drop)
}

/// The value of a semaphore.
pub fn semaphore_value(id: i32) -> io::Result<i32> {
    // SAFETY: no memory is touched.
    check(libc::c_long::from(unsafe { libc::semctl(id, 0, libc::GETVAL) })).map(|value| value as i32)
}

/// Removes a semaphore.
pub fn remove_semaphore(id: i32) {
    // SAFETY: no memory is touched. That it is gone already changes nothing.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
}
