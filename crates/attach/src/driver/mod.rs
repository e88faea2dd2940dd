//! The file system inside a volume, mounted to read and write by a program that others keep: fuse2fs, ntfs-3g, exfat-fuse or
//! lklfuse, or as root by the kernel.
//!
//! [`mount`] serves the volume as a file ([`fuse::mount`](crate::fuse::mount())) in a private directory, starts the driver on
//! that file, and returns when the driver has mounted the directory that the person named. The driver is a child of this
//! process and stays in the foreground, so its end is seen. [`Driven::wait`] waits for it, and only then takes the file away
//! and flushes the volume: whatever the driver writes back at its end comes in.
//!
//! ```text
//! person's directory ── driver ── PLACE/volume (our FUSE file) ── Disk ── media
//! ```
//!
//! Both mounts end in this order however the end begins: by [`Stopper::unmount`], by `fusermount -u` on the person's
//! directory, or by a signal to the driver. A driver that dies leaves its dead mount in the person's directory. It stays there
//! until somebody closes the volume: programs get an error, and do not write in the clear to the directory below.

mod arguments;
mod error;
mod file;
mod kernel;
mod mounts;
mod program;
mod said;
mod stand_in;

pub use error::{DriverError, EndError};
pub use program::Program;
pub use stand_in::play_role;

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_probe::FilesystemKind;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::file::VolumeFile;
use self::mounts::MountTable;
use self::said::Said;
use crate::fuse::{MountId, UnmountError, Unmounter, check_directory};

/// Who serves the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A program in user space.
    Program(Program),
    /// The kernel's own file system, over a loop device. As root only.
    Kernel,
}

/// How it is mounted.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Refuse writes.
    pub read_only: bool,
    /// Let other users see the files, as far as permissions allow.
    pub allow_other: bool,
    /// More options for the driver, as after its `-o`.
    pub extra: Vec<String>,
}

/// What is mounted, and where.
pub struct Plan<'a> {
    /// The device on which the file system starts.
    pub device: Arc<dyn BlockDevice>,
    /// What is on it.
    pub filesystem: FilesystemKind,
    /// Who serves it.
    pub by: By,
    /// The person's directory, which is empty.
    pub directory: &'a Path,
    /// An empty directory that this user alone can enter. It is removed at the end.
    pub place: PathBuf,
    /// How.
    pub options: &'a Options,
    /// Readable when nobody wants to wait for the driver any more.
    pub interrupt: BorrowedFd<'a>,
}

/// A mounted file system and the file below it.
pub struct Driven {
    directory: PathBuf,
    id: MountId,
    file: VolumeFile,
    file_id: MountId,
    server: Server,
    noted: Option<Note>,
}

/// Whoever is told at once that a driver has died.
pub type Note = Box<dyn FnOnce(&str) + Send>;

enum Server {
    Program { program: Program, child: Running },
    Kernel,
}

/// A driver that runs.
struct Running {
    child: Child,
    pidfd: Arc<OwnedFd>,
    said: Said,
}

/// Ends a [`Driven`] from any thread.
pub struct Stopper {
    directory: PathBuf,
    id: MountId,
    file: Option<Unmounter>,
    pidfd: Option<Arc<OwnedFd>>,
}

