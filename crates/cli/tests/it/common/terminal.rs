//! A terminal of the test's own, for what a person types.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use super::Scratch;
use atrest_testkit::wait_until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// The two ends of a pseudoterminal.
pub struct Terminal {
    hand: OwnedFd,
    line: OwnedFd,
    shown: Vec<u8>,
    all: Vec<u8>,
}

impl Terminal {
    pub fn new() -> Self {
        let hand =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&hand).expect("its other end");
        unlockpt(&hand).expect("its other end");
        let name = ptsname(&hand, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&name, flags, Mode::empty()).expect("its other end");
        Self { hand, line, shown: Vec::new(), all: Vec::new() }
    }

    /// Starts `command` as the leader of a session with this terminal.
    pub fn start(&self, command: &Command) -> Child {
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        session.current_dir(command.get_current_dir().expect("a scratch directory"));
        let end = || self.line.try_clone().expect("another descriptor");
        session.stdin(end()).stdout(end()).stderr(end());
        session.spawn().expect("setsid starts; run scripts/setup")
    }

    /// An interactive bash with `script`, of `atrest completions bash`, and with the program in front of where commands are looked for.
    #[track_caller]
    pub fn completing_bash(scratch: &Scratch, environment: &[(&str, &Path)]) -> (Self, Child) {
        scratch.bash("$ATREST completions bash > script").ok();
        let program = scratch.bash("dirname \"$ATREST\"").ok().stdout;
        let mut terminal = Self::new();
        let mut command = scratch.command("bash");
        command
            .args(["--noprofile", "--norc", "-i"])
            .env("PATH", format!("{}:/usr/bin:/bin", program.trim()))
            .env("TERM", "dumb")
            .env("PS1", "ready> ")
            .envs(environment.iter().copied());
        let child = terminal.start(&command);
        terminal.shows("ready> ");
        terminal.types(b"source ./script; echo so\"urced\"\n");
        terminal.shows("sourced");
        terminal.shows("ready> ");
        (terminal, child)
    }

    /// Presses the tab key after `typed`, waits for `shown`, and throws the line away.
    #[track_caller]
    pub fn completes(&mut self, typed: &str, shown: &str) {
        self.types(typed.as_bytes());
        self.shows(shown);
        self.types(b"\x15\n");
        self.shows("ready> ");
    }

    /// Waits until the terminal shows `text`, and forgets what it showed up to there.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
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
            self.all.extend_from_slice(&bytes[..read]);
        }
    }

    /// Whether it has shown `text` at any time, as far as somebody waited for it.
    pub fn has_shown(&self, text: &str) -> bool {
        self.all.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Gives the terminal so many rows and columns.
    pub fn resize(&self, size: Winsize) {
        tcsetwinsize(&self.line, size).expect("a size");
    }

    /// All that the terminal shows until a child ends.
    #[track_caller]
    pub fn until_the_end(self, mut child: Child) -> String {
        let Self { hand, line, .. } = self;
        // Whoever else has the line open ends: then reading ends.
        drop(line);
        let mut all = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = rustix::io::read(&hand, &mut bytes[..]) {
            all.extend_from_slice(&bytes[..read]);
        }
        let status = child.wait().expect("it ends");
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(status.success(), "{status}: {all}");
        all
    }

    pub fn types(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.hand, bytes), Ok(bytes.len()));
    }

    pub fn modes(&self) -> Termios {
        tcgetattr(&self.line).expect("the terminal's modes")
    }

    pub fn echoes(&self) -> bool {
        self.modes().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Waits until typing is hidden. What was typed before is thrown away by cryptsetup.
    pub fn hides(&self) {
        wait_until("what is typed is hidden", || !self.modes().local_modes.contains(LocalModes::ECHO));
    }

    /// What was typed and not read by anybody.
    pub fn left(&self) -> u64 {
        // In canonical mode only whole lines count.
        let mut raw = self.modes();
        raw.local_modes.remove(LocalModes::ICANON);
        tcsetattr(&self.line, OptionalActions::Now, &raw).expect("raw mode");
        rustix::io::ioctl_fionread(&self.line).expect("how much is left")
    }
}

/// How a child ends.
pub fn ends(mut child: Child) -> ExitStatus {
    child.wait().expect("it ends")
}
