//! The one line that shows progress: never longer than the terminal is wide, and in letters that it can show.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressState;
use indicatif::style::ProgressTracker;

use super::gauge::Gauge;
use crate::amount::Human;
use crate::bars;

/// A bar that is shorter says nothing.
const SHORTEST: usize = 8;
/// A longer one says no more.
const LONGEST: usize = 40;
/// How long a spinner turns before it tells the time.
const UNTOLD: Duration = Duration::from_secs(2);

/// Letters that the terminal can show.
#[derive(Clone, Copy, Debug)]
struct Letters {
    full: char,
    empty: char,
    turns: &'static [char],
}

const UNICODE: Letters =
    Letters {
        full: '█', empty: '░', turns: &['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
    };
const ASCII: Letters = Letters { full: '#', empty: '-', turns: &['-', '\\', '|', '/'] };

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Line {
    letters: Letters,
    gauge: Gauge,
    /// Where somebody counts bytes without telling the bar.
    counter: Option<Arc<AtomicU64>>,
    spins: bool,
    turn: usize,
    begun: Instant,
}

impl Line {
    /// Of bytes.
    pub fn bytes(counter: Option<Arc<AtomicU64>>) -> Self {
        let letters = if bars::has_blocks() { UNICODE } else { ASCII };
        Self { letters, gauge: Gauge::default(), counter, spins: false, turn: 0, begun: Instant::now() }
    }

    /// Of what can't be counted.
    pub fn spinner() -> Self {
        Self { spins: true, ..Self::bytes(None) }
    }

    fn done(&self, state: &ProgressState) -> u64 {
        let told = self.counter.as_ref().map_or(0, |counter| counter.load(Ordering::Relaxed));
        told.max(state.pos())
    }

    fn turning(&self) -> char {
        let turns = self.letters.turns;
        turns.get(self.turn % turns.len()).copied().unwrap_or(' ')
    }

    /// What is known, in at most `columns` letters: what matters less is left out first.
    fn known(&self, done: u64, total: Option<u64>, now: Instant, columns: usize) -> String {
        let speed = self.gauge.speed(now).map(|speed| format!(", {}/s", Human(speed as u64)));
        // intended: what is not known yet is not said.
        let speed = speed.unwrap_or_default();
        let Some(total) = total else {
            let all = format!("{} {}{speed}", self.turning(), Human(done));
            return fitting([all, Human(done).to_string()], columns);
        };
        // intended: of nothing all is done; a bar of more than 2^57 bytes is only drawn.
        let percent = done.min(total).saturating_mul(100).checked_div(total).unwrap_or(100);
        let left = match self.gauge.left(total, now) {
            Some(left) => format!("{} left", time(left)),
            None => String::from("estimating"),
        };
        let short = format!("{percent:>3}%, {left}");
        let amount = format!("{} of {}", Human(done.min(total)), Human(total));
        let long = format!("{amount}{speed}, {left}");
        // What is long enough for a bar has a space before and after it.
        // intended: a terminal without room has no bar.
        let room = columns.saturating_sub(long.len() + 6).min(LONGEST);
        let mut whole = format!("{percent:>3}% ");
        if room >= SHORTEST {
            let full = percent as usize * room / 100;
            whole.extend(std::iter::repeat_n(self.letters.full, full));
            whole.extend(std::iter::repeat_n(self.letters.empty, room - full));
            whole.push(' ');
        }
        whole.push_str(&long);
        let of_both = format!("{percent:>3}% {amount}, {left}");
        fitting([whole, of_both, short, format!("{percent:>3}%")], columns)
    }
}

impl ProgressTracker for Line {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, state: &ProgressState, now: Instant) {
        self.turn = self.turn.wrapping_add(1);
        if !self.spins {
            let done = self.done(state);
            self.gauge.see(done, now);
        }
    }

    fn reset(&mut self, state: &ProgressState, now: Instant) {
        self.gauge = Gauge::default();
        self.tick(state, now);
    }

    fn write(&self, state: &ProgressState, to: &mut dyn std::fmt::Write) {
        let now = Instant::now();
        // A line that fills the last column makes some terminals go to the next.
        // intended: a terminal without columns shows nothing.
        let columns = bars::columns(&std::io::stderr()).saturating_sub(1);
        // Nobody reads what can't be written.
        let _ = match self.spins {
            true => {
                // intended: a clock that went back has passed no time.
                let passed = now.saturating_duration_since(self.begun);
                let passed = if passed < UNTOLD { String::new() } else { format!(" {}", time(passed)) };
                write!(to, "{}{passed}", self.turning())
            }
            false => to.write_str(&self.known(self.done(state), state.len(), now, columns)),
        };
    }
}

