//! One ring of io_uring, and the memory that it shares with the kernel's FUSE: slots, each for one request and its reply.
//!
//! A slot belongs to the kernel from the command that gives it away until the command's completion. Whoever holds it is noted
//! here, and [`Uring::slot`] gives only what is ours.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use atrest_codec::{decode, encode};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::stop::Stop;
use crate::fuse::protocol::abi::ring_command;
use crate::fuse::protocol::{MAX_TRANSFER, Native};

/// `struct fuse_uring_req_header`: 128 bytes for the headers of request and reply, 128 for the request's record, and what the
/// kernel needs for the ring.
const HEADERS: usize = 128;
const OPERATION: usize = 128;
const RING_PART: usize = 32;
/// IORING_OP_URING_CMD.
const URING_CMD: u8 = 46;
/// What a completion says that belongs to no slot: the session is to end.
const STOPPED: u64 = u64::MAX;
/// Places that the first command of a slot names: of its headers, and of what follows them.
const PLACES: u32 = 2;
const NOWHERE: [libc::iovec; PLACES as usize] =
    [const { libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 } }; PLACES as usize];

/// What the kernel reads and writes, in memory that stays where it is.
#[repr(C, align(4096))]
struct Shared {
    header: [u8; HEADERS],
    operation: [u8; OPERATION],
    ring: [u8; RING_PART],
}

struct Slot {
    shared: *mut Shared,
    payload: *mut [u8],
    /// Where both are, as the kernel reads it once.
    places: Box<[libc::iovec; PLACES as usize]>,
    queue: u16,
    held_by: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Us,
    Kernel,
    /// Ours for good: the mount has ended.
    Nobody,
}

/// A slot with a request in it.
pub struct Memory<'a> {
    /// The request's header, and the place of the reply's.
    pub header: &'a mut [u8; HEADERS],
    /// The request's record.
    pub operation: &'a [u8; OPERATION],
    /// What follows it, and the place of what follows the reply's header.
    pub payload: &'a mut [u8],
    /// How much of it the kernel has filled.
    pub payload_len: usize,
}

/// What the kernel says of a slot.
pub enum Event {
    /// A request lies in it.
    Request(usize),
    /// It is not used any more.
    Ended,
    /// It is lost.
    Failed(Errno),
    /// The session ends: another thread can't go on.
    Stopped,
}

/// A ring and its slots. It belongs to the thread that made it.
pub struct Uring {
    ring: IoUring<squeue::Entry128>,
    slots: Vec<Slot>,
    /// Completions that were taken out of the ring: slots, and how their commands ended.
    completions: VecDeque<(u64, i32)>,
    kernel: Option<Arc<OwnedFd>>,
    /// Open for as long as the ring waits for it.
    _stop: Stop,
}

/// `struct io_uring_sqe` of 128 bytes: a command to a file, `FUSE_IO_URING_CMD_...`.
fn command(kernel: &OwnedFd, number: u32, slot: usize, places: u64, commit: u64, queue: u16) -> [u8; 128] {
    let head = ([URING_CMD], [0; 3], Native(kernel.as_raw_fd().cast_unsigned()));
    let number = (Native(number), [0; 4]);
    let places = (Native(places), Native(PLACES), [0; 4]);
    let rest = (Native(slot as u64), [0; 8]);
    // struct fuse_uring_cmd_req
    let request = ([0; 8], Native(commit), Native(queue), [0; 6]);
    encode((head, number, places, rest, request, [0; 56]))
}

impl Uring {
    /// A ring with so many slots, that also waits for a word to stop.
    pub fn new(slots: usize, stop: &Stop) -> io::Result<Self> {
        let entries = slots.checked_add(1).and_then(usize::checked_next_power_of_two).ok_or(Errno::INVAL)?;
        let entries = u32::try_from(entries).map_err(|_| Errno::INVAL)?;
        let mut ring = IoUring::<squeue::Entry128>::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .build(entries)?;
        let event = types::Fd(stop.as_fd().as_raw_fd());
        let poll = opcode::PollAdd::new(event, libc::POLLIN as u32).build().user_data(STOPPED);
        // SAFETY: the entry names no memory, and the descriptor is kept open beside the ring.
        unsafe { ring.submission().push(&poll.into()) }.map_err(|_| io::Error::from(Errno::BUSY))?;
        let slots = (0..slots).map(|_| Slot::new()).collect();
        Ok(Self { ring, slots, completions: VecDeque::new(), kernel: None, _stop: stop.clone() })
    }

    /// Gives the kernel a slot for each of these queues, of which there are as many as slots.
    pub fn register(&mut self, kernel: Arc<OwnedFd>, queues: &[u16]) -> io::Result<()> {
        self.kernel = Some(kernel);
        for (index, &queue) in queues.iter().enumerate() {
            let slot = self.slots.get_mut(index).ok_or(Errno::INVAL)?;
            slot.queue = queue;
            self.give(index, ring_command::REGISTER, 0)?;
        }
        self.ring.submit()?;
        self.collect();
        // What is not taken comes back at once.
        match self.completions.iter().find(|(index, result)| *index != STOPPED && *result < 0) {
            None => Ok(()),
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
        }
    }

