//! The kernel's requests by rings of io_uring (Linux, Documentation/filesystems/fuse/fuse-io-uring.rst).
//!
//! The kernel has a queue for each processor, and gives a request to the queue of the one on which the caller runs. A
//! queue is served by several threads, so that one that waits for the media holds nobody up. Each thread has one slot for
//! each of its queues: the kernel takes the slot that was given back last, and so one thread does the work, with warm caches, as
//! long as one is enough.
//!
//! Until every queue has a slot, the kernel holds all requests back; so threads and rings are made before the kernel is told of
//! them. If it takes one of them not, because root has turned rings off meanwhile, all of them end, with their hold on the
//! mount: nothing that is mounted like that would ever answer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::dispatch::answer;
use super::seat::{Last, Seat};
use super::stop::{Stop, StopUnlessWell};
use super::uring::{Event, Uring};
use crate::fuse::filesystem::Filesystem;
use crate::fuse::protocol::abi::REQUEST_HEADER;
use crate::fuse::protocol::{Body, Header, Reply, operation_len, reply_header};

/// Where the system says which processors there can be.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Where it says whether mounts get rings: `Y` or `N`.
const OFFERED: &str = "/sys/module/fuse/parameters/enable_uring";

/// Threads for each processor's queue, at least.
const FOR_EACH: usize = 3;

/// What the threads are told: to give the kernel their slots once rings are agreed on, and to serve once it has those of all.
enum Go {
    Register(Arc<OwnedFd>),
    Serve(Arc<dyn Filesystem>),
}

/// Threads with rings, that wait until they are wanted.
pub struct Rings {
    threads: Vec<(Sender<Go>, JoinHandle<io::Result<()>>)>,
    ready: Receiver<io::Result<()>>,
    stop: Stop,
}

impl Rings {
    /// Makes at least `threads` of them.
    ///
    /// # Errors
    /// The system's error where io_uring is not to be had, or the number of processors can't be told.
    pub fn prepare(threads: usize) -> io::Result<Self> {
        let queues = processors(&std::fs::read_to_string(POSSIBLE)?)?;
        let online = std::thread::available_parallelism()?.get().min(queues.into());
        let for_each = threads.div_ceil(online).max(FOR_EACH);
        let (told, ready) = channel();
        let stop = Stop::new()?;
        let mut rings = Self { threads: Vec::new(), ready, stop: stop.clone() };
        let last: Vec<Last> = (0..online).map(|_| Last::default()).collect();
        for (number, last) in last.iter().cycle().take(online * for_each).enumerate() {
            let processor = number % online;
            // Those of processors that are not there yet are shared out.
            let served: Vec<u16> =
                (0..queues).filter(|&queue| usize::from(queue) % online == processor).collect();
            let (start, started) = channel();
            let (told, stop) = (told.clone(), stop.clone());
            let seat = (processor, number, last.clone());
            let thread = std::thread::Builder::new().name("fuse-ring".into());
            let thread = thread.spawn(move || run(seat, &served, &started, &told, stop))?;
            rings.threads.push((start, thread));
        }
        rings.all_ready()?;
        Ok(rings)
    }

    /// What ends them all, and ends them if one fails.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// The system's error if the kernel does not take a ring. Then the threads have ended, and hold the mount no more.
    pub fn start(
        self,
        kernel: &Arc<OwnedFd>,
        filesystem: &Arc<dyn Filesystem>,
    ) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
        if let Err(error) = self.tell_all(|| Go::Register(kernel.clone())).and_then(|()| self.all_ready()) {
            self.end();
            return Err(error);
        }
        self.tell_all(|| Go::Serve(filesystem.clone()))?;
        Ok(self.threads.into_iter().map(|(_, thread)| thread).collect())
    }

    fn tell_all(&self, what: impl Fn() -> Go) -> io::Result<()> {
        self.threads.iter().try_for_each(|(thread, _)| thread.send(what()).map_err(|_| ended()))
    }

    /// Waits until the threads, which serve nothing yet, have ended.
    fn end(self) {
        let threads: Vec<_> = self.threads.into_iter().map(|(_, thread)| thread).collect();
        for thread in threads {
            // Whatever it says, it has ended.
            let _ = thread.join();
        }
    }

    /// Waits until every thread has said how it went.
    fn all_ready(&self) -> io::Result<()> {
        let said = self.threads.iter().map(|_| self.ready.recv().map_err(|_| ended()).and_then(|how| how));
        said.fold(Ok(()), Result::and)
    }
}

