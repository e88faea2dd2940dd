//! Keeping a face up: readiness, signals, a command that runs meanwhile, the background, and an end in order.
//!
//! Readiness is told three ways once the volume can be used: `READY=1` to the service manager (sd_notify), a line
//! on standard output (`ready nbd+unix:///?socket=…`, `ready vhost-user SOCKET`, `ready fuse DIR/volume`, or `ready fuse
//! DIR` for a tree), and, for a daemon, the end of the process that started it. With a command to run, the command's start takes the place of the line.
//!
//! The first SIGTERM, SIGINT or SIGHUP ends in order: requests in flight are finished and what was written is
//! flushed; a mounted file that is in use goes out of sight and is served until its users close it. A second signal
//! gives up waiting.
//!
//! A command keeps the volume for as long as it runs. SIGTERM and SIGHUP are passed on to it; SIGINT, which a terminal
//! sends to both, is its own affair. A second SIGTERM kills it. Then the volume is closed in order, which one further
//! signal leaves be and a second one gives up.

mod daemon;
mod held;
mod signals;

pub use daemon::{Background, DaemonError, Daemonized, daemonize};
pub use held::HeldSignals;
pub use signals::Signals;

use crate::driver::{Driven, EndError, Stopper};
use crate::gate::Gate;
#[cfg(feature = "vhost-user")]
use crate::vhost_user;
use crate::{fuse, nbd};
use core::fmt;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sd_notify::NotifyState;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Keeps descriptor `number` of this process from every program that it starts.
///
/// # Errors
/// The system's error if no such descriptor is open.
pub fn keep_from_commands(number: u32) -> io::Result<()> {
    let fd = i32::try_from(number).map_err(|_| io::Error::from(Errno::BADF))?;
    crate::sys::close_on_exec(fd)
}

/// A volume's way out, ready to be served.
pub enum Face {
    /// A bound NBD server.
    Nbd(nbd::Server),
    /// A mounted volume.
    Fuse(fuse::Mount),
    /// The file system in a volume, mounted by a driver.
    Driven(Box<Driven>),
    /// A bound vhost-user server.
    #[cfg(feature = "vhost-user")]
    VhostUser(vhost_user::Server),
}

/// What goes with serving.
pub struct Plan {
    /// The signals that end it.
    pub signals: Signals,
    /// Serve as long as this runs. It gets `ATREST_URI`, `ATREST_SOCKET` (vhost-user) or `ATREST_PATH` (the volume's file, or the
    /// directory of its files).
    pub command: Option<Command>,
    /// Leave the terminal when ready.
    pub background: Option<Background>,
    /// The line that says so, where it is not [`Face::ready_line`].
    pub ready: Option<String>,
    /// What may hold requests back, which nobody waits for at the end.
    pub gate: Option<Arc<Gate>>,
}

/// How serving ended, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal came.
    Signal(i32),
    /// It was unmounted from outside.
    Unmounted,
    /// The command ended with this status (128 + the signal's number if one killed it).
    Command {
        /// The exit status.
        status: u8,
        /// It was killed, because a second SIGTERM came before it had ended.
        killed: bool,
    },
}

/// Why serving failed.
#[non_exhaustive]
#[derive(Debug)]
pub enum ServeError {
    /// The NBD server failed.
    Nbd(nbd::RunError),
    /// The mount failed.
    Fuse(fuse::WaitError),
    /// The driver failed, or the mount below it.
    Driver(EndError),
    /// The vhost-user server failed.
    #[cfg(feature = "vhost-user")]
    VhostUser(vhost_user::RunError),
    /// The command can't be started.
    Command {
        /// The program.
        program: OsString,
        /// What the operating system said.
        error: io::Error,
    },
    /// A second signal came before all users were done.
    Abandoned,
    /// The mount can't be taken away. What was written is flushed; the directory stays with a dead mount.
    Unmount {
        /// The mounted directory.
        directory: PathBuf,
        /// Why.
        error: fuse::UnmountError,
    },
    /// The operating system refused something else that serving needs.
    System(io::Error),
    /// The command ended, and then the volume could not be closed in order.
    AfterCommand {
        /// The command's exit status.
        status: u8,
        /// It was killed, because a second SIGTERM came before it had ended.
        killed: bool,
        /// Why the volume could not be closed.
        error: Box<ServeError>,
    },
    /// Serving failed, and then the volume could not be closed in order.
    AfterFailure {
        /// What failed first.
        first: Box<ServeError>,
        /// Why the volume could not be closed.
        error: Box<ServeError>,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Nbd(error) => write!(f, "{error}"),
            ServeError::Fuse(error) => write!(f, "{error}"),
            ServeError::Driver(error) => write!(f, "{error}"),
            #[cfg(feature = "vhost-user")]
            ServeError::VhostUser(error) => write!(f, "{error}"),
            ServeError::Command { program, error } => {
                write!(f, "cannot run {}: {error}", program.to_string_lossy())
            }
            ServeError::Abandoned => f.write_str(
                "ended by a second signal while the volume was still in use; unflushed writes may be lost",
            ),
            ServeError::Unmount { directory, error } => write!(
                f,
                "cannot unmount {} ({error}); what was written is flushed, but a dead mount stays there",
                directory.display()
            ),
            ServeError::System(error) => write!(f, "cannot serve the volume: {error}"),
            ServeError::AfterCommand { status, killed, error } => {
                let end = if *killed { "was killed" } else { "ended" };
                write!(f, "{error} (the command {end} before that, with status {status})")
            }
            ServeError::AfterFailure { first, error } => write!(f, "{error} (before that: {first})"),
        }
    }
}

