//! Threads under schedules that a test chooses, by shuttle: in programs built with `RUSTFLAGS="--cfg shuttle"`, where a crate's
//! `sync` module takes its types from here instead of std. scripts/schedules builds and runs such tests.
//!
//! Beside what shuttle lacks of std (scoped threads by a builder, timeouts that end), there are faults to be planted: a
//! test that does not find them finds nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::Campaign;

/// A fault in what threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Reader-writer locks keep nobody away.
    RwLock,
    /// Numbers are added to in two steps.
    Addition,
    /// Nobody who waits for a condition is told.
    Notification,
}

thread_local! {
    /// All threads of a schedule are one to the system.
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

fn is_planted(fault: Planted) -> bool {
    PLANTED.get() == Some(fault)
}

/// Schedules of each kind in a sample, and in a whole campaign.
const SAMPLE: usize = 1000;
const WHOLE: usize = 20_000;
/// Most threads that take turns against their priority.
const DEPTH: usize = 3;
const SEED: u64 = 1;

/// Runs `body` under many schedules, random ones and ones with priorities, the same in each run. A schedule in which it fails, or
/// in which all threads wait for ever, is printed, and `shuttle::replay` plays it again.
///
/// # Panics
/// When the body fails under one of them.
pub fn hold(body: impl Fn() + Send + Sync + Clone + 'static) {
    let runs = if Campaign::is_full() { WHOLE } else { SAMPLE };
    run(RandomScheduler::new_from_seed(SEED, runs), body.clone());
    run(PctScheduler::new_from_seed(SEED, DEPTH, runs), body);
}

/// Runs `body` under many random schedules with a fault in what the threads share, which has to make it fail under one.
///
/// # Panics
/// When no schedule finds it.
pub fn find(fault: Planted, body: impl Fn() + Send + Sync + Clone + 'static) {
    PLANTED.set(Some(fault));
    let held = catch_unwind(AssertUnwindSafe(|| {
        run(RandomScheduler::new_from_seed(SEED, WHOLE), body);
    }));
    PLANTED.set(None);
    assert!(held.is_err(), "{WHOLE} schedules, and none finds {fault:?}");
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    // What wipes the stack goes deep.
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::Print;
    config.max_steps = MaxSteps::FailAfter(100_000);
    // Weaker orders than sequential consistency are not looked at; Miri and ThreadSanitizer do that.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(body);
}

/// Locks, conditions, channels and atomics under a schedule: what is needed of `std::sync`. In some a fault can be planted.
pub mod sync {
    use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

    use shuttle::rand::Rng;
    use std::time::Duration;

    pub use shuttle::sync::{Mutex, MutexGuard};

    use super::{Planted, is_planted};

    /// Guards nothing but an order.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    /// Keeps writers away, unless that is the planted fault.
    #[derive(Debug)]
    pub struct RwLockReadGuard<'a, T>(#[expect(dead_code)] Option<shuttle::sync::RwLockReadGuard<'a, T>>);

    /// Keeps everybody away, unless that is the planted fault.
    #[derive(Debug)]
    pub struct RwLockWriteGuard<'a, T>(#[expect(dead_code)] Option<shuttle::sync::RwLockWriteGuard<'a, T>>);

    impl<T> RwLock<T> {
        /// Waits for writers.
        pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
            let held =
                (!is_planted(Planted::RwLock)).then(|| self.0.read().unwrap_or_else(PoisonError::into_inner));
            Ok(RwLockReadGuard(held))
        }

        /// Takes it if there is no writer.
        pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
            if is_planted(Planted::RwLock) {
                return Ok(RwLockReadGuard(None));
            }
            match self.0.try_read() {
                Ok(guard) => Ok(RwLockReadGuard(Some(guard))),
                Err(TryLockError::Poisoned(poisoned)) => Ok(RwLockReadGuard(Some(poisoned.into_inner()))),
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            }
        }

        /// Waits for everybody.
        pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
            let held = (!is_planted(Planted::RwLock))
                .then(|| self.0.write().unwrap_or_else(PoisonError::into_inner));
            Ok(RwLockWriteGuard(held))
        }
    }

    /// A condition to wait for.
    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        /// One that nobody waits for.
        pub fn new() -> Self {
            Self::default()
        }

        /// Waits until told.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            self.0.wait(guard)
        }

        /// Waits until told, or for as long as a schedule likes. Whether that was long enough is said beside the guard.
        pub fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, bool)> {
            if shuttle::rand::thread_rng().gen_bool(0.5) {
                return Ok((self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), false));
            }
            Ok((guard, true))
        }

        /// Tells one who waits.
        pub fn notify_one(&self) {
            if !is_planted(Planted::Notification) {
                self.0.notify_one();
            }
        }

        /// Tells all who wait.
        pub fn notify_all(&self) {
            if !is_planted(Planted::Notification) {
                self.0.notify_all();
            }
        }
    }

    /// Channels whose timeouts end some time, whatever they are.
    pub mod mpsc {
        use shuttle::rand::Rng as _;
        pub use shuttle::sync::mpsc::Sender;
        pub use std::sync::mpsc::{RecvTimeoutError, TryRecvError};

        use super::Duration;

        /// The receiving half.
        #[derive(Debug)]
        pub struct Receiver<T>(shuttle::sync::mpsc::Receiver<T>);

        /// A channel without bounds.
        pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
            let (sender, receiver) = shuttle::sync::mpsc::channel();
            (sender, Receiver(receiver))
        }

        impl<T> Receiver<T> {
            /// Waits for a message, or for as long as a schedule likes.
            pub fn recv_timeout(&self, _: Duration) -> Result<T, RecvTimeoutError> {
                if shuttle::rand::thread_rng().gen_bool(0.5) {
                    return self.0.recv().map_err(|_| RecvTimeoutError::Disconnected);
                }
                match self.0.try_recv() {
                    Ok(message) => Ok(message),
                    Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
                    Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
                }
            }
        }
    }

    /// Numbers that threads share.
    pub mod atomic {
        pub use shuttle::sync::atomic::AtomicBool;
        pub use std::sync::atomic::Ordering;

        use super::{Planted, is_planted};

        macro_rules! number {
            ($name:ident, $int:ty) => {
                /// A number that threads share.
                #[derive(Debug, Default)]
                pub struct $name(shuttle::sync::atomic::$name);

                impl $name {
                    /// With this value.
                    pub const fn new(value: $int) -> Self {
                        Self(shuttle::sync::atomic::$name::new(value))
                    }

                    /// The value.
                    pub fn load(&self, order: Ordering) -> $int {
                        self.0.load(order)
                    }

                    /// Replaces the value.
                    pub fn store(&self, value: $int, order: Ordering) {
                        self.0.store(value, order);
                    }

                    /// Replaces the value, and returns what it was.
                    pub fn swap(&self, value: $int, order: Ordering) -> $int {
                        self.0.swap(value, order)
                    }

                    /// Adds, and returns what it was.
                    pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                        if !is_planted(Planted::Addition) {
                            return self.0.fetch_add(value, order);
                        }
                        let before = self.0.load(Ordering::SeqCst);
                        self.0.store(before.wrapping_add(value), Ordering::SeqCst);
                        before
                    }

                    /// Subtracts, and returns what it was.
                    pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                        self.fetch_add(value.wrapping_neg(), order)
                    }

                    /// Replaces the value by what `change` makes of it.
                    ///
                    /// # Errors
                    /// The value, if `change` makes nothing of it.
                    pub fn fetch_update(
                        &self,
                        set: Ordering,
                        fetch: Ordering,
                        change: impl FnMut($int) -> Option<$int>,
                    ) -> Result<$int, $int> {
                        self.0.fetch_update(set, fetch, change)
                    }
                }
            };
        }

        number!(AtomicU64, u64);
        number!(AtomicUsize, usize);
    }
}

