//! Going into the background. The fork comes first of all, before any thread and before any key: the child unlocks
//! and prompts on the terminal that it still has, and only when the volume is usable does it leave the terminal.
//! The parent waits for that, so its exit status tells whether the volume is open. No signal ends or stops it before
//! the child: whoever started it takes the terminal back then, which the child must have put in order.

use super::HeldSignals;
use crate::sys::{Forked, fork_single_threaded};
use core::fmt;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The two sides of [`daemonize`].
#[must_use]
pub enum Daemonized {
    /// The original process: all is done, and it should exit with this status. 0: the daemon is ready, and its
    /// ready line is printed. Otherwise the daemon ended early (it told the terminal why) and this is its status.
    Parent {
        /// The exit status.
        status: u8,
    },
    /// The daemon to be. It goes on with everything.
    Child(Background),
}

/// Held by the daemon until it is ready.
pub struct Background {
    ready: OwnedFd,
}

/// Why a process can't go into the background.
#[non_exhaustive]
#[derive(Debug)]
pub enum DaemonError {
    /// The process has more than one thread already.
    Threads,
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DaemonError::Threads => {
                f.write_str("a process with several threads cannot go into the background")
            }
            DaemonError::System(error) => write!(f, "cannot go into the background: {error}"),
        }
    }
}

impl core::error::Error for DaemonError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            DaemonError::System(error) => Some(error),
            DaemonError::Threads => None,
        }
    }
}

/// Longest ready line in bytes that the parent takes.
const MAX_LINE: usize = 16 << 10;

/// Forks. To be called at the start of a process, before threads and before secrets.
///
/// # Errors
/// [`DaemonError::Threads`] if the process has other threads already, [`DaemonError::System`] if it can't be
/// forked.
pub fn daemonize() -> Result<Daemonized, DaemonError> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| DaemonError::System(error.into()))?;
    match fork_single_threaded() {
        Ok(Forked::Child) => {
            drop(read);
            Ok(Daemonized::Child(Background { ready: write }))
        }
        Ok(Forked::Parent(pid)) => {
            drop(write);
            wait_for_child(&read, pid)
                .map(|status| Daemonized::Parent { status })
                .map_err(DaemonError::System)
        }
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(DaemonError::Threads),
        Err(error) => Err(DaemonError::System(error)),
    }
}

/// Reads the ready line up to the end of the pipe, which comes with readiness or with the child's death.
fn wait_for_child(pipe: &OwnedFd, pid: i32) -> io::Result<u8> {
    let mut child = Starting { pid: Pid::from_raw(pid), ended: None };
    let mut line = Vec::new();
    let mut buffer = [0; 1024];
    let mut held = HeldSignals::hold()?;
    loop {
        let mut fds =
            [PollFd::new(pipe, PollFlags::IN), PollFd::from_borrowed_fd(held.pending(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().is_empty() {
            if let Some(signal) = held.which() {
                child.follows(signal)?;
                // Here it stops this process, or ends it.
                drop(held);
                held = HeldSignals::hold()?;
            }
            continue;
        }
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => break,
            // cannot be less: never more than MAX_LINE is kept.
            Ok(len) => line.extend(&buffer[..len.min(MAX_LINE.saturating_sub(line.len()))]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if line.ends_with(b"\n") {
        let mut stdout = io::stdout().lock();
        // The volume is open, whether anybody can be told or not.
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
        return Ok(0);
    }
    child.end()
}

/// The child before it is ready.
struct Starting {
    pid: Option<Pid>,
    ended: Option<WaitStatus>,
}

/// How long the child may take to see the signal that the terminal has sent to both, and then one from here.
const FROM_TERMINAL: Duration = Duration::from_millis(200);
const FROM_HERE: Duration = Duration::from_secs(10);

impl Starting {
    /// Waits until the child has stopped or ended by a signal that this process has got. One that came to this process
    /// alone is passed on.
    fn follows(&mut self, signal: i32) -> io::Result<()> {
        if self.has_followed(signal, FROM_TERMINAL)? {
            return Ok(());
        }
        if let (Some(pid), Some(signal)) = (self.pid, Signal::from_named_raw(signal)) {
            let _ = kill_process(pid, signal);
        }
        self.has_followed(signal, FROM_HERE).map(drop)
    }

    fn has_followed(&mut self, signal: i32, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let stopped = self.look(WaitOptions::NOHANG | WaitOptions::UNTRACED)?;
            if self.ended.is_some() || (stopped && signal == libc::SIGTSTP) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it has stopped; notes if it has ended.
    fn look(&mut self, options: WaitOptions) -> io::Result<bool> {
        if self.ended.is_some() {
            return Ok(false);
        }
        match waitpid(self.pid, options) {
            Ok(Some((_, status))) if status.stopped() => Ok(true),
            Ok(Some((_, status))) => {
                self.ended = Some(status);
                Ok(false)
            }
            Ok(None) | Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end; its exit status.
    fn end(&mut self) -> io::Result<u8> {
        loop {
            if let Some(status) = self.ended {
                return Ok(super::exit_code(status.exit_status(), status.terminating_signal()));
            }
            self.look(WaitOptions::empty())?;
        }
    }
}

impl Background {
    /// Leaves the terminal and lets the parent end with success: it prints `line`.
    pub(super) fn leave(self, line: &str) -> io::Result<()> {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::process::setsid()?;
        // No mounted file system is held busy by a working directory.
        rustix::process::chdir("/")?;
        let line = format!("{line}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match rustix::io::write(&self.ready, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                // The parent was killed; there is nobody to tell.
                Err(_) => break,
            }
        }
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        Ok(())
    }
}
