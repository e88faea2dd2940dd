//! The socket between a client and a server: in the clear at first, and under TLS from where both turn it on.
//!
//! One thread reads and others write at the same time. Neither waits for the other: see `Session` for what TLS does
//! about that.

use core::fmt;

use crate::tls::{ClientTls, Session, Tls};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The connection is over.
#[non_exhaustive]
#[derive(Debug)]
pub enum WireError {
    /// The other side has closed it, or it was cut off.
    Closed,
    /// Nothing came, or nothing could be sent, for longer than is waited.
    Silent,
    /// TLS failed. A client that does not trust the server learns why.
    Tls(Box<dyn core::error::Error + Send + Sync>),
}

impl WireError {
    #[cfg(feature = "tls")]
    pub(crate) fn tls(error: rustls::Error) -> Self {
        Self::Tls(Box::new(error))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Silent => f.write_str("the other side did not answer in time"),
            Self::Tls(error) => write!(f, "TLS failed: {error}"),
        }
    }
}

impl core::error::Error for WireError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => Some(&**error),
            Self::Closed | Self::Silent => None,
        }
    }
}

/// One side of a connection. Its reader and its writers share it.
pub struct Wire {
    socket: OwnedFd,
    tls: OnceLock<Session>,
}

impl Wire {
    /// A connection in the clear, over a connected stream socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, tls: OnceLock::new() }
    }

    /// Carries out a server's TLS handshake, which ends before the deadline or fails. From then on all bytes are under
    /// TLS.
    ///
    /// # Errors
    /// The client is not let in, or the connection is over for another reason.
    pub fn accept_tls(&self, tls: &Tls, deadline: Option<Instant>) -> Result<(), WireError> {
        self.start_tls(tls.begin()?, deadline)
    }

    /// Carries out a client's TLS handshake, which ends before the deadline or fails. From then on all bytes are under
    /// TLS.
    ///
    /// # Errors
    /// The server is not trusted, or the connection is over for another reason.
    pub fn connect_tls(&self, tls: &ClientTls, deadline: Option<Instant>) -> Result<(), WireError> {
        self.start_tls(tls.begin()?, deadline)
    }

    fn start_tls(&self, session: Session, deadline: Option<Instant>) -> Result<(), WireError> {
        session.handshake(&self.socket, deadline)?;
        self.tls.set(session).map_err(|_| WireError::Closed)
    }

    /// Sends all slices, in order. Callers keep two messages from mixing.
    ///
    /// # Errors
    /// The connection is over.
    pub fn send(&self, slices: &mut [IoSlice<'_>]) -> Result<(), WireError> {
        match self.tls.get() {
            Some(session) => session.send(&self.socket, slices),
            None => send(&self.socket, slices, SendFlags::empty()),
        }
    }

    /// Waits until something has come, but not beyond the deadline, and returns how much of `out` it fills.
    ///
    /// # Errors
    /// The connection is over.
    pub fn receive(&self, out: &mut [u8], deadline: Option<Instant>) -> Result<usize, WireError> {
        match self.tls.get() {
            Some(session) => session.receive(&self.socket, out, deadline),
            None => receive(&self.socket, out, deadline),
        }
    }

    /// Looks again and again whether something has come, or the connection has ended. Returns whether that was so.
    pub fn look_out(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            match recv(&self.socket, &mut [0_u8; 1], flags) {
                Err(Errno::AGAIN | Errno::INTR) => core::hint::spin_loop(),
                _ => return true,
            }
        }
        false
    }

    /// Cuts the connection: every blocked read and write on it ends.
    pub fn cut(&self) {
        // One that is not connected any more is cut already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Tells the other side that nothing more comes, if it can be told without waiting.
    pub fn farewell(&self) {
        if let Some(session) = self.tls.get() {
            session.farewell(&self.socket);
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends all slices.
pub(crate) fn send(
    socket: &OwnedFd,
    mut slices: &mut [IoSlice<'_>],
    flags: SendFlags,
) -> Result<(), WireError> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags | SendFlags::NOSIGNAL) {
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(Errno::INTR) => {}
            // The socket has a timeout.
            Err(Errno::AGAIN) => return Err(WireError::Silent),
            Err(_) => return Err(WireError::Closed),
        }
    }
    Ok(())
}

/// What has come on the socket, one byte at least.
pub(crate) fn receive(
    socket: &OwnedFd,
    out: &mut [u8],
    deadline: Option<Instant>,
) -> Result<usize, WireError> {
    if let Some(deadline) = deadline {
        wait(socket, deadline)?;
    }
    loop {
        match recv(socket, &mut *out, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(WireError::Closed),
            Ok((_, received)) => return Ok(received),
            Err(Errno::INTR) => {}
            // The socket has a timeout.
            Err(Errno::AGAIN) => return Err(WireError::Silent),
            Err(_) => return Err(WireError::Closed),
        }
    }
}

fn wait(socket: &OwnedFd, deadline: Instant) -> Result<(), WireError> {
    loop {
        let left = deadline.checked_duration_since(Instant::now()).ok_or(WireError::Silent)?;
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(WireError::Silent),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(_) => return Err(WireError::Closed),
        }
    }
}
