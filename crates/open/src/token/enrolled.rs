//! A keyslot's passphrase that was made, and the token that says how it is had again.

use atrest_secret::{Passphrase, SecretBytes};
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

use super::TokenError;

/// What was enrolled.
#[derive(Debug)]
pub struct Enrolled {
    /// The passphrase of the keyslot.
    pub passphrase: Passphrase,
    pub(super) fields: Value,
}

impl Enrolled {
    /// The token's text, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        let mut fields = self.fields.clone();
        if let Some(object) = fields.as_object_mut() {
            object.insert("keyslots".into(), json!([keyslot.to_string()]));
        }
        fields.to_string()
    }
}

/// The passphrase of a keyslot that a secret opens: base64 of it.
pub(super) fn encoded(secret: &[u8]) -> Result<Passphrase, TokenError> {
    // At most 128 bytes are sealed.
    let mut text = SecretBytes::zeroed(Base64::encoded_len(secret));
    Base64::encode(secret, &mut text).map_err(|_| TokenError::Malformed)?;
    Ok(Passphrase::new(text))
}
