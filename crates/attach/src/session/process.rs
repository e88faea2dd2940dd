//! A process that can be told from a later one with the same id (proc_pid_stat(5), field 22).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Process id, start time and boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub pid: i32,
    /// Clock ticks from boot to the start of the process.
    start_time: u64,
    /// The kernel's id of this boot.
    boot: String,
}

impl Process {
    pub fn current() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, start_time: start_time(pid)?, boot: boot()? })
    }

    pub fn is_alive(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
            && start_time(self.pid).is_ok_and(|start_time| start_time == self.start_time)
            && !self.has_ended()
    }

    /// Whether the process may still run. Unlike in [`is_alive`](Self::is_alive), one that /proc does not show is taken for
    /// the same.
    pub fn may_be_alive(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
            && start_time(self.pid).map_or(true, |start_time| start_time == self.start_time)
            && !self.has_ended()
    }

    /// Whether it was started since the machine was.
    pub fn is_of_this_boot(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
    }

    /// Nothing of it runs any more, whether its parent knows yet or not. A killed process's first thread can be
    /// gone while others still hold its files.
    fn has_ended(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return true };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Handle(pidfd).wait(Duration::ZERO).unwrap_or(false),
            Err(error) => error == Errno::SRCH,
        }
    }

    /// A handle on whatever process has the id now; `None` if there is none. If this one is found to be alive
    /// afterwards, the handle is its own for good.
    pub fn handle(&self) -> io::Result<Option<Handle>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Some(Handle(pidfd))),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A running process, held by a pidfd.
pub(super) struct Handle(OwnedFd);

impl Handle {
    pub fn terminate(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::TERM) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it has ended within `limit`.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            // intended: no time is left behind the deadline.
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn start_time(pid: i32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces and parentheses; the fields after it can't.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = fields.split_ascii_whitespace().nth(START_TIME_FIELD - FIRST_FIELD_AFTER_NAME);
    field.and_then(|field| field.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

const START_TIME_FIELD: usize = 22;
const FIRST_FIELD_AFTER_NAME: usize = 3;

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
