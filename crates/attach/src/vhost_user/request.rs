//! One request of the guest: its chain of descriptors, read once, and copies to and from the memory that they name.

use super::memory::Memory;
use std::ops::Deref;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress};

/// Descriptors in one request, which an indirect table could have more of.
const MAX_DESCRIPTORS: usize = 1024;

/// What a request ends with.
pub(super) mod status {
    pub const OK: u8 = 0;
    pub const IOERR: u8 = 1;
    pub const UNSUPP: u8 = 2;
}

/// The chain breaks the rules, or names memory that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A part of the guest's memory. Whether it exists is found when it is used.
#[derive(Clone, Copy)]
struct Segment {
    at: GuestAddress,
    len: u64,
}

/// A chain of descriptors. What a device may read comes first, then what it may write (virtio 1.2, section 2.7.4.2);
/// how a request is cut into descriptors says nothing (2.7.4).
#[derive(Default)]
pub(super) struct Chain {
    readable: Vec<Segment>,
    writable: Vec<Segment>,
}

impl Chain {
    /// Takes the place of what was here before.
    pub fn take<M: Deref<Target = Memory>>(
        &mut self,
        descriptors: &mut DescriptorChain<M>,
    ) -> Result<(), Malformed> {
        self.readable.clear();
        self.writable.clear();
        let mut unfinished = true;
        for descriptor in descriptors.by_ref() {
            if self.readable.len() + self.writable.len() >= MAX_DESCRIPTORS {
                return Err(Malformed);
            }
            let segment = Segment { at: descriptor.addr(), len: descriptor.len().into() };
            if descriptor.is_write_only() {
                self.writable.push(segment);
            } else if self.writable.is_empty() {
                self.readable.push(segment);
            } else {
                return Err(Malformed);
            }
            unfinished = descriptor.has_next();
        }
        // The iterator ends where a next descriptor does not exist, or they go in a circle.
        if unfinished { Err(Malformed) } else { Ok(()) }
    }

    /// Tells the guest that a chain was not understood, if as much of it was that there is a place for a status.
    pub fn refuse(&self, memory: &Memory, _: Malformed) {
        let _ = self.write_status(memory, status::IOERR);
    }

    /// Bytes that the device may read.
    pub fn readable_len(&self) -> u64 {
        total(&self.readable)
    }

    /// Bytes that the device may write, the status among them.
    pub fn writable_len(&self) -> u64 {
        total(&self.writable)
    }

    pub fn reader(&self) -> Cursor<'_> {
        Cursor { segments: &self.readable, done: 0 }
    }

    pub fn writer(&self) -> Cursor<'_> {
        Cursor { segments: &self.writable, done: 0 }
    }

    /// Writes the status into the last byte that the device may write.
    pub fn write_status(&self, memory: &Memory, status: u8) -> Result<(), Malformed> {
        let last = self.writable.iter().rev().find(|segment| segment.len > 0).ok_or(Malformed)?;
        let at = last.at.0.checked_add(last.len - 1).ok_or(Malformed)?;
        memory.write_slice(&[status], GuestAddress(at)).map_err(|_| Malformed)
    }
}

/// No descriptor has more than 2³² bytes, and there are no more than [`MAX_DESCRIPTORS`].
fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.len).sum()
}

/// A place in the readable or the writable part of a chain.
pub(super) struct Cursor<'a> {
    segments: &'a [Segment],
    /// Bytes of the first segment that were used.
    done: u64,
}

impl Cursor<'_> {
    /// Copies from the guest.
    pub fn read(&mut self, memory: &Memory, buffer: &mut [u8]) -> Result<(), Malformed> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (at, len) = self.step(buffer.len() - filled)?;
            memory.read_slice(&mut buffer[filled..filled + len], at).map_err(|_| Malformed)?;
            filled += len;
        }
        Ok(())
    }

    /// Copies to the guest.
    pub fn write(&mut self, memory: &Memory, data: &[u8]) -> Result<(), Malformed> {
        let mut written = 0;
        while written < data.len() {
            let (at, len) = self.step(data.len() - written)?;
            memory.write_slice(&data[written..written + len], at).map_err(|_| Malformed)?;
            written += len;
        }
        Ok(())
    }

    /// The next run of at most `most` bytes in one segment.
    fn step(&mut self, most: usize) -> Result<(GuestAddress, usize), Malformed> {
        loop {
            let first = self.segments.first().ok_or(Malformed)?;
            let left = first.len - self.done;
            if left == 0 {
                self.segments = &self.segments[1..];
                self.done = 0;
                continue;
            }
            let at = first.at.0.checked_add(self.done).ok_or(Malformed)?;
            let len = left.min(most as u64);
            self.done += len;
            return Ok((GuestAddress(at), len as usize));
        }
    }
}
