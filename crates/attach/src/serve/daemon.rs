//! Going into the background. The fork comes first of all, before any thread and before any key: the child unlocks
//! and prompts on the terminal that it still has, and only when the volume is usable does it leave the terminal.
//! The parent waits for that, so its exit status tells whether the volume is open.

use crate::sys::{Forked, fork_single_threaded};
use core::fmt;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

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
    let mut line = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => break,
            Ok(len) => line.extend(&buffer[..len.min(MAX_LINE.saturating_sub(line.len()))]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if line.ends_with(b"\n") {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line).and_then(|()| stdout.flush())?;
        return Ok(0);
    }
    loop {
        match waitpid(Pid::from_raw(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Ok(super::exit_code(status.exit_status(), status.terminating_signal()));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
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
