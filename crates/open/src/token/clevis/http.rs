//! As much of HTTP/1.1 (RFC 9112) as a tang server needs: one request for each connection, with limits on the time and the size of answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::token::TokenError;

/// The longest that a request may take, from connecting to the last byte of its answer.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The longest wait for a connection to one address.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest head, and the longest body.
const MAX_HEAD: usize = 16 << 10;
const MAX_BODY: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpError {
    /// It is no address of the form `http://HOST[:PORT][/PATH]`.
    BadUrl,
    /// It can't be reached, or the connection broke.
    Unreachable(String),
    /// It took too long.
    Slow,
    /// The answer is no HTTP, or too long.
    Malformed,
    /// It answered with this status.
    Status(u16),
}

impl HttpError {
    /// What it means for the token whose server has this address.
    pub fn of(self, url: &str) -> TokenError {
        let url = url.to_owned();
        match self {
            Self::BadUrl => TokenError::BadUrl { url },
            Self::Unreachable(error) => TokenError::Unreachable { url, error },
            Self::Slow => TokenError::Unreachable { url, error: "it does not answer in time".into() },
            Self::Malformed => TokenError::BadAnswer,
            Self::Status(status) => TokenError::Refused { url, status },
        }
    }
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Slow,
            _ => Self::Unreachable(error.to_string()),
        }
    }
}

/// The body of what `GET` yields.
pub fn get(url: &str) -> Result<Vec<u8>, HttpError> {
    request(url, "GET", "", &[])
}

/// The body of what `POST` yields.
pub fn post(url: &str, kind: &str, body: &[u8]) -> Result<Vec<u8>, HttpError> {
    let head = format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    request(url, "POST", &head, body)
}

/// Host with port, host alone, and path.
fn parts(url: &str) -> Result<(String, &str, &str), HttpError> {
    let rest = match url.strip_prefix("http://") {
        Some(rest) => rest,
        // clevis takes an address without a scheme as well.
        None if !url.contains("://") => url,
        None => return Err(HttpError::BadUrl),
    };
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let printable = |byte: u8| byte.is_ascii_graphic();
    if host.is_empty() || host.contains('@') || !rest.bytes().all(printable) || path.contains('#') {
        return Err(HttpError::BadUrl);
    }
    // An IPv6 address has colons of its own, in brackets.
    let has_port = host.rfind(':').is_some_and(|at| host.rfind(']').is_none_or(|end| end < at));
    let address = if has_port { host.to_owned() } else { format!("{host}:80") };
    Ok((address, host, path))
}

fn request(url: &str, method: &str, head: &str, body: &[u8]) -> Result<Vec<u8>, HttpError> {
    let end = Instant::now() + LIMIT;
    let (address, host, path) = parts(url)?;
    let mut stream = connect(&address)?;
    stream.set_write_timeout(Some(CONNECT))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: atrest\r\nConnection: close\r\n{head}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    match read(&mut Timed { stream, end }, end)? {
        (200, body) => Ok(body),
        (status, _) => Err(HttpError::Status(status)),
    }
}

fn connect(address: &str) -> Result<TcpStream, HttpError> {
    let mut last = HttpError::Unreachable("its name has no address".into());
    // Not more than a few, each of which may take its time.
    for address in looked_up(address.to_owned(), CONNECT)?.into_iter().take(3) {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// The addresses of a name, if they are known in time. The system's look-up has no time limit: it is left to end by itself.
fn looked_up(name: String, limit: Duration) -> Result<Vec<SocketAddr>, HttpError> {
    let (told, tell) = mpsc::channel();
    let thread = thread::Builder::new().name("look-up".into());
    thread.spawn(move || {
        // Nobody may be waiting any more.
        let _ = told.send(name.to_socket_addrs().map(Vec::from_iter));
    })?;
    match tell.recv_timeout(limit) {
        Ok(found) => Ok(found?),
        Err(_) => Err(HttpError::Unreachable("its name can't be looked up in time".into())),
    }
}

/// A connection of which nothing is read after its end.
struct Timed {
    stream: TcpStream,
    end: Instant,
}

impl Read for Timed {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let left = self.end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        self.stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        self.stream.read(place)
    }
}

/// Reads an answer: its status and its body.
pub fn read(stream: &mut impl Read, end: Instant) -> Result<(u16, Vec<u8>), HttpError> {
    let mut read = Vec::new();
    let head = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if read.len() > MAX_HEAD || !more(stream, &mut read, end)? {
            return Err(HttpError::Malformed);
        }
    };
    let mut body = read.split_off(head);
    let head = core::str::from_utf8(&read).map_err(|_| HttpError::Malformed)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status.and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or(HttpError::Malformed)?;
    let mut length = None;
    let mut chunked = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("Content-Length") {
            let parsed: usize = value.parse().map_err(|_| HttpError::Malformed)?;
            if length.is_some_and(|length| length != parsed) || parsed > MAX_BODY {
                return Err(HttpError::Malformed);
            }
            length = Some(parsed);
        } else if name.eq_ignore_ascii_case("Transfer-Encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(HttpError::Malformed);
            }
            chunked = true;
        }
    }
    // To the end that the head names, or to that of the connection.
    while chunked || length.is_none_or(|length| body.len() < length) {
        if chunked && let Some(whole) = unchunked(&body)? {
            return Ok((status, whole));
        }
        if body.len() > 2 * MAX_BODY {
            return Err(HttpError::Malformed);
        }
        if !more(stream, &mut body, end)? {
            match chunked || length.is_some() {
                true => return Err(HttpError::Malformed),
                false => break,
            }
        }
    }
    match length {
        Some(length) => body.truncate(length),
        None if body.len() > MAX_BODY => return Err(HttpError::Malformed),
        // It went to the end of the connection.
        None => {}
    }
    Ok((status, body))
}

