//! Where a server listens: a Unix socket that only its owner may open, or a TCP port.

use super::error::BindError;
use atrest_nbd::percent_encoded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket with mode 0600. Only its owner and root are served.
    Unix(PathBuf),
    /// A TCP address; port 0 lets the system choose. Whoever reaches it can connect, on a loopback address every user
    /// of this machine: see [`Server::warning`](super::Server::warning).
    Tcp(SocketAddr),
}

impl Endpoint {
    /// The URI for clients that speak TLS or do not, in the form of the NBD URI specification.
    pub fn uri(&self, export: &str, tls: bool) -> String {
        let scheme = if tls { "nbds" } else { "nbd" };
        let export = percent_encoded(export.as_bytes());
        match self {
            Endpoint::Unix(path) => {
                let socket = percent_encoded(path.as_os_str().as_bytes());
                format!("{scheme}+unix:///{export}?socket={socket}")
            }
            Endpoint::Tcp(address) => format!("{scheme}://{address}/{export}"),
        }
    }

    /// Whether other machines can connect.
    pub fn is_remote(&self) -> bool {
        match self {
            Endpoint::Unix(_) => false,
            Endpoint::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        }
    }
}

/// A listening socket; a Unix socket's name is removed when this is dropped.
pub(crate) struct Listener {
    kind: Kind,
    pub endpoint: Endpoint,
}

enum Kind {
    Unix { listener: UnixListener, inode: (u64, u64) },
    Tcp(TcpListener),
}

impl Listener {
    pub fn bind(endpoint: &Endpoint) -> Result<Self, BindError> {
        match endpoint {
            Endpoint::Unix(path) => bind_unix(path),
            Endpoint::Tcp(address) => bind_tcp(*address),
        }
    }

    pub fn poll_fd(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix { listener, .. } => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }

    /// The next client; `None` if there is none after all, or it may not connect. When the system is out of descriptors or
    /// memory, it waits for a moment, or until `wake` is readable.
    pub fn accept(&self, wake: &OwnedFd) -> io::Result<Option<OwnedFd>> {
        let accepted: io::Result<OwnedFd> = match &self.kind {
            Kind::Unix { listener, .. } => listener.accept().map(|(stream, _)| stream.into()),
            Kind::Tcp(listener) => listener.accept().map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                stream.into()
            }),
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset => return Ok(None),
                _ if is_exhausted(&error) => {
                    // Woken or not: the caller looks what there is to do.
                    let _ = poll(&mut [PollFd::new(wake, PollFlags::IN)], Some(&EXHAUSTED_PAUSE));
                    return Ok(None);
                }
                _ => return Err(error),
            },
        };
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(self.is_admitted(&socket).then_some(socket))
    }

    /// The socket's mode keeps others out already; this holds even if someone widens it.
    fn is_admitted(&self, socket: &OwnedFd) -> bool {
        match &self.kind {
            Kind::Unix { .. } => sockopt::socket_peercred(socket)
                .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid()),
            Kind::Tcp(_) => true,
        }
    }
}

/// How long to wait before accepting again.
const EXHAUSTED_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether the system is out of file descriptors or memory.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| exhausted.contains(&number))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Kind::Unix { inode, .. }, Endpoint::Unix(path)) = (&self.kind, &self.endpoint) {
            // Another server may have replaced a socket that it took for stale.
            if std::fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == *inode) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> Result<Listener, BindError> {
    let failed = |error| BindError::Tcp { address, error };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let endpoint = Endpoint::Tcp(listener.local_addr().map_err(failed)?);
    Ok(Listener { kind: Kind::Tcp(listener), endpoint })
}

/// Bytes of a path in `sockaddr_un`, less the final NUL.
const MAX_SOCKET_PATH: usize = 107;

/// The socket comes to life in a private directory and gets its mode there; only then does it move to its name.
/// So at no moment can anyone else open it, and no process-wide umask is touched.
fn bind_unix(path: &Path) -> Result<Listener, BindError> {
    let path = std::path::absolute(path).map_err(|error| BindError::Socket { path: path.into(), error })?;
    let len = path.as_os_str().len();
    if len > MAX_SOCKET_PATH {
        return Err(BindError::PathTooLong { path, len, max: MAX_SOCKET_PATH });
    }
    let failed = |error: io::Error| BindError::Socket { path: path.clone(), error };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(Errno::ISDIR.into()));
    };
    let parent_flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, parent_flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    // Two servers that start at once take turns.
    if !lock(&parent) {
        return Err(BindError::Locked { path });
    }
    remove_stale(&path, &parent, name)?;
    let private = PrivateDirectory::new(&parent).map_err(failed)?;
    let listener = private.listen().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    match rustix::fs::renameat_with(&private.fd, SOCKET_NAME, &parent, name, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A file system without RENAME_NOREPLACE: linking does not replace either, and the private name goes later.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(&private.fd, SOCKET_NAME, &parent, name, AtFlags::empty())
                .map_err(|error| failed(error.into()))?;
        }
        Err(Errno::EXIST) => return Err(BindError::InUse { path }),
        Err(error) => return Err(failed(error.into())),
    }
    let metadata = std::fs::symlink_metadata(&path).map_err(failed)?;
    let inode = (metadata.dev(), metadata.ino());
    Ok(Listener { kind: Kind::Unix { listener, inode }, endpoint: Endpoint::Unix(path.clone()) })
}

