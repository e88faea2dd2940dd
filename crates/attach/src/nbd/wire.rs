//! A client's socket: in the clear at first, and under TLS from where the client and the server turn it on.
//!
//! One thread reads and others write at the same time. Neither waits for the other: see `Session` for what TLS does
//! about that.

use super::stream::Lost;
use super::tls::{Session, Tls};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Shared by the two sides of a connection, [`Input`](super::stream::Input) and [`Output`](super::stream::Output).
pub(super) struct Wire {
    socket: OwnedFd,
    tls: OnceLock<Session>,
}

impl Wire {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, tls: OnceLock::new() }
    }

    /// Carries out a TLS handshake, which ends before the deadline or fails. From then on all bytes are under TLS.
    pub fn start_tls(&self, tls: &Tls, deadline: Option<Instant>) -> Result<(), Lost> {
        let session = Session::handshake(tls, &self.socket, deadline)?;
        self.tls.set(session).map_err(|_| Lost)
    }

    /// Sends all slices, in order. Callers keep two messages from mixing.
    pub fn send(&self, slices: &mut [IoSlice<'_>]) -> Result<(), Lost> {
        match self.tls.get() {
            Some(session) => session.send(&self.socket, slices),
            None => send(&self.socket, slices, SendFlags::empty()),
        }
    }

    /// Waits until something has come, but not beyond the deadline, and returns how much of `out` it fills.
    pub fn receive(&self, out: &mut [u8], deadline: Option<Instant>) -> Result<usize, Lost> {
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

    /// Tells the client that nothing more comes, if it can be told without waiting.
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
pub(super) fn send(socket: &OwnedFd, mut slices: &mut [IoSlice<'_>], flags: SendFlags) -> Result<(), Lost> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags | SendFlags::NOSIGNAL) {
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Lost),
        }
    }
    Ok(())
}

/// What has come on the socket, one byte at least.
pub(super) fn receive(socket: &OwnedFd, out: &mut [u8], deadline: Option<Instant>) -> Result<usize, Lost> {
    if let Some(deadline) = deadline {
        wait(socket, deadline)?;
    }
    loop {
        match recv(socket, &mut *out, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(Lost),
            Ok((_, received)) => return Ok(received),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Lost),
        }
    }
}

fn wait(socket: &OwnedFd, deadline: Instant) -> Result<(), Lost> {
    loop {
        let left = deadline.checked_duration_since(Instant::now()).ok_or(Lost)?;
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Lost),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Lost),
        }
    }
}
