//! The keys of a volume in turn: what the policy names, what opened other volumes, and what somebody types.

use core::fmt;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use atrest_open::KeySource;
use atrest_open::token::{Question, Token, TokenError, Wanted, fido2, tpm2};
use atrest_secret::{Passphrase, SecretBytes};

use super::error::{EntryError, KeyError};
use super::{Level, Unlocker, key};
use crate::mounts::OnDevice;
use crate::policy::{CryptDevice, Entry, Key, Place};

/// The keys of a volume that has keyslots, one after the other.
pub struct Keys<'a> {
    unlocker: &'a Unlocker<'a>,
    entry: &'a Entry,
    source: &'a Path,
    /// What is tried before anybody is asked.
    unasked: VecDeque<Candidate>,
    /// What was handed out last; `None` if somebody typed it.
    last: Option<Candidate>,
    /// How often somebody was asked.
    asked: u32,
}

/// A key that nobody types.
enum Candidate {
    /// A file that is called as the volume is.
    Named(PathBuf),
    /// What a program says when it is run for the nth time, from 0.
    Script(u32),
    /// The key file that the policy names.
    File,
    /// An empty passphrase.
    Empty,
    /// What opened another volume.
    Shared(Rc<Passphrase>),
}

impl<'a> Keys<'a> {
    /// The keys of `entry`, whose device is `source`.
    pub fn new(unlocker: &'a Unlocker<'a>, entry: &'a Entry, source: &'a Path) -> Self {
        let mut unasked: VecDeque<Candidate> = match &entry.key {
            Key::Ask => key::by_name(&entry.name).into_iter().map(Candidate::Named).collect(),
            // That it is not there is how people say that they have none.
            key if CryptDevice::is_default_key(key) && !default_key_exists(key) => VecDeque::new(),
            Key::Script { .. } => VecDeque::from([Candidate::Script(0)]),
            _ => VecDeque::from([Candidate::File]),
        };
        if entry.options.try_empty {
            unasked.push_back(Candidate::Empty);
        }
        if entry.options.shares_passphrases {
            unasked.extend(unlocker.right.borrow().iter().cloned().map(Candidate::Shared));
        }
        Self { unlocker, entry, source, unasked, last: None, asked: 0 }
    }

    fn read(&self, candidate: &Candidate) -> Result<SecretBytes, KeyError> {
        let options = &self.entry.options;
        match candidate {
            Candidate::Named(path) => key::file(path, options.key_offset, options.key_size),
            Candidate::Script(tried) => self.unlocker.key(self.entry, self.source, *tried, 0),
            Candidate::File => self.unlocker.key(self.entry, self.source, 0, 0),
            Candidate::Empty => Ok(SecretBytes::zeroed(0)),
            Candidate::Shared(passphrase) => Ok(SecretBytes::copy_from(passphrase.expose())),
        }
    }

    /// A program that has said a key may be run once more, if the policy has another try. One that failed is not run again.
    fn script_again(&mut self, candidate: &Candidate) {
        if let Candidate::Script(tried) = candidate {
            let next = tried.checked_add(1).filter(|next| *next < self.entry.options.tries);
            if let Some(next) = next {
                self.unasked.push_front(Candidate::Script(next));
            }
        }
    }

    /// Asks somebody, as often as the policy lets them be asked.
    fn typed(&mut self) -> Result<atrest_open::Key, EntryError> {
        let tries = self.entry.options.tries;
        if tries != 0 && self.asked >= tries {
            return Err(EntryError::WrongPassphrase { tries: self.asked });
        }
        let passphrase = self.unlocker.ask(self.entry, self.source)?;
        // intended: who may try for ever is not counted further than this.
        self.asked = self.asked.saturating_add(1);
        Ok(atrest_open::Key::Passphrase(Passphrase::new(passphrase)))
    }
}

