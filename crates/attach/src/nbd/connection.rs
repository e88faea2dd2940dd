//! One client after its handshake: a few workers share the socket. Whoever is free takes the next request off it,
//! hands the reading on, carries the request out and sends the reply, so replies come in the order in which the
//! work ends. Small requests are not handed on: [`small`](super::small). A client that does not read its replies blocks
//! its own workers and nobody else's.
//!
//! Memory: [`Options::workers`](super::Options::workers) × 2 buffers of [`CHUNK`] bytes and what [`Input`] holds per
//! connection, whatever a client asks for; longer reads and writes are cut into parts that all workers share.

use super::handshake::{Export, Terms};
use super::proto::{Command, MAX_PAYLOAD, Request, command_flag};
use super::reply::{Failure, Parts, Replies};
use super::small::{Gathered, Kept, Pace, WAITED};
use super::stream::{Input, Lost, Output};
use crate::pieces::{CHUNK, pieces};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, thread};
use atrest_nbd::proto::errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serves a client until it leaves, breaks the protocol, or is cut off. Returns when all of its requests ended.
pub(super) fn serve(
    export: &Export,
    terms: Terms,
    input: Input,
    output: Output,
    workers: usize,
    stop: &AtomicBool,
) {
    let connection = Connection {
        export,
        replies: Replies::new(terms, output),
        pace: Pace::new(),
        gathered: Mutex::new(Gathered::new()),
        stop,
        turn: Mutex::new(Turn {
            input: Some(input),
            ended: false,
            parts: VecDeque::new(),
            spare: Vec::new(),
            spares_to_make: workers,
            waiting: 0,
            loans: 0,
            is_lent: false,
            is_watched: false,
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        for index in 1..workers.max(1) {
            let name = format!("nbd-{index}");
            // With fewer threads than asked for, the connection is slower and still right.
            let _ = thread::Builder::new().name(name).spawn_scoped(scope, || connection.work());
        }
        connection.work();
    });
}

pub(super) struct Connection<'a> {
    pub(super) export: &'a Export,
    pub(super) replies: Replies,
    pub(super) pace: Pace,
    gathered: Mutex<Gathered>,
    stop: &'a AtomicBool,
    turn: Mutex<Turn>,
    changed: Condvar,
}

/// What the workers hand to each other.
struct Turn {
    /// The reading side; absent while a worker reads.
    input: Option<Input>,
    /// Nothing more will be read.
    ended: bool,
    parts: VecDeque<Part>,
    spare: Vec<Buffer>,
    /// Spare buffers that may still be made.
    spares_to_make: usize,
    waiting: usize,
    /// How often the reading side was lent.
    loans: u64,
    /// Whoever has put the reading side here takes it back, unless that takes too long.
    is_lent: bool,
    /// A worker looks whether that takes too long.
    is_watched: bool,
}

/// A part of a long read or write.
enum Part {
    Read { parts: Arc<Parts>, offset: u64, len: usize },
    Write { parts: Arc<Parts>, offset: u64, len: usize, data: Buffer },
}

/// [`CHUNK`] bytes once used; pages that no request has touched take no memory.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn slice(&mut self, len: usize) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; CHUNK];
        }
        &mut self.0[..len]
    }
}

enum Task {
    Receive(Input),
    Part(Part),
}

