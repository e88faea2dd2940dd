//! What threads share, and threads themselves: std's. In tests built with `--cfg shuttle` they take turns as a test says
//! (scripts/schedules).

#[cfg(all(test, shuttle))]
pub use atrest_testkit::schedules::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, mpsc};
#[cfg(all(test, shuttle))]
pub use atrest_testkit::schedules::thread;
#[cfg(not(all(test, shuttle)))]
pub use std::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, mpsc};
pub use std::sync::{PoisonError, TryLockError};
#[cfg(not(all(test, shuttle)))]
pub use std::thread;