impl core::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            ServeError::Nbd(error) => Some(error),
            ServeError::Fuse(error) => Some(error),
            ServeError::Driver(error) => Some(error),
            #[cfg(feature = "vhost-user")]
            ServeError::VhostUser(error) => Some(error),
            ServeError::Command { error, .. } | ServeError::System(error) => Some(error),
            ServeError::Unmount { error, .. } => Some(error),
            ServeError::AfterCommand { error, .. } | ServeError::AfterFailure { error, .. } => Some(error),
            ServeError::Abandoned => None,
        }
    }
}

impl Face {
    /// The line that says that it is ready, without the newline.
    pub fn ready_line(&self) -> String {
        match self {
            Face::Nbd(server) => format!("ready {}", server.uri()),
            Face::Fuse(mount) => format!("ready fuse {}", mount.place().display()),
            Face::Driven(driven) => format!("ready fuse {}", driven.directory().display()),
            #[cfg(feature = "vhost-user")]
            Face::VhostUser(server) => format!("ready vhost-user {}", server.socket().display()),
        }
    }

    /// How a command finds it.
    fn variable(&self) -> (&'static str, OsString) {
        match self {
            Face::Nbd(server) => ("ATREST_URI", server.uri().into()),
            Face::Fuse(mount) => ("ATREST_PATH", mount.place().into()),
            Face::Driven(driven) => ("ATREST_PATH", driven.directory().into()),
            #[cfg(feature = "vhost-user")]
            Face::VhostUser(server) => ("ATREST_SOCKET", server.socket().into()),
        }
    }
}

/// Serves until a signal comes, the command ends, or the volume is unmounted.
///
/// # Errors
/// [`ServeError::Nbd`], [`ServeError::Fuse`], [`ServeError::Driver`] or `ServeError::VhostUser` if the face fails,
/// [`ServeError::Command`] if the command can't be started. [`ServeError::Unmount`] if the mount can't be taken away. [`ServeError::Abandoned`] if a
/// second signal ended the wait for its users: writes that were not flushed may be lost.
/// [`ServeError::System`] if the system refuses something else.
///
/// [`ServeError::AfterCommand`] if the volume can't be closed in order when the command has ended, and
/// [`ServeError::AfterFailure`] if that happens after another error.
pub fn run(face: Face, plan: Plan) -> Result<End, ServeError> {
    let Plan { signals, command, background, ready, gate } = plan;
    let (line, (variable, value)) = (ready.unwrap_or_else(|| face.ready_line()), face.variable());
    let mut service = Service::start(face).map_err(ServeError::System)?;
    let announced = announce(&line, command.is_some(), background);
    let child = announced.map_err(ServeError::System).and_then(|()| match command {
        Some(mut command) => {
            let program = command.get_program().to_owned();
            command.env(variable, value);
            Running::start(command).map(Some).map_err(|error| ServeError::Command { program, error })
        }
        None => Ok(None),
    });
    let end = child.and_then(|child| wait_for_end(&mut service, &signals, child));
    // A signal that ended it was the first; otherwise the first is still free.
    let patience = if matches!(end, Ok(End::Signal(_))) { 0 } else { 1 };
    if let Some(gate) = gate {
        gate.end();
    }
    let closed = service.stop().and_then(|()| service.join(&signals, patience));
    outcome(end, closed)
}

