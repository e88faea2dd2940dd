//! Runs a test in a group and a directory of its own, and leaves nothing of it behind.
//!
//! A mutant may run for ever, take all memory, or start programs that outlive the test. So each process has limits,
//! and what is left is found by the directory for temporary files that its environment names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use rustix::process::{kill_process, kill_process_group, prlimit, set_child_subreaper, waitpid};

/// Bytes of address space for a test. Some emulate chips of 4 GiB, of which they touch little.
const MEMORY: u64 = 20 << 30;
/// Bytes of the largest file. Sparse files are larger than what is in them.
const FILE: u64 = 64 << 30;

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It did not end in time.
    TimedOut,
}

/// Tests that nobody has waited for yet. Their other children are orphans, and those that are not here are, too.
static LEADERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Where tests run, one after the other.
pub struct Place {
    directory: PathBuf,
}

impl Place {
    /// Makes a place with this number, for one thread.
    pub fn new(number: usize) -> Result<Self, String> {
        // Programs that outlive the test that started them become children of ours.
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("prctl: {error}"))?;
        let directory = std::env::temp_dir().join(format!("atrest-mutants-{}-{number}", std::process::id()));
        Ok(Self { directory })
    }

    /// Runs a test. Returns how it ended, and after how long.
    pub fn run(&self, mut command: Command, limit: Duration) -> Result<(Ended, Duration), String> {
        use std::os::unix::process::CommandExt;
        let failed = |error: std::io::Error| format!("{}: {error}", self.directory.display());
        fs::create_dir_all(&self.directory).map_err(failed)?;
        command.env("TMPDIR", &self.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let mut child = {
            let mut leaders = LEADERS.lock().map_err(|_| "a worker panicked")?;
            let child = command.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
            leaders.push(Pid::from_child(&child));
            child
        };
        let group = Pid::from_child(&child);
        restrict(group, limit);
        let ended = wait(&mut child, begin + limit);
        let elapsed = begin.elapsed();
        // Nobody has waited for the leader of the group if it is still running, so that the number is still its own.
        if ended == Ended::TimedOut {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
        LEADERS.lock().map_err(|_| "a worker panicked")?.retain(|leader| *leader != group);
        self.clean();
        Ok((ended, elapsed))
    }

    /// Ends what the test left running, and removes what it left in the directory.
    fn clean(&self) {
        for _ in 0..50 {
            let mut left = false;
            for process in orphans(&self.directory) {
                left = true;
                let _ = kill_process(process, Signal::KILL);
                let _ = waitpid(Some(process), WaitOptions::NOHANG);
            }
            if !left {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        for mounted in mounts_below(&self.directory) {
            let _ = unmount(mounted, UnmountFlags::DETACH);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Removes the directories of runs that were killed.
pub fn remove_stale() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("atrest-mutants-")?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn restrict(process: Pid, limit: Duration) {
    // A mutant that takes all memory is the first to be killed.
    let _ = fs::write(format!("/proc/{process}/oom_score_adj"), "1000");
    // Tests may set limits of their own, above these.
    let at_most = |most| Rlimit { current: Some(most), maximum: None };
    let _ = prlimit(Some(process), Resource::As, at_most(MEMORY));
    let _ = prlimit(Some(process), Resource::Fsize, at_most(FILE));
    let _ = prlimit(Some(process), Resource::Core, at_most(0));
    // Ends it even if we are no longer there to do so.
    let _ = prlimit(Some(process), Resource::Cpu, at_most(4 * limit.as_secs() + 60));
}

fn wait(child: &mut Child, until: Instant) -> Ended {
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ended::Passed,
            Ok(Some(_)) | Err(_) => return Ended::Failed,
            Ok(None) if Instant::now() > until => return Ended::TimedOut,
            Ok(None) => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the children of this process that no test waits for, if their environment names `directory` or they have ended.
fn orphans(directory: &Path) -> Vec<Pid> {
    let own = format!("TMPDIR={}", directory.display());
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    // While the lock is held, no test begins.
    let Ok(leaders) = LEADERS.lock() else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<Pid> = lists
        .flat_map(|list| {
            list.split_whitespace().flat_map(str::parse).filter_map(Pid::from_raw).collect::<Vec<_>>()
        })
        .collect();
    let of_ours = |child: &Pid| {
        let environment = fs::read(format!("/proc/{child}/environ")).unwrap_or_default();
        environment.is_empty()
            || environment.split(|byte| *byte == 0).any(|variable| variable == own.as_bytes())
    };
    children.into_iter().filter(|child| !leaders.contains(child)).filter(of_ours).collect()
}

fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    places.filter(|place| place.starts_with(directory)).collect()
}
