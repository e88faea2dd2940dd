//! From a URI to a connection that takes requests.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};

use super::connection::Connection;
use super::handshake::{Handshake, Terms};
use super::input::Input;
use crate::error::ConnectError;
use crate::tls::ClientTls;
use crate::uri::{Place, Uri};
use crate::wire::Wire;

/// How a client connects.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long connecting and negotiating may take.
    pub handshake: Duration,
    /// How long a server may be silent while requests wait for it. A disk that has much to write back may take minutes for
    /// a flush; a host that is gone is noticed earlier, by TCP.
    pub silence: Duration,
    /// The most connections to a server that offers several.
    pub connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(30), silence: Duration::from_secs(600), connections: 4 }
    }
}

/// After this, TCP asks a silent host whether it is still there, and so often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TRIES: u32 = 4;

/// Where to connect, and how.
#[derive(Debug)]
pub struct Dial {
    uri: Uri,
    tls: Option<ClientTls>,
    options: Options,
}

impl Dial {
    pub fn new(uri: Uri, options: Options) -> Result<Self, ConnectError> {
        let tls = if uri.tls { Some(client_tls(&uri)?) } else { None };
        Ok(Self { uri, tls, options })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Connects and negotiates.
    pub fn dial(&self) -> Result<Connection, ConnectError> {
        let deadline = Instant::now() + self.options.handshake;
        let socket = match &self.uri.place {
            Place::Tcp { host, port } => tcp(host, *port, deadline)?,
            Place::Unix(path) => unix(path)?,
        };
        self.negotiate(socket, deadline)
    }

    /// Negotiates over a connected socket.
    pub fn negotiate(&self, socket: OwnedFd, deadline: Instant) -> Result<Connection, ConnectError> {
        set_timeouts(&socket, self.options.handshake)?;
        let wire = Wire::new(socket);
        let mut input = Input::until(deadline);
        let terms: Terms =
            Handshake { wire: &wire, input: &mut input }.run(&self.uri.export, self.tls.as_ref())?;
        set_timeouts(&wire, self.options.silence)?;
        input.end_deadline();
        Ok(Connection::new(wire, input, terms))
    }
}

#[cfg(feature = "tls")]
fn client_tls(uri: &Uri) -> Result<ClientTls, ConnectError> {
    let directory = uri.certificates.as_deref().ok_or(ConnectError::NoCertificates)?;
    let name = match (&uri.tls_hostname, &uri.place) {
        (Some(name), _) => name,
        (None, Place::Tcp { host, .. }) => host,
        // The server of a Unix socket is on this host.
        (None, Place::Unix(_)) => "localhost",
    };
    ClientTls::load(directory, name).map_err(ConnectError::Tls)
}

#[cfg(not(feature = "tls"))]
fn client_tls(_: &Uri) -> Result<ClientTls, ConnectError> {
    Err(ConnectError::NoTls)
}

fn unix(path: &Path) -> Result<OwnedFd, ConnectError> {
    let connected = match path.as_os_str().as_bytes() {
        [0, name @ ..] => {
            SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address))
        }
        _ => UnixStream::connect(path),
    };
    connected.map(Into::into).map_err(ConnectError::Connect)
}

/// Tries all addresses of the host. The last one's error is told.
fn tcp(host: &str, port: u16, deadline: Instant) -> Result<OwnedFd, ConnectError> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs().map_err(ConnectError::Resolve)? {
        let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        else {
            last = std::io::ErrorKind::TimedOut.into();
            break;
        };
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(ConnectError::Connect)?;
                keep_alive(&stream)?;
                return Ok(stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(last))
}

/// Has TCP notice a host that has vanished, whether it owes us something or we it.
fn keep_alive(stream: &TcpStream) -> Result<(), ConnectError> {
    let patience = KEEP_ALIVE * (KEEP_ALIVE_TRIES + 1);
    let set = || {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_TRIES)?;
        sockopt::set_tcp_user_timeout(stream, patience.as_millis() as u32)
    };
    set().map_err(|errno| ConnectError::Connect(errno.into()))
}

/// No read and no write on the socket waits longer.
fn set_timeouts(socket: impl std::os::fd::AsFd, limit: Duration) -> Result<(), ConnectError> {
    for side in [Timeout::Recv, Timeout::Send] {
        sockopt::set_socket_timeout(&socket, side, Some(limit))
            .map_err(|errno| ConnectError::Connect(errno.into()))?;
    }
    Ok(())
}
