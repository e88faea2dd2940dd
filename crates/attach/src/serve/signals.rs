//! The signals that end a face, as a readable pipe.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// SIGTERM, SIGINT and SIGHUP of this process, from [`install`](Self::install) on.
pub struct Signals {
    pipe: OwnedFd,
}

impl Signals {
    /// Takes the three signals over for the rest of the process's life. To be called once. Programs that this
    /// process starts see them as usual.
    ///
    /// # Errors
    /// The system's error if there is no descriptor left, or signals can't be taken over.
    pub fn install() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        crate::sys::pipe_signals(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP], write)?;
        Ok(Self { pipe: read })
    }

    /// A descriptor to poll: readable once a signal has come.
    pub fn came(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Waits for the next signal and returns its number.
    ///
    /// # Errors
    /// The system's error if it can't be waited.
    pub fn wait(&self) -> io::Result<i32> {
        loop {
            if let Some(signal) = self.next() {
                return Ok(signal);
            }
            match poll(&mut [self.poll_fd()], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.pipe, PollFlags::IN)
    }

    /// The next signal that has come, without waiting.
    pub(super) fn next(&self) -> Option<i32> {
        let mut byte = [0];
        match rustix::io::read(&self.pipe, &mut byte) {
            Ok(1) => Some(i32::from(byte[0])),
            _ => None,
        }
    }
}
