//! A program that is asked for a secret: what it says of itself never holds it up, and it does not hold us up for ever.

use std::io::Read as _;
use std::process::{Child, ChildStderr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::failure::{Code, Failure};

/// Long enough for somebody to unlock a keyring in a window that it opens.
const PATIENCE: Duration = Duration::from_secs(300);
/// What it says more is thrown away.
const MOST: usize = 4096;
/// How long its last words are waited for once it has ended: a process that it started may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program that runs, and is watched.
pub struct Asked {
    text: Arc<Mutex<Vec<u8>>>,
    all_said: Receiver<()>,
    /// Dropped, it ends the watch.
    ended: Sender<()>,
    late: Receiver<()>,
    patience: Duration,
}

impl Asked {
    /// Takes what the program says on standard error, and ends the program if it takes too long.
    pub fn watch(run: &mut Child) -> Self {
        Self::with_patience(run, PATIENCE)
    }

    fn with_patience(run: &mut Child, patience: Duration) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (tell_said, all_said) = mpsc::channel();
        if let Some(stderr) = run.stderr.take() {
            let text = text.clone();
            thread::spawn(move || {
                drain(stderr, &text);
                // Nobody waits for it any more.
                let _ = tell_said.send(());
            });
        }
        let (ended, wait) = mpsc::channel::<()>();
        let (tell_late, late) = mpsc::channel();
        // It has not been waited for, so that its number is still its own.
        let process = i32::try_from(run.id()).ok().and_then(Pid::from_raw);
        let process = process.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        // intended: a kernel before 5.3 can't, and there it is waited for.
        if let Some(process) = process {
            thread::spawn(move || {
                if wait.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    // Told first: whoever waits for its end asks next.
                    let _ = tell_late.send(());
                    // It may have ended a moment ago.
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                }
            });
        }
        Self { text, all_said, ended, late, patience }
    }

    /// What it has said, the first of it. It must have ended.
    ///
    /// # Errors
    /// If it was ended because it took too long.
    pub fn said(self) -> Result<String, Failure> {
        if self.late.try_recv().is_ok() {
            let seconds = self.patience.as_secs();
            return Err(Failure::new(Code::Refused, format!("the secret service has not answered for {seconds} s"))
                .hint("it may wait for somebody to unlock it: unlock it first, or give the passphrase in another way"));
        }
        drop(self.ended);
        // What is not said by then is not waited for.
        let _ = self.all_said.recv_timeout(LAST_WORDS);
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Reads all of it, so that the program never waits for a reader, and keeps the beginning.
fn drain(mut stderr: ChildStderr, text: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    // What can't be read says nothing.
    while let Ok(len @ 1..) = stderr.read(&mut buffer) {
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(text.len()).min(len);
        text.extend(buffer.get(..room).unwrap_or_default()); // cannot miss: no more than was read.
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    fn start(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("a shell")
    }

    #[test]
    fn what_it_says_is_taken_to_the_end_and_its_beginning_kept() {
        let mut run = start("echo first >&2; head -c 1000000 /dev/zero >&2; exit 3");
        let asked = Asked::watch(&mut run);
        assert_eq!(run.wait().expect("it ends").code(), Some(3));
        let said = asked.said().expect("in time");
        assert!(said.starts_with("first\n") && said.len() == MOST, "{} bytes", said.len());
    }

    #[test]
    fn one_that_never_answers_is_ended() {
        let begun = Instant::now();
        let mut run = start("exec sleep 60");
        let asked = Asked::with_patience(&mut run, Duration::from_millis(50));
        assert!(!run.wait().expect("it ends").success());
        assert_eq!(asked.said().expect_err("too late").what(), "the secret service has not answered for 0 s");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_that_keeps_the_pipe_is_not_waited_for() {
        let begun = Instant::now();
        let mut run = start("echo said >&2; sleep 5 & exit 1");
        let asked = Asked::watch(&mut run);
        run.wait().expect("it ends");
        assert_eq!(asked.said().expect("in time"), "said\n");
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}
