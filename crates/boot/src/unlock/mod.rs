//! Does what the policy says: waits for each volume's device, finds its key or asks for it, and has the kernel map it.

mod error;
mod key;
mod keys;
mod volume;

use core::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use atrest_attach::dm::{self, DmError};
use atrest_open::token::{fido2, tpm2};
use atrest_secret::Passphrase;

pub use error::{EntryError, KeyError};

use crate::console::Console;
use crate::device::{Events, Found, find, wait_for};
use crate::policy::{DeviceSpec, Entry, Origin, Policy};

/// How long a device is waited for, if nothing else is said.
pub const DEVICE_TIMEOUT: Duration = Duration::from_secs(90);
/// How long the device of a volume is waited for without which the boot goes on.
const NOFAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a TPM is waited for that a token or an option asks for.
const TPM_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a security key is waited for that a token asks for. Who wants to use it has it in the machine.
const SECURITY_KEY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What happens.
    Info,
    /// Something is not as it should be, and the boot goes on.
    Warning,
    /// A volume is not opened.
    Error,
}

/// Opens volumes, one after the other.
pub struct Unlocker<'a> {
    /// Hears what happens.
    pub say: &'a dyn Fn(Level, &str),
    /// Where passphrases are asked for; `None` asks nobody.
    pub console: Option<&'a Console>,
    /// How long devices are waited for where nothing else is said; `None` is without end.
    pub device_timeout: Option<Duration>,
    /// PCR 15 is extended by the key of each volume, if there is a TPM and nothing else is said.
    pub measures: bool,
    /// Who hears drops what only happens: what somebody is to do is shown where passphrases are asked for.
    pub is_quiet: bool,
    begun: Instant,
    events: Events,
    /// What was waited for to the end, and is not waited for once more.
    missed: RefCell<Vec<&'static str>>,
    /// Passphrases that have opened something.
    right: RefCell<Vec<Rc<Passphrase>>>,
}

/// What came of a volume.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Who asked for it.
    pub origin: Origin,
    /// Whether the boot goes on without it.
    pub nofail: bool,
    /// Its path, or why there is none.
    pub result: Result<Opened, EntryError>,
}

/// A volume that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It was opened just now.
    Now(PathBuf),
    /// It was open before.
    Before(PathBuf),
}

impl Opened {
    /// Its path.
    pub fn path(&self) -> &PathBuf {
        match self {
            Self::Now(path) | Self::Before(path) => path,
        }
    }
}

/// The volumes of these names, in the order in which they can be opened, with what they need; without names all that are opened by
/// themselves.
///
/// # Errors
/// The first name that no volume has.
pub fn select<'p>(policy: &'p Policy, names: &[String]) -> Result<Vec<&'p Entry>, String> {
    let entries = &policy.entries;
    if names.is_empty() {
        return Ok(entries.iter().filter(|entry| !entry.options.noauto).collect());
    }
    if let Some(name) = names.iter().find(|name| !entries.iter().any(|entry| entry.name == **name)) {
        return Err(name.clone());
    }
    let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    // What is needed stands before what needs it.
    for entry in entries.iter().rev() {
        if wanted.contains(&entry.name.as_str()) {
            wanted.extend(entry.needs());
        }
    }
    Ok(entries.iter().filter(|entry| wanted.contains(&entry.name.as_str())).collect())
}

impl<'a> Unlocker<'a> {
    /// From now on devices are waited for.
    pub fn new(say: &'a dyn Fn(Level, &str), console: Option<&'a Console>) -> Self {
        Self {
            say,
            console,
            device_timeout: Some(DEVICE_TIMEOUT),
            measures: false,
            is_quiet: false,
            begun: Instant::now(),
            events: Events::listen(),
            missed: RefCell::default(),
            right: RefCell::default(),
        }
    }

    /// Opens these volumes in their order, each that can be opened.
    pub fn open_all<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Outcome> {
        entries.into_iter().map(|entry| self.open(entry)).collect()
    }

    /// Opens one volume.
    pub fn open(&self, entry: &Entry) -> Outcome {
        let result = self.try_open(entry);
        match &result {
            Ok(Opened::Now(path)) => self.say(Level::Info, entry, format_args!("open as {}", path.display())),
            Ok(Opened::Before(path)) => {
                self.say(Level::Info, entry, format_args!("{} is there already", path.display()));
            }
            Err(error) => {
                let level = if entry.options.nofail { Level::Warning } else { Level::Error };
                self.say(level, entry, format_args!("{error} ({})", entry.origin));
            }
        }
        Outcome {
            name: entry.name.clone(),
            origin: entry.origin.clone(),
            nofail: entry.options.nofail,
            result,
        }
    }

