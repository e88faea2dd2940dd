//! Signals put off while something must not stay as it is, such as a terminal without echo.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const HELD: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP];

/// As long as this lives, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP wait. When it is dropped they do what they would
/// have done at once: mostly end or stop the process. SIGTTOU is blocked too, so that whoever lost the foreground
/// meanwhile can still put the terminal in order.
///
/// It holds them for the thread that made it, in a process that has no other.
pub struct HeldSignals {
    before: libc::sigset_t,
    pending: OwnedFd,
    /// The mask is the thread's, so this stays on it.
    _of_this_thread: PhantomData<*const ()>,
}

impl HeldSignals {
    /// From now on they wait.
    ///
    /// # Errors
    /// The system's error if signals can't be blocked.
    pub fn hold() -> io::Result<Self> {
        let (before, pending) = crate::sys::block_signals(&HELD, &[libc::SIGTTOU])?;
        Ok(Self { before, pending, _of_this_thread: PhantomData })
    }

    /// The one that waits, if one does.
    pub(super) fn which(&self) -> Option<i32> {
        crate::sys::pending_signal(&HELD)
    }

    /// A descriptor to poll: readable once one of them waits.
    pub fn pending(&self) -> BorrowedFd<'_> {
        self.pending.as_fd()
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        crate::sys::restore_signals(&self.before);
    }
}
