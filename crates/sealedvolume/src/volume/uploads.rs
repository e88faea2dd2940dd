//! Log objects on their way to the store. Whoever waits for them here does not have the volume: others read and write meanwhile.
//!
//! With one request at a time, whoever waits stores them. With several, threads do as soon as an object is there; they try for as long
//! as the volume is open, and it is those who wait that lose patience.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::patience::Patience;
use super::{Head, VolumeError};
use crate::format::{Prelude, SealedLog, names};
use crate::store::{ObjectStore, Put, StoreError, Traffic};

/// Bytes that wait to be stored, at most.
const WAITING: usize = 64 << 20;
/// How long a thread sleeps that has nothing to do, at most.
const IDLE: Duration = Duration::from_secs(3600);

/// Those of an opening for writing.
pub(crate) struct Uploads {
    shared: Arc<Shared>,
    /// Threads that store, at most. With none, whoever waits does.
    threads: usize,
    window: u64,
}

struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    store: Arc<dyn ObjectStore>,
    traffic: Arc<Traffic>,
    patience: Patience,
}

struct Inner {
    /// In the order of their numbers.
    queue: Vec<Upload>,
    /// The newest object that ever came, and the number behind it. The queue does not tell them: what is stored leaves it, in any order.
    newest: Head,
    next: u64,
    /// Somebody who waits stores what there is.
    driven: bool,
    /// Threads that run.
    running: usize,
    /// Another object has this number.
    fence: Option<u64>,
    /// Nothing more is stored.
    stopped: bool,
    /// Why the store took the last one of those that still wait not.
    last: Option<StoreError>,
}

struct Upload {
    sealed: Arc<SealedLog>,
    /// When the first of its changes came.
    since: Instant,
    /// A thread stores it.
    busy: bool,
    tries: u32,
    not_before: Instant,
}

impl Upload {
    fn number(&self) -> u64 {
        self.sealed.object.prelude.number
    }
}

/// What became of an object that was to be stored.
#[derive(Clone, Copy)]
enum Kept {
    Stored,
    /// Another object has its number.
    Another,
}

