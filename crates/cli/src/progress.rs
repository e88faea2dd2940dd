//! Progress on a terminal: a bar with the rate and the time left, a spinner while nothing can be counted.
//! Without a terminal on standard error nothing is drawn.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::bars;
use crate::output::Output;

fn is_drawn(output: &Output) -> bool {
    !output.is_quiet() && !output.is_json() && std::io::stderr().is_terminal()
}

/// Says that something takes a while.
pub fn spinner(what: &'static str, output: &Output) -> ProgressBar {
    if !is_drawn(output) {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(what);
    if !bars::has_blocks() {
        spinner.set_style(ProgressStyle::default_spinner().tick_chars("|/-\\ "));
    }
    spinner.enable_steady_tick(Duration::from_millis(120));
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
    if !is_drawn(output) {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr();
    // On a narrow terminal the figures alone would fill more than a line.
    let style = ProgressStyle::with_template(match bars::columns(&std::io::stderr()) {
        ..72 => "{percent:>3}% {wide_bar} {eta} left",
        _ => {
            "{percent:>3}% {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
        }
    });
    let bar = ProgressBar::with_draw_target(Some(total), target);
    match style {
        Ok(style) if !bars::has_blocks() => bar.with_style(style.progress_chars("#>-")),
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Counts bytes of which nobody knows how many come.
pub fn bytes_count(output: &Output) -> ProgressBar {
    if !is_drawn(output) {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {binary_bytes}, {binary_bytes_per_sec}");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
