//! The keys that the options of a command name or a person types, as a source of keys.

use core::fmt::Display;
use std::path::Path;

use atrest_open::KeySource;
use atrest_open::token::{Token, TokenError};
use atrest_secret::Passphrase;

use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::secrets::Source;

/// Asks for a passphrase: several times on a terminal. Any other source is read once.
pub struct Asked<'a, K> {
    source: &'a Source,
    output: &'a Output,
    prompt: String,
    /// What is said of a wrong one.
    wrong: &'static str,
    tries: u32,
    make: fn(Passphrase) -> K,
    tells_of_tokens: bool,
}

impl<'a, K> Asked<'a, K> {
    /// Asks for the passphrase of the volume at a path. What is read becomes a key by `make`.
    pub fn volume(source: &'a Source, path: &Path, output: &'a Output, make: fn(Passphrase) -> K) -> Self {
        let prompt = format!("Passphrase for {}", path.display());
        Self::new(source, prompt, "no keyslot opens with this passphrase", output, make)
    }

    /// Asks by `prompt`, and says `wrong` of a passphrase that is.
    pub fn new(
        source: &'a Source,
        prompt: String,
        wrong: &'static str,
        output: &'a Output,
        make: fn(Passphrase) -> K,
    ) -> Self {
        let tries = if source.is_prompt() { output.tries() } else { 1 };
        Self { source, output, prompt, wrong, tries, make, tells_of_tokens: false }
    }
}

impl<K> Asked<'_, K> {
    /// Warns of tokens that were of no use, before the question.
    pub fn telling_of_tokens(self, tells: bool) -> Self {
        Self { tells_of_tokens: tells, ..self }
    }
}

impl<K> KeySource for Asked<'_, K> {
    type Key = K;
    type Error = Failure;

    fn next_key(&mut self) -> Result<Option<K>, Failure> {
        let Some(left) = self.tries.checked_sub(1) else { return Ok(None) };
        self.tries = left;
        let passphrase = self.source.read(&self.prompt, self.output)?;
        Ok(Some((self.make)(passphrase)))
    }

    fn during<T>(&mut self, attempt: impl FnOnce() -> T) -> T {
        progress::counted("deriving the key", self.output, attempt)
    }

    fn passed_over(&mut self, token: &Token, why: &TokenError) {
        if self.tells_of_tokens {
            self.output.warn(format_args!("token {} ({}): {why}", token.info.id, token.info.kind));
        }
    }

    fn wrong(&mut self, _: &dyn Display) {
        if self.tries > 0 {
            eprintln!("atrest: {}; try again", self.wrong);
        }
    }
}