impl KeySource for Keys<'_> {
    type Key = atrest_open::Key;
    type Error = EntryError;

    /// That a key is missing is told, and the next one is tried.
    fn next_key(&mut self) -> Result<Option<atrest_open::Key>, EntryError> {
        while let Some(candidate) = self.unasked.pop_front() {
            match self.read(&candidate) {
                Ok(key) => {
                    self.script_again(&candidate);
                    let key = Passphrase::new(key);
                    let typed = matches!(candidate, Candidate::Empty | Candidate::Shared(_));
                    self.last = Some(candidate);
                    return Ok(Some(match typed {
                        true => atrest_open::Key::Passphrase(key),
                        false => atrest_open::Key::File(key),
                    }));
                }
                Err(error) => self.unlocker.say(Level::Warning, self.entry, format_args!("{error}")),
            }
        }
        self.last = None;
        self.typed().map(Some)
    }

    /// Waits for the device that it is for, which the kernel may not have found yet.
    fn before_token(&mut self, token: &Token) {
        if wants(token, tpm2::KIND_NAME) {
            self.unlocker.wait_for_tpm(self.entry);
        }
        if wants(token, fido2::KIND_NAME) {
            self.unlocker.wait_for_security_key(self.entry);
        }
    }

    /// Where nobody can be asked, the token is passed over.
    fn pin(&mut self, token: &Token, wrong: u32) -> Result<Option<Passphrase>, EntryError> {
        if self.entry.options.headless || self.unlocker.console.is_none() {
            return Ok(None);
        }
        if wrong > 0 {
            let text = format_args!("the PIN is wrong, and wrong ones are counted");
            self.unlocker.say(Level::Warning, self.entry, text);
        }
        let prompt =
            format!("PIN of token {} for {} ({}): ", token.info.id, self.entry.name, self.source.display());
        let pin = self.unlocker.ask_for(self.entry, &prompt)?;
        // Who types nothing has no PIN, and is asked for a passphrase.
        Ok(Some(Passphrase::new(pin)).filter(|pin| !pin.expose().is_empty()))
    }

    /// Where nobody can be asked, the factor is passed over.
    fn answer(&mut self, token: &Token, question: &Question) -> Result<Option<Passphrase>, EntryError> {
        if self.entry.options.headless || self.unlocker.console.is_none() {
            return Ok(None);
        }
        let what = match question.wanted {
            Wanted::Pin => "PIN",
            Wanted::Passphrase => "Passphrase",
        };
        let factor = question.factor;
        if question.wrong > 0 {
            self.unlocker.say(
                Level::Warning,
                self.entry,
                format_args!("what was typed for factor {factor} is wrong"),
            );
        }
        // A header may say anything of a factor, and steers no terminal by it.
        let needs: String = question.needs.chars().filter(|c| !c.is_control()).take(80).collect();
        let prompt = format!(
            "{what} of factor {factor} of token {} for {} ({needs}): ",
            token.info.id, self.entry.name
        );
        let typed = self.unlocker.ask_for(self.entry, &prompt)?;
        // An empty line passes the factor over.
        Ok(Some(Passphrase::new(typed)).filter(|typed| !typed.expose().is_empty()))
    }

    fn touch(&mut self, token: &Token) {
        let text = format_args!("touch the security key of its token {}", token.info.id);
        self.unlocker.call(self.entry, text);
    }

    fn passed_over(&mut self, token: &Token, why: &TokenError) {
        let text = format_args!("its token {} ({}): {why}", token.info.id, token.info.kind);
        self.unlocker.say(Level::Warning, self.entry, text);
    }

    fn wrong(&mut self, why: &dyn fmt::Display) {
        let say = |text| self.unlocker.say(Level::Warning, self.entry, text);
        match &self.last {
            Some(Candidate::Named(path)) => say(format_args!("{} does not open it", path.display())),
            Some(Candidate::Script(_)) => {
                if let Key::Script { program, .. } = &self.entry.key {
                    say(format_args!("{program} does not open it"));
                }
            }
            Some(Candidate::File) => say(format_args!("its key file does not open it")),
            // Nobody has said that it would.
            Some(Candidate::Empty | Candidate::Shared(_)) => {}
            None => say(format_args!("{why}")),
        }
    }

    fn right(&mut self, key: atrest_open::Key) {
        if let (None, true, atrest_open::Key::Passphrase(passphrase)) =
            (&self.last, self.entry.options.shares_passphrases, key)
        {
            self.unlocker.right.borrow_mut().push(Rc::new(passphrase));
        }
    }
}