/// Whether root lets new mounts have rings now. Where that can't be read, the kernel's own offer is all there is.
pub fn are_offered() -> bool {
    !std::fs::read(OFFERED).is_ok_and(|setting| setting.first() == Some(&b'N'))
}

fn ended() -> io::Error {
    io::Error::other("a thread ended early")
}

/// How many processors such a list names, as "0-3,8": queues have their numbers.
fn processors(list: &str) -> io::Result<u16> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, POSSIBLE);
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| damaged());
    let mut count = 0_u16;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let more = number(last)?.checked_sub(number(first)?).and_then(|more| more.checked_add(1));
        count = more.and_then(|more| count.checked_add(more)).ok_or_else(damaged)?;
    }
    Ok(count)
}

/// A thread: tells twice that it is ready, to begin and to serve, or why it is not.
fn run(
    (processor, number, last): (usize, usize, Last),
    queues: &[u16],
    started: &Receiver<Go>,
    told: &Sender<io::Result<()>>,
    stop: Stop,
) -> io::Result<()> {
    let mut seat = Seat::take(processor, number, last);
    let made = Uring::new(queues.len(), &stop);
    let mut ring = match made {
        Ok(ring) => ring,
        Err(error) => {
            let _ = told.send(Err(error));
            return Ok(());
        }
    };
    let _ = told.send(Ok(()));
    // Nobody wants rings if nothing comes.
    let Ok(Go::Register(kernel)) = started.recv() else { return Ok(()) };
    let _ = told.send(ring.register(kernel, queues));
    // Nor if another ring was not taken.
    let Ok(Go::Serve(filesystem)) = started.recv() else { return Ok(()) };
    let unless_well = StopUnlessWell::new(stop);
    let how = serve(&mut ring, &mut seat, &*filesystem);
    // First it lets go of the mount itself.
    drop(ring);
    unless_well.ended(how)
}

/// Answers requests until nothing is mounted any more.
fn serve(ring: &mut Uring, seat: &mut Seat, filesystem: &dyn Filesystem) -> io::Result<()> {
    while ring.wait()? {
        while let Some(event) = ring.next_event() {
            match event {
                Event::Request(slot) => {
                    seat.on_request();
                    answer_in(ring, slot, filesystem)?;
                }
                Event::Ended => {}
                Event::Stopped => return Ok(()),
                Event::Failed(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn answer_in(ring: &mut Uring, slot: usize, filesystem: &dyn Filesystem) -> io::Result<()> {
    let memory = ring.slot(slot).ok_or(Errno::INVAL)?;
    let header = memory.header.first_chunk::<REQUEST_HEADER>().map(Header::decode).ok_or(Errno::INVAL)?;
    let len = memory.payload_len;
    let operation = operation_len(header.opcode).and_then(|len| memory.operation.get(..len));
    let reply = match operation {
        Some(operation) if len <= memory.payload.len() => {
            answer(filesystem, &header, operation, Body { buffer: memory.payload, len })
        }
        Some(_) => Reply::Error(Errno::INVAL),
        None => Reply::Error(Errno::NOSYS),
    };
    let mut put = |bytes: &[u8]| -> Result<usize, Errno> {
        memory.payload.get_mut(..bytes.len()).ok_or(Errno::RANGE)?.copy_from_slice(bytes);
        Ok(bytes.len())
    };
    let outcome = match &reply {
        Reply::Error(error) => Err(*error),
        Reply::Bytes(bytes) => put(bytes),
        Reply::Record(record) => put(record.as_bytes()),
        Reply::InBuffer(len) => Ok(*len),
        // What needs no answer comes by the device. Nobody waits for this one.
        Reply::Silence => Ok(0),
    };
    let (error, len) = match outcome {
        Ok(len) => (0, len),
        Err(error) => (-error.raw_os_error(), 0),
    };
    let head = reply_header(header.unique, error, len);
    memory.header.first_chunk_mut().ok_or(Errno::INVAL).map(|place| *place = head)?;
    ring.give_back(slot, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        for (list, count) in [("0\n", 1), ("0-3\n", 4), ("0-3,8\n", 5), ("0,2-3", 3)] {
            assert_eq!(processors(list).unwrap(), count);
        }
        for damaged in ["", "x", "3-0", "0-99999", "0-65535"] {
            processors(damaged).unwrap_err();
        }
    }
}
