//! The tables of two sources once more, on this machine, each figure beside the source's: ciphers where AES is slow, as the
//! slides on Adiantum list them, and the ways to compute XTS of an article on the ESP32.

mod adiantum;
mod alpha;
mod clock;
mod esp32;

pub use adiantum::{ADIANTUM_SOURCE, AdiantumRow, AdiantumSpeed, adiantum};
pub use alpha::Multiply;
pub use esp32::{ESP32_SOURCE, Esp32Key, Esp32Mode, Esp32Row, esp32};

use std::time::{Duration, Instant};

/// Runs that are timed at least.
const LEAST: usize = 5;

/// Seconds that `work` takes: the median of as many runs as fill `time`, each timed by itself, so that a disturbed one does
/// not count.
fn seconds<E>(time: Duration, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    work()?;
    let mut all = Vec::new();
    let start = Instant::now();
    while all.len() < LEAST || start.elapsed() < time {
        let begun = Instant::now();
        work()?;
        all.push(begun.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    // intended: no measurement, no speed.
    Ok(all.get(all.len() / 2).copied().unwrap_or_default())
}
