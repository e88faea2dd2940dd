//! What comes from the server, through a small buffer: the headers of replies cost no system call each, and payloads go
//! straight to where they belong.

use std::time::Instant;

use crate::error::Broken;
use crate::wire::{Wire, WireError};

/// Bytes that are read ahead.
const BUFFER: usize = 16 << 10;

pub struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Nothing may arrive later than this.
    deadline: Option<Instant>,
}

impl Input {
    pub fn until(deadline: Instant) -> Self {
        Self { buffer: vec![0; BUFFER].into(), start: 0, end: 0, deadline: Some(deadline) }
    }

    /// From now on the socket's own timeout counts.
    pub fn end_deadline(&mut self) {
        self.deadline = None;
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Fails if something has been read that nobody asked for yet: before TLS it would pass for what came under it.
    pub fn check_empty(&self) -> Result<(), Broken> {
        if self.start == self.end { Ok(()) } else { Err(Broken::BeforeTls) }
    }

    pub fn array<const N: usize>(&mut self, wire: &Wire) -> Result<[u8; N], WireError> {
        let mut bytes = [0; N];
        self.fill(wire, &mut bytes)?;
        Ok(bytes)
    }

    pub fn fill(&mut self, wire: &Wire, mut out: &mut [u8]) -> Result<(), WireError> {
        loop {
            let buffered = &self.buffer[self.start..self.end];
            let take = buffered.len().min(out.len());
            out[..take].copy_from_slice(&buffered[..take]);
            self.start += take;
            out = &mut out[take..];
            if out.is_empty() {
                return Ok(());
            }
            if out.len() >= BUFFER {
                let received = wire.receive(out, self.deadline)?;
                out = &mut out[received..];
            } else {
                (self.start, self.end) = (0, 0);
                self.end = wire.receive(&mut self.buffer, self.deadline)?;
            }
        }
    }

    /// Reads and forgets `len` bytes.
    pub fn skip(&mut self, wire: &Wire, mut len: u32) -> Result<(), WireError> {
        let mut sink = [0; 1024];
        while len > 0 {
            let step = len.min(sink.len() as u32);
            self.fill(wire, &mut sink[..step as usize])?;
            len -= step;
        }
        Ok(())
    }
}
