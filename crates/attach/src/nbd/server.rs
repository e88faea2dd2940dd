//! Accepting clients, and stopping in order: nothing new is taken, what is in flight is finished and answered,
//! the device is flushed, and only then is the server gone.

use super::connection::serve;
use super::error::{BindError, RunError};
use super::handshake::{Export, negotiate};
use super::listen::{Endpoint, Listener};
use super::proto::MAX_STRING;
use super::stream::{Input, Output};
use atrest_device::BlockDevice;
use atrest_nbd::tls::Tls;
use atrest_nbd::wire::Wire;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the export. The empty name always means it too.
    pub export: String,
    /// Clients served at the same time.
    pub connections: usize,
    /// How long a further client waits for one of them to leave before it gets an error.
    pub turn: Duration,
    /// Requests of one client that are carried out at the same time. Each costs two buffers of 256 KiB at most.
    pub workers: usize,
    /// A client that has not finished its handshake by then is dropped.
    pub handshake: Duration,
    /// How long clients may take to read their last replies when the server stops.
    pub grace: Duration,
    /// Clients have to begin with TLS.
    pub tls: Option<Tls>,
    /// Serve other machines without TLS, too: everybody who reaches the address, and everybody on the way.
    pub insecure: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            export: String::new(),
            connections: 32,
            turn: Duration::from_secs(2),
            workers: (cores + 2).clamp(4, 16),
            handshake: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            tls: None,
            insecure: false,
        }
    }
}

/// A bound NBD server. Dropping it removes its socket.
pub struct Server {
    listener: Listener,
    export: Arc<Export>,
    options: Options,
    shared: Arc<Shared>,
}

/// Stops a running [`Server`] from any thread.
#[derive(Clone)]
pub struct Shutdown(Arc<Shared>);

struct Shared {
    stop: AtomicBool,
    /// Wakes the accepting thread: the server stops, or a client has left.
    wake: OwnedFd,
    clients: Mutex<Clients>,
    left: Condvar,
}

#[derive(Default)]
struct Clients {
    next: u64,
    /// In the order in which they came.
    open: BTreeMap<u64, Present>,
}

struct Present {
    output: Output,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshake,
    Served,
    /// Its connection is cut, and its thread is ending.
    Cut,
}

/// Clients that may be in their handshake at the same time; the oldest makes room for a new one.
const HANDSHAKES: usize = 32;
/// Threads of clients that have been cut and have not ended yet, before nobody new is taken.
const ENDING: usize = 32;

impl Server {
    /// Starts to listen. Clients can connect from now on; they are served by [`run`](Self::run).
    ///
    /// # Errors
    /// [`BindError::InUse`] or [`BindError::Locked`] if another server has the socket,
    /// [`BindError::NotASocket`], [`BindError::PathTooLong`] or [`BindError::Socket`] if none can be made
    /// there. [`BindError::NotLoopback`] for a TCP address that other machines can reach, if neither
    /// [`Options::tls`] nor [`Options::insecure`] is set, [`BindError::Tcp`] if it can't be listened on.
    /// [`BindError::ExportName`] for a name that the protocol does not have.
    pub fn bind(
        device: Arc<dyn BlockDevice>,
        endpoint: &Endpoint,
        options: Options,
    ) -> Result<Self, BindError> {
        let name = &options.export;
        if name.len() > MAX_STRING || name.contains('\0') {
            return Err(BindError::ExportName { len: name.len() });
        }
        if let Endpoint::Tcp(address) = *endpoint
            && endpoint.is_remote()
            && options.tls.is_none()
            && !options.insecure
        {
            return Err(BindError::NotLoopback { address });
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| BindError::System(error.into()))?;
        let listener = Listener::bind(endpoint)?;
        let shared =
            Shared { stop: AtomicBool::new(false), wake, clients: Mutex::default(), left: Condvar::new() };
        let export = Export { name: name.clone(), device, tls: options.tls.clone() };
        Ok(Self { listener, export: Arc::new(export), options, shared: Arc::new(shared) })
    }

    /// Where the server listens, with the port that the system chose.
    pub fn endpoint(&self) -> &Endpoint {
        &self.listener.endpoint
    }

    /// What clients connect to.
    pub fn uri(&self) -> String {
        self.endpoint().uri(&self.export.name, self.export.tls.is_some())
    }

