//! Where the TPM is: the kernel's device, or the socket of a software TPM, which carries the same bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::TpmError;
use crate::wire::MAX;

/// The environment variable that names another TPM than the kernel's: a path, `tcp:HOST:PORT` or `unix:PATH`.
pub const TPM_VARIABLE: &str = "ATREST_TPM";

const DEFAULT: &str = "/dev/tpmrm0";

/// The longest that a command may take at a socket: making an RSA key takes a slow TPM most of a minute.
const LIMIT: Duration = Duration::from_secs(90);

/// What carries a command to a TPM.
pub trait Transport {
    /// Sends a command, and returns the whole answer.
    ///
    /// # Errors
    /// [`TpmError::Io`], [`TpmError::Slow`], or [`TpmError::Malformed`] if the answer is longer than 4096 bytes.
    fn transmit(&mut self, command: &[u8]) -> Result<Vec<u8>, TpmError>;
}

/// Where a TPM is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A device of the kernel.
    Path(PathBuf),
    /// `HOST:PORT` of a software TPM.
    Tcp(String),
    /// The Unix socket of a software TPM.
    Unix(PathBuf),
}

impl Device {
    /// The device that [`TPM_VARIABLE`] names, or else the kernel's `/dev/tpmrm0`.
    ///
    /// # Errors
    /// [`TpmError::BadPlace`].
    pub fn from_environment() -> Result<Self, TpmError> {
        match std::env::var_os(TPM_VARIABLE) {
            None => Ok(Self::Path(DEFAULT.into())),
            Some(place) => Self::parse(&place.to_string_lossy()),
        }
    }

    /// The device with this name.
    ///
    /// # Errors
    /// [`TpmError::BadPlace`].
    pub fn parse(place: &str) -> Result<Self, TpmError> {
        match (place.strip_prefix("tcp:"), place.strip_prefix("unix:")) {
            (Some(address), _) => Ok(Self::Tcp(address.into())),
            (_, Some(path)) => Ok(Self::Unix(path.into())),
            _ if place.starts_with('/') => Ok(Self::Path(place.into())),
            _ => Err(TpmError::BadPlace { place: place.into() }),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`TpmError::NoDevice`] if nothing is there, otherwise [`TpmError::Io`].
    pub fn open(&self) -> Result<Box<dyn Transport>, TpmError> {
        match self {
            Self::Path(path) => {
                let file = OpenOptions::new().read(true).write(true).open(path);
                let file = file.map_err(|error| absent(&error, path.display().to_string()))?;
                Ok(Box::new(Kernel(file)))
            }
            Self::Tcp(address) => {
                let stream = connect(address).map_err(|error| absent(&error, address.clone()))?;
                Ok(Box::new(Socket { stream, limit: LIMIT }))
            }
            Self::Unix(path) => {
                let stream =
                    UnixStream::connect(path).map_err(|error| absent(&error, path.display().to_string()))?;
                Ok(Box::new(Socket { stream, limit: LIMIT }))
            }
        }
    }
}

fn absent(error: &io::Error, place: String) -> TpmError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => TpmError::NoDevice { place },
        _ => TpmError::Io(error.to_string()),
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn failed(error: &io::Error) -> TpmError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TpmError::Slow,
        _ => TpmError::Io(error.to_string()),
    }
}

/// The kernel's device: a write is a command, a read its whole answer. The kernel bounds how long a TPM may take.
struct Kernel(File);

impl Transport for Kernel {
    fn transmit(&mut self, command: &[u8]) -> Result<Vec<u8>, TpmError> {
        self.0.write_all(command).map_err(|error| failed(&error))?;
        let mut answer = vec![0; MAX];
        let len = self.0.read(&mut answer).map_err(|error| failed(&error))?;
        answer.truncate(len);
        Ok(answer)
    }
}

/// A stream whose reads can be given a time limit.
trait Timed: Read + Write {
    fn wait_at_most(&self, limit: Duration) -> io::Result<()>;
}