/// Serves a device as a file and mounts what is on it. The files can be used when this returns.
///
/// # Errors
/// [`DriverError::Missing`] if the program is not installed, [`DriverError::Setuid`] if this user can't use it. [`DriverError::Mount`], [`DriverError::Place`] or [`DriverError::Comma`] if nothing can be mounted in one of
/// the two directories. [`DriverError::Start`] or [`DriverError::Refused`] if the driver does not start, or does not like what
/// it finds. [`DriverError::Interrupted`] if a signal came first. [`DriverError::Loop`] or [`DriverError::System`] if the
/// system refuses something else.
///
/// Nothing stays mounted then, and no driver runs.
pub fn mount(plan: Plan<'_>) -> Result<Driven, DriverError> {
    let root = rustix::process::geteuid().is_root();
    let (binary, setuid) = match plan.by {
        By::Program(program) => {
            let binary = program.find().ok_or(DriverError::Missing { program })?;
            let setuid = (!root && program::is_setuid_root(&binary)).then_some(program);
            (Some((program, binary)), setuid)
        }
        By::Kernel => (None, None),
    };
    let directory = check_directory(plan.directory)?;
    let file = VolumeFile::serve(plan.device.clone(), plan.place.clone(), setuid)?;
    let file_id = file.id().ok_or_else(|| DriverError::System(io::ErrorKind::NotConnected.into()))?;
    let (server, id) = match binary {
        Some((program, binary)) => {
            let (child, id) = run(program, &binary, &plan, &file, &directory)?;
            (Server::Program { program, child }, id)
        }
        None => {
            kernel::mount(&plan, &file.path(), &directory)?;
            (Server::Kernel, MountId::at(&directory).map_err(DriverError::System)?)
        }
    };
    Ok(Driven { directory, id, file, file_id, server, noted: None })
}

/// Starts a driver and waits until it has mounted the directory.
fn run(
    program: Program,
    binary: &Path,
    plan: &Plan<'_>,
    file: &VolumeFile,
    directory: &Path,
) -> Result<(Running, MountId), DriverError> {
    let path = file.path();
    let device = match program.needs_block_device() {
        true => Some(kernel::loop_device(&path, plan.options.read_only)?),
        false => None,
    };
    let source = device.as_ref().map_or(path.as_path(), |device| device.path());
    let table = MountTable::open().map_err(DriverError::System)?;
    let before = MountId::at(directory).map_err(DriverError::System)?;
    let (mut command, asked) = match program.asks_for_too_much() {
        true => {
            let (command, asked) = stand_in::launcher(binary).map_err(DriverError::System)?;
            (command, Some(asked))
        }
        false => {
            let mut command = Command::new(binary);
            command.stdin(Stdio::null());
            (command, None)
        }
    };
    command.args(arguments::arguments(program, plan.filesystem, source, directory, plan.options));
    // What is typed at the terminal is for us: we end it in order.
    command.current_dir("/").process_group(0);
    let (reader, writer) = io::pipe().map_err(DriverError::System)?;
    let copy = writer.try_clone().map_err(DriverError::System)?;
    command.stdout(writer).stderr(copy);
    let child = command.spawn().map_err(|error| DriverError::Start { program: binary.into(), error })?;
    // Its ends of the pipe are the driver's alone now.
    drop(command);
    let mut running = Running::of(child, reader).map_err(DriverError::System)?;
    if let Some(asked) = asked {
        let (read_only, shared) = (plan.options.read_only, plan.options.allow_other);
        if let Err(error) = stand_in::serve(asked, directory.into(), read_only, shared) {
            running.end();
            return Err(DriverError::System(error));
        }
    }
    loop {
        match MountId::at(directory) {
            Ok(id) if id != before => return Ok((running, id)),
            _ => {}
        }
        let mut fds = [
            table.poll_fd(),
            PollFd::new(&running.pidfd, PollFlags::IN),
            PollFd::from_borrowed_fd(plan.interrupt, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                running.end();
                return Err(DriverError::System(error.into()));
            }
        }
        let (ended, signalled) = (!fds[1].revents().is_empty(), !fds[2].revents().is_empty());
        if ended {
            let (status, said) = running.wait().map_err(DriverError::System)?;
            return Err(DriverError::Refused { program: program.name(), status: ending(status), said });
        }
        if signalled {
            running.end();
            return Err(DriverError::Interrupted);
        }
    }
}

