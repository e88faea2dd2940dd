//! The thread that answers. It waits for all clients at once, so one that is slow holds nobody but itself.
//!
//! A client has [`LIMIT`] for everything. When [`CLIENTS`] are there, a further one takes the place of the oldest:
//! one that only asks and reads has been answered by then.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::http::{self, Page};
use super::text;
use crate::nbd::{BindError, Endpoint, Listener};
use crate::session::Watched;

/// How long a client may take to ask and to read the answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Clients at a time.
const CLIENTS: usize = 32;

/// A Unix socket with mode 0600, at which clients wait until a [`Server`] answers them. Its name is removed when it
/// is dropped.
pub struct Socket(Listener);

impl Socket {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError::InUse`] or [`BindError::Locked`] if another server has the socket, [`BindError::NotASocket`],
    /// [`BindError::PathTooLong`] or [`BindError::Socket`] if none can be made there.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        Listener::bind(&Endpoint::Unix(path.into())).map(Self)
    }
}

/// Answers this user and root on its sockets until it is dropped.
#[must_use]
pub struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer, by one thread, with the figures of the volume of that name.
    ///
    /// # Errors
    /// The system's error if no thread can be started.
    pub fn start(sockets: Vec<Socket>, name: &str, device: Arc<Watched>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let answering = Answering { sockets, name: name.into(), device, stop: stop.clone() };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || answering.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It has nobody to tell but whoever asks for figures.
            let _ = thread.join();
        }
    }
}

struct Answering {
    sockets: Vec<Socket>,
    name: String,
    device: Arc<Watched>,
    /// Readable when all is over.
    stop: Arc<OwnedFd>,
}

impl Answering {
    fn run(self) {
        let mut clients: Vec<Client> = Vec::new();
        loop {
            let now = Instant::now();
            clients.retain(|client| client.until > now);
            let Ok(ready) = self.wait(&clients, now) else { return };
            if ready.stop {
                return;
            }
            let mut at = 0;
            clients.retain_mut(|client| {
                at += 1;
                !ready.clients[at - 1] || client.go_on(|page| self.page(page))
            });
            for socket in
                ready.sockets.iter().zip(&self.sockets).filter_map(|(ready, socket)| ready.then_some(socket))
            {
                // A socket that accepts nobody any more leaves the others be.
                let Ok(Some(client)) = socket.0.accept(&self.stop) else { continue };
                if clients.len() == CLIENTS {
                    clients.remove(0);
                }
                clients.extend(Client::new(client));
            }
        }
    }

    /// Waits until there is something to do, or a client's time is over.
    fn wait(&self, clients: &[Client], now: Instant) -> Result<Ready, Errno> {
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        fds.extend(self.sockets.iter().map(|socket| socket.0.poll_fd()));
        fds.extend(clients.iter().map(Client::poll_fd));
        let next = clients.iter().map(|client| client.until - now).min();
        let next =
            next.map(|left| Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ });
        match poll(&mut fds, next.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => {
                return Ok(Ready { stop: false, sockets: vec![], clients: vec![false; clients.len()] });
            }
            Err(error) => return Err(error),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (sockets, clients) = ready[1..].split_at(self.sockets.len());
        Ok(Ready { stop: ready[0], sockets: sockets.into(), clients: clients.into() })
    }

    fn page(&self, page: Page) -> (&'static str, String) {
        let metrics = self.device.metrics();
        match page {
            Page::Text => (text::TYPE, text::page(&self.name, &metrics)),
            Page::Json => ("application/json", serde_json::json!(metrics).to_string()),
        }
    }
}

/// What can go on.
struct Ready {
    stop: bool,
    sockets: Vec<bool>,
    clients: Vec<bool>,
}

struct Client {
    stream: UnixStream,
    until: Instant,
    state: State,
}

enum State {
    /// What has come of the request.
    Asks(Vec<u8>),
    /// What is left of the answer.
    Reads { answer: Vec<u8>, sent: usize },
}

impl Client {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until: Instant::now() + LIMIT, state: State::Asks(Vec::new()) })
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let flags = match self.state {
            State::Asks(_) => PollFlags::IN,
            State::Reads { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads or writes as much as there is. Whether the client is still there and wants more.
    fn go_on(&mut self, page: impl Fn(Page) -> (&'static str, String)) -> bool {
        match self.step(page) {
            Ok(more) => more,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, page: impl Fn(Page) -> (&'static str, String)) -> io::Result<bool> {
        match &mut self.state {
            State::Asks(request) => {
                let mut buffer = [0; http::MAX_REQUEST];
                let len = self.stream.read(&mut buffer)?;
                request.extend_from_slice(&buffer[..len]);
                let answer = match http::read(request) {
                    None => return Ok(len > 0),
                    Some(Ok(asked)) => {
                        let (kind, body) = page(asked.page);
                        http::found(kind, &body, asked.head_only)
                    }
                    Some(Err(refusal)) => refusal.answer(),
                };
                self.state = State::Reads { answer, sent: 0 };
                Ok(true)
            }
            State::Reads { answer, sent } => {
                *sent += self.stream.write(&answer[*sent..])?;
                Ok(*sent < answer.len())
            }
        }
    }
}
