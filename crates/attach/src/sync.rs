//! What threads share, and threads themselves: std's. In tests built with `--cfg shuttle` they take turns as a test says
//! (scripts/schedules).

#[cfg(all(test, shuttle))]
pub use atrest_testkit::schedules::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(all(test, shuttle))]
pub use atrest_testkit::schedules::thread;
pub use std::sync::PoisonError;
#[cfg(not(all(test, shuttle)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(all(test, shuttle)))]
pub use std::thread;
