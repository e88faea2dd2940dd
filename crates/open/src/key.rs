//! Keys, and where they come from.

use core::convert::Infallible;
use core::fmt;

use atrest_secret::Passphrase;
use atrest_volume::VolumeKey;

use crate::token::{Question, Token, TokenError, TokenKey};

/// What may open a volume.
#[derive(Debug)]
pub enum Key {
    /// A passphrase, as somebody types it.
    Passphrase(Passphrase),
    /// What is in a key file. Keyslots take it as a passphrase; a plain volume takes it as the key itself.
    File(Passphrase),
    /// The volume key.
    Volume(VolumeKey),
    /// What a token of the header has: a passphrase of certain keyslots.
    Token(TokenKey),
}

/// A source of keys: a person at a terminal, a file, a token, a test.
pub trait KeySource {
    /// What it has: [`Key`] where a volume is opened, a passphrase alone where a keyslot is changed.
    type Key;
    /// Why a key can't be had.
    type Error;

    /// The next key to try; `None` if there is no other. It is asked for only after the one before was wrong.
    ///
    /// # Errors
    /// No key can be had, and none will be asked for again.
    fn next_key(&mut self) -> Result<Option<Self::Key>, Self::Error>;

    /// Runs an attempt with a key, which may take seconds: a terminal shows that something happens.
    fn during<T>(&mut self, attempt: impl FnOnce() -> T) -> T {
        attempt()
    }

    /// Called when the last key was wrong.
    fn wrong(&mut self, why: &dyn fmt::Display);

    /// A token is tried next. What it is for may have to be waited for; then only those wait who have nothing else.
    fn before_token(&mut self, token: &Token) {
        let _ = token;
    }

    /// A token of the header can't be used, or its passphrase was wrong: the next key is tried.
    fn passed_over(&mut self, token: &Token, why: &TokenError) {
        let _ = (token, why);
    }

    /// The PIN of a token, which is asked for after `wrong` others were wrong; `None` if nobody types one. Each wrong one counts: after
    /// a few the device behind the token takes none.
    ///
    /// # Errors
    /// As [`KeySource::next_key`].
    fn pin(&mut self, token: &Token, wrong: u32) -> Result<Option<Passphrase>, Self::Error> {
        let _ = (token, wrong);
        Ok(None)
    }

    /// What one of a token's factors asks for; `None` if nobody types it.
    ///
    /// # Errors
    /// As [`KeySource::next_key`].
    fn answer(&mut self, token: &Token, question: &Question) -> Result<Option<Passphrase>, Self::Error> {
        let _ = (token, question);
        Ok(None)
    }

    /// Somebody has to touch the security key that a token stands for, and it waits.
    fn touch(&mut self, token: &Token) {
        let _ = token;
    }

    /// This key was right.
    fn right(&mut self, key: Self::Key) {
        drop(key);
    }
}

/// One key and no other: that of a file or of a program's own.
#[derive(Debug)]
pub struct OneKey<K>(Option<K>);

/// The error of a source that can't fail.
pub type NoOtherKey = Infallible;

impl<K> OneKey<K> {
    /// This key.
    pub const fn new(key: K) -> Self {
        Self(Some(key))
    }
}

impl<K> KeySource for OneKey<K> {
    type Key = K;
    type Error = NoOtherKey;

    fn next_key(&mut self) -> Result<Option<K>, NoOtherKey> {
        Ok(self.0.take())
    }

    fn wrong(&mut self, _: &dyn fmt::Display) {}
}
