//! Requests to a process that serves files or a volume: keys that are added and taken away while it runs.
//!
//! The socket lies in the registry's directory, beside the state file (`Registry::control_socket`), and
//! answers its own user and root alone. One connection carries one request and one answer; a key travels as bytes that both
//! sides wipe. What the keys mean is the caller's affair.

mod request;

pub use request::Request;

use core::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use atrest_secret::SecretBytes;

/// A peer that says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(5);
/// Adding a key may decrypt nothing, but taking one away waits for readers.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// What the answer to a request is: text for a person, or why not.
pub type Answer = Result<String, String>;

/// A socket that answers requests until it is dropped.
#[must_use]
pub struct Control {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens at `path`, where what a dead process left behind is replaced. `answer` is called by one thread.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if a process answers there. Otherwise the system's error if no socket can
    /// be made, or no thread started.
    pub fn listen(path: &Path, answer: impl Fn(Request<'_>) -> Answer + Send + 'static) -> io::Result<Self> {
        match UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let ending = Arc::new(AtomicBool::new(false));
        let told = ending.clone();
        let serve = move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Acquire) {
                    return;
                }
                // A peer that breaks off is its own affair.
                let _ = stream.and_then(|stream| serve(stream, &answer));
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve)?;
        Ok(Self { path: path.into(), ending, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // Wakes the thread; without a socket to connect to it could only be left behind.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: UnixStream, answer: &impl Fn(Request<'_>) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if !peer.is_root() && peer != rustix::process::geteuid() {
        return Ok(());
    }
    // Locked and wiped: it may hold a key. One byte more than a request has tells one that is too long.
    let mut message = SecretBytes::zeroed(Request::MAX_LEN + 1);
    let len = read_up_to(&mut stream, &mut message)?;
    let whole = message.get(..len).filter(|message| message.len() <= Request::MAX_LEN);
    let said = match whole.and_then(Request::decode) {
        Some(request) => answer(request),
        None => Err("the request is not one that this version knows".into()),
    };
    let (mark, text) = match &said {
        Ok(text) => (b'+', text),
        Err(text) => (b'-', text),
    };
    stream.write_all(&[mark])?;
    stream.write_all(text.as_bytes())
}

/// Reads until the peer has said everything, or the buffer is full.
fn read_up_to(stream: &mut UnixStream, buf: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = buf.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Why a request was not met.
#[non_exhaustive]
#[derive(Debug)]
pub enum AskError {
    /// The process can't be reached, or broke off.
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The process refused.
    Refused {
        /// Its reason.
        reason: String,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { path, error } => {
                write!(f, "the process that serves it does not answer at {}: {error}", path.display())
            }
            Self::Refused { reason } => f.write_str(reason),
        }
    }
}

impl core::error::Error for AskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Unreachable { error, .. } => Some(error),
            Self::Refused { .. } => None,
        }
    }
}

/// Asks the process that listens at `path`.
///
/// # Errors
/// [`AskError::Unreachable`] if nobody listens there, or the connection breaks off. [`AskError::Refused`]
/// with the process's own reason.
pub fn ask(path: &Path, request: &Request<'_>) -> Result<String, AskError> {
    let unreachable = |error| AskError::Unreachable { path: path.into(), error };
    let answer = exchange(path, request).map_err(unreachable)?;
    match answer.split_first() {
        Some((b'+', text)) => Ok(String::from_utf8_lossy(text).into_owned()),
        Some((b'-', text)) => Err(AskError::Refused { reason: String::from_utf8_lossy(text).into_owned() }),
        _ => Err(unreachable(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn exchange(path: &Path, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut message = SecretBytes::zeroed(Request::MAX_LEN);
    let len = request.encode(&mut message).ok_or(io::ErrorKind::InvalidInput)?;
    stream.write_all(message.get(..len).ok_or(io::ErrorKind::InvalidInput)?)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;
    use std::sync::Mutex;

    /// Answers with what was asked, and refuses the key of all sevens.
    fn echo(request: Request<'_>) -> Answer {
        match request {
            Request::Add { key, .. } if key.iter().all(|byte| *byte == 7) => Err("no such policy".into()),
            Request::Add { name, key } => Ok(format!("added {name} {}", key.len())),
            Request::Remove { name } => Ok(format!("removed {name}")),
            Request::List => Ok("nothing".into()),
            _ => Err("it has files".into()),
        }
    }

    #[test]
    fn requests_arrive_as_they_were_sent_and_refusals_say_why() {
        let dir = Scratch::new();
        let path = dir.path("x.control");
        let control = Control::listen(&path, echo).unwrap();
        let ask = |request: &Request<'_>| ask(&path, request);
        assert_eq!(ask(&Request::Add { name: "", key: &[1; 64] }).unwrap(), "added  64");
        assert_eq!(ask(&Request::Add { name: "0011", key: &[1; 16] }).unwrap(), "added 0011 16");
        assert_eq!(ask(&Request::Remove { name: "abcd" }).unwrap(), "removed abcd");
        assert_eq!(ask(&Request::List).unwrap(), "nothing");
        let refused = ask(&Request::Add { name: "", key: &[7; 32] }).unwrap_err();
        assert!(matches!(&refused, AskError::Refused { reason } if reason == "no such policy"));
        drop(control);
        assert!(!path.exists());
        assert!(matches!(ask(&Request::List), Err(AskError::Unreachable { .. })));
    }

    #[test]
    fn what_a_dead_process_left_is_replaced_and_a_living_one_is_left_alone() {
        let dir = Scratch::new();
        let path = dir.path("x.control");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Control::listen(&path, echo).unwrap();
        let second = Control::listen(&path, echo);
        assert_eq!(second.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        assert_eq!(ask(&path, &Request::List).unwrap(), "nothing");
        drop(first);
    }

    #[test]
    fn a_peer_that_talks_nonsense_gets_a_refusal_and_the_next_one_an_answer() {
        let dir = Scratch::new();
        let path = dir.path("x.control");
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        let _control = Control::listen(&path, move |request| {
            *count.lock().unwrap() += 1;
            echo(request)
        })
        .unwrap();
        for nonsense in [&b""[..], b"?", b"A", &[b'A'; 4096]] {
            let mut stream = UnixStream::connect(&path).unwrap();
            // More than a request can be long: the rest may find nobody who reads it.
            let _ = stream.write_all(nonsense);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer[0] == b'-', "{} bytes were taken", nonsense.len());
        }
        assert_eq!(*asked.lock().unwrap(), 0);
        assert_eq!(ask(&path, &Request::List).unwrap(), "nothing");
    }
}