/// Threads under a schedule: what is needed of `std::thread`.
pub mod thread {
    use std::io;
    use std::num::NonZeroUsize;

    use shuttle::rand::Rng;
    pub use shuttle::thread::{Scope, ScopedJoinHandle, panicking, scope, yield_now};

    /// As many as take turns in a schedule.
    pub fn available_parallelism() -> io::Result<NonZeroUsize> {
        NonZeroUsize::new(3).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Starts threads, and is refused now and then.
    #[derive(Debug, Default)]
    pub struct Builder;

    impl Builder {
        /// A thread like any other.
        pub fn new() -> Self {
            Self
        }

        /// Has no use for a name.
        #[must_use]
        pub fn name(self, _: String) -> Self {
            self
        }

        /// Starts a thread.
        ///
        /// # Errors
        /// When the schedule refuses it.
        pub fn spawn_scoped<'scope, T: Send + 'scope>(
            self,
            scope: &'scope Scope<'scope, '_>,
            work: impl FnOnce() -> T + Send + 'scope,
        ) -> io::Result<ScopedJoinHandle<'scope, T>> {
            if shuttle::rand::thread_rng().gen_bool(0.1) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(scope.spawn(work))
        }
    }
}

/// A stream of bytes from one end to another, as a socket has two of.
pub mod pipe {
    use std::collections::VecDeque;
    use std::sync::Arc;

    // No fault is planted here.
    use shuttle::sync::{Condvar, Mutex};

    /// Both ends.
    #[derive(Clone, Debug, Default)]
    pub struct Pipe(Arc<(Mutex<Held>, Condvar)>);

