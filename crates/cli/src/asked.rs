//! The keys that the options of a command name or a person types, as a source of keys.

use core::fmt::Display;
use std::path::{Path, PathBuf};

use atrest_open::KeySource;
use atrest_open::token::{Question, Token, TokenError, Wanted};
use atrest_secret::Passphrase;

use crate::failure::{Code, Failure};
use crate::output::{Output, plain};
use crate::progress;
use crate::prompt::has_terminal;
use crate::secrets::Source;

const LAST_TRY: &str = "one more wrong PIN locks the smart card";

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
    /// A file with the PIN of a token.
    pin: Option<&'a Path>,
    /// Files with what factors ask for, by their numbers.
    factors: &'a [(u8, PathBuf)],
    asks_for_pins: bool,
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
        Self {
            source,
            output,
            prompt,
            wrong,
            tries,
            make,
            tells_of_tokens: false,
            pin: None,
            factors: &[],
            asks_for_pins: false,
        }
    }
}

impl<'a, K> Asked<'a, K> {
    /// Takes the PIN of a token from a file. With cryptsetup's names one is asked for only if tokens are `named`.
    pub fn with_pin(self, pin: Option<&'a Path>, named: bool) -> Self {
        let asks_for_pins = named || !self.output.questions().tokens_first;
        Self { pin, asks_for_pins, ..self }
    }

    /// Takes what factors ask for from files, by their numbers.
    pub fn with_factors(self, factors: &'a [(u8, PathBuf)]) -> Self {
        Self { factors, ..self }
    }

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

    fn pin(&mut self, token: &Token, wrong: u32) -> Result<Option<Passphrase>, Failure> {
        if let Some(file) = self.pin {
            // There is one PIN in it. A card's last try is for somebody who looks at what he types.
            if wrong == 0 && token.is_last_try() {
                return Err(Failure::new(Code::Refused, format!("token {}: {LAST_TRY}", token.info.id))
                    .hint("show it the right PIN by a program of the card, or type it: without --token-pin-file"));
            }
            let source = Source::key_file(file);
            return (wrong == 0).then(|| source.read("", self.output)).transpose();
        }
        let reads_lines = self.output.reads_lines();
        if !self.source.is_prompt() || !self.asks_for_pins || !(reads_lines || has_terminal()) {
            return Ok(None);
        }
        if wrong > 0 {
            eprintln!("atrest: the PIN is wrong, and wrong ones are counted; try again");
        }
        if token.is_last_try() {
            eprintln!("atrest: token {}: {LAST_TRY}", token.info.id);
        }
        let prompt = format!("PIN of token {} ({})", token.info.id, plain(&token.info.kind));
        if reads_lines {
            return self.source.read_if_any(self.output);
        }
        let pin = self.source.read(&prompt, self.output)?;
        // Who types nothing has no PIN, and is asked for a passphrase.
        Ok(Some(pin).filter(|pin| !pin.expose().is_empty()))
    }

    fn answer(&mut self, token: &Token, question: &Question) -> Result<Option<Passphrase>, Failure> {
        let factor = question.factor;
        if let Some((_, file)) = self.factors.iter().find(|(number, _)| *number == factor) {
            // There is one answer in it.
            return (question.wrong == 0).then(|| Source::key_file(file).read("", self.output)).transpose();
        }
        let reads_lines = self.output.reads_lines();
        if !self.source.is_prompt() || !self.asks_for_pins || !(reads_lines || has_terminal()) {
            return Ok(None);
        }
        let what = match question.wanted {
            Wanted::Pin => "PIN",
            Wanted::Passphrase => "Passphrase",
        };
        if question.wrong > 0 {
            eprintln!("atrest: the {} of factor {factor} is wrong; try again", what.to_lowercase());
        }
        if reads_lines {
            return self.source.read_if_any(self.output);
        }
        let id = token.info.id;
        let prompt = format!("{what} of factor {factor} of token {id} ({})", plain(&question.needs));
        let typed = self.source.read(&prompt, self.output)?;
        // An empty line passes the factor over.
        Ok(Some(typed).filter(|typed| !typed.expose().is_empty()))
    }

    fn touch(&mut self, token: &Token) {
        eprintln!("atrest: touch the security key of token {}", token.info.id);
    }

    fn wrong(&mut self, _: &dyn Display) {
        if self.tries > 0 {
            eprintln!("atrest: {}; try again", self.wrong);
        }
    }
}