    fn try_open(&self, entry: &Entry) -> Result<Opened, EntryError> {
        match dm::check_free(&entry.name) {
            Err(DmError::NameTaken { .. }) => {
                return Ok(Opened::Before(PathBuf::from("/dev/mapper").join(&entry.name)));
            }
            free => free.map_err(EntryError::Map)?,
        }
        let limit = self.limit(entry);
        let source = self.find(entry, &entry.source, limit).ok_or_else(|| EntryError::Device {
            device: entry.source.clone(),
            seconds: limit.map_or(0, |limit| limit.as_secs()),
        })?;
        volume::open(self, entry, &source).map(Opened::Now)
    }

    /// How long after the beginning a volume's devices may come.
    fn limit(&self, entry: &Entry) -> Option<Duration> {
        match entry.options.device_timeout {
            Some(Duration::MAX) => None,
            Some(limit) => Some(limit),
            None if entry.options.nofail => {
                Some(self.device_timeout.map_or(NOFAIL_TIMEOUT, |limit| limit.min(NOFAIL_TIMEOUT)))
            }
            None => self.device_timeout,
        }
    }

    /// Waits for the kernel's TPM, whose driver may take a moment. It may be that there is none.
    fn wait_for_tpm(&self, entry: &Entry) {
        let tell = || self.say(Level::Info, entry, format_args!("waiting for the TPM"));
        self.wait_for_what("TPM", TPM_TIMEOUT, tpm2::is_there, tell);
    }

    /// Waits for a security key: USB may take a moment. It may be that none is plugged in.
    fn wait_for_security_key(&self, entry: &Entry) {
        let tell = || self.call(entry, format_args!("waiting for a security key"));
        self.wait_for_what("security key", SECURITY_KEY_TIMEOUT, fido2::is_any_plugged_in, tell);
    }

    /// Waits until it is there, at the longest so long, and in all volumes once.
    fn wait_for_what(&self, what: &'static str, limit: Duration, is_there: fn() -> bool, tell: impl Fn()) {
        if self.missed.borrow().contains(&what) {
            return;
        }
        let end = Instant::now().checked_add(limit);
        let mut told = false;
        let look = || {
            let there = is_there();
            if !there && !told {
                told = true;
                tell();
            }
            there.then_some(())
        };
        if wait_for(&self.events, end, look).is_none() {
            self.missed.borrow_mut().push(what);
        }
    }

    /// Waits for a device, until this long after the beginning.
    pub fn find(&self, entry: &Entry, spec: &DeviceSpec, limit: Option<Duration>) -> Option<PathBuf> {
        let end = limit.and_then(|limit| self.begun.checked_add(limit));
        let mut told = false;
        let look = || {
            let found = find(spec);
            if found.is_none() && !told {
                told = true;
                self.say(Level::Info, entry, format_args!("waiting for {spec}"));
            }
            found
        };
        let Found { path, others } = wait_for(&self.events, end, look)?;
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
            self.say(
                Level::Warning,
                entry,
                format_args!("{spec} is {}, but {} would fit, too", path.display(), others.join(", ")),
            );
        }
        Some(path)
    }

    /// Tells somebody to do something. Without it the boot would seem to hang.
    fn call(&self, entry: &Entry, text: std::fmt::Arguments<'_>) {
        match self.console.filter(|_| self.is_quiet) {
            Some(console) => console.tell(&format!("{}: {text}\n", entry.name)),
            None => self.say(Level::Info, entry, text),
        }
    }

    fn say(&self, level: Level, entry: &Entry, text: std::fmt::Arguments<'_>) {
        (self.say)(level, &format!("{}: {text}", entry.name));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_was_waited_for_in_vain_is_waited_for_once() {
        let unlocker = Unlocker::new(&|_, _| {}, None);
        let told = Cell::new(0);
        let wait = |what, is_there| {
            let begun = Instant::now();
            let limit = Duration::from_millis(300);
            unlocker.wait_for_what(what, limit, is_there, || told.set(told.get() + 1));
            (told.get(), begun.elapsed() >= limit)
        };
        assert_eq!(wait("what is there", || true), (0, false));
        assert_eq!(wait("what is not", || false), (1, true));
        assert_eq!(wait("what is not", || false), (1, false));
        assert_eq!(wait("another", || false), (2, true));
    }
}
