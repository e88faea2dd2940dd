//! The question for a passphrase, on a terminal of the test's own: which bytes count, and what is left behind.

mod common;

use common::{CHEAP, Scratch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The two ends of a pseudoterminal.
struct Terminal {
    hand: OwnedFd,
    line: OwnedFd,
    shown: Vec<u8>,
}

impl Terminal {
    fn new() -> Self {
        let hand =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&hand).expect("its other end");
        unlockpt(&hand).expect("its other end");
        let name = ptsname(&hand, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&name, flags, Mode::empty()).expect("its other end");
        Self { hand, line, shown: Vec::new() }
    }

    /// Starts `command` as the leader of a session with this terminal.
    fn start(&self, command: &Command) -> Child {
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        session.current_dir(command.get_current_dir().expect("a scratch directory"));
        let end = || self.line.try_clone().expect("another descriptor");
        session.stdin(end()).stdout(end()).stderr(end());
        session.spawn().expect("setsid starts; run scripts/setup")
    }

    /// Waits until the terminal shows `text`, and forgets what it showed up to there.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        loop {
            let found = self.shown.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                self.shown.drain(..at + text.len());
                return;
            }
            let mut ready = [PollFd::new(&self.hand, PollFlags::IN)];
            let ready = poll(&mut ready, Some(&patience)).expect("poll");
            assert_ne!(ready, 0, "\"{text}\" is missing in: {}", String::from_utf8_lossy(&self.shown));
            let mut bytes = [0; 4096];
            let read = rustix::io::read(&self.hand, &mut bytes[..]).expect("what the terminal shows");
            self.shown.extend_from_slice(&bytes[..read]);
        }
    }

    fn types(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.hand, bytes), Ok(bytes.len()));
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.line).expect("the terminal's modes")
    }

    fn echoes(&self) -> bool {
        self.modes().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Waits until typing is hidden. What was typed before is thrown away by cryptsetup.
    fn hides(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.modes().local_modes.contains(LocalModes::ECHO) {
            assert!(Instant::now() < deadline, "what is typed stays visible");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was typed and not read by anybody.
    fn left(&self) -> u64 {
        // In canonical mode only whole lines count.
        let mut raw = self.modes();
        raw.local_modes.remove(LocalModes::ICANON);
        tcsetattr(&self.line, OptionalActions::Now, &raw).expect("raw mode");
        rustix::io::ioctl_fionread(&self.line).expect("how much is left")
    }
}

fn ends(mut child: Child) -> ExitStatus {
    child.wait().expect("it ends")
}

/// A volume that opens with these bytes.
fn volume(passphrase: &[u8]) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", passphrase);
    let args = ["format", "--size", "20M", "--key-file", "key", "vol"];
    scratch.atrest(&[&args[..], &CHEAP].concat()).ok();
    scratch
}

#[test]
fn every_typed_byte_counts() {
    let passphrase = b"a\tb\xe9c\x1b[A\xff\xc3";
    let scratch = volume(passphrase);
    let mut terminal = Terminal::new();
    for program in ["atrest", "cryptsetup"] {
        let child = if program == "atrest" {
            terminal.start(&scratch.atrest_command(&["key", "test", "vol"]))
        } else {
            let mut peer = scratch.command("cryptsetup");
            terminal.start(peer.args(["open", "--test-passphrase", "vol"]))
        };
        terminal.shows("assphrase for");
        terminal.shows(": ");
        terminal.hides();
        terminal.types(passphrase);
        terminal.types(b"\n");
        assert_eq!(ends(child).code(), Some(0), "{program}");
        assert!(terminal.echoes(), "{program}");
    }
}

#[test]
fn a_signal_ends_it_only_after_echo_is_on_again() {
    let scratch = volume(b"secret");
    let signals: [(i32, &[u8]); 6] = [(2, b"\x03"), (3, b"\x1c"), (2, b""), (3, b""), (15, b""), (1, b"")];
    for (signal, key) in signals {
        let mut terminal = Terminal::new();
        let before = terminal.modes().local_modes;
        let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
        terminal.shows(": ");
        assert!(!terminal.echoes());
        terminal.types(b"half a pass");
        if key.is_empty() {
            scratch.tool("kill", &[&format!("-{signal}"), &child.id().to_string()]).ok();
        } else {
            terminal.types(key);
        }
        let status = ends(child);
        assert_eq!(status.signal(), Some(signal), "{status}");
        assert_eq!(terminal.modes().local_modes, before, "after signal {signal}");
        assert_eq!(terminal.left(), 0, "after signal {signal}");
    }
}

#[test]
fn a_stopped_question_is_asked_again() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let mut shell = scratch.command("bash");
    let line = "set -m; $ATREST key test vol; stty -a; echo stopped; fg; echo code $?";
    shell.args(["-c", line]).env("ATREST", env!("CARGO_BIN_EXE_atrest"));
    let child = terminal.start(&shell);
    terminal.shows("for vol: ");
    terminal.types(b"wrong\x1a");
    terminal.shows(" echo ");
    terminal.shows("stopped");
    terminal.shows("for vol: ");
    assert!(!terminal.echoes());
    terminal.types(b"secret\n");
    terminal.shows("code 0");
    assert_eq!(ends(child).code(), Some(0));
    assert!(terminal.echoes());
}

