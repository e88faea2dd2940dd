//! One connection, on which several threads have requests under way.
//!
//! There is no thread that reads. Whoever waits for a reply reads replies, one thread at a time and also those of others,
//! until its own has come; then the next one who waits goes on. A thread sends one request and waits for its reply before
//! it sends another, so whoever sends has nothing to read, and whoever has something to read never waits to send: the two
//! sides can't wait for each other.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};

use super::covered::Covered;
use super::handshake::Terms;
use super::input::Input;
use super::reply::{Header, Loss};
use crate::error::Broken;
use crate::proto::{Command, Request, SIMPLE_REPLY_MAGIC, chunk};
use crate::wire::Wire;

/// The longest chunk that says why a request failed: two numbers, a position and 4096 bytes of text.
const MAX_ERROR: u32 = 4 + 2 + 4096 + 8;
/// The longest chunk of block status: more extents than one request has a use for.
const MAX_STATUS: u32 = 64 << 10;

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

pub struct Connection {
    wire: Wire,
    terms: Terms,
    /// Keeps two requests from mixing.
    sending: Mutex<()>,
    /// Whoever has it reads replies.
    input: Mutex<Input>,
    state: Mutex<State>,
    /// A reply has come, nobody reads any more, or the connection is lost.
    news: Condvar,
    under_way: AtomicUsize,
}

#[derive(Default)]
struct State {
    last_cookie: u64,
    waiting: HashMap<u64, Waiting>,
    /// Somebody reads.
    is_read: bool,
    lost: Option<Loss>,
}

/// A request that waits for its reply.
struct Waiting {
    command: Command,
    offset: u64,
    len: u32,
    covered: Covered,
    /// What others read for it, and where it belongs.
    pieces: Vec<(usize, Vec<u8>)>,
    /// The first extent of block status.
    extent: Option<(u32, u32)>,
    error: Option<u32>,
    done: bool,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The server says why, by an error number of the protocol.
    Refused(u32),
    /// The connection is over.
    Lost(Loss),
}

/// A request, its data and the place for its reply's.
pub struct Call<'a> {
    pub command: Command,
    pub flags: u16,
    pub offset: u64,
    pub len: u32,
    /// What a write brings.
    pub payload: &'a [u8],
}