impl Running {
    fn of(mut child: Child, pipe: PipeReader) -> io::Result<Self> {
        let listen = |child: &Child| {
            let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
            Ok((Arc::new(pidfd), Said::listen(pipe)?))
        };
        match listen(&child) {
            Ok((pidfd, said)) => Ok(Self { child, pidfd, said }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn wait(&mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        Ok((status, self.said.last()))
    }

    /// Has it end in order; nobody uses its files yet.
    fn end(&mut self) {
        terminate(&self.pidfd);
        let _ = self.child.wait();
    }
}

impl Driven {
    /// The mounted directory, as an absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What tells the driver's mount from another one in the same directory.
    pub fn id(&self) -> MountId {
        self.id
    }

    /// The directory of our file, and its mount.
    pub fn file(&self) -> (&Path, MountId) {
        (self.file.directory(), self.file_id)
    }

    /// Who serves it: the driver's name.
    pub fn server(&self) -> &'static str {
        match &self.server {
            Server::Program { program, .. } => program.name(),
            Server::Kernel => "the kernel",
        }
    }

    /// The driver's process, if it has one.
    pub fn pid(&self) -> Option<u32> {
        match &self.server {
            Server::Program { child, .. } => Some(child.child.id()),
            Server::Kernel => None,
        }
    }

    /// Has the death of the driver told at once, before our own file is taken away.
    pub fn tell(&mut self, note: Note) {
        self.noted = Some(note);
    }

    /// The way to end it.
    pub fn stopper(&self) -> Stopper {
        let pidfd = match &self.server {
            Server::Program { child, .. } => Some(child.pidfd.clone()),
            Server::Kernel => None,
        };
        Stopper { directory: self.directory.clone(), id: self.id, file: self.file.unmounter(), pidfd }
    }

    /// Waits until the driver has ended, then takes our file away and flushes the device.
    ///
    /// # Errors
    /// [`EndError::Driver`] if the driver was killed or ended with an error, [`EndError::File`] if our file could not be served
    /// or flushed, [`EndError::System`] if the driver can't be waited for. The flush is tried in any case.
    pub fn wait(self) -> Result<(), EndError> {
        let Self { directory, id, file, file_id, server, noted } = self;
        // A driver that has ended has had its answers. The kernel may still use a loop device, which it does not say.
        let in_use = match &server {
            Server::Program { program, .. } => program.needs_block_device(),
            Server::Kernel => true,
        };
        let ended = match server {
            Server::Program { program, mut child } => match child.wait() {
                Ok((status, _)) if status.success() => Ok(()),
                Ok((status, said)) => Err(EndError::Driver { program, status: ending(status), said }),
                Err(error) => Err(EndError::System(error)),
            },
            Server::Kernel => mounts::wait_until_unmounted(&directory, id, file_id).map_err(EndError::System),
        };
        if let (Err(error), Some(note)) = (&ended, noted) {
            // The kernel may hold our file for as long as the dead mount is there: it is told now.
            note(&error.to_string());
        }
        file.close(in_use).map_err(EndError::File)?;
        ended
    }

    /// Ends what nobody uses yet.
    pub fn abandon(self) {
        let stopper = self.stopper();
        if stopper.unmount().is_err() && stopper.detach().is_err() {
            stopper.terminate();
        }
        // The command fails for another reason, which it tells.
        let _ = self.wait();
    }
}

impl Stopper {
    /// The mounted directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts the directory; the driver then writes back and ends.
    ///
    /// # Errors
    /// [`UnmountError::Busy`] if files are in use, and then all stays as it is. Otherwise it fails where [`MountId::unmount`]
    /// does.
    pub fn unmount(&self) -> Result<(), UnmountError> {
        self.id.unmount(&self.directory, false)
    }

    /// Takes the directory out of sight at once. The driver ends with the last user of its files.
    ///
    /// # Errors
    /// Fails where [`MountId::unmount`] does.
    pub fn detach(&self) -> Result<(), UnmountError> {
        self.id.unmount(&self.directory, true)
    }

    /// Tells the driver to write back and end, whoever uses its files. Returns whether there is one to tell.
    pub fn terminate(&self) -> bool {
        self.pidfd.as_ref().is_some_and(terminate)
    }

    /// Makes durable what has come in.
    ///
    /// # Errors
    /// Fails where [`Unmounter::flush`] does.
    pub fn flush(&self) -> Result<(), crate::fuse::WaitError> {
        self.file.as_ref().map_or(Ok(()), Unmounter::flush)
    }
}

fn terminate(pidfd: &Arc<OwnedFd>) -> bool {
    pidfd_send_signal(pidfd.as_fd(), Signal::TERM).is_ok()
}

/// How a process ended, for a person.
fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
