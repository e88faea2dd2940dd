//! Accepting front-ends, one at a time, and stopping in order: nothing new is taken, what was taken is finished, the device
//! is flushed, and only then is the server gone.

use super::disk::Disk;
use super::front_end::FrontEnd;
use crate::nbd::{BindError, Endpoint, Listener, RunError};
use atrest_device::BlockDevice;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::net::Shutdown as Ways;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vhost::vhost_user::BackendReqHandler;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the guest is told as the device's ID (serial number). Its first 20 bytes count.
    pub id: String,
    /// Queues that a front-end may use.
    pub queues: u16,
    /// Requests of one queue that are carried out at the same time. Each costs a buffer of 256 KiB at most.
    pub workers: usize,
    /// How long a further front-end waits for the one that is served to leave before its connection is closed.
    pub turn: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { id: String::from("atrest"), queues: 64, workers: 4, turn: Duration::from_secs(2) }
    }
}

/// A bound vhost-user server. Dropping it removes its socket.
pub struct Server {
    listener: Listener,
    socket: PathBuf,
    disk: Arc<Disk>,
    options: Options,
    shared: Arc<Shared>,
}

/// Stops a running [`Server`] from any thread.
#[derive(Clone)]
pub struct Shutdown(Arc<Shared>);

struct Shared {
    stop: AtomicBool,
    /// Wakes the accepting thread: the server stops, or the front-end has left.
    wake: OwnedFd,
}

impl Server {
    /// Starts to listen on a Unix socket with mode 0600. Front-ends can connect from now on; they are served by
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// [`BindError::InUse`] or [`BindError::Locked`] if another server has the socket, [`BindError::NotASocket`],
    /// [`BindError::PathTooLong`] or [`BindError::Socket`] if none can be made there.
    pub fn bind(device: Arc<dyn BlockDevice>, socket: &Path, options: Options) -> Result<Self, BindError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| BindError::System(error.into()))?;
        let listener = Listener::bind(&Endpoint::Unix(socket.into()))?;
        let socket = match &listener.endpoint {
            Endpoint::Unix(absolute) => absolute.clone(),
            Endpoint::Tcp(_) => socket.into(),
        };
        let disk = Arc::new(Disk::new(device, &options.id, options.queues));
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), wake });
        Ok(Self { listener, socket, disk, options, shared })
    }

    /// The socket's absolute path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The way to stop it.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.shared.clone())
    }

    /// Serves until [`Shutdown::start`]. When it returns, every request that was taken has been given back to its guest,
    /// and the device is flushed.
    ///
    /// # Errors
    /// [`RunError::Accept`] if no connections can be accepted any more. [`RunError::Flush`] if the last flush fails:
    /// writes that were acknowledged may be lost. [`RunError::AcceptAndFlush`] if both happened.
    pub fn run(self) -> Result<(), RunError> {
        let Self { listener, disk, options, shared, .. } = self;
        let accepting = Reception { listener, disk: disk.clone(), options, shared }.run();
        let flushed = if disk.device.is_read_only() { Ok(()) } else { disk.device.flush() };
        RunError::outcome(accepting, flushed)
    }
}

impl Shutdown {
    /// Begins to stop the server; [`Server::run`] returns when it has.
    pub fn start(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
        self.0.wake();
    }
}

impl Shared {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

struct Reception {
    listener: Listener,
    disk: Arc<Disk>,
    options: Options,
    shared: Arc<Shared>,
}

impl Reception {
    fn run(self) -> io::Result<()> {
        let mut served = None;
        let outcome = self.receive(&mut served);
        // Nobody can connect any more while the last requests are finished.
        drop(self);
        drop(served);
        outcome
    }

    fn receive(&self, served: &mut Option<Served>) -> io::Result<()> {
        let mut waiting: Option<(OwnedFd, Instant)> = None;
        while !self.shared.stop.load(Ordering::Relaxed) {
            served.take_if(|served| served.left.load(Ordering::Relaxed));
            if served.is_none()
                && let Some((socket, _)) = waiting.take()
            {
                *served = self.serve(socket);
            }
            waiting = waiting.filter(|(_, deadline)| Instant::now() < *deadline);
            let limit = waiting.as_ref().map(|(_, deadline)| until(*deadline));
            let mut fds = [PollFd::new(&self.shared.wake, PollFlags::IN), self.listener.poll_fd()];
            match poll(&mut fds[..if waiting.is_some() { 1 } else { 2 }], limit.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !fds[0].revents().is_empty() {
                let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
            }
            if waiting.is_some() || fds[1].revents().is_empty() {
                continue;
            }
            if let Some(socket) = self.listener.accept(&self.shared.wake)? {
                waiting = Some((socket, Instant::now() + self.options.turn));
            }
        }
        Ok(())
    }

    /// Serves a front-end in a thread. Without a thread or a descriptor there is no service, which the closed
    /// connection tells.
    fn serve(&self, socket: OwnedFd) -> Option<Served> {
        let stream = UnixStream::from(socket);
        let cutter = stream.try_clone().ok()?;
        let (disk, shared) = (self.disk.clone(), self.shared.clone());
        let (queues, workers) = (self.options.queues, self.options.workers);
        let left = Arc::new(AtomicBool::new(false));
        let leaving = Leaving { left: left.clone(), shared };
        let converse = move || {
            let _leaving = leaving;
            let front_end = Arc::new(Mutex::new(FrontEnd::new(disk, queues, workers)));
            let mut handler = BackendReqHandler::from_stream(stream, front_end);
            // A front-end that has gone, or breaks the protocol, is not served any more. Its queues stop with it.
            while handler.handle_request().is_ok() {}
        };
        let thread = std::thread::Builder::new().name("vhost-user".into()).spawn(converse).ok()?;
        Some(Served { cutter, left, thread: Some(thread) })
    }
}

fn until(deadline: Instant) -> Timespec {
    // intended: no time is left behind the deadline.
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ }
}

/// The front-end that is served. Dropping it ends the conversation, and waits until its requests are finished.
struct Served {
    cutter: UnixStream,
    left: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.cutter.shutdown(Ways::Both);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Tells the accepting thread that a conversation is over, however it ended.
struct Leaving {
    left: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Relaxed);
        self.shared.wake();
    }
}