/// The first of these that has at most so many letters, or the last.
fn fitting<const N: usize>(lines: [String; N], columns: usize) -> String {
    let mut last = String::new();
    for line in lines {
        if line.chars().count() <= columns {
            return line;
        }
        last = line;
    }
    last
}

/// A time in its two largest units.
fn time(time: Duration) -> String {
    // Rounded up: nothing is left of what is done alone.
    // intended: the longest time is shown as months.
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let mut text = String::new();
    // cannot fail: it goes into a string.
    let _ = match seconds {
        ..60 => write!(text, "{seconds} s"),
        60..3600 => write!(text, "{minutes} min {} s", seconds % 60),
        3600..86_400 => write!(text, "{hours} h {} min", minutes % 60),
        86_400..8_640_000 => write!(text, "{days} d {} h", hours % 24),
        _ => write!(text, "months"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is shown of `done` bytes of 1.5 GiB after so many seconds.
    fn shown(letters: Letters, done: u64, seconds: u64, columns: usize) -> String {
        let begun = Instant::now();
        let mut line = Line { letters, ..Line::bytes(None) };
        line.gauge.see(0, begun);
        let now = begun + Duration::from_secs(seconds);
        line.gauge.see(done, now);
        line.known(done, Some(1536 * MIB), now, columns)
    }

    #[test]
    fn a_line_fits_the_terminal_and_says_less_on_a_narrow_one() {
        let (full, empty) = ("#".repeat(13), "-".repeat(21));
        assert_eq!(
            shown(ASCII, 630 * MIB, 3, 79),
            format!(" 41% {full}{empty} 630 MiB of 1.5 GiB, 210 MiB/s, 5 s left")
        );
        assert_eq!(shown(ASCII, 630 * MIB, 3, 39), " 41% 630 MiB of 1.5 GiB, 5 s left");
        assert_eq!(shown(ASCII, 630 * MIB, 3, 20), " 41%, 5 s left");
        assert_eq!(shown(ASCII, 630 * MIB, 3, 5), " 41%");
        for columns in 5..200 {
            for letters in [ASCII, UNICODE] {
                let line = shown(letters, 700 * MIB, 100, columns);
                assert!(line.chars().count() <= columns, "{columns}: {line}");
                assert!(!line.contains('\n'), "{line}");
            }
        }
    }

    #[test]
    fn the_first_estimate_is_none() {
        assert_eq!(shown(ASCII, 0, 0, 39), "  0% 0 bytes of 1.5 GiB, estimating");
        assert_eq!(shown(ASCII, 128 * MIB, 0, 39), "  8% 128 MiB of 1.5 GiB, estimating");
    }

    #[test]
    fn a_bar_is_drawn_in_letters_that_the_locale_has() {
        assert!(shown(ASCII, 630 * MIB, 3, 79).is_ascii());
        assert!(shown(UNICODE, 630 * MIB, 3, 79).contains("█░"));
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min 1 s"),
            (3_661, "1 h 1 min"),
            (90_000, "1 d 1 h"),
            (u64::MAX, "months"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }
}