    /// Sends what was given back, and waits for an event. False if no slot is used any more.
    pub fn wait(&mut self) -> io::Result<bool> {
        if !self.slots.iter().any(|slot| slot.held_by == Holder::Kernel) && self.completions.is_empty() {
            return Ok(false);
        }
        let want = usize::from(self.completions.is_empty());
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What has happened. None if everything that had has been told.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.completions.is_empty() {
            self.collect();
        }
        let (index, result) = self.completions.pop_front()?;
        if index == STOPPED {
            return Some(Event::Stopped);
        }
        let index = usize::try_from(index).ok()?;
        let slot = self.slots.get_mut(index)?;
        if result >= 0 {
            slot.held_by = Holder::Us;
            return Some(Event::Request(index));
        }
        slot.held_by = Holder::Nobody;
        Some(match Errno::from_raw_os_error(-result) {
            // It was unmounted.
            Errno::NOTCONN | Errno::CANCELED | Errno::NODEV => Event::Ended,
            error => Event::Failed(error),
        })
    }

    fn collect(&mut self) {
        let completed = self.ring.completion().map(|entry| (entry.user_data(), entry.result()));
        self.completions.extend(completed);
    }

    /// The memory of a slot that is ours.
    pub fn slot(&mut self, index: usize) -> Option<Memory<'_>> {
        let slot = self.slots.get_mut(index).filter(|slot| slot.held_by == Holder::Us)?;
        // SAFETY: both pointers come from boxes that `Slot::new` leaked, which are freed in `Drop` alone. The kernel has completed
        // the command that gave it the slot and gets it again by `give` only, which borrows all of `self` as this does.
        let (shared, payload) = unsafe { (&mut *slot.shared, &mut *slot.payload) };
        let (_, _, Native(payload_len), _): ([u8; 8], [u8; 8], Native<u32>, [u8; 12]) = decode(&shared.ring);
        Some(Memory {
            header: &mut shared.header,
            operation: &shared.operation,
            payload,
            payload_len: payload_len as usize,
        })
    }

    /// Has the next [`wait`](Self::wait) send the reply in a slot, with `len` bytes after its header, and take the next request.
    pub fn give_back(&mut self, index: usize, len: usize) -> io::Result<()> {
        let slot = self.slots.get_mut(index).filter(|slot| slot.held_by == Holder::Us).ok_or(Errno::INVAL)?;
        // SAFETY: as in `slot`.
        let shared = unsafe { &mut *slot.shared };
        let (flags, commit, _, rest): ([u8; 8], Native<u64>, [u8; 4], [u8; 12]) = decode(&shared.ring);
        let len = u32::try_from(len).map_err(|_| Errno::INVAL)?;
        shared.ring = encode((flags, commit, Native(len), rest));
        self.give(index, ring_command::COMMIT_AND_FETCH, commit.0)
    }

    /// Puts a command into the ring that gives a slot to the kernel.
    fn give(&mut self, index: usize, number: u32, commit: u64) -> io::Result<()> {
        let kernel = self.kernel.as_ref().ok_or(Errno::INVAL)?;
        let slot = self.slots.get_mut(index).filter(|slot| slot.held_by == Holder::Us).ok_or(Errno::INVAL)?;
        let places = slot.places.as_ptr() as u64;
        let command = command(kernel, number, index, places, commit, slot.queue);
        // SAFETY: `squeue::Entry128` is the kernel's `struct io_uring_sqe` (`repr(C)`, 128 bytes: the compiler compares), plain
        // integers for which all bytes are valid.
        let entry = unsafe { core::mem::transmute::<[u8; 128], squeue::Entry128>(command) };
        // From here on the kernel may have it, whatever becomes of the command.
        slot.held_by = Holder::Kernel;
        // SAFETY: what the command names stays where it is until the command has completed: the places and what they point
        // to are the slot's, which is not freed while the kernel holds it; the descriptor is `self.kernel`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::from(Errno::BUSY))
    }
}

impl Slot {
    fn new() -> Self {
        let shared = Box::into_raw(Box::new(Shared {
            header: [0; HEADERS],
            operation: [0; OPERATION],
            ring: [0; RING_PART],
        }));
        let payload = Box::into_raw(vec![0_u8; MAX_TRANSFER as usize].into_boxed_slice());
        let header_len = HEADERS + OPERATION + RING_PART;
        let places = [
            libc::iovec { iov_base: shared.cast(), iov_len: header_len },
            libc::iovec { iov_base: payload.cast(), iov_len: payload.len() },
        ];
        Self { shared, payload, places: Box::new(places), queue: 0, held_by: Holder::Us }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.held_by == Holder::Kernel {
            // It may still be written to: it is never freed.
            Box::leak(core::mem::replace(&mut self.places, Box::new(NOWHERE)));
            return;
        }
        // SAFETY: both pointers come from boxes in `new`, nothing else frees them, and the kernel has given them back.
        unsafe {
            drop(Box::from_raw(self.shared));
            drop(Box::from_raw(self.payload));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_laid_out_as_the_kernel_reads_it() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let kernel = OwnedFd::from(file);
        let bytes = command(&kernel, 2, 7, 0x1122_3344_5566_7788, 99, 0x0304);
        let number = |at: usize, len: usize| {
            bytes[at..at + len].iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let fd = kernel.as_raw_fd() as u64;
        // Offsets of `struct io_uring_sqe` and of `struct fuse_uring_cmd_req` behind 48 bytes.
        let fields = [(0, 1), (4, 4), (8, 4), (16, 8), (24, 4), (32, 8), (56, 8), (64, 2)];
        let found = fields.map(|(at, len)| number(at, len));
        assert_eq!(found, [46, fd, 2, 0x1122_3344_5566_7788, 2, 7, 99, 0x0304]);
    }
}