impl Connection {
    pub fn new(wire: Wire, input: Input, terms: Terms) -> Self {
        Self {
            wire,
            terms,
            sending: Mutex::default(),
            input: Mutex::new(input),
            state: Mutex::default(),
            news: Condvar::new(),
            under_way: AtomicUsize::new(0),
        }
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Requests that wait for their replies.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Makes a request and waits for its reply. What a read brings fills `buf`, which has the length of the request; block
    /// status returns the length and flags of its first extent.
    pub fn call(&self, call: &Call<'_>, buf: &mut [u8]) -> Result<Option<(u32, u32)>, Failed> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let outcome = self.call_counted(call, buf);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    fn call_counted(&self, call: &Call<'_>, buf: &mut [u8]) -> Result<Option<(u32, u32)>, Failed> {
        let cookie = self.announce(call)?;
        let request =
            Request { flags: call.flags, command: call.command, cookie, offset: call.offset, len: call.len };
        if let Err(loss) = self.send(&request, call.payload) {
            self.lose(loss);
        }
        let waiting = self.wait(cookie, buf)?;
        for (at, piece) in &waiting.pieces {
            buf[*at..at + piece.len()].copy_from_slice(piece);
        }
        match waiting.error {
            Some(error) => Err(Failed::Refused(error)),
            None => Ok(waiting.extent),
        }
    }

    /// Says that a reply will come, before it can.
    fn announce(&self, call: &Call<'_>) -> Result<u64, Failed> {
        let mut state = self.state();
        if let Some(loss) = state.lost {
            return Err(Failed::Lost(loss));
        }
        // cannot overflow: nobody makes 2^64 requests.
        state.last_cookie += 1;
        let cookie = state.last_cookie;
        let waiting = Waiting {
            command: call.command,
            offset: call.offset,
            len: call.len,
            covered: Covered::default(),
            pieces: Vec::new(),
            extent: None,
            error: None,
            done: false,
        };
        state.waiting.insert(cookie, waiting);
        Ok(cookie)
    }

    fn send(&self, request: &Request, payload: &[u8]) -> Result<(), Loss> {
        // cannot be unknown: no caller has a command without a number.
        let header = request.encode().ok_or(Loss::Closed)?;
        let _sending = lock(&self.sending);
        Ok(self.wire.send(&mut [IoSlice::new(&header), IoSlice::new(payload)])?)
    }

    /// Waits for a reply: by reading, or while somebody else reads.
    fn wait(&self, cookie: u64, buf: &mut [u8]) -> Result<Waiting, Failed> {
        let mut state = self.state();
        loop {
            if state.waiting.get(&cookie).is_some_and(|waiting| waiting.done)
                && let Some(waiting) = state.waiting.remove(&cookie)
            {
                return Ok(waiting);
            }
            if let Some(loss) = state.lost {
                state.waiting.remove(&cookie);
                return Err(Failed::Lost(loss));
            }
            if state.is_read {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_read = true;
            drop(state);
            let read = self.read_until(cookie, buf);
            state = self.state();
            state.is_read = false;
            if let Err(loss) = read {
                drop(state);
                self.lose(loss);
                state = self.state();
            }
            self.news.notify_all();
        }
    }

    /// Reads replies until that to `mine` is whole.
    fn read_until(&self, mine: u64, buf: &mut [u8]) -> Result<(), Loss> {
        let mut input = lock(&self.input);
        loop {
            let header = Header::read(&self.wire, &mut input)?;
            let cookie = header.cookie();
            let own = if cookie == mine { Some(&mut *buf) } else { None };
            let done = match header {
                Header::Simple { error, .. } => self.simple(cookie, error, own, &mut input)?,
                Header::Chunk { flags, kind, len, .. } => {
                    self.chunk(cookie, kind, len, own, &mut input)?;
                    flags & chunk::FLAG_DONE != 0 && self.finish(cookie)?
                }
            };
            if done && cookie == mine {
                return Ok(());
            }
            if done {
                self.news.notify_all();
            }
        }
    }

    /// Takes a simple reply, with the data of a read.
    fn simple(
        &self,
        cookie: u64,
        error: u32,
        own: Option<&mut [u8]>,
        input: &mut Input,
    ) -> Result<bool, Loss> {
        let (command, offset, len) = self.asked(cookie)?;
        if error == 0 {
            match command {
                Command::Read if !self.terms.structured => self.data(cookie, offset, len, own, input)?,
                // These need chunks.
                Command::Read | Command::BlockStatus => {
                    return Err(Broken::Magic { found: SIMPLE_REPLY_MAGIC.into() }.into());
                }
                _ => {}
            }
        }
        self.with(cookie, |waiting| {
            if error != 0 {
                waiting.error = Some(error);
            }
            Ok(())
        })?;
        self.finish(cookie)
    }

    /// Takes one chunk of a structured reply.
    fn chunk(
        &self,
        cookie: u64,
        kind: u16,
        len: u32,
        own: Option<&mut [u8]>,
        input: &mut Input,
    ) -> Result<(), Loss> {
        let (command, ..) = self.asked(cookie)?;
        let not_here = Err(Broken::Kind { found: kind.into() }.into());
        if !self.terms.structured {
            return not_here;
        }
        let bad_length = Broken::Length { len };
        match (kind, command) {
            (chunk::NONE, _) if len == 0 => Ok(()),
            (chunk::NONE, _) => Err(bad_length.into()),
            (chunk::OFFSET_DATA, Command::Read) => {
                // At least one byte of data.
                let data = len.checked_sub(8).filter(|data| *data > 0).ok_or(bad_length)?;
                let offset = u64::from_be_bytes(input.array(&self.wire)?);
                self.data(cookie, offset, data, own, input)
            }
            (chunk::OFFSET_HOLE, Command::Read) if len == 12 => {
                let offset = u64::from_be_bytes(input.array(&self.wire)?);
                let hole = u32::from_be_bytes(input.array(&self.wire)?);
                self.hole(cookie, offset, hole, own)
            }
            (chunk::BLOCK_STATUS, Command::BlockStatus) => {
                let extents =
                    len.checked_sub(4).filter(|rest| *rest > 0 && rest % 8 == 0 && len <= MAX_STATUS);
                let extents = extents.ok_or(bad_length)?;
                let id = u32::from_be_bytes(input.array(&self.wire)?);
                if Some(id) != self.terms.allocation {
                    return Err(Broken::Option { found: id }.into());
                }
                let extent_len = u32::from_be_bytes(input.array(&self.wire)?);
                let flags = u32::from_be_bytes(input.array(&self.wire)?);
                input.skip(&self.wire, extents - 8)?;
                self.with(cookie, |waiting| match waiting.extent.replace((extent_len, flags)) {
                    None => Ok(()),
                    Some(_) => Err(Broken::TooMany),
                })
            }
            (kind, _) if kind & chunk::IS_ERROR != 0 => {
                if !(6..=MAX_ERROR).contains(&len) {
                    return Err(bad_length.into());
                }
                let error = u32::from_be_bytes(input.array(&self.wire)?);
                // A text for people, and perhaps a position.
                input.skip(&self.wire, len - 4)?;
                if error == 0 {
                    return not_here;
                }
                self.with(cookie, |waiting| {
                    waiting.error.get_or_insert(error);
                    Ok(())
                })
            }
            _ => not_here,
        }
    }

    /// Takes data of a read.
    fn data(
        &self,
        cookie: u64,
        offset: u64,
        len: u32,
        own: Option<&mut [u8]>,
        input: &mut Input,
    ) -> Result<(), Loss> {
        let at = self.cover(cookie, offset, len)?;
        match own {
            Some(buf) => Ok(input.fill(&self.wire, &mut buf[at..at + len as usize])?),
            None => {
                // No longer than what was asked for, which `cover` has seen to.
                let mut piece = vec![0; len as usize];
                input.fill(&self.wire, &mut piece)?;
                self.with(cookie, |waiting| {
                    waiting.pieces.push((at, piece));
                    Ok(())
                })
            }
        }
    }

    /// Takes zeros of a read.
    fn hole(&self, cookie: u64, offset: u64, len: u32, own: Option<&mut [u8]>) -> Result<(), Loss> {
        if len == 0 {
            return Err(Broken::Length { len }.into());
        }
        let at = self.cover(cookie, offset, len)?;
        match own {
            Some(buf) => {
                buf[at..at + len as usize].fill(0);
                Ok(())
            }
            None => self.with(cookie, |waiting| {
                waiting.pieces.push((at, vec![0; len as usize]));
                Ok(())
            }),
        }
    }

    /// Notes that a part of a read comes, and returns where in the request it lies.
    fn cover(&self, cookie: u64, offset: u64, len: u32) -> Result<usize, Loss> {
        let mut at = 0;
        self.with(cookie, |waiting| {
            let broken = Broken::Chunk { offset, len };
            let start = offset.checked_sub(waiting.offset).and_then(|start| u32::try_from(start).ok());
            let start = start.ok_or(broken)?;
            let end = start.checked_add(len).filter(|end| *end <= waiting.len).ok_or(broken)?;
            at = start as usize;
            if waiting.covered.add(start, end) { Ok(()) } else { Err(broken) }
        })?;
        Ok(at)
    }

    /// What was asked by a request that waits.
    fn asked(&self, cookie: u64) -> Result<(Command, u64, u32), Loss> {
        let mut asked = (Command::Unknown, 0, 0);
        self.with(cookie, |waiting| {
            asked = (waiting.command, waiting.offset, waiting.len);
            Ok(())
        })?;
        Ok(asked)
    }

    /// The reply is over: all must have come, or a word on why not.
    fn finish(&self, cookie: u64) -> Result<bool, Loss> {
        self.with(cookie, |waiting| {
            let whole = match waiting.command {
                Command::Read => waiting.covered.is_whole(waiting.len),
                Command::BlockStatus => waiting.extent.is_some(),
                _ => true,
            };
            if !whole && waiting.error.is_none() {
                return Err(Broken::Incomplete);
            }
            waiting.done = true;
            Ok(())
        })?;
        Ok(true)
    }

    /// Changes what is known of a request that waits for its reply.
    fn with(&self, cookie: u64, change: impl FnOnce(&mut Waiting) -> Result<(), Broken>) -> Result<(), Loss> {
        let mut state = self.state();
        let waiting = state.waiting.get_mut(&cookie).filter(|waiting| !waiting.done);
        Ok(change(waiting.ok_or(Broken::Cookie { found: cookie })?)?)
    }

    /// Ends the connection: everybody who waits learns why.
    fn lose(&self, loss: Loss) {
        self.state().lost.get_or_insert(loss);
        self.wire.cut();
        self.news.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Connection {
    /// Says goodbye, if the server still listens.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.lost.is_some() {
            return;
        }
        let cookie = state.last_cookie + 1;
        let goodbye = Request { flags: 0, command: Command::Disconnect, cookie, offset: 0, len: 0 };
        // A server that is gone, or does not listen, needs none.
        let _ = sockopt::set_socket_timeout(&self.wire, Timeout::Send, Some(GOODBYE));
        if self.send(&goodbye, &[]).is_ok() {
            self.wire.farewell();
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("terms", &self.terms).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
