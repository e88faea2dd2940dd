//! The last that a driver said on standard output and standard error.

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes that are kept: a driver may talk for as long as it runs.
const KEPT: usize = 4096;
/// Lines that are told.
const LINES: usize = 12;
/// How long the end of the pipe may come after that of the process.
const AFTER_END: Duration = Duration::from_secs(1);

/// Reads what a driver says, so that it never waits for somebody to read it.
pub(super) struct Said {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Disconnected when the pipe has ended.
    ended: Receiver<()>,
}

impl Said {
    pub fn listen(mut pipe: PipeReader) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, ended) = channel();
        let shared = kept.clone();
        let listen = move || {
            let _until_the_end = sender;
            let mut buffer = [0; 1024];
            while let Ok(len @ 1..) = pipe.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..len]);
                // cannot be less: what is too much is what lies before the last KEPT bytes.
                let much = kept.len().saturating_sub(KEPT);
                kept.drain(..much);
            }
        };
        std::thread::Builder::new().name("driver-says".into()).spawn(listen)?;
        Ok(Self { kept, ended })
    }

    /// The last lines, of a driver that has ended; nothing in them can move the cursor of a terminal.
    pub fn last(&self) -> String {
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(AFTER_END) {
            // Somebody else holds the pipe; what has come is told.
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        legible(kept.make_contiguous())
    }
}

pub(super) fn legible(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.trim_end())
        .filter(|line| !line.is_empty())
        .take(LINES)
        .map(|line| line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect())
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_said_is_lines_without_control_characters() {
        assert_eq!(legible(b"one\r\n\n\x1b[2Jtwo\n"), "one\n\u{fffd}[2Jtwo");
        assert_eq!(legible(b""), "");
        assert_eq!(legible(&b"x\n".repeat(100)).lines().count(), LINES);
    }
}
