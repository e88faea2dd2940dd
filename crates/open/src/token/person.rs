//! Whoever sits before the machine while a token is asked.

use atrest_secret::Passphrase;

/// Somebody who touches security keys, and knows PINs and passphrases.
pub trait Person {
    /// A security key waits to be touched.
    fn touch(&mut self);

    /// What a factor asks for; `None` if nobody types it.
    fn answer(&mut self, question: &Question) -> Option<Passphrase>;
}

/// No person.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Person for Nobody {
    fn touch(&mut self) {}

    fn answer(&mut self, _: &Question) -> Option<Passphrase> {
        None
    }
}

/// What one of several factors asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The factor's number.
    pub factor: u8,
    /// What is to be typed.
    pub wanted: Wanted,
    /// What the factor is, in words.
    pub needs: String,
    /// How many answers were wrong.
    pub wrong: u32,
}

/// What is to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A PIN. Whatever it belongs to counts wrong ones.
    Pin,
    /// A passphrase or a recovery key.
    Passphrase,
}