    /// What a person should be told who opens a volume to this server's clients: who they can be.
    pub fn warning(&self) -> Option<&'static str> {
        let (endpoint, tls) = (self.endpoint(), &self.export.tls);
        match (endpoint, tls) {
            (Endpoint::Unix(_), _) => None,
            (Endpoint::Tcp(_), None) if endpoint.is_remote() => Some(
                "the open volume can be read and written by everybody who reaches this TCP port, and read by \
                 everybody on the way",
            ),
            (Endpoint::Tcp(_), None) => Some(
                "the open volume can be read and written by every user and program of this machine through this \
                 TCP port",
            ),
            (Endpoint::Tcp(_), Some(tls)) if tls.verifies_peer() => None,
            (Endpoint::Tcp(_), Some(_)) => Some(
                "the open volume can be read and written by everybody who reaches this TCP port: clients need no \
                 certificate",
            ),
        }
    }

    /// The way to stop it.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.shared.clone())
    }

    /// Serves until [`Shutdown::start`]. When it returns, every request that was taken has been answered or its
    /// client cut off, and the device is flushed.
    ///
    /// # Errors
    /// [`RunError::Accept`] if no connections can be accepted any more; clients that were there are served to
    /// the end. [`RunError::Flush`] if the last flush fails: writes that were acknowledged may be lost.
    /// [`RunError::AcceptAndFlush`] if both happened.
    pub fn run(self) -> Result<(), RunError> {
        let Self { listener, export, options, shared } = self;
        let accepting = accept_clients(&listener, &export, &options, &shared);
        shared.stop.store(true, Ordering::Relaxed);
        drop(listener);
        shared.close_clients(options.grace);
        let flushed = if export.device.is_read_only() { Ok(()) } else { export.device.flush() };
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

fn accept_clients(
    listener: &Listener,
    export: &Arc<Export>,
    options: &Options,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    while !shared.stop.load(Ordering::Relaxed) {
        let wake = PollFd::new(&shared.wake, PollFlags::IN);
        let full = shared.clients().open.len() >= options.connections.max(1) + HANDSHAKES + ENDING;
        let mut fds = [wake, listener.poll_fd()];
        match poll(&mut fds[..if full { 1 } else { 2 }], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
        }
        if full || fds[1].revents().is_empty() {
            continue;
        }
        if let Some(socket) = listener.accept(&shared.wake)? {
            admit(socket, export, options, shared);
        }
    }
    Ok(())
}

/// What the kernel may hold of our replies; the system's own limit applies.
const SEND_BUFFER: usize = 1 << 20;

fn admit(socket: OwnedFd, export: &Arc<Export>, options: &Options, shared: &Arc<Shared>) {
    let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
    let _ = sockopt::set_socket_recv_buffer_size(&socket, SEND_BUFFER);
    let socket = Arc::new(Wire::new(socket));
    let output = Output::new(socket.clone());
    let client = Client { id: shared.enter(output.clone()), shared: shared.clone() };
    let (export, workers, handshake) = (export.clone(), options.workers, options.handshake);
    let (connections, turn) = (options.connections.max(1), options.turn);
    let served = move || {
        let client = client;
        let mut input = Input::new(socket);
        input.set_deadline(Some(Instant::now() + handshake));
        output.set_timeout(Some(handshake));
        let seat = || client.shared.take_seat(client.id, connections, turn);
        if let Ok(Some(terms)) = negotiate(&export, &mut input, &output, &seat) {
            input.set_deadline(None);
            output.set_timeout(None);
            serve(&export, terms, input, output, workers, &client.shared.stop);
        }
    };
    // Without a thread there is no service: the closure and with it the socket are dropped, and the client is told
    // by the closed connection.
    let _ = std::thread::Builder::new().name("nbd".into()).spawn(served);
}

/// Takes a client off the list when its thread ends, however it ends.
struct Client {
    id: u64,
    shared: Arc<Shared>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(client) = self.shared.clients().open.remove(&self.id) {
            client.output.farewell();
            client.output.cut();
        }
        self.shared.left.notify_all();
        self.shared.wake();
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, output: Output) -> u64 {
        let mut clients = self.clients();
        clients.next += 1;
        let id = clients.next;
        let dawdling = |client: &&mut Present| client.stage == Stage::Handshake;
        if clients.open.values_mut().filter(dawdling).count() >= HANDSHAKES
            && let Some(oldest) = clients.open.values_mut().find(dawdling)
        {
            oldest.stage = Stage::Cut;
            oldest.output.cut();
            self.left.notify_all();
        }
        clients.open.insert(id, Present { output, stage: Stage::Handshake });
        id
    }

    /// Makes a client one of the `limit` that are served, if one leaves within `turn` where all are there.
    fn take_seat(&self, id: u64, limit: usize, turn: Duration) -> bool {
        let deadline = Instant::now() + turn;
        let mut clients = self.clients();
        loop {
            let served = clients.open.values().filter(|client| client.stage == Stage::Served).count();
            match clients.open.get_mut(&id) {
                Some(client) if client.stage == Stage::Handshake => {
                    if served < limit {
                        client.stage = Stage::Served;
                        return true;
                    }
                }
                _ => return false,
            }
            // intended: no time is left behind the deadline.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                return false;
            }
            clients = self.left.wait_timeout(clients, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes nothing more from clients, waits until what they asked for is answered, and cuts off those that do not
    /// read their replies within `grace`. A device operation that is under way is always waited for.
    fn close_clients(&self, grace: Duration) {
        let mut clients = self.clients();
        for client in clients.open.values() {
            client.output.stop_reading();
        }
        self.left.notify_all();
        let deadline = Instant::now() + grace;
        while !clients.open.is_empty() {
            // intended: no time is left behind the deadline.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for client in clients.open.values() {
                    client.output.cut();
                }
                clients = self.left.wait(clients).unwrap_or_else(PoisonError::into_inner);
            } else {
                clients = self.left.wait_timeout(clients, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
