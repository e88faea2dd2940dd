//! A connection, in the clear or by TLS, with limits on how long is waited.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Answer, HttpError, Limits, Request, answer};

/// Addresses of a name that are tried, at most.
const ADDRESSES: usize = 4;
/// What of a body goes with the head in one write.
const TOGETHER: usize = 64 << 10;

pub(crate) struct Connection {
    stream: Stream,
    /// Bytes of an answer that came since the last request. What TLS says for itself, such as that it ends, is none.
    read: u64,
}

/// A stream whose bytes are counted, as they come out of TLS.
struct Counted<'a, S> {
    stream: &'a mut S,
    read: &'a mut u64,
}

impl<S: Read> Read for Counted<'_, S> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(place)?;
        *self.read += len as u64;
        Ok(len)
    }
}

impl<S: Write> Write for Counted<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Connection {
    /// Connects to a server.
    pub(super) fn open(
        host: &str,
        port: u16,
        tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
        limits: Limits,
    ) -> Result<Self, HttpError> {
        let stream = connect((host.to_owned(), port), limits.connect)?;
        stream.set_nodelay(true)?;
        let timed = Timed { stream, stall: limits.stall, end: Instant::now() + limits.whole };
        let stream = match tls {
            None => Stream::Plain(timed),
            Some((config, name)) => {
                let client =
                    ClientConnection::new(config.clone(), name.clone()).map_err(|_| HttpError::Untrusted)?;
                Stream::Tls(Box::new(StreamOwned::new(client, timed)))
            }
        };
        Ok(Self { stream, read: 0 })
    }

    /// Sends a request and reads its answer, both before `end`.
    pub(super) fn ask(
        &mut self,
        host: &str,
        request: &Request<'_>,
        limits: Limits,
        end: Instant,
    ) -> Result<Answer, HttpError> {
        let timed = self.timed();
        (timed.end, timed.stall) = (end, limits.stall);
        self.read = 0;
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: {host}\r\nuser-agent: atrest\r\n",
            request.method, request.target
        );
        for (name, value) in request.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !request.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", request.body.len()));
        }
        head.push_str("\r\n");
        let mut head = head.into_bytes();
        let (begin, rest) = request.body.split_at(request.body.len().min(TOGETHER));
        head.extend_from_slice(begin);
        let bodiless = request.method == "HEAD";
        let read = &mut self.read;
        match &mut self.stream {
            Stream::Plain(stream) => {
                exchange(&mut Counted { stream, read }, &head, rest, bodiless, request.most)
            }
            Stream::Tls(stream) => {
                exchange(&mut Counted { stream: &mut **stream, read }, &head, rest, bodiless, request.most)
            }
        }
    }

    /// Whether anything of an answer came since the last request.
    pub(super) fn has_answered(&self) -> bool {
        self.read > 0
    }

    fn timed(&mut self) -> &mut Timed {
        match &mut self.stream {
            Stream::Plain(timed) => timed,
            Stream::Tls(stream) => &mut stream.sock,
        }
    }
}

fn exchange<S: Read + Write>(
    stream: &mut S,
    head: &[u8],
    rest: &[u8],
    bodiless: bool,
    most: usize,
) -> Result<Answer, HttpError> {
    let sent = stream.write_all(head).and_then(|()| stream.write_all(rest)).and_then(|()| stream.flush());
    if let Err(error) = sent {
        // A server that refuses may say so before it has all of a body, and close.
        return match answer(stream, bodiless, most) {
            Ok(answer) if answer.status >= 400 => Ok(Answer { keeps: false, ..answer }),
            _ => Err(error.into()),
        };
    }
    answer(stream, bodiless, most)
}

/// Nothing is waited for longer than a while, and nothing after its end.
struct Timed {
    stream: TcpStream,
    stall: Duration,
    end: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        Ok(Some(left.ok_or(io::ErrorKind::TimedOut)?.min(self.stall)))
    }
}

impl Read for Timed {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(place)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn connect(name: (String, u16), limit: Duration) -> Result<TcpStream, HttpError> {
    let mut last = HttpError::Unreachable(None);
    for address in looked_up(name, limit)?.into_iter().take(ADDRESSES) {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// The addresses of a name, if they are known in time. The system's look-up has no time limit: it is left to end by itself.
fn looked_up(name: (String, u16), limit: Duration) -> Result<Vec<SocketAddr>, HttpError> {
    if let Ok(address) = name.0.parse() {
        return Ok(vec![SocketAddr::new(address, name.1)]);
    }
    let (told, tell) = mpsc::channel();
    thread::Builder::new().name("look-up".into()).spawn(move || {
        // Nobody may be waiting any more.
        let _ = told.send(name.to_socket_addrs().map(Vec::from_iter));
    })?;
    match tell.recv_timeout(limit) {
        Ok(found) => Ok(found?),
        Err(_) => Err(HttpError::Slow),
    }
}