impl Unlocker<'_> {
    /// The key of a plain volume: one, as nothing tells whether it is right. It has `len` bytes if it is random.
    pub(super) fn plain_key(
        &self,
        entry: &Entry,
        source: &Path,
        len: usize,
    ) -> Result<atrest_open::Key, EntryError> {
        match &entry.key {
            Key::Ask => self.ask(entry, source).map(Passphrase::new).map(atrest_open::Key::Passphrase),
            _ => {
                let key = self.key(entry, source, 0, len).map_err(EntryError::Key)?;
                Ok(atrest_open::Key::File(Passphrase::new(key)))
            }
        }
    }

    /// The key that the policy names; `len` bytes of it if it is random.
    fn key(&self, entry: &Entry, source: &Path, tried: u32, len: usize) -> Result<SecretBytes, KeyError> {
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

    /// Asks once for the passphrase.
    fn ask(&self, entry: &Entry, source: &Path) -> Result<SecretBytes, EntryError> {
        self.ask_for(entry, &format!("Passphrase for {} ({}): ", entry.name, source.display()))
    }

    /// Asks once.
    fn ask_for(&self, entry: &Entry, prompt: &str) -> Result<SecretBytes, EntryError> {
        if entry.options.headless {
            return Err(EntryError::Headless);
        }
        let console = self.console.ok_or(EntryError::Ask(crate::console::AskError::NoTerminal))?;
        let end = entry.options.timeout.and_then(|limit: Duration| Instant::now().checked_add(limit));
        console.ask(prompt, end).map_err(EntryError::Ask)
    }
}