    #[derive(Debug, Default)]
    struct Held {
        bytes: VecDeque<u8>,
        is_closed: bool,
    }

    impl Pipe {
        /// Sends bytes. False if the pipe is closed.
        pub fn send(&self, bytes: &[u8]) -> bool {
            let (held, changed) = &*self.0;
            let mut held = held.lock().expect("no thread has panicked");
            if !held.is_closed {
                held.bytes.extend(bytes);
                changed.notify_all();
            }
            !held.is_closed
        }

        /// Whether so many bytes can be received without waiting.
        pub fn holds(&self, len: usize) -> bool {
            self.0.0.lock().expect("no thread has panicked").bytes.len() >= len
        }

        /// Waits until `out` is full. False if the pipe is closed before.
        pub fn receive(&self, out: &mut [u8]) -> bool {
            let (held, changed) = &*self.0;
            let (mut held, len) = (held.lock().expect("no thread has panicked"), out.len());
            while held.bytes.len() < len {
                if held.is_closed {
                    return false;
                }
                held = changed.wait(held).expect("no thread has panicked");
            }
            for (to, from) in out.iter_mut().zip(held.bytes.drain(..len)) {
                *to = from;
            }
            true
        }

        /// Lets nothing more in. What is in can still be received.
        pub fn close(&self) {
            let (held, changed) = &*self.0;
            held.lock().expect("no thread has panicked").is_closed = true;
            changed.notify_all();
        }
    }
}

/// A medium whose reads and writes are seen half done, and which notes the order of what was done to it.
pub mod device {
    use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};

    use shuttle::rand::Rng as _;

    use super::sync::Mutex;
    use super::thread::yield_now;

    /// What was done to a medium.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Done {
        /// A write of bytes from an offset on has ended.
        Write(u64, usize),
        /// A flush has ended, which began when so many things had been done.
        Flush(usize),
    }

    /// Bytes in memory.
    #[derive(Debug)]
    pub struct HalfDone {
        bytes: Mutex<Vec<u8>>,
        size: u64,
        done: Mutex<Vec<Done>>,
        bad: Option<u64>,
    }

    impl HalfDone {
        /// With these bytes.
        pub fn new(bytes: Vec<u8>) -> Self {
            Self {
                size: bytes.len() as u64,
                bytes: Mutex::new(bytes),
                done: Mutex::new(Vec::new()),
                bad: None,
            }
        }

        /// Writes that touch this byte fail.
        #[must_use]
        pub fn with_bad(mut self, byte: Option<u64>) -> Self {
            self.bad = byte;
            self
        }

        /// What was done, in the order in which it ended.
        pub fn done(&self) -> Vec<Done> {
            self.done.lock().expect("no thread has panicked").clone()
        }

        /// The bytes.
        pub fn bytes(&self) -> Vec<u8> {
            self.bytes.lock().expect("no thread has panicked").clone()
        }
    }

    impl BlockDevice for HalfDone {
        fn size(&self) -> u64 {
            self.size
        }

        /// Every byte is a block, so that writes of all lengths are whole ones.
        fn geometry(&self) -> Geometry {
            Geometry { logical_block: 1, ..Geometry::default() }
        }

        fn is_read_only(&self) -> bool {
            false
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
            self.check_range(Operation::Read, offset, buf.len() as u64)?;
            let half = buf.len() / 2;
            for part in [0..half, half..buf.len()] {
                let bytes = self.bytes.lock().expect("no thread has panicked");
                let at = offset as usize;
                buf[part.clone()].copy_from_slice(&bytes[at + part.start..at + part.end]);
            }
            Ok(())
        }

        /// Some reads are at hand, as a schedule likes.
        fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
            Ok(shuttle::rand::thread_rng().gen_bool(0.5) && self.read_at(offset, buf).is_ok())
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
            self.check_range(Operation::Write, offset, data.len() as u64)?;
            if self.bad.is_some_and(|bad| (offset..offset + data.len() as u64).contains(&bad)) {
                return Err(DeviceError::new(Operation::Write, offset, data.len() as u64, Cause::Os(5)));
            }
            let half = data.len() / 2;
            for part in [0..half, half..data.len()] {
                let mut bytes = self.bytes.lock().expect("no thread has panicked");
                let at = offset as usize;
                bytes[at + part.start..at + part.end].copy_from_slice(&data[part]);
            }
            self.done.lock().expect("no thread has panicked").push(Done::Write(offset, data.len()));
            Ok(())
        }

        fn flush(&self) -> Result<(), DeviceError> {
            let begun = self.done.lock().expect("no thread has panicked").len();
            yield_now();
            self.done.lock().expect("no thread has panicked").push(Done::Flush(begun));
            Ok(())
        }
    }
}
