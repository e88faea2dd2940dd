//! The question for a passphrase, on every console that the kernel writes to, or on one terminal. Whoever answers first is heard. What is
//! typed is not shown and goes straight into locked memory; there is no line in the terminal's own buffers, so that a signal or the
//! end of the wait leaves nothing of it behind.

use core::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use atrest_secret::SecretBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};

/// cryptsetup's limit for passphrases typed at a terminal.
const MAX_TYPED: usize = 512;
/// The kernel's list of consoles.
const ACTIVE: &str = "/sys/class/tty/console/active";
const BELL: u8 = 7;

/// Why no passphrase came of a question.
#[derive(Debug)]
pub enum AskError {
    /// There is nothing to ask on.
    NoTerminal,
    /// Nobody answered in time.
    TimedOut,
    /// Ctrl-C or Ctrl-D was typed.
    Interrupted,
    /// The terminals failed.
    Io(io::Error),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTerminal => f.write_str("there is no console to ask for a passphrase on"),
            Self::TimedOut => f.write_str("no passphrase was typed in time"),
            Self::Interrupted => f.write_str("no passphrase was typed"),
            Self::Io(error) => write!(f, "the console: {error}"),
        }
    }
}

impl core::error::Error for AskError {}

/// Terminals on which questions are asked.
pub struct Console(Vec<OwnedFd>);

impl Console {
    /// All consoles that the kernel writes to, as `console=` on its command line says; `/dev/console` where it does not tell which.
    pub fn system() -> Self {
        // intended: kernels that do not tell have `/dev/console`.
        let active = std::fs::read_to_string(ACTIVE).unwrap_or_default();
        let mut paths: Vec<PathBuf> =
            active.split_whitespace().map(|name| Path::new("/dev").join(name)).collect();
        if paths.is_empty() {
            paths.push("/dev/console".into());
        }
        let opened: Vec<OwnedFd> = paths.iter().filter_map(|path| open(path).ok()).collect();
        match opened.is_empty() {
            true => Self(open(Path::new("/dev/console")).into_iter().collect()),
            false => Self(opened),
        }
    }

    /// One terminal.
    ///
    /// # Errors
    /// The system's error if `path` can't be opened to be read and written, or is no terminal.
    pub fn terminal(path: &Path) -> io::Result<Self> {
        open(path).map(|terminal| Self(vec![terminal]))
    }

    /// The terminal of this process, or all consoles if it has none.
    pub fn best() -> Self {
        Self::terminal(Path::new("/dev/tty")).unwrap_or_else(|_| Self::system())
    }

    /// Writes to all of them.
    pub fn tell(&self, text: &str) {
        for terminal in &self.0 {
            write(terminal, text.as_bytes());
        }
    }

