//! A TLS connection that is read and written at the same time.
//!
//! rustls keeps both directions in one object. Its lock is held while bytes in memory are encrypted or decrypted, and
//! never while a thread waits for the socket:
//!
//! * The reader takes ciphertext off the socket first, and decrypts it under the lock.
//! * A writer encrypts under the lock and sends what came of it afterwards. A second lock keeps other writers away
//!   meanwhile, because records must arrive in the order in which they were encrypted.
//!
//! The reader never takes the writers' lock, so a client that does not read its replies does not stop a server's reader. What
//! TLS itself wants to answer (an update of keys) goes out with the next reply, as RFC 8446 section 4.6.3 allows.

use crate::wire::{self, WireError};
use rustix::net::SendFlags;
use rustls::Connection;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of ciphertext that one read of the socket takes: a few records.
const RECEIVED: usize = 64 << 10;
/// Bytes of ciphertext that go out at a time: the 64 KiB of plaintext that rustls takes, and what makes records of them.
const SENDING: usize = 66 << 10;

pub(crate) struct Session {
    connection: Mutex<Connection>,
    /// Only the connection's one reader takes it.
    received: Mutex<Received>,
    /// Ciphertext on its way to the socket.
    sending: Mutex<Vec<u8>>,
}

/// Ciphertext that was read from the socket and is not decrypted yet.
struct Received {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// What came is not TLS, or not the other side's: nothing more is decrypted.
    failed: bool,
}

impl Session {
    pub fn new(connection: impl Into<Connection>) -> Self {
        let received = Received { buffer: vec![0; RECEIVED].into(), start: 0, end: 0, failed: false };
        Self {
            connection: Mutex::new(connection.into()),
            received: Mutex::new(received),
            sending: Mutex::new(Vec::with_capacity(SENDING)),
        }
    }

    /// Lets the other side in, or refuses it. Nothing that it sends in this takes longer than until the deadline.
    pub fn handshake(&self, socket: &OwnedFd, deadline: Option<Instant>) -> Result<(), WireError> {
        let mut received = lock(&self.received);
        // A client speaks first.
        self.send(socket, &mut [])?;
        while lock(&self.connection).is_handshaking() {
            if received.is_empty() {
                received.fill(socket, deadline)?;
            }
            let processed = process(&mut lock(&self.connection), &mut received);
            // Also an alert that says why the other side is refused.
            self.send(socket, &mut [])?;
            processed?;
        }
        Ok(())
    }

    /// Sends all slices, in order.
    pub fn send(&self, socket: &OwnedFd, mut slices: &mut [IoSlice<'_>]) -> Result<(), WireError> {
        let mut sending = lock(&self.sending);
        IoSlice::advance_slices(&mut slices, 0);
        loop {
            let mut connection = lock(&self.connection);
            if !slices.is_empty() {
                match connection.writer().write_vectored(slices) {
                    Ok(taken @ 1..) => IoSlice::advance_slices(&mut slices, taken),
                    Ok(0) | Err(_) => return Err(WireError::Closed),
                }
            }
            take_ciphertext(&mut connection, &mut sending)?;
            drop(connection);
            wire::send(socket, &mut [IoSlice::new(&sending)], SendFlags::empty())?;
            if slices.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits for plaintext and returns how much of `out` it fills. The end of TLS is the end of the connection.
    pub fn receive(
        &self,
        socket: &OwnedFd,
        out: &mut [u8],
        deadline: Option<Instant>,
    ) -> Result<usize, WireError> {
        let mut received = lock(&self.received);
        loop {
            let decrypted = self.decrypt(&mut received, out);
            if decrypted.is_err() {
                self.send_without_waiting(socket);
            }
            match decrypted? {
                0 => received.fill(socket, deadline)?,
                filled => return Ok(filled),
            }
        }
    }

    /// Decrypts into `out` as much as there is and fits. What came before the end, or before a forgery, still counts.
    fn decrypt(&self, received: &mut Received, out: &mut [u8]) -> Result<usize, WireError> {
        let mut connection = lock(&self.connection);
        let mut filled = 0;
        loop {
            let ended = match connection.reader().read(&mut out[filled..]) {
                Ok(0) => true,
                Ok(read) => {
                    filled += read;
                    false
                }
                Err(error) => error.kind() != ErrorKind::WouldBlock || received.failed,
            };
            if filled == out.len() || received.is_empty() && !ended || ended && filled > 0 {
                return Ok(filled);
            }
            if ended {
                return Err(WireError::Closed);
            }
            received.failed = process(&mut connection, received).is_err();
        }
    }

    /// Ends TLS on this side, so that the other side can tell it from a connection that somebody cut.
    pub fn farewell(&self, socket: &OwnedFd) {
        lock(&self.connection).send_close_notify();
        self.send_without_waiting(socket);
    }

    /// Sends what TLS has to say last, unless somebody sends or the other side does not read: the connection is over anyway.
    fn send_without_waiting(&self, socket: &OwnedFd) {
        let Ok(mut sending) = self.sending.try_lock() else { return };
        if take_ciphertext(&mut lock(&self.connection), &mut sending).is_ok() {
            let _ = wire::send(socket, &mut [IoSlice::new(&sending)], SendFlags::DONTWAIT);
        }
    }
}

/// Gives rustls some of what was received. After this, its plaintext has to be taken before it gets more.
fn process(connection: &mut Connection, received: &mut Received) -> Result<(), WireError> {
    match connection.read_tls(&mut &received.buffer[received.start..received.end]) {
        // Nothing is taken behind the other side's farewell.
        Ok(0) | Err(_) => return Err(WireError::Closed),
        Ok(taken) => received.start += taken,
    }
    connection.process_new_packets().map(drop).map_err(WireError::tls)
}

/// Moves the records that rustls has made.
fn take_ciphertext(connection: &mut Connection, sending: &mut Vec<u8>) -> Result<(), WireError> {
    sending.clear();
    while connection.wants_write() {
        connection.write_tls(sending).map_err(|_| WireError::Closed)?;
    }
    Ok(())
}

impl Received {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads from the socket, when all that was read before is used.
    fn fill(&mut self, socket: &OwnedFd, deadline: Option<Instant>) -> Result<(), WireError> {
        (self.start, self.end) = (0, 0);
        self.end = wire::receive(socket, &mut self.buffer, deadline)?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
