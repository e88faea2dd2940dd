//! One running queue, and the threads that carry its requests out.
//!
//! A thread takes a chain while it holds the queue, carries it out without, and gives it back while it holds the queue
//! again. So several requests of one queue are under way at once, and each is given back when it is done, in whatever
//! order. A thread without work sleeps until the guest kicks. One that takes a chain leaves a sleeping thread behind, or
//! starts one if all are busy, up to the limit; and it wakes one if it sees another chain.

use super::disk::Disk;
use super::memory::Memory;
use super::request::Chain;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};

/// What a queue is started with.
pub(super) struct Start {
    pub disk: Arc<Disk>,
    pub memory: Arc<Memory>,
    /// With its addresses, checked to lie in the memory.
    pub queue: Queue,
    /// Readable when the guest has put something into the queue.
    pub kick: Arc<OwnedFd>,
    /// Written to when something has been given back. The front-end changes it while the queue runs.
    pub call: Arc<Mutex<Option<OwnedFd>>>,
    /// Written to when the queue has broken the rules.
    pub error: Option<Arc<OwnedFd>>,
    /// The guest flushes nothing itself.
    pub durable: bool,
    pub workers: usize,
}

/// A queue that is served. Stops when it is dropped.
pub(super) struct Ring {
    shared: Arc<Shared>,
}

struct Shared {
    start: Start,
    queue: Mutex<Queue>,
    /// Wakes one sleeping thread for a kick or for `more`, and all of them to stop.
    wake: OwnedFd,
    more: OwnedFd,
    end: OwnedFd,
    stop: AtomicBool,
    asleep: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Ring {
    /// Starts to serve a queue.
    pub fn start(mut start: Start) -> io::Result<Self> {
        let queue = std::mem::take(&mut start.queue);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (wake, more, end) =
            (epoll::create(CreateFlags::CLOEXEC)?, eventfd(0, flags)?, eventfd(0, flags)?);
        // With ET each write wakes one thread, whether the one before it was read or not: so nothing is ever read, and
        // a descriptor that is no event counter and always ready wakes nobody twice.
        for source in [&*start.kick, &more] {
            epoll::add(&wake, source, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        }
        epoll::add(&wake, &end, EventData::new_u64(0), EventFlags::IN)?;
        let shared = Shared {
            start,
            queue: Mutex::new(queue),
            wake,
            more,
            end,
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            threads: Mutex::default(),
        };
        let ring = Self { shared: Arc::new(shared) };
        ring.shared.spawn()?;
        Ok(ring)
    }

    /// Takes nothing more, and waits until what was taken is given back. Returns the index of the next chain.
    pub fn stop(&self) -> u16 {
        self.shared.stop.store(true, Ordering::SeqCst);
        signal(&self.shared.end);
        loop {
            let threads = std::mem::take(&mut *lock(&self.shared.threads));
            if threads.is_empty() {
                break;
            }
            for thread in threads {
                // One that panicked has said so; the queue ends all the same.
                let _ = thread.join();
            }
        }
        lock(&self.shared.queue).next_avail()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The queue's own structures break the rules.
struct Broken;

impl Shared {
    /// Starts one more thread, unless the queue ends or has enough of them.
    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        let mut threads = lock(&self.threads);
        if self.stop.load(Ordering::SeqCst) || threads.len() >= self.start.workers.max(1) {
            return Ok(());
        }
        let shared = self.clone();
        threads.push(std::thread::Builder::new().name("vhost-user".into()).spawn(move || shared.work())?);
        Ok(())
    }

    fn work(self: &Arc<Self>) {
        let (mut chain, mut buffer) = (Chain::default(), Vec::new());
        let Start { disk, memory, durable, .. } = &self.start;
        loop {
            let given_back = match self.next() {
                Ok(Some(mut descriptors)) => {
                    let head = descriptors.head_index();
                    let written = match chain.take(&mut descriptors) {
                        Ok(()) => disk.carry_out(&chain, memory, &mut buffer, *durable),
                        Err(malformed) => {
                            chain.refuse(memory, malformed);
                            0
                        }
                    };
                    self.give_back(head, written)
                }
                Ok(None) => return,
                Err(broken) => Err(broken),
            };
            if let Err(Broken) = given_back {
                self.give_up();
                return;
            }
        }
    }

    /// The next chain; `None` at the end. Waits for it.
    fn next(self: &Arc<Self>) -> Result<Option<DescriptorChain<Arc<Memory>>>, Broken> {
        let memory = &self.start.memory;
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let mut queue = lock(&self.queue);
            let mut available = queue.iter(memory.clone()).map_err(|_| Broken)?;
            if let Some(chain) = available.next() {
                let more = available.next().is_some();
                if more {
                    available.go_to_previous_position();
                }
                drop(queue);
                self.leave_watch(more);
                return Ok(Some(chain));
            }
            if queue.enable_notification(&**memory).map_err(|_| Broken)? {
                continue;
            }
            drop(queue);
            self.sleep()?;
        }
    }

    /// This thread has a request to carry out, which may take long: another one takes what is there already (`more`), or
    /// waits for the next kick.
    fn leave_watch(self: &Arc<Self>, more: bool) {
        if self.asleep.load(Ordering::SeqCst) == 0 {
            // Without another thread the ones that are there look again when they are done.
            let _ = self.spawn();
        } else if more {
            signal(&self.more);
        }
    }

    fn sleep(&self) -> Result<(), Broken> {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let mut events = Vec::with_capacity(1);
        let woken = epoll::wait(&self.wake, rustix::buffer::spare_capacity(&mut events), None);
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        match woken {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(_) => Err(Broken),
        }
    }

    fn give_back(&self, head: u16, written: u32) -> Result<(), Broken> {
        let memory = &*self.start.memory;
        let mut queue = lock(&self.queue);
        queue.add_used(memory, head, written).map_err(|_| Broken)?;
        let wanted = queue.needs_notification(memory).map_err(|_| Broken)?;
        drop(queue);
        if wanted && let Some(call) = &*lock(&self.start.call) {
            signal(call);
        }
        Ok(())
    }

    /// Ends a queue that breaks the rules, until the front-end starts it again.
    fn give_up(&self) {
        self.stop.store(true, Ordering::SeqCst);
        signal(&self.end);
        if let Some(error) = &self.start.error {
            signal(error);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds one to an event counter. One that is full is readable already; the front-end's may be anything.
fn signal(counter: &OwnedFd) {
    let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
}