    /// Asks for a line. It is edited by backspace and Ctrl-U, and ends with Enter.
    ///
    /// # Errors
    /// [`AskError::TimedOut`] if no line is there at `end`, [`AskError::Interrupted`] after Ctrl-C or Ctrl-D,
    /// [`AskError::NoTerminal`] if there is no terminal, or none is left, [`AskError::Io`] if waiting for
    /// them fails.
    pub fn ask(&self, prompt: &str, end: Option<Instant>) -> Result<SecretBytes, AskError> {
        let mut lines: Vec<Line> =
            self.0.iter().filter_map(|terminal| Line::begin(terminal, prompt)).collect();
        loop {
            if lines.is_empty() {
                return Err(AskError::NoTerminal);
            }
            // intended: after the end no time is left.
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left
                .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            let mut ready: Vec<PollFd<'_>> =
                lines.iter().map(|line| PollFd::new(line.terminal, PollFlags::IN)).collect();
            match poll(&mut ready, left.as_ref()) {
                Ok(0) => return Err(AskError::TimedOut),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(AskError::Io(error.into())),
            }
            let ready: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut gone = Vec::new();
            for (i, line) in lines.iter_mut().enumerate() {
                if !ready.get(i).copied().unwrap_or(false) {
                    continue;
                }
                match line.read() {
                    Typed::More => {}
                    Typed::Line => return Ok(line.take()),
                    Typed::Interrupted => return Err(AskError::Interrupted),
                    Typed::Gone => gone.push(i),
                }
            }
            for i in gone.into_iter().rev() {
                drop(lines.remove(i));
            }
        }
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    // Non-blocking: a serial line without a carrier would be waited for.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let terminal = rustix::fs::open(path, flags, Mode::empty())?;
    // What is no terminal would show what is typed, if anything can be typed at all. A port without hardware fails here, too.
    tcgetattr(&terminal)?;
    Ok(terminal)
}

/// As much as the terminal takes; one that is stuck is not waited for long.
fn write(terminal: &OwnedFd, mut text: &[u8]) {
    let pause = Timespec { tv_sec: 1, tv_nsec: 0 };
    while !text.is_empty() {
        match rustix::io::write(terminal, text) {
            // cannot miss: no more is written than was given.
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::new(terminal, PollFlags::OUT)];
                if !matches!(poll(&mut ready, Some(&pause)), Ok(count) if count > 0) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// What came of reading once.
enum Typed {
    More,
    Line,
    Interrupted,
    Gone,
}

/// A line that is being typed, on a terminal that shows nothing until this is dropped.
struct Line<'a> {
    terminal: &'a OwnedFd,
    modes: Termios,
    line: SecretBytes,
    filled: usize,
}

impl<'a> Line<'a> {
    fn begin(terminal: &'a OwnedFd, prompt: &str) -> Option<Self> {
        let modes = tcgetattr(terminal).ok()?;
        let mut silent = modes.clone();
        let off = LocalModes::ECHO
            | LocalModes::ECHONL
            | LocalModes::ICANON
            | LocalModes::ISIG
            | LocalModes::IEXTEN;
        silent.local_modes.remove(off);
        silent.input_modes.insert(InputModes::ICRNL);
        silent.input_modes.remove(InputModes::IXON | InputModes::ISTRIP | InputModes::IGNCR);
        let line = Self { terminal, modes, line: SecretBytes::zeroed(MAX_TYPED), filled: 0 };
        tcsetattr(terminal, OptionalActions::Now, &silent).ok()?;
        // What was typed ahead was shown.
        let _ = tcflush(terminal, QueueSelector::IFlush);
        write(terminal, prompt.as_bytes());
        Some(line)
    }

    /// Takes what was typed, a byte at a time: what comes after Enter belongs to somebody else.
    fn read(&mut self) -> Typed {
        let mut byte = SecretBytes::zeroed(1);
        loop {
            match rustix::io::read(self.terminal, &mut byte[..]) {
                Ok(0) => return Typed::Gone,
                Ok(_) => {}
                Err(Errno::AGAIN) => return Typed::More,
                Err(Errno::INTR) => continue,
                Err(_) => return Typed::Gone,
            }
            match byte[0] {
                b'\n' | b'\r' => return Typed::Line,
                // Ctrl-C, and Ctrl-D on an empty line.
                3 => return Typed::Interrupted,
                4 if self.filled == 0 => return Typed::Interrupted,
                4 => return Typed::Line,
                8 | 127 => self.erase_character(),
                // Ctrl-U
                21 => self.filled = 0,
                typed => match self.line.get_mut(self.filled) {
                    Some(place) => {
                        *place = typed;
                        self.filled += 1;
                    }
                    None => write(self.terminal, &[BELL]),
                },
            }
        }
    }

    /// The last character, which can be several bytes of UTF-8.
    fn erase_character(&mut self) {
        while self.filled > 0 {
            self.filled -= 1;
            if self.line[self.filled] & 0xc0 != 0x80 {
                break;
            }
        }
    }

    fn take(&mut self) -> SecretBytes {
        let mut line = core::mem::replace(&mut self.line, SecretBytes::zeroed(0));
        line.truncate(self.filled);
        self.filled = 0;
        line
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        // Half a passphrase must not become somebody's next command. If the terminal is gone, nobody can be told.
        let _ = tcflush(self.terminal, QueueSelector::IFlush);
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.modes);
        write(self.terminal, b"\n");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Somebody at a terminal.
    pub(crate) struct Person(OwnedFd);

    pub(crate) fn terminal() -> (Person, Console) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&person).expect("grant");
        unlockpt(&person).expect("unlock");
        let path = ptsname(&person, Vec::new()).expect("a name").into_string().expect("text");
        (Person(person), Console::terminal(Path::new(&path)).expect("a terminal"))
    }

