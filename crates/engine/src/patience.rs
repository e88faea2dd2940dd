//! Waiting for what is in use for a moment only.
//!
//! A process that is being started has copies of all its parent's descriptors until it becomes another program, and
//! with them the locks of files that the parent has closed meanwhile. And who looks whether a loop device is claimed
//! claims it for that moment. Neither is a user.

use std::time::{Duration, Instant};

/// How long something may be in use before it is refused.
pub const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(5);

/// Tries again while the error says that somebody else uses the thing, for [`PATIENCE`].
///
/// # Errors
///
/// Those of `attempt`.
pub fn patiently<T, E>(
    is_busy: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && begin.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}
