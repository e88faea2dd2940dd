//! JSON Web Encryption (RFC 7516) as clevis has it: one recipient, AES-256-GCM.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use atrest_secret::{OsRandom, Random, SecretArray, SecretBytes, with_wiped_stack};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::Value;

use crate::token::TokenError;

const BAD: TokenError = TokenError::Malformed;

/// Bytes of base64url without padding.
pub fn bytes(value: Option<&Value>) -> Result<Vec<u8>, TokenError> {
    value.and_then(Value::as_str).and_then(|text| Base64UrlUnpadded::decode_vec(text).ok()).ok_or(BAD)
}

/// An encrypted text whose header has been read.
#[derive(Debug)]
pub struct Jwe {
    protected: String,
    pub header: Value,
    iv: [u8; 12],
    ciphertext: Vec<u8>,
    tag: [u8; 16],
}

impl Jwe {
    /// From the JSON form with one recipient.
    pub fn flattened(value: &Value) -> Result<Self, TokenError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        // Without it the key was not wrapped, which is so for all of clevis' pins.
        if text("encrypted_key").is_some_and(|key| !key.is_empty()) {
            return Err(BAD);
        }
        let [protected, iv, ciphertext, tag] = ["protected", "iv", "ciphertext", "tag"].map(text);
        Self::of(protected.ok_or(BAD)?, iv.ok_or(BAD)?, ciphertext.ok_or(BAD)?, tag.ok_or(BAD)?)
    }

    /// From five texts with dots between them.
    pub fn compact(text: &str) -> Result<Self, TokenError> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            [protected, "", iv, ciphertext, tag] => Self::of(protected, iv, ciphertext, tag),
            _ => Err(BAD),
        }
    }

    fn of(protected: &str, iv: &str, ciphertext: &str, tag: &str) -> Result<Self, TokenError> {
        let decoded = |text| Base64UrlUnpadded::decode_vec(text).map_err(|_| BAD);
        let header: Value = serde_json::from_slice(&decoded(protected)?).map_err(|_| BAD)?;
        let is_gcm = header.get("enc").and_then(Value::as_str) == Some("A256GCM");
        // Neither compressed, nor with conditions that must be understood.
        if !is_gcm || header.get("zip").is_some() || header.get("crit").is_some() {
            return Err(BAD);
        }
        Ok(Self {
            protected: protected.into(),
            header,
            iv: decoded(iv)?.try_into().map_err(|_| BAD)?,
            ciphertext: decoded(ciphertext)?,
            tag: decoded(tag)?.try_into().map_err(|_| BAD)?,
        })
    }

    /// The name of clevis' pin, and what it was told.
    pub fn pin(&self) -> Result<(&str, &Value), TokenError> {
        let clevis = self.header.get("clevis").ok_or(BAD)?;
        let name = clevis.get("pin").and_then(Value::as_str).ok_or(BAD)?;
        Ok((name, clevis.get(name).ok_or(BAD)?))
    }

    /// The text.
    ///
    /// # Errors
    /// [`TokenError::WrongKey`] if it is not the key, or anything was changed.
    pub fn decrypt(&self, key: &SecretArray<32>) -> Result<SecretBytes, TokenError> {
        let mut text = SecretBytes::copy_from(&self.ciphertext);
        let aad = self.protected.as_bytes();
        with_wiped_stack(|| {
            let cipher = Aes256Gcm::new((&**key).into());
            let decrypted = cipher.decrypt_inout_detached(
                (&self.iv).into(),
                aad,
                (&mut text[..]).into(),
                (&self.tag).into(),
            );
            decrypted.map_err(|_| TokenError::WrongKey)
        })?;
        Ok(text)
    }
}

/// Encrypts a text to a key, with this header, in the JSON form with one recipient.
pub fn encrypt(key: &SecretArray<32>, header: &Value, text: &[u8]) -> Result<Value, TokenError> {
    let mut iv = [0; 12];
    OsRandom.fill(&mut iv).map_err(|_| TokenError::NoRandom)?;
    let protected = Base64UrlUnpadded::encode_string(header.to_string().as_bytes());
    let mut ciphertext = SecretBytes::copy_from(text);
    let tag = with_wiped_stack(|| {
        let cipher = Aes256Gcm::new((&**key).into());
        cipher.encrypt_inout_detached((&iv).into(), protected.as_bytes(), (&mut ciphertext[..]).into())
    });
    let tag = tag.map_err(|_| BAD)?;
    Ok(serde_json::json!({
        "ciphertext": Base64UrlUnpadded::encode_string(&ciphertext),
        "encrypted_key": "",
        "iv": Base64UrlUnpadded::encode_string(&iv),
        "protected": protected,
        "tag": Base64UrlUnpadded::encode_string(&tag),
    }))
}

/// The form with dots of one in the JSON form.
pub fn compacted(flattened: &Value) -> Result<String, TokenError> {
    let text = |name: &str| flattened.get(name).and_then(Value::as_str).ok_or(BAD);
    Ok(format!("{}..{}.{}.{}", text("protected")?, text("iv")?, text("ciphertext")?, text("tag")?))
}
