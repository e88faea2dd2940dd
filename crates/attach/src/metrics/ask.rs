//! Asking another process for its figures. It may hang: nothing here waits longer than it is told to.

use core::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{Metrics, http};

/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// Why there are no figures.
#[non_exhaustive]
#[derive(Debug)]
pub enum AskError {
    /// Nobody listens.
    Absent,
    /// The process has not answered in time.
    Silent {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The answer is one that this version does not understand.
    Foreign,
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the process that serves it offers no figures"),
            Self::Silent { waited } => {
                write!(f, "the process that serves it has not answered within {} s", waited.as_secs_f32())
            }
            Self::Foreign => {
                f.write_str("another version of atrest serves it, whose figures are not understood")
            }
            Self::System(error) => {
                write!(f, "the process that serves it can't be asked for figures: {error}")
            }
        }
    }
}

impl core::error::Error for AskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

/// Asks the process that answers on `socket`, and waits at most for `limit`.
///
/// # Errors
/// [`AskError::Absent`] if nobody listens there, [`AskError::Silent`] if no answer has come in time, [`AskError::Foreign`] if it is
/// not understood, [`AskError::System`] if the system refuses.
pub fn ask(socket: &Path, limit: Duration) -> Result<Metrics, AskError> {
    let silent = AskError::Silent { waited: limit };
    let deadline = Instant::now() + limit;
    let answer = match exchange(socket, deadline) {
        Ok(answer) => answer,
        Err(error) => {
            return Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::Absent,
                // So many wait already that there is no room for one more: nobody takes them.
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent,
                // It ends just now.
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::Absent,
                _ => AskError::System(error),
            });
        }
    };
    if answer.is_empty() {
        return Err(AskError::Absent);
    }
    let body = http::body(&answer).ok_or(AskError::Foreign)?;
    serde_json::from_slice(body).map_err(|_| AskError::Foreign)
}

fn exchange(path: &Path, deadline: Instant) -> io::Result<Vec<u8>> {
    // A blocking connect would wait for a process that has stopped.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", http::JSON).as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    while (answer.len() as u64) < MAX_ANSWER {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Time that is left, which is never zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    left.ok_or_else(|| Errno::TIMEDOUT.into())
}
