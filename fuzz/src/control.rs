//! Requests to a process that serves files, and its answers.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atrest_attach::control::{AskError, Control, Request, ask};

use crate::faces::directory;

/// Longest message that FORMATS allow.
const LONGEST: usize = 1024;

/// With an even first byte the rest is what a client says; otherwise it is what a server answers.
pub fn control(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    if first & 1 == 0 { request(rest) } else { answer(rest) }
}

/// What a request was understood as.
type Heard = Option<(u8, String, Vec<u8>)>;

/// A running process, and what it hears.
fn process() -> &'static (PathBuf, Mutex<Receiver<Heard>>) {
    static PROCESS: OnceLock<(PathBuf, Mutex<Receiver<Heard>>)> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let (path, (hears, heard)) = (directory().join("fuzz.control"), channel());
        let control = Control::listen(&path, move |request| {
            let own = match request {
                Request::Add { name, key } => (b'A', name.to_owned(), key.to_owned()),
                Request::Remove { name } => (b'R', name.to_owned(), Vec::new()),
                Request::List => (b'L', String::new(), Vec::new()),
                Request::Suspend => (b'S', String::new(), Vec::new()),
                Request::Resume { key } => (b'G', String::new(), key.to_owned()),
                Request::Reencrypt { old, new } => {
                    let len = u32::try_from(old.len()).expect("a short key").to_le_bytes();
                    (b'E', String::new(), [&len, old, new].concat())
                }
                Request::StopReencryption => (b'H', String::new(), Vec::new()),
                Request::Reencryption => (b'Q', String::new(), Vec::new()),
                Request::Resize { size } => {
                    (b'Z', String::new(), size.map_or_else(Vec::new, |size| size.to_le_bytes().to_vec()))
                }
            };
            hears.send(Some(own)).expect("somebody listens");
            Ok("heard".into())
        });
        core::mem::forget(control.expect("the socket can be bound"));
        (path, Mutex::new(heard))
    })
}

/// A request is understood as what it says, or refused.
fn request(message: &[u8]) {
    let (path, heard) = process();
    let mut stream = UnixStream::connect(path).expect("the process listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid timeout");
    // More than a request can be long finds nobody who reads it.
    let _ = stream.write_all(message);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok().flatten();
    assert_eq!(heard, understood(message));
    if message.len() <= LONGEST {
        read.expect("an answer");
        let refused = b"-the request is not one that this version knows";
        assert_eq!(answer, if heard.is_some() { &b"+heard"[..] } else { refused });
    }
}

/// One letter, one byte of name length, the name, the key.
fn understood(message: &[u8]) -> Heard {
    let (&[letter, name_len], rest) = message.split_first_chunk()?;
    let (name, key) = rest.split_at_checked(name_len.into())?;
    let name = core::str::from_utf8(name).ok()?;
    let fits = match letter {
        b'A' => !key.is_empty(),
        b'R' => !name.is_empty() && key.is_empty(),
        b'L' | b'S' | b'H' | b'Q' => name.is_empty() && key.is_empty(),
        // The length of the key before, and both keys.
        b'E' => {
            let len = |(len, keys): (&[u8; 4], &[u8])| u32::from_le_bytes(*len) as usize <= keys.len();
            name.is_empty() && key.split_first_chunk().is_some_and(len)
        }
        b'G' => name.is_empty() && !key.is_empty(),
        b'Z' => name.is_empty() && matches!(key.len(), 0 | 8),
        _ => false,
    };
    (fits && message.len() <= LONGEST).then(|| (letter, name.into(), key.into()))
}

/// An answer is taken for what it is, however it ends.
fn answer(answer: &[u8]) {
    static SERVER: OnceLock<(PathBuf, UnixListener)> = OnceLock::new();
    let (path, listener) = SERVER.get_or_init(|| {
        let path = directory().join("fuzz.answers");
        let listener = UnixListener::bind(&path).expect("the socket can be bound");
        (path, listener)
    });
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(path, &Request::Remove { name: "fuzz" }));
        let (mut stream, _) = listener.accept().expect("somebody asks");
        let mut request = Vec::new();
        stream.read_to_end(&mut request).expect("a request");
        assert_eq!(request, b"R\x04fuzz");
        let _ = stream.write_all(answer);
        drop(stream);
        asked.join().expect("asking does not panic")
    });
    let text = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
    match (answer.split_first(), asked) {
        (Some((b'+', rest)), Ok(said)) => assert_eq!(said, text(rest)),
        (Some((b'-', rest)), Err(AskError::Refused { reason })) => assert_eq!(reason, text(rest)),
        (Some((b'+' | b'-', _)), asked) => panic!("{answer:?} was taken for {asked:?}"),
        (_, asked) => assert!(matches!(asked, Err(AskError::Unreachable { .. })), "{asked:?}"),
    }
}
