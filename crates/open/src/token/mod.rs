//! Tokens: what a LUKS2 header says of where a passphrase is found, beside in somebody's head.
//!
//! Each type of token has a file here, and a line in `KINDS`: from the token's JSON text to the passphrase of its keyslots.
//! [`TokensFirst`] is a key source that has these passphrases, and then the keys of another source.

#[cfg(feature = "clevis")]
pub mod clevis;
#[cfg(any(feature = "fido2", feature = "pkcs11", feature = "shares", feature = "tpm"))]
mod enrolled;
mod error;
mod factor;
#[cfg(feature = "fido2")]
pub mod fido2;
mod first;
mod keyring;
mod needs;
mod person;
#[cfg(feature = "pkcs11")]
pub mod pkcs11;
pub mod recovery;
#[cfg(any(feature = "clevis", feature = "shares"))]
mod shamir;
#[cfg(feature = "shares")]
pub mod shares;
#[cfg(any(feature = "clevis", feature = "shares"))]
mod thing;
#[cfg(feature = "tpm")]
pub mod tpm2;

use atrest_secret::Passphrase;
use atrest_volume::luks2::PIN_TOKEN;
use atrest_volume::{LockedVolume, TokenInfo, UnlockError};

#[cfg(any(feature = "fido2", feature = "pkcs11", feature = "shares", feature = "tpm"))]
pub use enrolled::Enrolled;
pub use error::TokenError;
pub use factor::Factor;
pub use first::TokensFirst;
pub use person::{Nobody, Person, Question, Wanted};
#[cfg(any(feature = "clevis", feature = "shares"))]
pub use thing::Thing;

use crate::MayBeWrongKey;

/// A type of token.
struct Kind {
    name: &'static str,
    /// From the token's JSON text to the passphrase.
    passphrase: fn(&str, Help<'_>) -> Result<Passphrase, TokenError>,
}

/// What somebody does for a token.
struct Help<'a> {
    /// The PIN, if one was typed.
    #[cfg_attr(
        not(any(feature = "fido2", feature = "pkcs11", feature = "shares", feature = "tpm")),
        expect(dead_code, reason = "nobody asks for it")
    )]
    pin: Option<&'a Passphrase>,
    /// Who touches a security key, and answers questions.
    #[cfg_attr(
        not(any(feature = "fido2", feature = "shares")),
        expect(dead_code, reason = "nobody asks for it")
    )]
    person: &'a mut dyn Person,
}

/// The types that can be used.
const KINDS: &[Kind] = &[
    keyring::KIND,
    #[cfg(feature = "clevis")]
    clevis::KIND,
    #[cfg(feature = "fido2")]
    fido2::KIND,
    #[cfg(feature = "pkcs11")]
    pkcs11::KIND,
    #[cfg(feature = "shares")]
    shares::KIND,
    #[cfg(feature = "tpm")]
    tpm2::KIND,
];

/// A token of a header.
#[derive(Clone, Debug)]
pub struct Token {
    /// Number, type and keyslots.
    pub info: TokenInfo,
    /// The whole of it, as JSON.
    pub text: String,
}

impl Token {
    /// All tokens of a header, by number, but its pin, which opens nothing.
    pub fn all(volume: &LockedVolume) -> Vec<Self> {
        let text = |info: &TokenInfo| volume.luks2()?.token(info.id);
        let tokens = volume.info().tokens.into_iter().filter(|info| info.kind != PIN_TOKEN);
        tokens.filter_map(|info| text(&info).map(|text| Self { info, text })).collect()
    }

    /// Whether somebody may have to touch something, and is told so.
    pub fn is_touched(&self) -> bool {
        self.info.kind == "systemd-fido2"
    }

    /// Whether several factors may be asked for what opens it.
    pub fn has_factors(&self) -> bool {
        self.info.kind == "atrest-shares"
    }

    /// Whether one more wrong PIN locks the smart card that it is for.
    #[cfg(feature = "pkcs11")]
    pub fn is_last_try(&self) -> bool {
        self.info.kind == pkcs11::KIND_NAME && pkcs11::is_last_try(&self.text)
    }

    /// Whether one more wrong PIN locks the smart card that it is for: no card can be asked here.
    #[cfg(not(feature = "pkcs11"))]
    pub fn is_last_try(&self) -> bool {
        false
    }

    /// Whether it is of a type that can be used.
    pub fn is_known(&self) -> bool {
        KINDS.iter().any(|kind| kind.name == self.info.kind)
    }

    /// The passphrase that it stands for, whether or not there are keyslots that it opens. `pin` is what somebody typed for it.
    ///
    /// # Errors
    /// [`TokenError`]: it is of a type that is not known, what it names is not there, or it needs a PIN.
    pub fn passphrase(&self, pin: Option<&Passphrase>) -> Result<Passphrase, TokenError> {
        self.passphrase_helped(Help { pin, person: &mut Nobody })
    }

    fn passphrase_helped(&self, help: Help<'_>) -> Result<Passphrase, TokenError> {
        let kind = KINDS.iter().find(|kind| kind.name == self.info.kind);
        let kind = kind.ok_or_else(|| TokenError::unknown(&self.info.kind))?;
        (kind.passphrase)(&self.text, help)
    }

    /// The passphrase, with the keyslots that it opens.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn key(&self, pin: Option<&Passphrase>) -> Result<TokenKey, TokenError> {
        self.key_by(pin, &mut Nobody)
    }

    /// The passphrase, with the keyslots that it opens. The person touches security keys, and answers for factors.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn key_by(&self, pin: Option<&Passphrase>, person: &mut dyn Person) -> Result<TokenKey, TokenError> {
        if self.info.keyslots.is_empty() {
            return Err(TokenError::NoKeyslots);
        }
        let passphrase = self.passphrase_helped(Help { pin, person })?;
        Ok(TokenKey { token: self.info.id, keyslots: self.info.keyslots.clone(), passphrase })
    }
}

/// What a token has.
#[derive(Debug)]
pub struct TokenKey {
    /// Number of the token.
    pub token: u32,
    /// Keyslots that the passphrase should open.
    pub keyslots: Vec<u32>,
    /// The passphrase.
    pub passphrase: Passphrase,
}

impl TokenKey {
    /// Tries each keyslot of the token, or the one that is named. A keyslot for which it is wrong, or that is not one for this attempt, is
    /// passed over.
    ///
    /// # Errors
    /// Of the attempts, the last one in which the passphrase was wrong; or the first that failed for another reason.
    pub fn try_keyslots<T, E: MayBeWrongKey + From<UnlockError>>(
        &self,
        named: Option<u32>,
        mut attempt: impl FnMut(&Passphrase, u32) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut last = E::from(UnlockError::WrongPassphrase);
        for slot in self.keyslots.iter().filter(|slot| named.is_none_or(|named| named == **slot)) {
            match attempt(&self.passphrase, *slot) {
                Err(error) if error.is_wrong_key() => last = error,
                Err(error) if error.is_of_keyslot() => {}
                done => return done,
            }
        }
        Err(last)
    }
}
