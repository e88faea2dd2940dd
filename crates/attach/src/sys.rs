//! The system calls that no safe wrapper offers: signal handlers and masks, descriptors by number, `fork`, and
//! namespaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The pipe that the signal handler writes to; -1 as long as there is none.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

/// From now on each of these signals puts one byte, its number, into `pipe`, which must be non-blocking. A signal
/// that the process was started to ignore (nohup) stays ignored. Only the first caller in a process wins.
pub fn pipe_signals(signals: &[i32], pipe: OwnedFd) -> io::Result<()> {
    let fd = pipe.as_raw_fd();
    if SIGNAL_PIPE.compare_exchange(-1, fd, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // The handlers live as long as the process, and so must what they write to.
    let _ = pipe.into_raw_fd();
    for &signal in signals {
        // SAFETY: `sigaction` is a plain C struct for which all zeros is a valid value (SIG_DFL, no flags, an empty
        // mask); both pointers are valid for the call. `on_signal` has the signature that a handler without
        // SA_SIGINFO needs and does only what is allowed in one.
        let done = unsafe {
            let mut old: libc::sigaction = core::mem::zeroed();
            if libc::sigaction(signal, core::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
            {
                continue;
            }
            let mut new: libc::sigaction = core::mem::zeroed();
            new.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            new.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &new, core::ptr::null_mut())
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_signal(signal: libc::c_int) {
    let fd = SIGNAL_PIPE.load(Ordering::Relaxed);
    let byte = signal as u8;
    // SAFETY: `write` and reading the thread's errno are async-signal-safe; the buffer is one valid byte; errno is
    // put back, so the interrupted code sees nothing. A full pipe drops the byte, and many others are in it then.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(fd, (&raw const byte).cast(), 1);
        *errno = saved;
    }
}

/// Blocks these signals for this thread. Gives the thread's mask as it was, and a descriptor that is readable while
/// one of `told` is pending.
pub fn block_signals(told: &[i32], silent: &[i32]) -> io::Result<(libc::sigset_t, OwnedFd)> {
    // SAFETY: `sigset_t` is plain data for which all zeros is a valid value, and every pointer is to a local one.
    // A descriptor that `signalfd` returns is new and ours alone.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in told {
            libc::sigaddset(&mut set, signal);
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let pending = OwnedFd::from_raw_fd(fd);
        for &signal in silent {
            libc::sigaddset(&mut set, signal);
        }
        let mut before: libc::sigset_t = core::mem::zeroed();
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) {
            0 => Ok((before, pending)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The first of these signals that is blocked and pending.
pub fn pending_signal(signals: &[i32]) -> Option<i32> {
    // SAFETY: `sigset_t` is plain data for which all zeros is a valid value; `sigpending` fills in the local one, and
    // `sigismember` only reads it.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        if libc::sigpending(&mut set) != 0 {
            return None;
        }
        signals.iter().copied().find(|&signal| libc::sigismember(&set, signal) == 1)
    }
}

/// Gives this thread the mask `before` again; what is pending arrives before this returns.
pub fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: `before` is a mask that `pthread_sigmask` filled in.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut()) };
}

/// Sets `FD_CLOEXEC` on descriptor `fd` of this process, whoever owns it.
pub fn close_on_exec(fd: i32) -> io::Result<()> {
    // SAFETY: `F_SETFD` takes a number and touches no memory; a descriptor that is not open gives EBADF. It neither
    // closes nor replaces the descriptor, so its owner, if there is one, sees no difference.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A descriptor of this process, whoever owns it, once more. The copy is not passed on to other programs.
pub fn copy_of_descriptor(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: `F_DUPFD_CLOEXEC` takes numbers and touches no memory; a descriptor that is not open gives EBADF. What it returns is
    // new and ours alone.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

/// Makes `device`, which is `/dev/fuse` newly opened, another way to the mount of `mounted` (FUSE_DEV_IOC_CLONE).
pub fn join_fuse_mount(device: BorrowedFd<'_>, mounted: BorrowedFd<'_>) -> io::Result<()> {
    let number = mounted.as_raw_fd().cast_unsigned();
    let request = libc::_IOR::<u32>(229, 0);
    // SAFETY: the request reads the 32 bits that the pointer leads to, which are there for the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), request as _, &raw const number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Gives this process, which has one thread, a user namespace and a mount namespace of its own.
pub fn own_namespaces() -> io::Result<()> {
    // SAFETY: flags by value. A process with several threads is refused by the kernel.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The two processes after a fork.
pub enum Forked {
    /// The process that was there before, with the new one's id.
    Parent(libc::pid_t),
    /// The new process.
    Child,
}

/// Forks, if this process has one thread only. (Locks that other threads hold would stay locked in the child.)
pub fn fork_single_threaded() -> io::Result<Forked> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    // SAFETY: this is the only thread, so the child is a complete copy of the process and may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}
