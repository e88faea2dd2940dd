//! One client's socket: buffered input that reads payloads straight into the caller's buffer, and gathered output.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown, sockopt};
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The peer is gone, was too slow, or broke the protocol: this connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// The writing side, and the way to cut the connection from any thread.
#[derive(Clone)]
pub(super) struct Output {
    socket: Arc<OwnedFd>,
}

impl Output {
    pub fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket }
    }

    /// Limits how long one send may wait for the client, or lifts the limit.
    pub fn set_timeout(&self, limit: Option<Duration>) {
        // A socket that refuses a timeout only loses the protection against a peer that stalls its own handshake.
        let _ = sockopt::set_socket_timeout(&*self.socket, sockopt::Timeout::Send, limit);
    }

    /// Sends all parts, in order. Callers keep two messages from mixing.
    pub fn send(&self, parts: &[&[u8]]) -> Result<(), Lost> {
        let mut slices = [IoSlice::new(&[]), IoSlice::new(&[]), IoSlice::new(&[])];
        let mut rest: &mut [IoSlice<'_>] = &mut slices[..parts.len().min(3)];
        for (slice, part) in rest.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match sendmsg(&*self.socket, rest, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Lost),
            }
        }
        Ok(())
    }

    /// Takes no more requests: a blocked read ends, replies still go out.
    pub fn stop_reading(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Read);
    }

    /// Cuts the connection: every blocked read and write on it ends.
    pub fn cut(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

/// The reading side. One system call fetches many request headers, and small requests with what they write.
pub(super) struct Input {
    socket: Arc<OwnedFd>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of the buffer that one system call may fill.
    appetite: usize,
    deadline: Option<Instant>,
}

impl Input {
    /// Pages that nothing was read into take no memory.
    const BUFFER: usize = 128 << 10;
    /// What is fetched with a header while no small requests come. A long payload that is fetched so is copied once more.
    const HEADERS: usize = 4096;

    pub fn new(socket: Arc<OwnedFd>) -> Self {
        let buffer = vec![0; Self::BUFFER].into();
        Self { socket, buffer, start: 0, end: 0, appetite: Self::HEADERS, deadline: None }
    }

    /// Says whether the next requests are likely to be small.
    pub fn expect_small(&mut self, small: bool) {
        self.appetite = if small { Self::BUFFER } else { Self::HEADERS };
    }

    /// Whether the next `len` bytes are here, so that reading them waits for nothing.
    pub fn holds(&self, len: usize) -> bool {
        self.end - self.start >= len
    }

    /// From now on nothing may arrive later than this.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Fills `out`.
    pub fn read_exact(&mut self, mut out: &mut [u8]) -> Result<(), Lost> {
        loop {
            let buffered = &self.buffer[self.start..self.end];
            let take = buffered.len().min(out.len());
            out[..take].copy_from_slice(&buffered[..take]);
            self.start += take;
            out = &mut out[take..];
            if out.is_empty() {
                return Ok(());
            }
            self.wait()?;
            if out.len() >= Self::HEADERS {
                let received = receive(&self.socket, out)?;
                out = &mut out[received..];
            } else {
                self.start = 0;
                self.end = 0;
                self.end = receive(&self.socket, &mut self.buffer[..self.appetite])?;
            }
        }
    }

    /// Reads and forgets `len` bytes.
    pub fn skip(&mut self, mut len: u64) -> Result<(), Lost> {
        let mut sink = [0; Self::HEADERS];
        while len > 0 {
            let step = len.min(sink.len() as u64) as usize;
            self.read_exact(&mut sink[..step])?;
            len -= step as u64;
        }
        Ok(())
    }

    fn wait(&self) -> Result<(), Lost> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        loop {
            let left = deadline.checked_duration_since(Instant::now()).ok_or(Lost)?;
            let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            match poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(Lost),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Lost),
            }
        }
    }
}

fn receive(socket: &OwnedFd, out: &mut [u8]) -> Result<usize, Lost> {
    loop {
        match recv(socket, &mut *out, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(Lost),
            Ok((_, received)) => return Ok(received),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Lost),
        }
    }
}