/// What became of the volume comes first, as data may be lost; it hides neither the command's status nor an earlier error.
fn outcome(end: Result<End, ServeError>, closed: Result<(), ServeError>) -> Result<End, ServeError> {
    let Err(error) = closed else { return end };
    Err(match end {
        Ok(End::Signal(_) | End::Unmounted) => error,
        Ok(End::Command { status, killed }) => {
            ServeError::AfterCommand { status, killed, error: Box::new(error) }
        }
        Err(first) => ServeError::AfterFailure { first: Box::new(first), error: Box::new(error) },
    })
}

/// Tells everyone who waits that the volume can be used.
fn announce(line: &str, silent: bool, background: Option<Background>) -> io::Result<()> {
    match background {
        Some(background) => background.leave(line)?,
        None if silent => {}
        None => {
            let mut stdout = io::stdout().lock();
            // A reader that went away is no reason to close the volume.
            let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        }
    }
    // Without a service manager nothing is sent; one that can't be reached is no reason to close the volume.
    let _ = sd_notify::notify(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
    Ok(())
}

fn wait_for_end(service: &mut Service, signals: &Signals, child: Option<Running>) -> Result<End, ServeError> {
    let mut child = child;
    let (mut told, mut killed) = (false, false);
    let mut served = true;
    loop {
        let mut fds = vec![signals.poll_fd()];
        // Each of the others is waited for as long as it can still bring news.
        let service_at = served.then(|| push(&mut fds, PollFd::new(&service.ended, PollFlags::IN)));
        let child_at = child.as_ref().map(|child| push(&mut fds, PollFd::new(&child.pidfd, PollFlags::IN)));
        wait(&mut fds)?;
        let came = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (service_ended, child_ended) = (came(service_at), came(child_at));
        if let Some(running) = child.as_mut().filter(|_| child_ended) {
            let status = running.child.wait().map_err(ServeError::System)?;
            // What came while it ran was its own.
            while signals.next().is_some() {}
            return Ok(End::Command { status: exit_code(status.code(), status.signal()), killed });
        }
        match (signals.next(), &mut child) {
            (None, _) => {}
            (Some(signal), None) => return Ok(End::Signal(signal)),
            // What is typed at the terminal reaches the command by itself.
            (Some(libc::SIGINT), Some(_)) => {}
            // Several SIGHUPs come when one terminal goes away. A second SIGTERM means it.
            (Some(libc::SIGTERM), Some(running)) if told => {
                killed = true;
                let _ = running.child.kill();
            }
            (Some(signal), Some(running)) => {
                told |= signal == libc::SIGTERM;
                running.pass_on(signal);
            }
        }
        if service_ended {
            served = false;
            if child.is_none() {
                return Ok(End::Unmounted);
            }
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> usize {
    list.push(item);
    list.len() - 1
}

fn wait(fds: &mut [PollFd<'_>]) -> Result<(), ServeError> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(ServeError::System(error.into())),
    }
}

/// A face that is being served by its own thread.
struct Service {
    stop: Stop,
    /// Readable when the thread has ended.
    ended: Arc<OwnedFd>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

enum Stop {
    Nbd(nbd::Shutdown),
    Fuse(fuse::Unmounter),
    Driven(Stopper),
    #[cfg(feature = "vhost-user")]
    VhostUser(vhost_user::Shutdown),
}

impl Service {
    fn start(face: Face) -> io::Result<Self> {
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stop = match &face {
            Face::Nbd(server) => Stop::Nbd(server.shutdown()),
            Face::Fuse(mount) => Stop::Fuse(mount.unmounter()),
            Face::Driven(driven) => Stop::Driven(driven.stopper()),
            #[cfg(feature = "vhost-user")]
            Face::VhostUser(server) => Stop::VhostUser(server.shutdown()),
        };
        let raise = RaiseOnDrop(ended.clone());
        let serve = move || {
            let _raise = raise;
            match face {
                Face::Nbd(server) => server.run().map_err(ServeError::Nbd),
                Face::Fuse(mount) => mount.wait().map_err(ServeError::Fuse),
                Face::Driven(driven) => driven.wait().map_err(ServeError::Driver),
                #[cfg(feature = "vhost-user")]
                Face::VhostUser(server) => server.run().map_err(ServeError::VhostUser),
            }
        };
        let thread = std::thread::Builder::new().name("face".into()).spawn(serve)?;
        Ok(Self { stop, ended, thread: Some(thread) })
    }

    /// Begins to end it.
    fn stop(&self) -> Result<(), ServeError> {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        match &self.stop {
            Stop::Nbd(shutdown) => {
                shutdown.start();
                Ok(())
            }
            #[cfg(feature = "vhost-user")]
            Stop::VhostUser(shutdown) => {
                shutdown.start();
                Ok(())
            }
            // Somebody unmounted it; what is mounted there now is none of ours.
            Stop::Fuse(_) | Stop::Driven(_) if self.has_ended() => Ok(()),
            Stop::Fuse(unmounter) => self.unmount(unmounter),
            Stop::Driven(stopper) => self.stop_driver(stopper),
        }
    }

    fn stop_driver(&self, stopper: &Stopper) -> Result<(), ServeError> {
        let outcome = match stopper.unmount() {
            Err(fuse::UnmountError::Busy) => stopper.detach(),
            outcome => outcome,
        };
        match outcome {
            Ok(()) | Err(fuse::UnmountError::NotMounted) => Ok(()),
            Err(_) if self.has_ended() || stopper.terminate() => Ok(()),
            Err(error) => {
                stopper.flush().map_err(ServeError::Fuse)?;
                Err(ServeError::Unmount { directory: stopper.directory().into(), error })
            }
        }
    }

    fn unmount(&self, unmounter: &fuse::Unmounter) -> Result<(), ServeError> {
        let outcome = match unmounter.unmount() {
            Err(fuse::UnmountError::Busy) => unmounter.detach(),
            outcome => outcome,
        };
        match outcome {
            // Whoever took it out of sight, it ends with its last user.
            Ok(()) | Err(fuse::UnmountError::NotMounted) => Ok(()),
            Err(_) if self.has_ended() => Ok(()),
            // Nothing more would ever end it, so this is the end.
            Err(error) => {
                unmounter.flush().map_err(ServeError::Fuse)?;
                Err(ServeError::Unmount { directory: unmounter.directory().into(), error })
            }
        }
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.ended, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Waits until it has ended; the signal after `patience` further ones gives up.
    fn join(&mut self, signals: &Signals, patience: u32) -> Result<(), ServeError> {
        let mut patience = patience;
        let mut told = false;
        loop {
            let mut fds = [signals.poll_fd(), PollFd::new(&self.ended, PollFlags::IN)];
            wait(&mut fds)?;
            if !fds[1].revents().is_empty() {
                let thread = self.thread.take();
                return thread.map_or(Ok(()), |thread| {
                    thread.join().unwrap_or_else(|_| {
                        Err(ServeError::System(io::Error::other("the serving thread panicked")))
                    })
                });
            }
            if signals.next().is_some() {
                patience = match patience.checked_sub(1) {
                    Some(left) => left,
                    // A driver can write back without its users. The next signal gives up.
                    None if !told && matches!(&self.stop, Stop::Driven(stopper) if stopper.terminate()) => {
                        told = true;
                        0
                    }
                    None => return Err(ServeError::Abandoned),
                };
            }
        }
    }
}

struct RaiseOnDrop(Arc<OwnedFd>);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// The command that runs meanwhile.
struct Running {
    child: Child,
    pidfd: OwnedFd,
}

impl Running {
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Passes SIGTERM or SIGHUP on. It has not been waited for, so its id is still its own.
    fn pass_on(&self, signal: i32) {
        let signal = if signal == libc::SIGHUP { Signal::HUP } else { Signal::TERM };
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

/// A shell's exit status for an ended process.
fn exit_code(code: Option<i32>, signal: Option<i32>) -> u8 {
    match (code, signal) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_cannot_be_closed_hides_neither_the_commands_status_nor_an_earlier_error() {
        let command = End::Command { status: 3, killed: false };
        assert!(matches!(outcome(Ok(command), Ok(())), Ok(End::Command { status: 3, .. })));
        let told = outcome(Ok(command), Err(ServeError::Abandoned)).expect_err("not closed");
        assert!(matches!(told, ServeError::AfterCommand { status: 3, killed: false, .. }), "{told:?}");
        let text = told.to_string();
        assert!(text.starts_with(&ServeError::Abandoned.to_string()) && text.contains("status 3"), "{text}");
        let first = || ServeError::System(io::Error::other("the first"));
        assert!(matches!(outcome(Err(first()), Ok(())), Err(ServeError::System(_))));
        let told = outcome(Err(first()), Err(ServeError::Abandoned)).expect_err("neither");
        assert!(matches!(told, ServeError::AfterFailure { .. }) && told.to_string().contains("the first"));
        let alone = outcome(Ok(End::Signal(15)), Err(ServeError::Abandoned));
        assert!(matches!(alone, Err(ServeError::Abandoned)));
    }
}
