//! Progress on a terminal: a bar with the rate and the time left, a spinner while nothing can be counted.
//! Without a terminal on standard error nothing is drawn.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
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
    let style = ProgressStyle::with_template(
        "{percent:>3}% {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
    );
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    match style {
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
