//! One client's socket: buffered input that reads payloads straight into the caller's buffer, and gathered output.

use super::polling::{Leave, PATIENCE, Polling};
use atrest_nbd::tls::Tls;
use atrest_nbd::wire::{Wire, WireError};
use rustix::net::{Shutdown, shutdown, sockopt};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The peer is gone, was too slow, or broke the protocol: this connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

impl From<WireError> for Lost {
    fn from(_: WireError) -> Self {
        Self
    }
}

/// The writing side, and the way to cut the connection from any thread.
#[derive(Clone)]
pub(super) struct Output {
    socket: Arc<Wire>,
}

impl Output {
    pub fn new(socket: Arc<Wire>) -> Self {
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
        let slices = &mut slices[..parts.len().min(3)];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        Ok(self.socket.send(slices)?)
    }

    /// Takes no more requests: a blocked read ends, replies still go out.
    pub fn stop_reading(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Read);
    }

    /// Cuts the connection: every blocked read and write on it ends.
    pub fn cut(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }

    /// Says that the connection ends in order, if the client can be told without waiting.
    pub fn farewell(&self) {
        self.socket.farewell();
    }
}

/// The reading side. One system call fetches many request headers, and small requests with what they write.
pub(super) struct Input {
    socket: Arc<Wire>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of the buffer that one system call may fill.
    appetite: usize,
    polling: Polling,
    deadline: Option<Instant>,
}

impl Input {
    /// Pages that nothing was read into take no memory.
    const BUFFER: usize = 128 << 10;
    /// What is fetched with a header while no small requests come. A long payload that is fetched so is copied once more.
    const HEADERS: usize = 4096;

    pub fn new(socket: Arc<Wire>) -> Self {
        let buffer = vec![0; Self::BUFFER].into();
        let polling = Polling::new(Instant::now());
        Self { socket, buffer, start: 0, end: 0, appetite: Self::HEADERS, polling, deadline: None }
    }

    /// Says whether the next requests are likely to be small.
    pub fn expect_small(&mut self, small: bool) {
        self.appetite = if small { Self::BUFFER } else { Self::HEADERS };
    }

    /// From now on nothing may arrive later than this.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Whether the next `len` bytes are here, so that reading them waits for nothing.
    pub fn holds(&self, len: usize) -> bool {
        self.end - self.start >= len
    }

    /// Turns TLS on. What came before it and was not read would be taken for something that came under TLS: a client
    /// that sends it is cut off.
    pub fn start_tls(&mut self, tls: &Tls) -> Result<(), Lost> {
        if self.holds(1) {
            return Err(Lost);
        }
        Ok(self.socket.accept_tls(tls, self.deadline)?)
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
            if out.len() >= Self::HEADERS {
                let received = self.socket.receive(out, self.deadline)?;
                out = &mut out[received..];
            } else {
                self.start = 0;
                self.end = 0;
                if self.appetite == Self::BUFFER {
                    self.look_out();
                }
                self.end = self.socket.receive(&mut self.buffer[..self.appetite], self.deadline)?;
            }
        }
    }

    /// Looks for the next small request, if that pays.
    fn look_out(&mut self) {
        if self.polling.looks(Instant::now())
            && let Some(_leave) = Leave::ask()
        {
            let came = self.socket.look_out(PATIENCE);
            self.polling.note(came, Instant::now());
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
}