impl Timed for TcpStream {
    fn wait_at_most(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Timed for UnixStream {
    fn wait_at_most(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

/// The socket of a software TPM.
struct Socket<S> {
    stream: S,
    /// For a command and its answer together, however slowly it comes.
    limit: Duration,
}

impl<S: Timed> Transport for Socket<S> {
    fn transmit(&mut self, command: &[u8]) -> Result<Vec<u8>, TpmError> {
        let started = Instant::now();
        self.stream.wait_at_most(self.limit).map_err(|error| failed(&error))?;
        self.stream.write_all(command).map_err(|error| failed(&error))?;
        let mut answer = vec![0; 10];
        self.fill(&mut answer, started)?;
        let [_, _, a, b, c, d, ..] = answer[..] else { return Err(TpmError::Malformed) };
        let len = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| TpmError::Malformed)?;
        if !(10..=MAX).contains(&len) {
            return Err(TpmError::Malformed);
        }
        answer.resize(len, 0);
        self.fill(answer.get_mut(10..).ok_or(TpmError::Malformed)?, started)?;
        Ok(answer)
    }
}

impl<S: Timed> Socket<S> {
    fn fill(&mut self, mut place: &mut [u8], started: Instant) -> Result<(), TpmError> {
        while !place.is_empty() {
            let left = self.limit.checked_sub(started.elapsed()).filter(|left| !left.is_zero());
            self.stream.wait_at_most(left.ok_or(TpmError::Slow)?).map_err(|error| failed(&error))?;
            match self.stream.read(place) {
                Ok(0) => return Err(TpmError::Io("the connection ended".into())),
                Ok(len) => place = place.get_mut(len..).ok_or(TpmError::Malformed)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tpm_is_named_by_a_path_or_by_an_address() {
        assert_eq!(Device::parse("/dev/tpm0"), Ok(Device::Path("/dev/tpm0".into())));
        assert_eq!(Device::parse("tcp:localhost:2321"), Ok(Device::Tcp("localhost:2321".into())));
        assert_eq!(Device::parse("unix:/run/tpm"), Ok(Device::Unix("/run/tpm".into())));
        assert!(matches!(Device::parse("tpm0"), Err(TpmError::BadPlace { .. })));
        let none = Device::parse("/nowhere/tpm").expect("a path").open().err();
        assert_eq!(none, Some(TpmError::NoDevice { place: "/nowhere/tpm".into() }));
    }

    /// What comes of a TPM that answers with these bytes, one each time, for ever or not.
    fn answered(bytes: &'static [u8], endless: bool) -> Result<Vec<u8>, TpmError> {
        let (stream, mut other) = UnixStream::pair().expect("two sockets");
        let tpm = std::thread::spawn(move || {
            let mut command = [0; 3];
            other.read_exact(&mut command).expect("the command");
            for byte in bytes {
                other.write_all(&[*byte]).expect("the answer");
            }
            while endless && other.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let answer = Socket { stream, limit: Duration::from_millis(300) }.transmit(b"abc");
        tpm.join().expect("the TPM ends");
        answer
    }

    #[test]
    fn an_answer_ends_where_it_says_and_within_bounded_time_and_size() {
        let ok = [0x80, 1, 0, 0, 0, 12, 0, 0, 0, 0, 7, 8];
        const OK: &[u8] = &[0x80, 1, 0, 0, 0, 12, 0, 0, 0, 0, 7, 8];
        assert_eq!(answered(OK, false), Ok(ok.to_vec()));
        assert_eq!(answered(OK, true), Ok(ok.to_vec()));
        assert!(matches!(answered(&OK[..11], false), Err(TpmError::Io(_))));
        assert_eq!(answered(&[0x80, 1, 0, 0, 0x10, 1, 0, 0, 0, 0], true), Err(TpmError::Malformed));
        assert_eq!(answered(&[0x80, 1, 0, 0, 0, 9, 0, 0, 0, 0], true), Err(TpmError::Malformed));
        assert_eq!(answered(&[0x80, 1, 0, 0, 0x10, 0, 0, 0, 0, 0], true), Err(TpmError::Slow));
    }
}
