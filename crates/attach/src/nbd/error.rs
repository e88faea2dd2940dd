//! What can go wrong at the NBD face, and how a device's errors look to a client.

use atrest_device::{Cause, DeviceError};
use atrest_nbd::proto::errno;
use core::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why an NBD server can't be started.
#[non_exhaustive]
#[derive(Debug)]
pub enum BindError {
    /// The socket's path is too long for a Unix socket address.
    PathTooLong {
        /// The path that was asked for.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
        /// The longest that works.
        max: usize,
    },
    /// Another server answers on the socket.
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// Another process keeps the socket's directory locked.
    Locked {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something that is not a socket has the socket's name.
    NotASocket {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The socket can't be made there.
    Socket {
        /// The path that was asked for.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// An address that other machines can reach was asked for without TLS.
    NotLoopback {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The TCP address can't be listened on.
    Tcp {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// The export's name is longer than the protocol allows, or holds a NUL.
    ExportName {
        /// Its length in bytes.
        len: usize,
    },
    /// The operating system refused something else that the server needs.
    System(std::io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::PathTooLong { path, len, max } => write!(
                f,
                "the socket path {} has {len} bytes and a Unix socket address holds {max}",
                path.display()
            ),
            BindError::InUse { path } => write!(f, "another server answers on {}", path.display()),
            BindError::Locked { path } => write!(
                f,
                "another process keeps the directory of {} locked; use a directory of your own",
                path.display()
            ),
            BindError::NotASocket { path } => {
                write!(f, "{} exists and is not a socket, so it is left alone", path.display())
            }
            BindError::Socket { path, error } => {
                write!(f, "cannot make the socket {}: {error}", path.display())
            }
            BindError::NotLoopback { address } => write!(
                f,
                "{address} can be reached from other machines, which would read the volume without TLS"
            ),
            BindError::Tcp { address, error } => write!(f, "cannot listen on {address}: {error}"),
            BindError::ExportName { len } => {
                write!(f, "the export name of {len} bytes is longer than 4096 bytes or holds a NUL")
            }
            BindError::System(error) => write!(f, "cannot start the server: {error}"),
        }
    }
}

impl core::error::Error for BindError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            BindError::Socket { error, .. } | BindError::Tcp { error, .. } | BindError::System(error) => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// Why a server ended otherwise than it should.
#[non_exhaustive]
#[derive(Debug)]
pub enum RunError {
    /// Connections can't be accepted any more.
    Accept(std::io::Error),
    /// The last flush failed: writes that were acknowledged without a flush may be lost.
    Flush(DeviceError),
    /// Both: connections could not be accepted any more, and then the last flush failed, so that writes may be lost.
    AcceptAndFlush {
        /// Why no connections could be accepted.
        accept: std::io::Error,
        /// Why the last flush failed.
        flush: DeviceError,
    },
}

impl RunError {
    /// What a server ends with: neither error hides the other.
    pub(crate) fn outcome(
        accepted: Result<(), std::io::Error>,
        flushed: Result<(), DeviceError>,
    ) -> Result<(), Self> {
        match (accepted, flushed) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(accept), Ok(())) => Err(Self::Accept(accept)),
            (Ok(()), Err(flush)) => Err(Self::Flush(flush)),
            (Err(accept), Err(flush)) => Err(Self::AcceptAndFlush { accept, flush }),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Accept(error) => write!(f, "cannot accept connections any more: {error}"),
            RunError::Flush(error) => write!(f, "{error}"),
            RunError::AcceptAndFlush { accept, flush } => {
                write!(f, "{flush}; before that, connections could not be accepted any more: {accept}")
            }
        }
    }
}

impl core::error::Error for RunError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            RunError::Accept(error) => Some(error),
            RunError::Flush(error) | RunError::AcceptAndFlush { flush: error, .. } => Some(error),
        }
    }
}

/// The protocol's number for a device's error.
pub(super) fn errno_of(error: &DeviceError) -> u32 {
    match error.cause {
        Cause::Os(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) | Cause::NoSpace => errno::ENOSPC,
        Cause::Os(libc::EPERM | libc::EACCES | libc::EROFS) | Cause::ReadOnly | Cause::Protected => {
            errno::EPERM
        }
        Cause::Os(libc::ENOMEM) => errno::ENOMEM,
        Cause::OutOfBounds { .. } | Cause::Misaligned { .. } => errno::EINVAL,
        Cause::Unsupported => errno::ENOTSUP,
        _ => errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use atrest_device::Operation;
    use core::error::Error;

    use super::*;

    fn error(cause: Cause) -> DeviceError {
        DeviceError::new(Operation::Write, 0, 1, cause)
    }

    #[test]
    fn each_cause_has_the_number_that_the_protocol_has_for_it() {
        for (cause, expected) in [
            (Cause::NoSpace, 28),
            (Cause::Os(libc::ENOSPC), 28),
            (Cause::Os(libc::EDQUOT), 28),
            (Cause::Os(libc::EFBIG), 28),
            (Cause::ReadOnly, 1),
            (Cause::Protected, 1),
            (Cause::Os(libc::EPERM), 1),
            (Cause::Os(libc::EACCES), 1),
            (Cause::Os(libc::EROFS), 1),
            (Cause::Os(libc::ENOMEM), 12),
            (Cause::OutOfBounds { size: 1 }, 22),
            (Cause::Misaligned { multiple: 512 }, 22),
            (Cause::Unsupported, 95),
            // What the protocol has no number for.
            (Cause::Os(libc::EIO), 5),
            (Cause::Os(libc::ENOTCONN), 5),
            (Cause::Gone, 5),
            (Cause::Tampered, 5),
            (Cause::Refused { status: 403 }, 5),
            (Cause::EarlierFlushFailed, 5),
        ] {
            assert_eq!(errno_of(&error(cause)), expected, "{cause:?}");
        }
    }

    /// A failed flush is the error that says that data may be lost.
    #[test]
    fn neither_failure_of_a_server_hides_the_other() {
        let cause = error(Cause::NoSpace);
        let full = || std::io::Error::from_raw_os_error(libc::EMFILE);
        assert!(RunError::outcome(Ok(()), Ok(())).is_ok());
        assert!(matches!(RunError::outcome(Err(full()), Ok(())), Err(RunError::Accept(_))));
        assert!(matches!(RunError::outcome(Ok(()), Err(cause)), Err(RunError::Flush(_))));
        let both = RunError::outcome(Err(full()), Err(cause)).expect_err("both failed");
        assert_eq!(both.source().and_then(|source| source.downcast_ref()), Some(&cause));
        for part in [cause.to_string(), full().to_string()] {
            assert!(both.to_string().contains(&part), "{both}");
        }
    }

    #[test]
    fn a_server_that_ends_says_why() {
        let cause = error(Cause::NoSpace);
        let flush = RunError::Flush(cause);
        assert_eq!(flush.source().and_then(|source| source.downcast_ref()), Some(&cause));
        let accept = RunError::Accept(std::io::Error::from_raw_os_error(libc::EMFILE));
        let source = accept.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(libc::EMFILE));
        let system = BindError::System(std::io::Error::from_raw_os_error(libc::EMFILE));
        assert!(system.source().is_some_and(|source| source.is::<std::io::Error>()));
    }
}
