//! The first program in an initramfs: mounts what the kernel shows, loads modules, joins the network, unlocks, mounts the root file system, looks whether
//! it can be started, and gives the machine to it.

mod modules;
mod root;
mod shell;
mod switch;
mod system;

use core::cell::RefCell;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::config::{self, CMDLINE, CRYPTTAB};
use crate::console::Console;
use crate::net;
use crate::policy::{Emergency, Policy, Stage};
use crate::unlock::{DEVICE_TIMEOUT, Level, Unlocker};

/// Runs as the first process. Returns only if nothing can be done any more, for whoever called to end: the kernel panics then.
pub fn run() {
    let early = system::mount_all();
    let teller = Teller::new();
    for problem in early {
        teller.say(Level::Error, &problem);
    }
    let policy = config::read(Some(Path::new(CRYPTTAB)), Some(Path::new(CMDLINE)));
    for notice in &policy.notices {
        let level = if notice.drops_entry() { Level::Error } else { Level::Warning };
        teller.say(level, &notice.to_string());
    }
    teller.quiet.replace(config::is_quiet());
    modules::load_all(&|level, text| teller.say(level, text));
    net::join_all(&policy.boot.networks, &|level, text| teller.say(level, text));
    loop {
        let failure = match boot(&policy, &teller) {
            Ok(never) => match never {},
            Err(failure) => failure,
        };
        teller.say(Level::Error, &failure);
        if !policy.boot.shell {
            teller.say(Level::Error, "no shell is started, as rd.shell is not on the kernel command line");
            break;
        }
        // Whoever leaves the shell has mended something.
        if !shell::run(&teller, "leave it to try again") {
            break;
        }
    }
    end(policy.boot.emergency, &teller);
}

/// One try. It does not come back if it succeeds.
fn boot(policy: &Policy, teller: &Teller) -> Result<core::convert::Infallible, String> {
    let stop = |stage| {
        if policy.boot.stop_at == Some(stage) {
            shell::run(teller, "leave it to go on");
        }
    };
    stop(Stage::Unlock);
    let say = |level, text: &str| teller.say(level, text);
    let timeout = match (policy.boot.wait, policy.boot.timeout) {
        (true, _) => None,
        (false, timeout) => Some(timeout.unwrap_or(DEVICE_TIMEOUT)),
    };
    let mut unlocker = Unlocker::new(&say, Some(&teller.console));
    unlocker.device_timeout = timeout;
    unlocker.measures = true;
    unlocker.is_quiet = *teller.quiet.borrow();
    let outcomes = unlocker.open_all(policy.entries.iter().filter(|entry| !entry.options.noauto));
    drop(unlocker);
    let failed = |outcome: &&crate::unlock::Outcome| outcome.result.is_err() && !outcome.nofail;
    let names: Vec<&str> = outcomes.iter().filter(failed).map(|outcome| outcome.name.as_str()).collect();
    // The root may be there all the same, on a volume that was opened.
    let blame = match names.as_slice() {
        [] => String::new(),
        names => format!(" (not opened: {})", names.join(", ")),
    };
    stop(Stage::Mount);
    // What is on a volume that was not opened will not come.
    let alone = matches!(&policy.boot.root, Some(root) if names.is_empty() || !root.is_on_mapping(&names));
    let timeout = if alone { timeout } else { Some(Duration::ZERO) };
    let add = |error: root::RootError| format!("{error}{blame}");
    root::mount(&policy.boot, &outcomes, timeout, &say).map_err(add)?;
    let init = root::find_init(&policy.boot).map_err(add)?;
    teller.say(Level::Info, &format!("starting {init}"));
    stop(Stage::Switch);
    switch::to_root().map_err(|error| format!("the root can't be switched: {error}"))?;
    // The kernel's own parameters that it did not know were meant for init, and are its arguments.
    let error = Command::new(&init).args(config::init_arguments(&policy.boot)).exec();
    Err(format!("{init} can't be started: {error}"))
}

fn end(emergency: Emergency, teller: &Teller) {
    use rustix::system::{RebootCommand, reboot};
    let (command, what) = match emergency {
        Emergency::Panic => {
            teller.say(Level::Error, "giving up: the kernel panics now");
            return;
        }
        Emergency::Reboot => (RebootCommand::Restart, "giving up: restarting"),
        Emergency::PowerOff => (RebootCommand::PowerOff, "giving up: switching off"),
        Emergency::Halt => (RebootCommand::Halt, "giving up: stopping"),
    };
    teller.say(Level::Error, what);
    // Serial lines take a moment.
    std::thread::sleep(Duration::from_secs(1));
    rustix::fs::sync();
    let _ = reboot(command);
}

/// Tells people on all consoles.
pub struct Teller {
    console: Console,
    quiet: RefCell<bool>,
}

impl Teller {
    fn new() -> Self {
        Self { console: Console::system(), quiet: RefCell::new(false) }
    }

    fn say(&self, level: Level, text: &str) {
        let before = match level {
            Level::Info if *self.quiet.borrow() => return,
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error => "error: ",
        };
        // What comes from headers and file names must not steer the terminal.
        let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.console.tell(&format!("atrest: {before}{text}\n"));
    }
}
