//! The keys of a volume in turn: what the policy names, what opened other volumes, and what somebody types.

use std::path::Path;
use std::time::{Duration, Instant};

use atrest_secret::{Passphrase, SecretBytes};
use atrest_volume::{UnlockError, Volume};

use super::error::{EntryError, KeyError};
use super::volume::is_wrong_key;
use super::{Level, Unlocker, key};
use crate::mounts::OnDevice;
use crate::policy::{CryptDevice, Entry, Key, Place};

/// Tries one key.
type Attempt<'a> = dyn FnMut(&Passphrase) -> Result<Volume, UnlockError> + 'a;

impl Unlocker<'_> {
    /// Tries keys until one is right.
    pub(super) fn with_keys(
        &self,
        entry: &Entry,
        source: &Path,
        attempt: &mut Attempt<'_>,
    ) -> Result<Volume, EntryError> {
        if let Some(volume) = self.with_named_keys(entry, source, attempt)? {
            return Ok(volume);
        }
        if entry.options.try_empty
            && let Some(volume) = tried(attempt(&Passphrase::copy_from(b"")))?
        {
            return Ok(volume);
        }
        if entry.options.shares_passphrases {
            for passphrase in self.right.borrow().iter() {
                if let Some(volume) = tried(attempt(passphrase))? {
                    return Ok(volume);
                }
            }
        }
        self.with_typed(entry, source, attempt)
    }

    /// Key files and programs. That one is missing or wrong is told, and somebody is asked then.
    fn with_named_keys(
        &self,
        entry: &Entry,
        source: &Path,
        attempt: &mut Attempt<'_>,
    ) -> Result<Option<Volume>, EntryError> {
        let mut wrong = |key: Result<SecretBytes, KeyError>, what: &str| match key {
            Ok(key) => {
                let volume = tried(attempt(&Passphrase::new(key)))?;
                if volume.is_none() {
                    self.say(Level::Warning, entry, format_args!("{what} does not open it"));
                }
                Ok(volume)
            }
            Err(error) => {
                self.say(Level::Warning, entry, format_args!("{error}"));
                Ok(None)
            }
        };
        match &entry.key {
            Key::Ask => {
                for path in key::by_name(&entry.name) {
                    let read = key::file(&path, entry.options.key_offset, entry.options.key_size);
                    if let Some(volume) = wrong(read, &path.display().to_string())? {
                        return Ok(Some(volume));
                    }
                }
                Ok(None)
            }
            // That it is not there is how people say that they have none.
            key if CryptDevice::is_default_key(key) && !default_key_exists(key) => Ok(None),
            Key::Script { program, .. } => {
                for tried in 0..entry.options.tries.max(1) {
                    let key = self.key(entry, source, tried, 0);
                    let failed = key.is_err();
                    if let Some(volume) = wrong(key, program)? {
                        return Ok(Some(volume));
                    }
                    if failed {
                        break;
                    }
                }
                Ok(None)
            }
            _ => wrong(self.key(entry, source, 0, 0), "its key file"),
        }
    }

    /// The key that the policy names; `len` bytes of it if it is random.
    pub(super) fn key(
        &self,
        entry: &Entry,
        source: &Path,
        tried: u32,
        len: usize,
    ) -> Result<SecretBytes, KeyError> {
        match &entry.key {
            Key::Ask => Ok(SecretBytes::zeroed(0)),
            Key::Random => key::random(len, || {
                self.say(Level::Info, entry, format_args!("waiting for the kernel's random source"));
            }),
            Key::Script { program, argument } => key::script(program, argument, entry, source, tried),
            Key::File { place, filesystem } => self.key_file(entry, place, filesystem.as_deref()),
        }
    }

    fn key_file(
        &self,
        entry: &Entry,
        place: &Place,
        filesystem: Option<&str>,
    ) -> Result<SecretBytes, KeyError> {
        let (offset, size) = (entry.options.key_offset, entry.options.key_size);
        let Some(spec) = &place.device else {
            // cannot miss: a key that lies on no device has a path.
            return key::file(Path::new(place.path.as_deref().unwrap_or_default()), offset, size);
        };
        let own = entry.options.key_timeout.and_then(|limit| self.begun.elapsed().checked_add(limit));
        let limit = own.or(self.limit(entry));
        let device = self.find(entry, spec, limit).ok_or_else(|| KeyError::Device {
            device: spec.clone(),
            seconds: entry.options.key_timeout.or(limit).map_or(0, |limit| limit.as_secs()),
        })?;
        match &place.path {
            None => key::file(&device, offset, size),
            Some(path) => {
                let mounted = OnDevice::mount(&device, filesystem)
                    .map_err(|error| KeyError::Mount { device: device.clone(), error })?;
                key::file(&mounted.path(path), offset, size).map_err(|error| on_device(error, &device, path))
            }
        }
    }

    fn with_typed(
        &self,
        entry: &Entry,
        source: &Path,
        attempt: &mut Attempt<'_>,
    ) -> Result<Volume, EntryError> {
        let tries = entry.options.tries;
        let mut asked = 0;
        while tries == 0 || asked < tries {
            let passphrase = Passphrase::new(self.ask(entry, source)?);
            // intended: who may try for ever is not counted further than this.
            asked = asked.saturating_add(1);
            match attempt(&passphrase) {
                Ok(volume) => {
                    if entry.options.shares_passphrases {
                        self.right.borrow_mut().push(passphrase);
                    }
                    return Ok(volume);
                }
                Err(error) if is_wrong_key(&error) => {
                    self.say(Level::Warning, entry, format_args!("{error}"));
                }
                Err(error) => return Err(EntryError::Unlock(error)),
            }
        }
        Err(EntryError::WrongPassphrase { tries: asked })
    }

    /// Asks once.
    pub(super) fn ask(&self, entry: &Entry, source: &Path) -> Result<SecretBytes, EntryError> {
        if entry.options.headless {
            return Err(EntryError::Headless);
        }
        let console = self.console.ok_or(EntryError::Ask(crate::console::AskError::NoTerminal))?;
        let end = entry.options.timeout.and_then(|limit: Duration| Instant::now().checked_add(limit));
        let prompt = format!("Passphrase for {} ({}): ", entry.name, source.display());
        console.ask(&prompt, end).map_err(EntryError::Ask)
    }
}

/// `None` if the key was wrong; another key may do better then.
fn tried(result: Result<Volume, UnlockError>) -> Result<Option<Volume>, EntryError> {
    match result {
        Ok(volume) => Ok(Some(volume)),
        Err(error) if is_wrong_key(&error) => Ok(None),
        Err(error) => Err(EntryError::Unlock(error)),
    }
}

fn default_key_exists(key: &Key) -> bool {
    matches!(key, Key::File { place, .. } if place.path.as_deref().is_some_and(|path| Path::new(path).exists()))
}

/// The path as it is on its device, not where that was mounted for a moment.
fn on_device(error: KeyError, device: &Path, path: &str) -> KeyError {
    match error {
        KeyError::Read { error, .. } => {
            KeyError::Read { path: format!("{path} on {}", device.display()).into(), error }
        }
        other => other,
    }
}
