//! What a test asks of the machine. A test that lacks it fails and says what helps. What it can do without is told as skipped.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").expect("Linux has /proc/self").uid() == 0
}

/// Fails unless the tests run as root.
///
/// # Panics
/// When they do not, with the command that helps.
#[track_caller]
pub fn root(what: &str) {
    assert!(is_root(), "{what} needs root; run the tests as root: sudo --preserve-env=PATH,HOME make test");
}

/// Prints `skipped: TEST: WHY`, also where the output of tests is captured. `scripts/check` counts these lines.
///
/// For what a sample leaves out, or a machine cannot do: in a test whose name says that it is about this, and nothing else.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("\nskipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    std::io::stdout().write_all(line.as_bytes()).expect("the line is printed");
}

/// Waits for something that another thread or process brings about.
///
/// # Panics
/// When it has not happened after a minute.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "after {PATIENCE:?} still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
