//! A client's socket for schedules: two pipes in memory, with the same functions as the real one. Nothing waits by the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atrest_testkit::schedules::pipe::Pipe;

use atrest_nbd::tls::Tls;
use atrest_nbd::wire::Wire;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

#[derive(Clone, Default)]
pub(super) struct Output {
    pub to_client: Pipe,
    pub from_client: Pipe,
}

impl Output {
    /// Not connected to anything: real sockets take no part in schedules.
    pub fn new(_: Arc<Wire>) -> Self {
        Self::default()
    }

    pub fn set_timeout(&self, _: Option<Duration>) {}

    /// Others may send between the parts, unless somebody keeps them away.
    pub fn send(&self, parts: &[&[u8]]) -> Result<(), Lost> {
        if parts.iter().all(|part| self.to_client.send(part)) { Ok(()) } else { Err(Lost) }
    }

    pub fn stop_reading(&self) {
        self.from_client.close();
    }

    pub fn cut(&self) {
        self.from_client.close();
        self.to_client.close();
    }

    pub fn farewell(&self) {}
}

#[derive(Default)]
pub(super) struct Input {
    pub from_client: Pipe,
}

impl Input {
    pub fn new(_: Arc<Wire>) -> Self {
        Self::default()
    }

    pub fn set_deadline(&mut self, _: Option<Instant>) {}

    pub fn expect_small(&mut self, _: bool) {}

    pub fn holds(&self, len: usize) -> bool {
        self.from_client.holds(len)
    }

    pub fn start_tls(&mut self, _: &Tls) -> Result<(), Lost> {
        Err(Lost)
    }

    pub fn read_exact(&mut self, out: &mut [u8]) -> Result<(), Lost> {
        if self.from_client.receive(out) { Ok(()) } else { Err(Lost) }
    }

    pub fn skip(&mut self, len: u64) -> Result<(), Lost> {
        self.read_exact(&mut vec![0; len as usize])
    }
}