    impl Person {
        /// What the screen shows, as soon as that is so many bytes.
        pub(crate) fn sees(&self, len: usize) -> String {
            let mut shown = Vec::new();
            while shown.len() < len {
                let mut part = [0; 256];
                let read = rustix::io::read(&self.0, &mut part[..]).expect("something is shown");
                shown.extend_from_slice(&part[..read]);
            }
            String::from_utf8(shown).expect("text")
        }

        /// Types once the question is there; gives all that was shown until the terminal is silent.
        fn answer(self, typed: &[u8]) -> std::thread::JoinHandle<String> {
            let typed = typed.to_vec();
            std::thread::spawn(move || {
                let mut shown = Vec::new();
                let mut sent = false;
                loop {
                    let wait = Timespec { tv_sec: if sent { 0 } else { 10 }, tv_nsec: 300_000_000 };
                    let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
                    if poll(&mut ready, Some(&wait)).expect("poll") == 0 {
                        return String::from_utf8(shown).expect("text");
                    }
                    let mut part = [0; 256];
                    let Ok(len) = rustix::io::read(&self.0, &mut part[..]) else {
                        return String::from_utf8(shown).expect("text");
                    };
                    shown.extend_from_slice(&part[..len]);
                    if !sent && shown.ends_with(b": ") {
                        sent = true;
                        rustix::io::write(&self.0, &typed).expect("type");
                    }
                }
            })
        }
    }

    #[test]
    fn what_is_typed_is_taken_edited_and_never_shown() {
        let table: &[(&[u8], &[u8])] = &[
            (b"correct horse\n", b"correct horse"),
            (b"correct\r", b"correct"),
            (b"corp\x7fe\x08rect\n", b"correct"),
            (b"wrong\x15right\n", b"right"),
            ("\u{e4}\u{20ac}\x7f\n".as_bytes(), "\u{e4}".as_bytes()),
            (b"\n", b""),
            (b"\x7f\x7fa\n", b"a"),
            (b"half\x04", b"half"),
            (b"first\nsecond\n", b"first"),
        ];
        for (typed, expected) in table {
            let (person, console) = terminal();
            let before = tcgetattr(&console.0[0]).expect("modes").local_modes;
            let shown = person.answer(typed);
            let answer = console.ask("Passphrase: ", None).expect("an answer");
            assert_eq!(&answer[..], *expected);
            assert_eq!(tcgetattr(&console.0[0]).expect("modes").local_modes, before);
            assert_eq!(shown.join().expect("a person"), "Passphrase: \r\n");
        }
    }

    #[test]
    fn nobody_and_no_answer_are_told_apart() {
        for typed in [&b"half\x03"[..], b"\x04"] {
            let (person, console) = terminal();
            let shown = person.answer(typed);
            assert!(matches!(console.ask("Passphrase: ", None), Err(AskError::Interrupted)));
            shown.join().expect("a person");
        }
        let (_person, console) = terminal();
        let end = Instant::now() + Duration::from_millis(200);
        assert!(matches!(console.ask("Passphrase: ", Some(end)), Err(AskError::TimedOut)));
        assert!(matches!(Console(Vec::new()).ask("Passphrase: ", None), Err(AskError::NoTerminal)));
        assert!(Console::terminal(Path::new("/dev/null")).is_err());
        let (person, console) = terminal();
        drop(person);
        assert!(matches!(console.ask("Passphrase: ", None), Err(AskError::NoTerminal)));
    }

    #[test]
    fn the_first_of_several_consoles_that_answers_is_heard() {
        let (_silent, first) = terminal();
        let (person, second) = terminal();
        let both = Console(first.0.into_iter().chain(second.0).collect());
        let shown = person.answer(b"from the second\n");
        assert_eq!(&both.ask("Passphrase: ", None).expect("an answer")[..], b"from the second");
        assert_eq!(shown.join().expect("a person"), "Passphrase: \r\n");
    }

    #[test]
    fn a_line_that_is_too_long_ends_where_no_passphrase_goes_on() {
        let (person, console) = terminal();
        let shown = person.answer(&[&[b'x'; MAX_TYPED + 8][..], b"\n"].concat());
        assert_eq!(console.ask("Passphrase: ", None).expect("an answer").len(), MAX_TYPED);
        assert!(shown.join().expect("a person").contains('\x07'));
    }
}
