//! `atrest-init`: the first program in an initramfs, or, when it is not the first process, the one that unlocks for another.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use atrest_boot::config::{self, CMDLINE, CRYPTTAB};
use atrest_boot::console::Console;
use atrest_boot::unlock::{Level, Unlocker, select};
use atrest_boot::{init, self_test};
use atrest_kdf::WorkLimit;

const USAGE: &str = "\
atrest-init: unlocks encrypted volumes at boot

As the first process (/init of an initramfs) it takes no arguments: it mounts /proc, /sys, /dev and /run, loads the modules
in /etc/atrest/modules, unlocks what /etc/crypttab and the kernel command line ask for, mounts root= and starts init.

Otherwise:
  atrest-init unlock [--crypttab FILE] [--cmdline FILE] [--timeout SECONDS] [NAME...]
      unlocks and maps the volumes, or those of these names
  atrest-init --self-test
      tries the ciphers against known answers, and says which instructions they use
  atrest-init --version

Exit codes: 0 done, 1 wrong arguments, 2 a passphrase was wrong or refused, 4 a volume was not opened for another reason.
";

fn main() -> ExitCode {
    atrest_secret::forbid_core_dumps();
    // Nobody can interrupt the first process: a hostile header must not hold the boot up for ever.
    WorkLimit::set_default(
        WorkLimit::DEFAULT,
        Some(|expected| eprintln!("atrest-init: deriving the key takes about {} s", expected.as_secs())),
    );
    if std::process::id() == 1 {
        init::run();
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--self-test"] => self_test::run(),
        ["--version"] => {
            println!("atrest-init {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        ["--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["unlock", rest @ ..] => match Arguments::parse(rest) {
            Ok(arguments) => unlock(&arguments),
            Err(what) => usage(&what),
        },
        _ => usage("what is to be done?"),
    }
}

fn usage(what: &str) -> ExitCode {
    eprint!("atrest-init: {what}\n\n{USAGE}");
    ExitCode::FAILURE
}

/// What `unlock` is told.
struct Arguments {
    crypttab: PathBuf,
    cmdline: PathBuf,
    timeout: Option<u64>,
    names: Vec<String>,
}

impl Arguments {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut arguments =
            Self { crypttab: CRYPTTAB.into(), cmdline: CMDLINE.into(), timeout: None, names: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--crypttab" => arguments.crypttab = value()?.into(),
                "--cmdline" => arguments.cmdline = value()?.into(),
                "--timeout" => {
                    let seconds = value()?.parse();
                    arguments.timeout = Some(seconds.map_err(|_| "--timeout takes seconds")?);
                }
                option if option.starts_with('-') => return Err(format!("there is no option {option}")),
                name => arguments.names.push(name.into()),
            }
        }
        Ok(arguments)
    }
}

fn unlock(arguments: &Arguments) -> ExitCode {
    let policy = config::read(Some(&arguments.crypttab), Some(&arguments.cmdline));
    for notice in &policy.notices {
        eprintln!("atrest-init: {notice}");
    }
    let entries = match select(&policy, &arguments.names) {
        Ok(entries) => entries,
        Err(name) => {
            eprintln!("atrest-init: no volume is called {name}");
            return ExitCode::from(1);
        }
    };
    let say = |level, text: &str| match level {
        Level::Info => println!("atrest-init: {text}"),
        Level::Warning => eprintln!("atrest-init: warning: {text}"),
        Level::Error => eprintln!("atrest-init: error: {text}"),
    };
    let console = Console::best();
    let mut unlocker = Unlocker::new(&say, Some(&console));
    if let Some(seconds) = arguments.timeout {
        unlocker.device_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    let outcomes = unlocker.open_all(entries);
    let codes = outcomes.iter().filter(|outcome| !outcome.nofail);
    let dropped = policy.notices.iter().any(|notice| notice.drops_entry());
    let worst = codes.filter_map(|outcome| Some(outcome.result.as_ref().err()?.code())).max();
    ExitCode::from(worst.unwrap_or(if dropped && arguments.names.is_empty() { 1 } else { 0 }))
}
