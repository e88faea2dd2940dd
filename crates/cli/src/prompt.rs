//! The question for a passphrase on the terminal: the line's own bytes, whatever they are, go from the kernel straight
//! into locked memory, as cryptsetup takes them. Only echo is switched off, so the terminal's editing keys work, and
//! no signal ends or stops the process before echo is on again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use atrest_attach::serve::HeldSignals;
use atrest_secret::SecretBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// cryptsetup's limit for passphrases typed at a terminal.
const MAX_TYPED: usize = 512;

/// What came of one question.
enum Answer {
    Line(SecretBytes),
    TooLong,
    /// The end of input (Ctrl-D) instead of a line.
    Nothing,
    /// A signal waits.
    Interrupted,
    /// The time is over.
    TooLate,
}

/// What a terminal was waited for with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Ready,
    Signal,
    TooLong,
}

/// Whether there is a terminal to ask on.
pub fn has_terminal() -> bool {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Asks on the process's terminal, again if a signal came between that the process lived through (Ctrl-Z and `fg`).
/// Without a terminal, the options `instead` are named. After `limit` nobody is waited for any more.
pub fn ask(prompt: &str, instead: &str, limit: Option<Duration>) -> Result<SecretBytes, Failure> {
    // intended: a time that no clock reaches has no end.
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    // Non-blocking, so that nothing but `wait` waits: it sees signals. The description is new and shared with nobody.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).map_err(|_| no_terminal(instead))?;
    loop {
        match ask_once(&terminal, prompt, instead, end)? {
            Answer::Line(line) => return Ok(line),
            Answer::Interrupted => {}
            Answer::TooLate => {
                return Err(Failure::parameters("nobody has typed a passphrase in time")
                    .hint("leave --timeout out, or give it more seconds"));
            }
            Answer::Nothing => return Err(Failure::parameters("no passphrase was typed")),
            Answer::TooLong => {
                let what = format!("a typed passphrase has at most {MAX_TYPED} bytes");
                return Err(Failure::parameters(what).hint("use a key file for a longer one"));
            }
        }
    }
}

fn no_terminal(instead: &str) -> Failure {
    Failure::parameters("there is no terminal to ask for the passphrase on")
        .hint(format!("give it by {instead}"))
}

fn ask_once(
    terminal: &OwnedFd,
    prompt: &str,
    instead: &str,
    end: Option<Instant>,
) -> Result<Answer, Failure> {
    let modes = tcgetattr(terminal).map_err(|_| no_terminal(instead))?;
    // A job in the background stops here until it is called back; with signals held it would not.
    tcsetattr(terminal, OptionalActions::Now, &modes).map_err(io::Error::from)?;
    // Dropped last: by then echo is on again.
    let signals = HeldSignals::hold()?;
    let silent = Silent::new(terminal, modes).map_err(io::Error::from)?;
    Ok(converse(&silent, &signals, prompt, end).map_err(io::Error::from)?)
}

fn converse(
    silent: &Silent,
    signals: &HeldSignals,
    prompt: &str,
    end: Option<Instant>,
) -> Result<Answer, Errno> {
    let mut left = prompt.as_bytes();
    while !left.is_empty() {
        match wait(silent.terminal, PollFlags::OUT, signals, end)? {
            Waited::Ready => {}
            Waited::Signal => return Ok(Answer::Interrupted),
            Waited::TooLong => return Ok(Answer::TooLate),
        }
        match rustix::io::write(silent.terminal, left) {
            // cannot miss: no more is written than was given.
            Ok(written) => left = left.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    // The longest line, its newline, and one byte to find a longer one by.
    let mut line = SecretBytes::zeroed(MAX_TYPED + 2);
    let mut filled = 0;
    loop {
        match wait(silent.terminal, PollFlags::IN, signals, end)? {
            Waited::Ready => {}
            Waited::Signal => return Ok(Answer::Interrupted),
            Waited::TooLong => return Ok(Answer::TooLate),
        }
        match rustix::io::read(silent.terminal, &mut line[filled..]) {
            Ok(0) if filled == 0 => return Ok(Answer::Nothing),
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if filled > 0 && line[filled - 1] == b'\n' {
            filled -= 1;
            break;
        }
        if filled > MAX_TYPED {
            break;
        }
    }
    if filled > MAX_TYPED {
        return Ok(Answer::TooLong);
    }
    line.truncate(filled);
    Ok(Answer::Line(line))
}

/// Waits for the terminal, or until a signal or the end of the time was first.
fn wait(
    terminal: &OwnedFd,
    wanted: PollFlags,
    signals: &HeldSignals,
    end: Option<Instant>,
) -> Result<Waited, Errno> {
    loop {
        // intended: an end that is over leaves no time.
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            // intended: nobody lives to see the difference.
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut ready = [
            PollFd::from_borrowed_fd(signals.pending(), PollFlags::IN),
            PollFd::from_borrowed_fd(terminal.as_fd(), wanted),
        ];
        match poll(&mut ready, left.as_ref()) {
            Ok(0) => return Ok(Waited::TooLong),
            Ok(_) if !ready[0].revents().is_empty() => return Ok(Waited::Signal),
            Ok(_) => return Ok(Waited::Ready),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// A terminal without echo, until this is dropped.
struct Silent<'a> {
    terminal: &'a OwnedFd,
    modes: Termios,
}

impl<'a> Silent<'a> {
    /// What was typed ahead was shown, so it is thrown away.
    fn new(terminal: &'a OwnedFd, modes: Termios) -> Result<Self, Errno> {
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        silent.local_modes.insert(LocalModes::ICANON | LocalModes::ISIG);
        let guard = Self { terminal, modes };
        tcsetattr(terminal, OptionalActions::Now, &silent)?;
        tcflush(terminal, QueueSelector::IFlush)?;
        Ok(guard)
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // Half a passphrase must not become the shell's next command. If the terminal is gone there is nothing to
        // put in order, and nobody to tell.
        let _ = tcflush(self.terminal, QueueSelector::IFlush);
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.modes);
        // The one that was typed was not shown.
        let _ = rustix::io::write(self.terminal, b"\n");
    }
}