/// Whether the token, or one of its factors, is for a device of this kind.
fn wants(token: &Token, kind: &str) -> bool {
    token.info.kind == kind || (token.has_factors() && token.text.contains(kind))
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

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use atrest_testkit::Scratch;
    use atrest_volume::TokenInfo;

    use super::*;
    use crate::console::tests::terminal;
    use crate::policy::{Crypttab, Policy};

    /// The keys of a line of crypttab until there is none, what ended them, and what was said. Nobody can be asked.
    fn all_keys(line: &str, shared: &[&str]) -> (Vec<String>, EntryError, Vec<String>) {
        let policy = Policy::new(Some(Crypttab::parse(Path::new("crypttab"), line)), None);
        let [entry] = &policy.entries[..] else { panic!("one entry: {policy:?}") };
        let said = RefCell::new(Vec::new());
        let say = |_: Level, text: &str| said.borrow_mut().push(text.to_owned());
        let unlocker = Unlocker::new(&say, None);
        let passphrases = shared.iter().map(|text| Rc::new(Passphrase::copy_from(text.as_bytes())));
        unlocker.right.borrow_mut().extend(passphrases);
        let mut keys = Keys::new(&unlocker, entry, Path::new("/dev/vda"));
        let mut found = Vec::new();
        loop {
            let (kind, key) = match keys.next_key() {
                Ok(Some(atrest_open::Key::Passphrase(key))) => ("passphrase", key),
                Ok(Some(atrest_open::Key::File(key))) => ("file", key),
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    let said = said.borrow().clone();
                    return (found, error, said);
                }
            };
            found.push(format!("{kind} {}", String::from_utf8_lossy(key.expose())));
            keys.wrong(&"it is wrong");
        }
    }

    #[test]
    fn a_script_is_run_as_often_as_the_policy_says_and_never_listed_beforehand() {
        let line = "v /dev/vda CRYPTTAB_TRIED luks,keyscript=/usr/bin/printenv,tries=3";
        let (found, end, said) = all_keys(line, &[]);
        assert_eq!(found, ["file 0\n", "file 1\n", "file 2\n"]);
        assert!(matches!(end, EntryError::Ask(_)), "{end}");
        assert_eq!(said, ["v: /usr/bin/printenv does not open it"; 3]);
        // So many would not fit in memory, and one that failed is not run again.
        let line = "v /dev/vda none luks,keyscript=/bin/false,tries=4294967295";
        let (found, _, said) = all_keys(line, &[]);
        assert!(found.is_empty() && said.len() == 1, "{found:?} {said:?}");
    }

    #[test]
    fn key_file_empty_and_shared_passphrases_come_before_anybody_is_asked() {
        let scratch = Scratch::new();
        let key = scratch.file("key", "secret").display().to_string();
        let line = format!("v /dev/vda {key} luks,try-empty-password");
        let (found, end, said) = all_keys(&line, &["first", "second"]);
        assert_eq!(found, ["file secret", "passphrase ", "passphrase first", "passphrase second"]);
        assert!(matches!(end, EntryError::Ask(_)), "{end}");
        assert_eq!(said, ["v: its key file does not open it"], "nobody has said that the others would");
        let (found, ..) = all_keys(&format!("v /dev/vda {key} luks"), &[]);
        assert_eq!(found, ["file secret"]);
    }

    #[test]
    fn a_missing_key_is_told_and_headless_asks_nobody() {
        let (found, end, said) = all_keys("v /dev/vda /nowhere/key luks,headless", &[]);
        assert!(found.is_empty() && said.len() == 1 && said[0].contains("/nowhere/key"), "{said:?}");
        assert!(matches!(end, EntryError::Headless), "{end}");
    }

    /// Nobody is told to plug a security key in by a token that is for something else.
    #[test]
    fn only_what_a_token_is_for_is_waited_for() {
        let wanted = |kind: &str, text: &str| {
            let info = TokenInfo { id: 0, kind: kind.into(), keyslots: vec![0], key_description: None };
            let token = Token { info, text: text.into() };
            (wants(&token, tpm2::KIND_NAME), wants(&token, fido2::KIND_NAME))
        };
        assert_eq!(wanted("luks2-keyring", ""), (false, false));
        assert_eq!(wanted("clevis", "systemd-fido2"), (false, false));
        assert_eq!(wanted("systemd-tpm2", "systemd-fido2"), (true, false));
        assert_eq!(wanted("systemd-fido2", ""), (false, true));
        assert_eq!(wanted("atrest-shares", "systemd-fido2"), (false, true));
        assert_eq!(wanted("atrest-shares", "systemd-fido2 systemd-tpm2"), (true, true));
    }

    #[test]
    fn that_a_security_key_is_to_be_touched_is_shown_where_little_is_told() {
        let policy = Policy::new(Some(Crypttab::parse(Path::new("crypttab"), "v /dev/vda")), None);
        let [entry] = &policy.entries[..] else { panic!("one entry: {policy:?}") };
        let info =
            TokenInfo { id: 3, kind: "systemd-fido2".into(), keyslots: vec![0], key_description: None };
        let token = Token { info, text: String::new() };
        for is_quiet in [true, false] {
            let (person, console) = terminal();
            let said = RefCell::new(Vec::new());
            let say = |_: Level, text: &str| said.borrow_mut().push(text.to_owned());
            let mut unlocker = Unlocker::new(&say, Some(&console));
            unlocker.is_quiet = is_quiet;
            Keys::new(&unlocker, entry, Path::new("/dev/vda")).touch(&token);
            unlocker.call(entry, format_args!("waiting for a security key"));
            let text = ["v: touch the security key of its token 3", "v: waiting for a security key"];
            if is_quiet {
                let shown = text.map(|line| format!("{line}\r\n")).concat();
                assert_eq!(person.sees(shown.len()), shown);
                assert!(said.borrow().is_empty(), "{said:?}");
            } else {
                assert_eq!(*said.borrow(), text);
            }
        }
    }
}
