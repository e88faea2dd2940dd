//! Small requests, of which a client may send a hundred thousand in a second.
//!
//! Whoever reads the socket keeps it as long as requests are small and need no waiting: a hand-over to another worker
//! would cost more than such a request. Replies are gathered, and go out together before more is read off the socket and
//! before a request that goes the other way. So a client that waits for a reply before it goes on gets it.
//!
//! A read waits for nothing if [`read_if_cached`](atrest_device::BlockDevice::read_if_cached) says so. A write goes into
//! the system's cache as a rule, and nobody can tell before. During a write the socket is *lent*: if the write takes
//! longer than [`WAITED`], a worker that watches takes the socket over, and sends what is gathered. After such a write
//! others carry out the next [`HANDED_ON`] ones.

use super::connection::{Buffer, Connection};
use super::proto::chunk::FLAG_DONE;
use super::proto::{Command, Request, data_chunk_header, simple_reply};
use super::reply::{Failure, Replies};
use super::stream::{Input, Lost};
use crate::pieces::CHUNK;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests of at most so many bytes are small.
const SMALL: usize = CHUNK / 4;
/// A write that takes longer has waited for something.
pub(super) const WAITED: Duration = Duration::from_millis(1);
/// So many writes are handed on after one that has waited.
const HANDED_ON: u64 = 64;

/// Why a worker keeps the socket no longer.
pub(super) enum Kept {
    /// A request of another kind came. Its header was read, and no more.
    Other(Input, Request),
    /// The client has left, or what it sends can't be followed.
    Left,
    /// Another worker took the socket over.
    TakenOver,
}

/// What became of a request.
enum Small {
    Done(Input),
    /// Nothing was done.
    NotHere(Input),
    /// It is done, and another worker has the socket.
    TakenOver,
}

impl Connection<'_> {
    /// Carries out requests as long as they are small and need no waiting. All replies are sent then.
    pub(super) fn keep(&self, mut input: Input, buffer: &mut Buffer) -> Result<Kept, Lost> {
        // Whoever had the socket may be waiting.
        self.send_gathered()?;
        loop {
            if !input.holds(Request::SIZE) {
                self.send_gathered()?;
            }
            let mut header = [0; Request::SIZE];
            let request = input.read_exact(&mut header).ok().and_then(|()| Request::parse(&header));
            let Some(request) = request.filter(|request| request.command != Command::Disconnect) else {
                self.send_gathered()?;
                return Ok(Kept::Left);
            };
            let is_small = request.len as usize <= SMALL && request.flags == 0;
            input.expect_small(is_small);
            let outcome = match request.command {
                _ if !is_small || request.len == 0 || self.refusal(&request).is_some() => {
                    Small::NotHere(input)
                }
                Command::Read => self.read_at_once(&request, input)?,
                Command::Write => self.write_at_once(&request, input, buffer)?,
                _ => Small::NotHere(input),
            };
            input = match outcome {
                Small::Done(input) => input,
                Small::NotHere(input) => {
                    self.send_gathered()?;
                    return Ok(Kept::Other(input, request));
                }
                Small::TakenOver => {
                    self.send_gathered()?;
                    return Ok(Kept::TakenOver);
                }
            };
        }
    }

    /// Reads what can be read without waiting.
    fn read_at_once(&self, request: &Request, input: Input) -> Result<Small, Lost> {
        let (simple, structured);
        let header: &[u8] = if self.replies.terms.structured {
            structured = data_chunk_header(request.cookie, FLAG_DONE, request.offset, request.len);
            &structured
        } else {
            simple = simple_reply(request.cookie, 0);
            &simple
        };
        let mut gathered = self.gathered();
        let data = gathered.room_behind(header, request.len as usize, &self.replies)?;
        let read = self.export.device.read_if_cached(request.offset, data);
        match read {
            Ok(true) => gathered.add(header.len() + request.len as usize),
            Ok(false) => return Ok(Small::NotHere(input)),
            Err(error) => gathered.fail(request, &error, &self.replies)?,
        }
        Ok(Small::Done(input))
    }

    /// Writes whole data units, unless the last writes had to wait. A part of a data unit would have to be read first.
    fn write_at_once(&self, request: &Request, mut input: Input, buffer: &mut Buffer) -> Result<Small, Lost> {
        let block = u64::from(self.export.device.geometry().logical_block).max(1);
        let is_aligned = request.offset.is_multiple_of(block) && u64::from(request.len).is_multiple_of(block);
        if !is_aligned || self.pace.hands_on() {
            return Ok(Small::NotHere(input));
        }
        let data = buffer.slice(request.len as usize);
        if !input.holds(data.len()) {
            self.send_gathered()?;
        }
        input.read_exact(data)?;
        self.lend(input);
        let begun = Instant::now();
        let written = self.export.device.write_consuming(request.offset, data);
        self.pace.note(begun.elapsed());
        {
            let mut gathered = self.gathered();
            match written {
                Ok(()) => {
                    let reply = simple_reply(request.cookie, 0);
                    gathered.room_behind(&reply, 0, &self.replies)?;
                    gathered.add(reply.len());
                }
                Err(error) => gathered.fail(request, &error, &self.replies)?,
            }
        }
        Ok(self.take_back().map_or(Small::TakenOver, Small::Done))
    }

    fn send_gathered(&self) -> Result<(), Lost> {
        self.gathered().send(&self.replies)
    }
}

/// Replies that are not sent yet.
pub(super) struct Gathered {
    space: Buffer,
    used: usize,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self { space: Buffer::default(), used: 0 }
    }

    /// Room for `len` bytes behind a header. They belong to the replies when [`add`](Self::add) says so.
    fn room_behind(&mut self, header: &[u8], len: usize, replies: &Replies) -> Result<&mut [u8], Lost> {
        if CHUNK - self.used < header.len() + len {
            self.send(replies)?;
        }
        let (head, rest) = self.space.slice(CHUNK)[self.used..].split_at_mut(header.len());
        head.copy_from_slice(header);
        Ok(&mut rest[..len])
    }

    fn add(&mut self, len: usize) {
        self.used += len;
    }

    /// An error is rare, and its reply has a length of its own: it goes alone.
    fn fail(
        &mut self,
        request: &Request,
        error: &atrest_device::DeviceError,
        replies: &Replies,
    ) -> Result<(), Lost> {
        self.send(replies)?;
        replies.failure(request, &Failure::of(error))
    }

    fn send(&mut self, replies: &Replies) -> Result<(), Lost> {
        let used = core::mem::take(&mut self.used);
        if used > 0 { replies.send(&[self.space.slice(used)]) } else { Ok(()) }
    }
}

/// Whether writes have to wait, by the last one that did.
#[derive(Debug)]
pub(super) struct Pace {
    /// Writes that are still handed on.
    left: AtomicU64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { left: AtomicU64::new(0) }
    }

    /// Whether another worker carries out the next write. Races between workers cost one write more or less.
    fn hands_on(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    fn note(&self, took: Duration) {
        if took > WAITED {
            self.left.store(HANDED_ON, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_waited_sends_the_next_ones_to_others() {
        let pace = Pace::new();
        assert!(!pace.hands_on());
        pace.note(WAITED);
        assert!(!pace.hands_on());
        pace.note(WAITED * 2);
        assert_eq!((0..1000).filter(|_| pace.hands_on()).count(), 64);
    }
}