/// How long another server may take to make its socket.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// False if somebody keeps the directory locked: in a directory such as /tmp that can be anybody, and for ever. A
/// directory that can't be locked at all is used without.
fn lock(directory: &OwnedFd) -> bool {
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() >= deadline => return false,
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(Duration::from_millis(10)),
            _ => return true,
        }
    }
}

/// Removes a socket that nobody listens on; refuses anything else that has the name.
fn remove_stale(path: &Path, parent: &OwnedFd, name: &OsStr) -> Result<(), BindError> {
    let failed = |error: io::Error| BindError::Socket { path: path.into(), error };
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(failed(error.into())),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(BindError::NotASocket { path: path.into() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(|error| failed(error.into()))
        }
        // It answers, or belongs to someone who does not let us ask.
        _ => Err(BindError::InUse { path: path.into() }),
    }
}

const SOCKET_NAME: &str = "s";

/// A directory with mode 0700 inside `parent`, removed when dropped.
struct PrivateDirectory<'a> {
    parent: &'a OwnedFd,
    name: String,
    fd: OwnedFd,
}

impl<'a> PrivateDirectory<'a> {
    fn new(parent: &'a OwnedFd) -> io::Result<Self> {
        let pid = std::process::id();
        for attempt in 0..1000u32 {
            let name = format!(".atrest-{pid}-{attempt}");
            match rustix::fs::mkdirat(parent, &name, Mode::RWXU) {
                Ok(()) => {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let fd = rustix::fs::openat(parent, &name, flags, Mode::empty())?;
                    return Ok(Self { parent, name, fd });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Listens on a socket with mode 0600 in here. The path goes through /proc, so its length does not matter.
    fn listen(&self) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET_NAME}", self.fd.as_raw_fd()))?;
        rustix::fs::chmodat(&self.fd, SOCKET_NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        Ok(listener)
    }
}

impl Drop for PrivateDirectory<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.fd, SOCKET_NAME, AtFlags::empty());
        let _ = rustix::fs::unlinkat(self.parent, &self.name, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn uris_escape_what_is_special_in_a_uri() {
        let unix = Endpoint::Unix("/run/a b/x&y.sock".into());
        assert_eq!(unix.uri("", false), "nbd+unix:///?socket=/run/a%20b/x%26y.sock");
        assert_eq!(unix.uri("x", true), "nbds+unix:///x?socket=/run/a%20b/x%26y.sock");
        let tcp = Endpoint::Tcp("[::1]:10809".parse().unwrap());
        assert_eq!(tcp.uri("a?b", false), "nbd://[::1]:10809/a%3Fb");
        assert_eq!(tcp.uri("", true), "nbds://[::1]:10809/");
    }

    #[test]
    fn a_directory_that_somebody_keeps_locked_is_not_waited_for_for_ever() {
        let directory = Scratch::new();
        let open = || std::fs::File::open(directory.as_path()).unwrap();
        let held = open();
        rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
        let endpoint = Endpoint::Unix(directory.path("s"));
        assert!(matches!(Listener::bind(&endpoint), Err(BindError::Locked { .. })));
        drop(held);
        assert!(Listener::bind(&endpoint).is_ok());
    }

    #[test]
    fn a_socket_that_somebody_may_use_is_not_removed() {
        let directory = Scratch::new();
        let endpoint = Endpoint::Unix(directory.path("s"));
        // It gives another error than that nobody listens.
        let other = std::os::unix::net::UnixDatagram::bind(directory.path("s")).unwrap();
        assert!(matches!(Listener::bind(&endpoint), Err(BindError::InUse { .. })));
        std::os::unix::net::UnixDatagram::unbound().unwrap().connect(directory.path("s")).unwrap();
        drop(other);
    }

    #[test]
    fn addresses_that_others_can_reach_are_told_from_loopback() {
        let tcp = |address: &str| Endpoint::Tcp(address.parse().unwrap());
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10809", "[::ffff:192.0.2.1]:1"] {
            assert!(tcp(address).is_remote(), "{address}");
        }
        for address in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "[::ffff:127.0.0.1]:1"] {
            assert!(!tcp(address).is_remote(), "{address}");
        }
        assert!(!Endpoint::Unix("/run/s".into()).is_remote());
    }
}