impl Connection<'_> {
    fn work(&self) {
        // A panic in the device's code must not leave the client and the other workers waiting.
        let _cut = CutOnPanic(self);
        let mut buffer = Buffer::default();
        while let Some(task) = self.next_task() {
            match task {
                Task::Receive(input) => self.receive(input, &mut buffer),
                Task::Part(part) => self.carry_out_part(part, &mut buffer),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_task(&self) -> Option<Task> {
        let mut turn = self.lock();
        // The loan that was running when this worker last looked.
        let mut running = None;
        loop {
            // Parts first: as long as there are some, no further request is read, which bounds them.
            if let Some(part) = turn.parts.pop_front() {
                return Some(Task::Part(part));
            }
            if turn.ended {
                return None;
            }
            if (!turn.is_lent || running == Some(turn.loans))
                && let Some(input) = turn.input.take()
            {
                turn.is_lent = false;
                return Some(Task::Receive(input));
            }
            let (loans, is_lent) = (turn.loans, turn.is_lent);
            turn.waiting += 1;
            // One worker watches, until there is no loan for a while. The next one wakes it.
            if (is_lent || running != Some(loans)) && !turn.is_watched {
                turn.is_watched = true;
                turn = self.changed.wait_timeout(turn, WAITED).unwrap_or_else(PoisonError::into_inner).0;
                turn.is_watched = false;
            } else {
                turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            turn.waiting -= 1;
            running = Some(loans);
        }
    }

    /// Lays the reading side aside during a write.
    pub(super) fn lend(&self, input: Input) {
        let mut turn = self.lock();
        turn.input = Some(input);
        turn.is_lent = true;
        turn.loans += 1;
        if turn.waiting > 0 && !turn.is_watched {
            self.changed.notify_one();
        }
    }

    /// The reading side, unless another worker has taken it over. What that worker has lent in its turn is as good.
    pub(super) fn take_back(&self) -> Option<Input> {
        let mut turn = self.lock();
        if !turn.is_lent {
            return None;
        }
        turn.is_lent = false;
        turn.input.take()
    }

    pub(super) fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another worker read on.
    fn hand_on(&self, input: Input) {
        let mut turn = self.lock();
        turn.input = Some(input);
        if turn.waiting > 0 {
            self.changed.notify_one();
        }
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Ends without replies: the client can't hear them any more, so parts that wait are dropped too.
    fn abandon(&self) {
        self.replies.cut();
        self.lock().parts.clear();
        self.end();
    }

    /// Takes requests off the socket and carries them out: small ones, and one other.
    fn receive(&self, input: Input, buffer: &mut Buffer) {
        let (input, request) = match self.keep(input, buffer) {
            Ok(Kept::Other(input, request)) => (input, request),
            Ok(Kept::Left) => return self.end(),
            Ok(Kept::TakenOver) => return,
            Err(Lost) => return self.abandon(),
        };
        let outcome = match self.refusal(&request) {
            Some(failure) => self.refuse(&request, failure, input),
            None if request.command == Command::Write => self.receive_write(&request, input, buffer),
            None if request.command == Command::Read => self.read(&request, input, buffer),
            None => {
                self.hand_on(input);
                self.replies.answer(self.export, &request)
            }
        };
        if outcome == Err(Lost) {
            self.abandon();
        }
    }

    /// Why a request is refused before anything is done for it.
    pub(super) fn refusal(&self, request: &Request) -> Option<Failure> {
        let size = self.export.device.size();
        let outside = request.offset.checked_add(u64::from(request.len)).is_none_or(|end| end > size);
        let refused = |errno, reason| Some(Failure::new(errno, reason));
        if self.stop.load(Ordering::Relaxed) {
            return refused(errno::ESHUTDOWN, "the server is shutting down");
        }
        if request.command == Command::Unknown {
            return refused(errno::EINVAL, "the command is not known");
        }
        if request.flags & !request.command.flags() != 0 {
            return refused(errno::EINVAL, "a flag does not belong to the command");
        }
        if request.command.writes() && self.export.device.is_read_only() {
            return refused(errno::EPERM, "the export is read-only");
        }
        if matches!(request.command, Command::Read | Command::Write) && request.len > MAX_PAYLOAD {
            return refused(errno::EINVAL, "the request is longer than 32 MiB");
        }
        if outside && request.command != Command::Flush {
            let writes = matches!(request.command, Command::Write | Command::WriteZeroes);
            let errno = if writes { errno::ENOSPC } else { errno::EINVAL };
            return refused(errno, "the range lies outside the export");
        }
        if request.has(command_flag::DF) && (!self.replies.terms.structured || request.len as usize > CHUNK) {
            let errno = if self.replies.terms.structured { errno::EOVERFLOW } else { errno::EINVAL };
            return refused(errno, "a read of that length can't be sent unfragmented");
        }
        if request.command == Command::BlockStatus && (!self.replies.terms.allocation || request.len == 0) {
            return refused(errno::EINVAL, "no metadata context was negotiated, or the range is empty");
        }
        None
    }

    fn refuse(&self, request: &Request, failure: Failure, mut input: Input) -> Result<(), Lost> {
        if request.command == Command::Write {
            // The payload stands between us and the next request. More than can rightly come isn't waited for.
            if request.len > MAX_PAYLOAD {
                self.replies.failure(request, &failure)?;
                return Err(Lost);
            }
            input.skip(u64::from(request.len))?;
        }
        self.hand_on(input);
        self.replies.failure(request, &failure)
    }

    fn read(&self, request: &Request, input: Input, buffer: &mut Buffer) -> Result<(), Lost> {
        let device = &*self.export.device;
        if request.len as usize <= CHUNK {
            self.hand_on(input);
            let data = buffer.slice(request.len as usize);
            return match device.read_at(request.offset, data) {
                Ok(()) => self.replies.data(request, data),
                Err(error) => self.replies.failure(request, &Failure::of(&error)),
            };
        }
        if !self.replies.terms.structured {
            self.hand_on(input);
            return self.replies.long_simple_read(device, request, buffer.slice(CHUNK));
        }
        let pieces = || pieces(request.offset, request.len.into());
        let parts = Arc::new(Parts::new(*request, pieces().count()));
        {
            let mut turn = self.lock();
            turn.parts.extend(pieces().map(|(offset, len)| Part::Read { parts: parts.clone(), offset, len }));
            turn.input = Some(input);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn receive_write(&self, request: &Request, mut input: Input, buffer: &mut Buffer) -> Result<(), Lost> {
        if request.len as usize <= CHUNK {
            let data = buffer.slice(request.len as usize);
            input.read_exact(data)?;
            self.hand_on(input);
            return self.replies.write(self.export, request, data);
        }
        // One part more than there are pieces: our own, given back when the whole payload is here. A client that
        // leaves in the middle so gets no reply.
        let parts = Arc::new(Parts::new(*request, pieces(request.offset, request.len.into()).count() + 1));
        for (offset, len) in pieces(request.offset, request.len.into()) {
            input.read_exact(buffer.slice(len))?;
            match self.spare() {
                Some(spare) => {
                    let data = core::mem::replace(buffer, spare);
                    let mut turn = self.lock();
                    turn.parts.push_back(Part::Write { parts: parts.clone(), offset, len, data });
                    if turn.waiting > 0 {
                        self.changed.notify_one();
                    }
                }
                None => self.replies.write_part(self.export, &parts, offset, buffer.slice(len))?,
            }
        }
        self.hand_on(input);
        self.replies.end_of_write_part(self.export, &parts)
    }

    /// A buffer to go on with while another worker writes what the present one holds.
    fn spare(&self) -> Option<Buffer> {
        let mut turn = self.lock();
        turn.spare.pop().or_else(|| {
            turn.spares_to_make = turn.spares_to_make.checked_sub(1)?;
            Some(Buffer::default())
        })
    }

    fn carry_out_part(&self, part: Part, buffer: &mut Buffer) {
        let outcome = match part {
            Part::Read { parts, offset, len } => {
                let data = buffer.slice(len);
                let read = self.export.device.read_at(offset, data);
                self.replies.read_part(&parts, offset, data, read)
            }
            Part::Write { parts, offset, len, mut data } => {
                let outcome = self.replies.write_part(self.export, &parts, offset, data.slice(len));
                self.lock().spare.push(data);
                outcome
            }
        };
        if outcome == Err(Lost) {
            self.abandon();
        }
    }
}

struct CutOnPanic<'a, 'b>(&'a Connection<'b>);

impl Drop for CutOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}
