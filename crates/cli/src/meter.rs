//! How far something is, for people and for programs: a bar on a terminal, or the lines that cryptsetup prints on standard output for
//! `--progress-json` and `--progress-frequency`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::json;

use crate::output::{Output, plain};
use crate::progress;

/// Lines instead of a bar.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    json: bool,
    every: Duration,
}

impl Lines {
    /// The lines that these options ask for: `--progress-json`, and `--progress-frequency` in seconds, of which 0 is none. Without JSON,
    /// there are lines for `--progress-frequency` alone, and none with `--batch-mode`.
    pub fn asked(json: bool, seconds: u64, batch: bool) -> Option<Self> {
        let every = match seconds {
            0 => Duration::from_millis(500),
            seconds => Duration::from_secs(seconds),
        };
        (json || (seconds > 0 && !batch)).then_some(Self { json, every })
    }
}

/// Counts the bytes that are done.
pub struct Meter {
    bar: ProgressBar,
    lines: Option<Lines>,
    device: PathBuf,
    total: u64,
    first: Option<u64>,
    begun: Instant,
    told: Instant,
}

impl Meter {
    /// Of `total` bytes of `device`.
    pub fn new(device: &Path, total: u64, output: &Output) -> Self {
        Self::drawn(device, total, output, progress::bytes_bar)
    }

    /// Of `total` bytes of `device`, of which somebody counts more in `counter` than this is told.
    pub fn beside(device: &Path, total: u64, counter: Arc<AtomicU64>, output: &Output) -> Self {
        Self::drawn(device, total, output, |total, output| progress::bytes_bar_beside(total, counter, output))
    }

    fn drawn(
        device: &Path,
        total: u64,
        output: &Output,
        bar: impl FnOnce(u64, &Output) -> ProgressBar,
    ) -> Self {
        let lines = output.lines();
        let bar = if lines.is_some() { ProgressBar::hidden() } else { bar(total, output) };
        let now = Instant::now();
        Self { bar, lines, device: device.into(), total, first: None, begun: now, told: now }
    }

    /// So many bytes are done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        let Some(lines) = self.lines else { return };
        // What was done before this began says nothing of how fast it is.
        let first = *self.first.get_or_insert(if done < self.total { done } else { 0 });
        let is_last = done >= self.total;
        if !is_last && self.told.elapsed() < lines.every {
            return;
        }
        self.told = Instant::now();
        // cannot be less: it counts up.
        let step =
            Step { done, total: self.total, new: done.saturating_sub(first), passed: self.begun.elapsed() };
        let line = if lines.json { step.json(&self.device) } else { step.text() };
        // A reader that went away is reported by the end of the command.
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// It is over.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// How far it is at one moment.
struct Step {
    done: u64,
    total: u64,
    /// Of these, how many since the beginning of `passed`.
    new: u64,
    passed: Duration,
}

impl Step {
    /// Bytes in a second.
    fn speed(&self) -> f64 {
        self.new as f64 / self.passed.as_secs_f64().max(1e-6)
    }

    fn left(&self) -> Duration {
        // intended: nothing is left of what is done, and more.
        let left = self.total.saturating_sub(self.done) as f64 / self.speed().max(1e-6);
        // intended: what takes longer takes for ever.
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
    }

    /// Numbers are strings, as readers of JSON do not all have 64 bits.
    fn json(&self, device: &Path) -> String {
        let device = device.to_string_lossy();
        let [done, total, speed, left, passed] = [
            u128::from(self.done),
            self.total.into(),
            self.speed() as u128,
            self.left().as_millis(),
            self.passed.as_millis(),
        ]
        .map(|number| format!("\"{number}\""));
        format!(
            "{{\"device\":{},\"device_bytes\":{done},\"device_size\":{total},\"speed\":{speed},\"eta_ms\":{left},\"time_ms\":{passed}}}",
            json!(plain(&device).to_string())
        )
    }

    fn text(&self) -> String {
        let mut line = String::new();
        // cannot fail: it goes into a string.
        let _ = match self.done >= self.total {
            true => write!(line, "Finished, time {}", human(self.passed)),
            false => {
                let percent = self.done as f64 / self.total.max(1) as f64 * 100.0;
                write!(line, "Progress: {percent:5.1}%, ETA {}", human(self.left()))
            }
        };
        let (shift, unit) = match self.done {
            ..0x1_0000_0000 => (20, "MiB"),
            0x1_0000_0000..0x400_0000_0000 => (30, "GiB"),
            _ => (40, "TiB"),
        };
        let (speed, per) = match self.speed() {
            speed if speed > 1_073_741_824.0 => (speed / 1_073_741_824.0, "GiB"),
            speed if speed > 1_048_576.0 => (speed / 1_048_576.0, "MiB"),
            speed if speed > 1024.0 => (speed / 1024.0, "KiB"),
            speed => (speed, "B"),
        };
        // cannot fail: it goes into a string.
        let _ = write!(line, ", {:4} {unit} written, speed {speed:5.1} {per}/s", self.done >> shift);
        line
    }
}

/// Minutes and seconds up to an hour and a half, hours with them up to a day and a half, and then days.
fn human(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    match seconds {
        ..5400 => format!("{minutes:02}m{rest:02}s"),
        5400..129_600 => format!("{:02}h{:02}m{rest:02}s", minutes / 60, minutes % 60),
        _ => format!("{:02} days", minutes / 60 / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_has_the_fields_of_cryptsetup_as_strings() {
        let step = Step { done: 3 << 20, total: 12 << 20, new: 2 << 20, passed: Duration::from_millis(500) };
        assert_eq!(
            step.json(Path::new("/tmp/a\"b")),
            r#"{"device":"/tmp/a\"b","device_bytes":"3145728","device_size":"12582912","speed":"4194304","eta_ms":"2250","time_ms":"500"}"#
        );
        let last = Step { done: 12 << 20, total: 12 << 20, new: 12 << 20, passed: Duration::from_secs(1) };
        assert!(last.json(Path::new("a")).contains(r#""eta_ms":"0""#));
    }

    #[test]
    fn a_line_of_text_is_that_of_cryptsetup() {
        let step =
            |done: u64, passed| Step { done, total: 8 << 30, new: done, passed: Duration::from_secs(passed) };
        assert_eq!(
            step(100 << 20, 10).text(),
            "Progress:   1.2%, ETA 13m29s,  100 MiB written, speed  10.0 MiB/s"
        );
        assert_eq!(step(8 << 30, 5).text(), "Finished, time 00m05s,    8 GiB written, speed   1.6 GiB/s");
        assert_eq!(human(Duration::from_secs(5400)), "01h30m00s");
        assert_eq!(human(Duration::from_secs(3 * 86400)), "03 days");
    }

    #[test]
    fn lines_are_asked_for_by_either_option() {
        assert!(Lines::asked(false, 0, false).is_none());
        assert!(Lines::asked(false, 3, true).is_none());
        let lines = Lines::asked(true, 0, true).expect("lines");
        assert!(lines.json && lines.every == Duration::from_millis(500));
        let lines = Lines::asked(false, 3, false).expect("lines");
        assert!(!lines.json && lines.every == Duration::from_secs(3));
    }
}
