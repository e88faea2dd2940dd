//! A program that is asked for a secret: what it says of itself never holds it up, and it does not hold us up for ever.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::failure::{Code, Failure};

/// Long enough for somebody to unlock a keyring in a window that it opens.
const PATIENCE: Duration = Duration::from_secs(300);
/// What it says more is thrown away.
const MOST: usize = 4096;
/// How long its last words are waited for once it has ended: a process that it started may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long its end may take once it is late.
const ENDING: Duration = Duration::from_secs(1);

/// A program that runs, and is watched.
pub struct Asked {
    text: Arc<Mutex<Vec<u8>>>,
    all_said: Receiver<()>,
    /// Dropped, it ends the watch.
    ended: Sender<()>,
    late: Receiver<()>,
    patience: Duration,
    /// When it is late, and has been ended.
    end: Instant,
}

/// What a program has said of itself, the first of it.
pub struct Said {
    pub text: String,
    /// Whether nothing more can come. A process that the program has started may have something to say yet.
    pub is_all: bool,
}

impl Asked {
    /// Starts a program, takes what it says on standard error, and ends it if it takes too long, with all that it has started.
    pub fn start(command: &mut Command) -> io::Result<(Child, Self)> {
        Self::with_patience(command, PATIENCE)
    }

    fn with_patience(command: &mut Command, patience: Duration) -> io::Result<(Child, Self)> {
        // A group of its own: what it has started may hold its pipes open, and is ended with it.
        let mut run = command.process_group(0).spawn()?;
        let asked = Self::watch(&mut run, patience);
        Ok((run, asked))
    }

    fn watch(run: &mut Child, patience: Duration) -> Self {
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
        let group = Pid::from_child(run);
        // intended: a kernel before 5.3 can't, and there it is waited for.
        if let Ok(process) = pidfd_open(group, PidfdFlags::empty()) {
            thread::spawn(move || {
                if wait.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    // Told first: whoever waits for its end asks next.
                    let _ = tell_late.send(());
                    // Once it was waited for, the group's number may be another's. Ended and not waited for, it still has it.
                    if pidfd_send_signal(&process, Signal::KILL).is_ok() {
                        // It may have been alone, and be gone.
                        let _ = kill_process_group(group, Signal::KILL);
                    }
                }
            });
        }
        // intended: a time that no clock has is now.
        let end = Instant::now().checked_add(patience.saturating_add(ENDING)).unwrap_or_else(Instant::now);
        Self { text, all_said, ended, late, patience, end }
    }

    /// When nothing is waited for any more that it prints. A process that it has started in a session of its own is not ended with it.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// What it has said. It must have ended.
    ///
    /// # Errors
    /// If it was ended because it took too long.
    pub fn said(self) -> Result<Said, Failure> {
        if self.late.try_recv().is_ok() {
            let seconds = self.patience.as_secs();
            return Err(Failure::new(Code::Refused, format!("the secret service has not answered for {seconds} s"))
                .hint("it may wait for somebody to unlock it: unlock it first, or give the passphrase in another way"));
        }
        drop(self.ended);
        // What is not said by then is not waited for.
        let is_all = self.all_said.recv_timeout(LAST_WORDS) != Err(RecvTimeoutError::Timeout);
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Said { text: String::from_utf8_lossy(&text).into_owned(), is_all })
    }
}

/// Reads all of it, so that the program never waits for a reader, and keeps the beginning.
fn drain(mut stderr: ChildStderr, text: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    // What can't be read says nothing.
    while let Ok(len @ 1..) = stderr.read(&mut buffer) {
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.checked_sub(text.len()).map_or(0, |room| room.min(len));
        text.extend(buffer.get(..room).unwrap_or_default()); // cannot miss: no more than was read.
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::output::Output;

    fn start(script: &str, patience: Duration) -> (Child, Asked) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Asked::with_patience(&mut command, patience).expect("a shell")
    }

    #[test]
    fn what_it_says_is_taken_to_the_end_and_its_beginning_kept() {
        let (mut run, asked) = start("echo first >&2; head -c 1000000 /dev/zero >&2; exit 3", PATIENCE);
        assert_eq!(run.wait().expect("it ends").code(), Some(3));
        let said = asked.said().expect("in time");
        let text = &said.text;
        assert!(text.starts_with("first\n") && text.len() == MOST, "{} bytes", text.len());
        assert!(said.is_all);
    }

    #[test]
    fn one_that_never_answers_is_ended() {
        let begun = Instant::now();
        let (mut run, asked) = start("exec sleep 600", Duration::from_millis(50));
        assert!(!run.wait().expect("it ends").success());
        let late = asked.said().err().expect("too late");
        assert_eq!(late.what(), "the secret service has not answered for 0 s");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    /// A wrapper's child holds both pipes, whether or not the wrapper waits for it.
    #[test]
    fn what_a_program_has_started_is_ended_with_it() {
        for script in ["sleep 600; exit 1", "sleep 600 & exit 1"] {
            let begun = Instant::now();
            let (mut run, asked) = start(script, Duration::from_millis(500));
            let mut printed = Vec::new();
            run.stdout.take().expect("a pipe").read_to_end(&mut printed).expect("it ends");
            run.wait().expect("it ends");
            let late = asked.said().err().expect("too late");
            assert_eq!(late.what(), "the secret service has not answered for 0 s", "{script}");
            assert!(printed.is_empty() && begun.elapsed() < Duration::from_secs(60), "{script}");
        }
    }

    /// No group has it, and the pipe stays open. What it has printed by then is no passphrase.
    #[test]
    fn what_has_left_the_session_is_not_waited_for() {
        let output = Output::new(&crate::args::GlobalArgs {
            json: false,
            quiet: true,
            yes: false,
            max_kdf_time: None,
            config: None,
        });
        for script in ["echo half; setsid sleep 30 & exit 0", "echo half; setsid sleep 30 & wait"] {
            let begun = Instant::now();
            let (run, asked) = start(script, Duration::from_millis(200));
            let read = crate::secrets::read_from_program(run, Some(asked.end()), &output);
            let failure = read.expect_err("it never ends");
            assert_eq!(failure.what(), "what it prints does not end", "{script}");
            let late = asked.said().err().expect("too late");
            assert_eq!(late.what(), "the secret service has not answered for 0 s", "{script}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{script}");
        }
    }

    #[test]
    fn a_process_that_keeps_the_pipe_is_not_waited_for() {
        let begun = Instant::now();
        let (mut run, asked) = start("echo said >&2; sleep 600 & exit 1", PATIENCE);
        run.wait().expect("it ends");
        let said = asked.said().expect("in time");
        // The number is the group's as long as the sleep is in it.
        let ended = kill_process_group(Pid::from_child(&run), Signal::KILL);
        assert_eq!((said.text.as_str(), said.is_all, ended), ("said\n", false, Ok(())));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
