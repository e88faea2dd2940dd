//! Progress on a terminal: a line with the share that is done, the speed and the time left, or a spinner while nothing can be
//! counted. Without a terminal on standard error nothing is drawn.

mod gauge;
mod line;

use std::io::IsTerminal;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;
use line::Line;

/// How often what moves by itself is drawn.
const TICK: Duration = Duration::from_millis(120);

/// Whether anything is drawn.
pub fn is_drawn(output: &Output) -> bool {
    !output.is_quiet() && !output.is_json() && std::io::stderr().is_terminal()
}

/// Says that something takes a while.
pub fn spinner(what: &'static str, output: &Output) -> ProgressBar {
    if !is_drawn(output) {
        return ProgressBar::hidden();
    }
    let spinner = drawn(None, "{line} {wide_msg}", Line::spinner()).with_message(what);
    spinner.enable_steady_tick(TICK);
    spinner
}

/// The spinner on the terminal, for those who hear how far something is.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs what takes a while under a spinner that [`derivations_left`] reaches.
pub fn counted<T>(what: &'static str, output: &Output, work: impl FnOnce() -> T) -> T {
    let spinner = spinner(what, output);
    let show = |shown: Option<ProgressBar>| {
        *SHOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = shown;
    };
    show(Some(spinner.clone()));
    let result = work();
    show(None);
    spinner.finish_and_clear();
    result
}

/// Shows how many derivations are left to try.
pub fn derivations_left(left: usize, all: usize) {
    if let Some(spinner) = &*SHOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        spinner.set_message(format!("deriving keys: {left} of {all} derivations left to try"));
    }
}

/// Says how long a slow key derivation will take, before most of it is done.
pub fn announce_derivation(expected: Duration) {
    eprintln!("atrest: deriving the key takes about {} s here; Ctrl-C ends it", expected.as_secs());
}

/// A bar for `total` bytes.
pub fn bytes_bar(total: u64, output: &Output) -> ProgressBar {
    match is_drawn(output) {
        true => drawn(Some(total), "{line}", Line::bytes(None)),
        false => ProgressBar::hidden(),
    }
}

/// A bar for `total` bytes of which somebody counts in `counter`, without a word, more than the bar has been told.
pub fn bytes_bar_beside(total: u64, counter: Arc<AtomicU64>, output: &Output) -> ProgressBar {
    if !is_drawn(output) {
        return ProgressBar::hidden();
    }
    let bar = drawn(Some(total), "{line}", Line::bytes(Some(counter)));
    bar.enable_steady_tick(TICK);
    bar
}

/// Counts bytes of which nobody knows how many come.
pub fn bytes_count(output: &Output) -> ProgressBar {
    match is_drawn(output) {
        true => drawn(None, "{line}", Line::bytes(None)),
        false => ProgressBar::hidden(),
    }
}

/// A bar that `line` draws. Its own template would wrap on a narrow terminal, and guess the time left from the first moment.
fn drawn(total: Option<u64>, template: &str, line: Line) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("line", line)),
        // cannot happen: the templates are fixed.
        Err(_) => bar,
    }
}
