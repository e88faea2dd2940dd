//! The end of a session that can't go on: all its threads let go of the mount, and the kernel ends it.
//!
//! A thread that gave up with a request in its hands would leave the caller waiting for ever. The kernel ends a mount when nobody holds
//! its device any more, whatever user serves it; so every thread that waits for requests waits for this, too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, retry_on_intr, write};

/// A word to all threads of a session.
#[derive(Clone)]
pub struct Stop(Arc<Word>);

struct Word {
    /// Readable once it is given.
    event: OwnedFd,
    given: AtomicBool,
}

/// Gives the word unless the thread that holds it ends well.
pub struct StopUnlessWell {
    stop: Stop,
    well: bool,
}

impl Stop {
    /// # Errors
    /// The system's error if there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Word { event, given: AtomicBool::new(false) })))
    }

    pub fn give(&self) {
        self.0.given.store(true, Ordering::Release);
        // It holds a number of 64 bits, of which this is the only kind of use: it has room.
        let _ = write(&self.0.event, &1_u64.to_ne_bytes());
    }

    pub fn is_given(&self) -> bool {
        self.0.given.load(Ordering::Acquire)
    }

    /// Waits until `other` can be read, or has ended. False if the word was given.
    pub fn wait_or_readable(&self, other: BorrowedFd<'_>) -> Result<bool, Errno> {
        let mut both =
            [PollFd::from_borrowed_fd(other, PollFlags::IN), PollFd::new(&self.0.event, PollFlags::IN)];
        retry_on_intr(|| poll(&mut both, None))?;
        Ok(!self.is_given())
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl StopUnlessWell {
    pub fn new(stop: Stop) -> Self {
        Self { stop, well: false }
    }

    pub fn ended<T>(mut self, how: io::Result<T>) -> io::Result<T> {
        self.well = how.is_ok();
        how
    }
}

impl Drop for StopUnlessWell {
    fn drop(&mut self) {
        if !self.well {
            self.stop.give();
        }
    }
}