impl Uploads {
    /// So many requests at once, and so many numbers under way: those behind the oldest that is not stored, however many of them are. The session
    /// has begun with `begin`, which is stored.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        traffic: Arc<Traffic>,
        patience: Patience,
        (parallel, window): (usize, u64),
        begin: Head,
    ) -> Self {
        let inner = Inner {
            queue: Vec::new(),
            newest: begin,
            next: 0,
            driven: false,
            running: 0,
            fence: None,
            stopped: false,
            last: None,
        };
        let shared = Shared { inner: Mutex::new(inner), changed: Condvar::new(), store, traffic, patience };
        Self { shared: Arc::new(shared), threads: if parallel < 2 { 0 } else { parallel }, window }
    }

    /// Takes an object, whose number is the next one. The first of its changes came at `since`.
    pub(crate) fn add(&self, sealed: SealedLog, since: Instant) {
        let mut inner = self.shared.lock();
        let (sealed, not_before) = (Arc::new(sealed), Instant::now());
        inner.next = sealed.object.summary.successor;
        inner.newest = Head { number: sealed.object.prelude.number, chain: sealed.object.chain };
        inner.queue.push(Upload { sealed, since, busy: false, tries: 0, not_before });
        if inner.running < self.threads.min(inner.queue.len()) {
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new().name("store".into()).spawn(move || shared.work());
            // intended: where no more threads can be made, those that there are store, or whoever waits.
            inner.running += usize::from(spawned.is_ok());
        }
        drop(inner);
        self.shared.changed.notify_all();
    }

    /// An object that is not known to be stored.
    pub(crate) fn find(&self, prelude: &Prelude) -> Option<Arc<SealedLog>> {
        let inner = self.shared.lock();
        let found = inner.queue.iter().find(|upload| upload.sealed.object.prelude == *prelude);
        found.map(|upload| Arc::clone(&upload.sealed))
    }

    /// The newest point of the history up to which everything is stored.
    pub(crate) fn stored(&self) -> Head {
        let inner = self.shared.lock();
        let Some(oldest) = inner.queue.first() else { return inner.newest };
        let oldest = &oldest.sealed.object.summary;
        Head { number: oldest.before, chain: oldest.before_chain }
    }

    /// When the first change came that is sealed and not stored.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.shared.lock().queue.iter().map(|upload| upload.since).min()
    }

    /// Whether another object may come now.
    pub(crate) fn has_room(&self) -> bool {
        let inner = self.shared.lock();
        !inner.stopped && inner.has_room(self.window)
    }

    /// Waits until another object may come.
    ///
    /// Its number must lie less than a window behind the oldest that is not stored, however many between them are: whoever opens the
    /// volume next begins at that oldest number, and meets nothing of this session behind the window only then.
    pub(crate) fn wait_for_room(&self) -> Result<(), VolumeError> {
        self.wait(&|inner| inner.has_room(self.window))
    }

    /// Waits until another object may come and few enough are under way, or until the object of a number has come. Half of what may be under way is
    /// left to objects that are full: so a flush waits for its turn a fraction of the time that an object takes.
    pub(crate) fn wait_for_turn(&self, number: u64) -> Result<(), VolumeError> {
        let most = (self.threads / 2).max(1);
        self.wait(&|inner| {
            inner.newest.number >= number || inner.queue.len() < most && inner.has_room(self.window)
        })
    }

    /// Waits until everything up to a number is stored, without a gap.
    pub(crate) fn wait_for(&self, number: u64) -> Result<(), VolumeError> {
        self.wait(&|inner| inner.queue.first().is_none_or(|oldest| oldest.number() > number))
    }

    /// Where no threads store, tries once to store each object. Whether somebody is fenced is told in any case.
    pub(crate) fn step(&self) -> Result<(), VolumeError> {
        let inner = self.shared.lock();
        if let Some(number) = inner.fence {
            return Err(VolumeError::Fenced { number });
        }
        if inner.running > 0 || inner.driven || inner.stopped || inner.queue.is_empty() {
            return Ok(());
        }
        let inner = self.shared.drive(inner);
        inner.fence.map_or(Ok(()), |number| Err(VolumeError::Fenced { number }))
    }

    /// Stores nothing more. What is under way may be stored all the same.
    pub(crate) fn stop(&self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
    }

    fn wait(&self, enough: &dyn Fn(&Inner) -> bool) -> Result<(), VolumeError> {
        let Shared { patience, changed, .. } = &*self.shared;
        let begun = Instant::now();
        let mut inner = self.shared.lock();
        let before: BTreeMap<u64, u32> =
            inner.queue.iter().map(|upload| (upload.number(), upload.tries)).collect();
        let (mut tries, mut is_first) = (0, true);
        loop {
            if let Some(number) = inner.fence {
                return Err(VolumeError::Fenced { number });
            }
            if inner.stopped {
                return Err(VolumeError::EarlierFlushFailed);
            }
            if enough(&inner) {
                return Ok(());
            }
            let left = patience.deadline.saturating_sub(begun.elapsed()); // intended: none is left then.
            let tired = |upload: &Upload| {
                let before = before.get(&upload.number()).copied().unwrap_or(0); // intended: it came later.
                upload.tries - before >= patience.tries.get()
            };
            // Once it is asked, however little patience there is.
            let late = left.is_zero() && !is_first;
            is_first = false;
            if late || tries >= patience.tries.get() || inner.queue.iter().any(tired) {
                return Err(inner.last.unwrap_or(StoreError::Silent).into()); // intended: it did not answer.
            }
            if inner.running > 0 || inner.driven {
                let waited = changed.wait_timeout(inner, left.min(IDLE));
                inner = waited.unwrap_or_else(PoisonError::into_inner).0; // intended: each change of it is whole.
                continue;
            }
            if tries > 0 {
                drop(inner);
                thread::sleep(patience.pause(tries).min(left));
                inner = self.shared.lock();
                if inner.driven || inner.fence.is_some() || inner.stopped {
                    continue;
                }
            }
            inner = self.shared.drive(inner);
            tries += 1;
        }
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.stopped = true;
        inner.queue.clear();
        drop(inner);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner) // intended: each change of it is whole.
    }

    /// Tries once to store each object that waits, one after the other.
    fn drive<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.driven = true;
        let waiting: Vec<_> = inner.queue.iter().map(|upload| Arc::clone(&upload.sealed)).collect();
        drop(inner);
        let answers: Vec<_> = waiting.iter().map(|sealed| self.store(sealed)).collect();
        let mut inner = self.lock();
        for (sealed, answer) in waiting.iter().zip(answers) {
            inner.learn(sealed, answer, &self.patience);
        }
        inner.driven = false;
        self.changed.notify_all();
        inner
    }

    /// Tries once to store an object: the same bytes under the same number, or the volume is fenced.
    fn store(&self, sealed: &SealedLog) -> Result<Kept, StoreError> {
        let name = names::log(sealed.object.prelude.number);
        match self.store.put_new(&name, &sealed.bytes)? {
            Put::Stored => return Ok(Kept::Stored),
            Put::Exists => {}
        }
        let get = || self.store.get(&name, crate::format::MOST_OBJECT);
        let there =
            self.patience.again_if(get, |error| *error != StoreError::TooLong, || self.traffic.retried());
        match there {
            Ok(Some(there)) if there == sealed.bytes => Ok(Kept::Stored),
            Ok(_) | Err(StoreError::TooLong) => Ok(Kept::Another),
            Err(error) => Err(error),
        }
    }

    /// Stores what comes, one after the other, until nothing more is to be stored.
    fn work(&self) {
        let mut inner = self.lock();
        loop {
            if inner.stopped {
                inner.running -= 1;
                return;
            }
            let now = Instant::now();
            let next = inner.queue.iter_mut().find(|upload| !upload.busy && upload.not_before <= now);
            let Some(next) = next else {
                let waiting = inner.queue.iter().filter(|upload| !upload.busy);
                let soonest = waiting.map(|upload| upload.not_before - now).min().unwrap_or(IDLE); // intended: nothing to do.
                let waited = self.changed.wait_timeout(inner, soonest);
                inner = waited.unwrap_or_else(PoisonError::into_inner).0; // intended: each change of it is whole.
                continue;
            };
            next.busy = true;
            let sealed = Arc::clone(&next.sealed);
            if next.tries > 0 {
                self.traffic.retried();
            }
            drop(inner);
            let answer = self.store(&sealed);
            inner = self.lock();
            inner.learn(&sealed, answer, &self.patience);
            self.changed.notify_all();
        }
    }
}

impl Inner {
    /// Whether another object may come.
    fn has_room(&self, window: u64) -> bool {
        let Some(oldest) = self.queue.first() else { return true };
        let waiting: usize = self.queue.iter().map(|upload| upload.sealed.bytes.len()).sum();
        waiting < WAITING && self.next < oldest.number() + window
    }

    fn learn(&mut self, sealed: &Arc<SealedLog>, answer: Result<Kept, StoreError>, patience: &Patience) {
        let Some(at) = self.queue.iter().position(|upload| Arc::ptr_eq(&upload.sealed, sealed)) else {
            return; // the volume is gone
        };
        match answer {
            Ok(Kept::Stored) => {
                self.queue.remove(at);
            }
            Ok(Kept::Another) => {
                self.fence = Some(sealed.object.prelude.number);
                self.stopped = true;
            }
            Err(why) => {
                let upload = &mut self.queue[at];
                (upload.busy, upload.tries) = (false, upload.tries.saturating_add(1)); // intended: enough is enough.
                upload.not_before = Instant::now() + patience.pause(upload.tries);
                self.last = Some(why);
            }
        }
    }
}