/// Reads some more; `false` at the end.
fn more(stream: &mut impl Read, read: &mut Vec<u8>, end: Instant) -> Result<bool, HttpError> {
    if Instant::now() >= end {
        return Err(HttpError::Slow);
    }
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(len) => {
                read.extend_from_slice(piece.get(..len).ok_or(HttpError::Malformed)?);
                return Ok(len > 0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A body that came in chunks (section 7.1), or `None` if its last one is not there yet.
fn unchunked(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpError> {
    let mut whole = Vec::new();
    loop {
        let Some(at) = rest.windows(2).position(|window| window == b"\r\n") else {
            return if rest.len() > 256 { Err(HttpError::Malformed) } else { Ok(None) };
        };
        let (line, after) = (rest.get(..at), rest.get(at + 2..));
        let line = line.and_then(|line| core::str::from_utf8(line).ok()).ok_or(HttpError::Malformed)?;
        let size = line.split(';').next().map(str::trim).ok_or(HttpError::Malformed)?;
        let size = usize::from_str_radix(size, 16).ok().filter(|size| *size <= MAX_BODY);
        let size = size.ok_or(HttpError::Malformed)?;
        if size == 0 {
            return Ok(Some(whole));
        }
        let Some((chunk, after)) = after.and_then(|after| after.split_at_checked(size + 2)) else {
            return Ok(None);
        };
        let chunk = chunk.strip_suffix(b"\r\n").ok_or(HttpError::Malformed)?;
        whole.extend_from_slice(chunk);
        if whole.len() > MAX_BODY {
            return Err(HttpError::Malformed);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<(u16, String), HttpError> {
        let (status, body) = read(&mut text.as_bytes(), Instant::now() + LIMIT)?;
        Ok((status, String::from_utf8(body).expect("text")))
    }

    #[test]
    fn answers_end_where_they_say() {
        let hi = |status| Ok((status, String::from("hi")));
        assert_eq!(answer("HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nhi and more"), hi(200));
        assert_eq!(answer("HTTP/1.0 404 \r\n\r\nhi"), hi(404));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;a=b\r\ni\r\n0\r\n\r\n";
        assert_eq!(answer(chunked), hi(200));
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0 200 OK\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        ] {
            assert_eq!(answer(bad), Err(HttpError::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_without_a_length_is_whole_or_too_long() {
        let of = |len: usize| answer(&format!("HTTP/1.0 200 OK\r\n\r\n{}", "a".repeat(len)));
        assert_eq!(of(MAX_BODY).map(|(_, body)| body.len()), Ok(MAX_BODY));
        assert_eq!(of(MAX_BODY + 1), Err(HttpError::Malformed));
    }

    #[test]
    fn an_answer_without_an_end_is_left() {
        let mut endless = io::repeat(b'a');
        assert_eq!(read(&mut endless, Instant::now() + LIMIT), Err(HttpError::Malformed));
        let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".chain(io::repeat(b'a'));
        assert_eq!(read(&mut endless, Instant::now() + LIMIT), Err(HttpError::Malformed));
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        let mut endless = chunk.as_bytes().chain(io::repeat(b'1'));
        assert_eq!(read(&mut endless, Instant::now() + LIMIT), Err(HttpError::Malformed));
        let mut late = &b"HTTP/1.1 200 OK\r\n\r\n"[..];
        assert_eq!(read(&mut late, Instant::now()), Err(HttpError::Slow));
    }

    #[test]
    fn a_name_is_looked_up_within_its_time() {
        let found = looked_up("127.0.0.1:80".into(), CONNECT).expect("an address");
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
        assert!(matches!(looked_up("no port".into(), CONNECT), Err(HttpError::Unreachable(_))));
        let late = HttpError::Unreachable("its name can't be looked up in time".into());
        assert_eq!(looked_up("127.0.0.1:80".into(), Duration::ZERO), Err(late));
    }

    #[test]
    fn an_address_is_a_host_and_a_path() {
        let of = |url| parts(url).map(|(address, host, path)| format!("{address} {host} {path}"));
        assert_eq!(of("http://a"), Ok("a:80 a /".into()));
        assert_eq!(of("a.b:7500/adv"), Ok("a.b:7500 a.b:7500 /adv".into()));
        assert_eq!(of("http://[::1]/x"), Ok("[::1]:80 [::1] /x".into()));
        assert_eq!(of("http://[::1]:81/x"), Ok("[::1]:81 [::1]:81 /x".into()));
        for bad in
            ["", "http://", "https://a", "ftp://a", "http://a b/", "http://a/\r\nX: y", "http://u@a/", "/x"]
        {
            assert_eq!(of(bad), Err(HttpError::BadUrl), "{bad:?}");
        }
    }
}
