//! The serial line of a running board: wait for what it prints, and type.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::FIT_ADDRESS;

/// How long a board may be silent about what is expected. Boots take three seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// What U-Boot prints when it waits for a command.
const PROMPT: &str = "\n=> ";

/// A running board, which is switched off when dropped.
#[derive(Debug)]
pub struct Serial {
    board: Child,
    keys: ChildStdin,
    printed: Receiver<Vec<u8>>,
    log: String,
    /// Up to where the log has been asked for.
    seen: usize,
}

impl Serial {
    pub(super) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut board = command.spawn().expect("QEMU runs");
        let keys = board.stdin.take().expect("standard input is a pipe");
        let mut output = board.stdout.take().expect("standard output is a pipe");
        let (sender, printed) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { board, keys, printed, log: String::new(), seen: 0 }
    }

    /// Waits until the board has printed `text`, and returns what it printed before that.
    ///
    /// # Panics
    /// When it does not within minutes, or ends before.
    pub fn expect(&mut self, text: &str) -> String {
        self.expect_one_of(&[text]).1
    }

    /// Waits for the first of several texts, and returns its number and what was printed before.
    ///
    /// # Panics
    /// When none comes within minutes, or the board ends before.
    pub fn expect_one_of(&mut self, texts: &[&str]) -> (usize, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = texts.iter().enumerate().filter_map(|(i, text)| Some((self.unseen().find(text)?, i)));
            if let Some((position, i)) = found.min() {
                let before = self.unseen()[..position].to_string();
                self.seen += position + texts[i].len();
                return (i, before);
            }
            match self.printed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.keep(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("no {texts:?} within {PATIENCE:?} in\n{}", self.log),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the board ended without {texts:?} in\n{}", self.log)
                }
            }
        }
    }

    /// Waits until the board has switched itself off, and returns what it printed that was not asked for yet.
    ///
    /// # Panics
    /// When it does not within minutes.
    pub fn until_off(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.printed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.keep(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("still on after {PATIENCE:?}:\n{}", self.log),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.board.wait().expect("wait for QEMU");
        assert!(status.success(), "QEMU ended with {status}:\n{}", self.log);
        let rest = self.unseen().to_string();
        self.seen = self.log.len();
        rest
    }

    /// Types a line.
    ///
    /// # Panics
    /// When the board is off.
    pub fn type_line(&mut self, line: &str) {
        let typed = self.keys.write_all(format!("{line}\r").as_bytes()).and_then(|()| self.keys.flush());
        typed.unwrap_or_else(|error| panic!("can't type {line:?} ({error}):\n{}", self.log));
    }

    /// Stops U-Boot before it boots by itself, and runs commands in it. Returns what they printed.
    pub fn u_boot(&mut self, commands: &[&str]) -> String {
        self.expect("Hit any key");
        self.type_line("");
        self.expect(PROMPT);
        let mut printed = String::new();
        for command in commands {
            self.type_line(command);
            printed += &self.expect(PROMPT);
        }
        printed
    }

    /// Boots the FIT image in memory with these kernel arguments. Returns what U-Boot printed of it, if it starts the kernel, and otherwise as an error what
    /// it printed until it waits for a command again.
    ///
    /// # Errors
    /// What U-Boot printed when it refused the image.
    pub fn boot(&mut self, arguments: &str) -> Result<String, String> {
        self.u_boot(&[&format!("setenv bootargs {arguments}")]);
        self.type_line(&format!("bootm {FIT_ADDRESS}"));
        match self.expect_one_of(&["Starting kernel", PROMPT]) {
            (0, printed) => Ok(printed),
            (_, printed) => Err(printed),
        }
    }

    /// Everything that it has printed so far.
    pub fn log(&self) -> &str {
        &self.log
    }

    fn unseen(&self) -> &str {
        &self.log[self.seen..]
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.log += &String::from_utf8_lossy(bytes).replace('\r', "");
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        let _ = self.board.kill();
        let _ = self.board.wait();
    }
}
