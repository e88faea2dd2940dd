//! `luks2-keyring`: the passphrase is a key of type `user` in the kernel's keyring, by its description. cryptsetup makes such tokens.

use std::io;

use atrest_engine::keyring;
use atrest_secret::Passphrase;
use atrest_volume::luks2::{KEYRING_TOKEN, keyring_description};

use super::{Help, Kind, TokenError};

/// The type of the tokens.
pub(super) const KIND_NAME: &str = KEYRING_TOKEN;

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

fn passphrase(text: &str, _: Help<'_>) -> Result<Passphrase, TokenError> {
    let description = keyring_description(text).ok_or(TokenError::Malformed)?;
    match keyring::key(&keyring::Name::user(&description)) {
        Ok(payload) => Ok(Passphrase::new(payload)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(TokenError::NoKey { description }),
        Err(error) => Err(TokenError::Keyring { description, error: error.to_string() }),
    }
}
