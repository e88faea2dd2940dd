//! A tang server of Debian's on this machine, and what a hostile one answers in its place.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Scratch;
use crate::liar::listening;
use crate::oracle::Program;

/// Answers a connection in the place of the server.
pub type Answer = fn(&mut TcpStream);

/// A server with keys of its own, which serves until the test ends.
#[derive(Debug)]
pub struct Tang {
    /// Where it is.
    pub url: String,
    /// The directory of its keys.
    pub keys: Scratch,
    lie: Arc<Mutex<Option<Answer>>>,
}

impl Tang {
    /// Makes its keys, and serves.
    ///
    /// # Panics
    /// When tang is missing.
    pub fn new() -> Self {
        let keys = Scratch::new();
        Program::at("/usr/libexec/tangd-keygen").arg(keys.as_path()).ok();
        let lie = Arc::new(Mutex::new(None::<Answer>));
        let (directory, lies) = (keys.as_path().to_path_buf(), lie.clone());
        let url = listening(move |mut stream| {
            let lie = *lies.lock().unwrap_or_else(PoisonError::into_inner);
            match lie {
                None => honest(&directory, stream),
                Some(answer) => answer(&mut stream),
            }
        });
        Self { url: format!("http://{url}"), keys, lie }
    }

    /// From now on this is what it answers; `None` is honest again.
    pub fn answers(&self, answer: Option<Answer>) {
        *self.lie.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// The thumbprint of its signing key.
    pub fn thumbprint(&self) -> String {
        let mut prints = std::fs::read_dir(self.keys.as_path()).expect("keys").filter_map(|entry| {
            let path = entry.expect("a key").path();
            let text = std::fs::read_to_string(&path).expect("a key");
            text.contains("ES512").then(|| thumbprint(&path))
        });
        prints.next().expect("a signing key")
    }
}

impl Default for Tang {
    fn default() -> Self {
        Self::new()
    }
}

fn thumbprint(path: &Path) -> String {
    Program::named("jose").words("jwk thp -a S256 -i").arg(path).ok().text().trim().into()
}

/// It serves one connection, and ends with it.
fn honest(keys: &Path, stream: TcpStream) {
    let other = stream.try_clone().expect("a copy");
    let mut command = Program::at("/usr/libexec/tangd").arg(keys).into_command();
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(stream)));
    command.stdout(Stdio::from(std::os::fd::OwnedFd::from(other))).stderr(Stdio::null());
    command.spawn().expect("tangd starts").wait().expect("its end");
}

/// What a hostile server answers, and how one may call it.
pub const LIES: &[(&str, Answer)] = &[
    ("no HTTP", |stream| drop(stream.write_all(b"\0\xff\xfe what is this?\r\n\r\n"))),
    ("no JSON", |stream| said(stream, "{\"kty\":\"EC\",\"crv\":\"P-521\"")),
    ("no point", |stream| said(stream, r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#)),
    ("another curve", |stream| said(stream, r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#)),
    ("refused", |stream| drop(stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\n\r\n"))),
    ("another server", |stream| {
        drop(stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"));
    }),
    ("a length without end", |stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{"));
    }),
    ("more than anybody reads", |stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"));
        while stream.write_all(&[b' '; 4096]).is_ok() {}
    }),
    ("headers without end", |stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n"));
        while stream.write_all(b"X-More: and more, and more, and more\r\n").is_ok() {}
    }),
    ("pieces without end", |stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
        while stream.write_all(b"1\r\n \r\n").is_ok() {}
    }),
    ("hung up", |stream| drop(stream.shutdown(Shutdown::Both))),
];

/// Those that cost whoever asks all of a server's time.
pub const SLOW_LIES: &[(&str, Answer)] = &[
    ("silent", |stream| {
        let mut asked = [0; 4096];
        while stream.read(&mut asked).is_ok_and(|len| len > 0) {}
    }),
    ("a byte at a time", |stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"));
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(500));
        }
    }),
];

fn said(stream: &mut TcpStream, body: &str) {
    // Who hangs up before the question was asked is another liar.
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}