#[test]
fn a_typed_passphrase_has_512_bytes_at_most() {
    let scratch = volume(&[b'x'; 512]);
    for (len, code) in [(512, 0), (513, 1), (2000, 1)] {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
        terminal.shows(": ");
        terminal.types(&vec![b'x'; len]);
        terminal.types(b"\n");
        assert_eq!(ends(child).code(), Some(code), "{len} bytes");
        assert!(terminal.echoes());
        assert_eq!(terminal.left(), 0, "of {len} bytes");
    }
}

#[test]
fn the_end_of_input_is_no_passphrase() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
    terminal.shows(": ");
    terminal.types(b"\x04");
    terminal.shows("no passphrase was typed");
    assert_eq!(ends(child).code(), Some(1));
    assert!(terminal.echoes());
}

#[test]
fn typed_words_are_brought_into_their_normal_form() {
    let scratch = volume(b"abandon act zoo actress");
    let tries: [(&[&str], &[u8], i32); 4] = [
        (&["--words"], b"abandon act zoo actress\n", 0),
        (&["--words"], b"  ABAN act\tZoo   actres \n", 0),
        // Without the option the bytes are the passphrase.
        (&[], b"abandon act zoo actress\n", 0),
        (&[], b"aban act zoo actr\n", 1),
    ];
    for (options, typed, code) in tries {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&[&["key", "test", "vol"], options].concat()));
        terminal.shows("for vol: ");
        terminal.hides();
        terminal.types(typed);
        if code != 0 {
            // It opened nothing, so it is asked for again.
            terminal.shows("for vol: ");
            terminal.hides();
            terminal.types(b"\x04");
        }
        assert_eq!(ends(child).code(), Some(code), "{}", String::from_utf8_lossy(typed));
        assert!(terminal.echoes());
    }
}

#[test]
fn a_typed_word_that_is_none_is_named_by_its_place() {
    let scratch = volume(b"abandon act zoo actress");
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "--words", "vol"]));
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"abandon act zoo actros\n");
    terminal.shows("word 4 is not in the list of words");
    // This standard error is the terminal.
    terminal.shows("did you mean \"across\", \"action\" or \"actor\"?");
    assert_eq!(ends(child).code(), Some(1));

    let mut terminal = Terminal::new();
    let mut shell = scratch.command("bash");
    shell.args(["-c", "$ATREST key test --words vol 2> log; echo code $?"]);
    shell.env("ATREST", env!("CARGO_BIN_EXE_atrest"));
    let child = terminal.start(&shell);
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"abandon act zoo actros\n");
    terminal.shows("code 1");
    assert_eq!(ends(child).code(), Some(0));
    let log = std::fs::read_to_string(scratch.path("log")).expect("text");
    assert!(log.contains("word 4 is not"), "{log}");
    assert!(["across", "action", "actros"].iter().all(|word| !log.contains(word)), "{log}");
}

#[test]
fn new_words_are_compared_in_their_normal_form() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let args = ["key", "add", "vol", "--key-file", "key", "--new-words"];
    let child = terminal.start(&scratch.atrest_command(&[&args[..], &CHEAP].concat()));
    for typed in [&b"zoo ZONE aban\n"[..], b"zoo zone   abandon\n"] {
        terminal.shows(": ");
        terminal.hides();
        terminal.types(typed);
    }
    assert_eq!(ends(child).code(), Some(0));
    scratch.file("words", b"zoo zone abandon");
    scratch.atrest(&["key", "test", "vol", "--key-file", "words"]).ok();
}

#[test]
fn a_made_passphrase_is_words_of_the_list_and_says_what_it_is_worth() {
    let scratch = Scratch::new();
    let text = scratch.atrest(&["passphrase"]).ok();
    let words: Vec<_> = text.stdout.trim_end().split(' ').collect();
    assert_eq!(words.len(), 10);
    let list = include_str!("../../kdf/src/words/english.txt");
    assert!(words.iter().all(|word| list.lines().any(|listed| listed == *word)), "{words:?}");
    assert!(text.stderr.contains("10 words, 110 bits of entropy"), "{}", text.stderr);
    let json = scratch.atrest(&["passphrase", "--words", "12", "--json"]).ok();
    let start = json.stdout.strip_prefix("{\"passphrase\":\"").expect("JSON");
    let (words, rest) = start.split_once('"').expect("JSON");
    assert_eq!(words.split(' ').count(), 12);
    assert_eq!(rest, ",\"words\":12,\"entropy_bits\":132}\n");
    assert_ne!(scratch.atrest(&["passphrase"]).ok().stdout, text.stdout);
    assert_eq!(scratch.atrest(&["passphrase", "--words", "5"]).code, 1);
}

#[test]
fn the_passphrase_of_a_protector_is_asked_for_again_if_it_is_wrong() {
    let scratch = Scratch::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tree/tests/protectors/make.sh");
    scratch.bash(&format!("unshare --mount --propagation private bash '{script}' \"$PWD\"")).ok();
    let mut terminal = Terminal::new();
    let cat = ["cat", "data.img", "/custom/file", "--fscrypt-protector", "mine"];
    let child = terminal.start(&scratch.atrest_command(&cat));
    for typed in ["correct horse \n", "correct horse\n"] {
        terminal.shows("Passphrase of protector ");
        terminal.shows(" (passphrase \"mine\"): ");
        terminal.hides();
        terminal.types(typed.as_bytes());
    }
    terminal.shows("what custom holds");
    assert!(ends(child).success());
}
