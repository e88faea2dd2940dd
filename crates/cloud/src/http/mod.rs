//! As much of HTTP/1.1 (RFC 9112) as S3 needs: requests with a length over connections that are kept, with limits on time and size.

mod answer;
mod connection;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atrest_sealedvolume::store::StoreError;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use answer::{Answer, answer};

use self::connection::Connection;

/// Connections that are kept while nothing is asked, at most.
const KEPT: usize = 48;
/// So long one is kept: servers close theirs after 20 seconds and more.
const IDLE: Duration = Duration::from_secs(10);

/// A request. All of it may be sent again where an idle connection has swallowed it.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Path and query, encoded.
    pub(crate) target: &'a str,
    /// Headers beside `host` and `content-length`, in which nothing ends a line.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
    /// Bytes that the body of the answer may have.
    pub(crate) most: usize,
}

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a connection to one address.
    pub(crate) connect: Duration,
    /// Without a byte in either direction.
    pub(crate) stall: Duration,
    /// For a request and its answer.
    pub(crate) whole: Duration,
}

impl Limits {
    /// Of a store: 8 MiB go up in the time at 0.6 Mbit/s.
    pub(crate) const STORE: Self = Self {
        connect: Duration::from_secs(5),
        stall: Duration::from_secs(20),
        whole: Duration::from_secs(120),
    };
    /// Limits by which a request and its answer take no longer than `limit`.
    pub(crate) fn at_most(self, limit: Duration) -> Self {
        let Self { connect, stall, whole } = self;
        Self { connect: connect.min(limit), stall: stall.min(limit), whole: whole.min(limit) }
    }

    /// Of a service that is on this machine or beside it, or nowhere.
    pub(crate) const METADATA: Self = Self {
        connect: Duration::from_secs(1),
        stall: Duration::from_secs(5),
        whole: Duration::from_secs(5),
    };
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// It can't be reached, or the connection broke: the operating system's error number, where there is one.
    Unreachable(Option<i32>),
    /// It took too long.
    Slow,
    /// TLS does not come about: the certificate is not trusted, for one.
    Untrusted,
    /// The answer is no HTTP.
    Malformed,
    /// The answer has more bytes than were asked for.
    TooLong,
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
            return Self::Untrusted;
        }
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Slow,
            _ => Self::Unreachable(error.raw_os_error()),
        }
    }
}

impl HttpError {
    /// What the engine is told.
    pub(crate) fn told(self) -> StoreError {
        match self {
            Self::Unreachable(Some(errno)) => StoreError::Os(errno),
            Self::Unreachable(None) | Self::Slow => StoreError::Silent,
            Self::Untrusted => StoreError::Untrusted,
            Self::Malformed => StoreError::Malformed,
            Self::TooLong => StoreError::TooLong,
        }
    }
}

/// A server, and connections to it.
pub(crate) struct Connector {
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl Connector {
    /// A server of this name or address, by TLS if there is a configuration. `None` if no certificate can be for the name.
    pub(crate) fn new(host: &str, port: u16, tls: Option<Arc<ClientConfig>>) -> Option<Self> {
        let tls = match tls {
            Some(config) => Some((config, ServerName::try_from(host.to_owned()).ok()?)),
            None => None,
        };
        Some(Self { host: host.into(), port, tls, idle: Mutex::default() })
    }

    /// A server in the clear.
    pub(crate) fn plain(host: &str, port: u16) -> Self {
        Self { host: host.into(), port, tls: None, idle: Mutex::default() }
    }

    /// Asks, over a connection that is idle or a new one.
    pub(crate) fn ask(&self, host: &str, request: &Request<'_>, limits: Limits) -> Result<Answer, HttpError> {
        let end = Instant::now() + limits.whole;
        while let Some(mut idle) = self.take_idle() {
            match idle.ask(host, request, limits, end) {
                Ok(answer) => return Ok(self.keep(idle, answer)),
                // The server has closed it: that nothing came back does not say that the request was not carried out.
                Err(HttpError::Unreachable(_)) if !idle.has_answered() => {}
                Err(error) => return Err(error),
            }
        }
        let mut new = Connection::open(&self.host, self.port, self.tls.as_ref(), limits)?;
        let answer = new.ask(host, request, limits, end)?;
        Ok(self.keep(new, answer))
    }

    /// Asks over a connection of its own.
    pub(crate) fn ask_once(&self, request: &Request<'_>, limits: Limits) -> Result<Answer, HttpError> {
        let end = Instant::now() + limits.whole;
        let mut new = Connection::open(&self.host, self.port, self.tls.as_ref(), limits)?;
        new.ask(&self.name(), request, limits, end)
    }

    /// As it stands in a head: an address of IPv6 in brackets, and the port unless everybody knows it.
    fn name(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (&self.tls, self.port) {
            (Some(_), 443) | (None, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner); // intended: each entry is whole.
        idle.retain(|(_, since)| since.elapsed() < IDLE);
        idle.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, connection: Connection, answer: Answer) -> Answer {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner); // intended: each entry is whole.
        if answer.keeps && idle.len() < KEPT {
            idle.push((connection, Instant::now()));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_with_brackets_and_its_port() {
        for (host, port, name) in [
            ("169.254.169.254", 80, "169.254.169.254"),
            ("localhost", 8080, "localhost:8080"),
            ("fd00:ec2::23", 80, "[fd00:ec2::23]"),
            ("::1", 81, "[::1]:81"),
        ] {
            assert_eq!(Connector::plain(host, port).name(), name);
        }
    }
}
