//! `systemd-pkcs11`: the secret is encrypted to an RSA key of a smart card, which decrypts it for whoever has its PIN, or agreed with a key on a
//! curve. `systemd-cryptenroll` makes such tokens, and so does [`enrol`] for RSA.

mod card;
mod enrol;
mod error;
mod uri;

use atrest_secret::Passphrase;
use base64ct::{Base64, Encoding};
use serde_json::Value;

use card::Card;
pub use enrol::{enrol, is_last_try as is_last_try_of, is_there};
pub use error::Pkcs11Error;
use uri::Uri;

use super::enrolled::encoded;
use super::{Help, Kind, TokenError};

/// The type of the tokens.
pub const KIND_NAME: &str = "systemd-pkcs11";

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

/// The longest text of a token that is looked at.
const MAX: usize = 64 << 10;

const KNOWN: &[&str] = &["pkcs11-uri", "pkcs11-key", "pkcs11-padding"];

/// Bytes of an uncompressed point on P-256, P-384 and P-521.
const POINTS: [usize; 3] = [65, 97, 133];

/// What a token says.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    uri: Uri,
    /// The encrypted secret, or a point.
    encrypted: Vec<u8>,
    how: How,
}

/// How the card restores the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It decrypts by RSA.
    Rsa(Padding),
    /// It agrees with a point upon one (ECDH), whose first coordinate is the secret: systemd from 256 on.
    Ecdh,
}

/// What an RSA key encrypts beside the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// PKCS#1 1.5.
    Pkcs1,
    /// OAEP with SHA-1, or with SHA-256: systemd from 261 on.
    OaepSha1,
    OaepSha256,
}

impl Fields {
    fn parse(text: &str) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        if text.len() > MAX {
            return Err(bad);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(bad) };
        // Of a version that is not known.
        let unknown = |name: &&String| name.starts_with("pkcs11") && !KNOWN.contains(&name.as_str());
        if let Some(name) = object.keys().find(unknown) {
            return Err(TokenError::UnknownField { name: name.clone() });
        }
        let text = |name: &str| object.get(name).and_then(Value::as_str).ok_or(TokenError::Malformed);
        let encrypted = Base64::decode_vec(text("pkcs11-key")?).map_err(|_| TokenError::Malformed)?;
        let padding = match object.get("pkcs11-padding").map(Value::as_str) {
            None => None,
            Some(Some("oaep-sha1")) => Some(Padding::OaepSha1),
            Some(Some("oaep-sha256")) => Some(Padding::OaepSha256),
            Some(_) => return Err(TokenError::UnknownField { name: "pkcs11-padding".into() }),
        };
        let is_point = encrypted.first() == Some(&4) && POINTS.contains(&encrypted.len());
        let how = match (is_point, padding) {
            (true, None) => How::Ecdh,
            // A modulus of 16384 bits is the longest that anybody has.
            (false, padding) if (128..=2048).contains(&encrypted.len()) => {
                How::Rsa(padding.unwrap_or(Padding::Pkcs1))
            }
            _ => return Err(bad),
        };
        Ok(Self { uri: Uri::parse(text("pkcs11-uri")?)?, encrypted, how })
    }
}

/// Whether one more wrong PIN locks the card of a token. What is not there does not say so.
pub(super) fn is_last_try(text: &str) -> bool {
    Fields::parse(text).is_ok_and(|fields| Card::find(&fields.uri).is_ok_and(|card| card.is_last_try))
}

/// Whether two URIs may mean one key of one card: they say nothing that differs.
pub(super) fn may_be_one(a: &str, b: &str) -> bool {
    matches!((Uri::parse(a), Uri::parse(b)), (Ok(a), Ok(b)) if a.may_be(&b))
}

/// Checks what can be checked of a token's text without a card. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str) -> Result<(), TokenError> {
    let fields = Fields::parse(text)?;
    assert_eq!(Uri::parse(&fields.uri.text()).as_ref(), Ok(&fields.uri));
    Ok(())
}

/// What opens it, in words.
pub(super) fn needs(text: &str) -> String {
    match Fields::parse(text) {
        Ok(Fields { uri: Uri { token: Some(token), .. }, .. }) => {
            format!("the smart card {token:?} and its PIN")
        }
        Ok(_) => "a smart card (PKCS#11) and its PIN".into(),
        Err(_) => "a smart card (PKCS#11), in a way that is not known here".into(),
    }
}

fn passphrase(text: &str, help: Help<'_>) -> Result<Passphrase, TokenError> {
    let fields = Fields::parse(text)?;
    let card = Card::find(&fields.uri)?;
    let session = card.log_in(help.pin)?;
    let secret = match fields.how {
        How::Rsa(padding) => session.decrypt(session.key(&fields.uri)?, padding, &fields.encrypted)?,
        How::Ecdh => session.agree(session.curve_key(&fields.uri)?, &fields.encrypted)?,
    };
    encoded(&secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_refused_and_never_guessed() {
        let token = |uri: &str, bytes: &[u8], more: &str| {
            let key = Base64::encode_string(bytes);
            format!(
                r#"{{"type":"{KIND_NAME}","keyslots":["1"],"pkcs11-uri":"{uri}","pkcs11-key":"{key}"{more}}}"#
            )
        };
        let good = token("pkcs11:token=a;object=b", &[7; 256], "");
        assert_eq!(Fields::parse(&good).expect("fields").encrypted, [7; 256]);
        assert_eq!(needs(&good), "the smart card \"a\" and its PIN");
        let how =
            |bytes: &[u8], more: &str| Fields::parse(&token("pkcs11:", bytes, more)).map(|fields| fields.how);
        assert_eq!(how(&[7; 256], ""), Ok(How::Rsa(Padding::Pkcs1)));
        assert_eq!(how(&[7; 256], r#","pkcs11-padding":"oaep-sha1""#), Ok(How::Rsa(Padding::OaepSha1)));
        assert_eq!(how(&[7; 256], r#","pkcs11-padding":"oaep-sha256""#), Ok(How::Rsa(Padding::OaepSha256)));
        let unknown = |name: &str| Err(TokenError::UnknownField { name: name.into() });
        assert_eq!(how(&[7; 256], r#","pkcs11-padding":"oaep-sha512""#), unknown("pkcs11-padding"));
        assert_eq!(how(&[7; 256], r#","pkcs11-padding":1"#), unknown("pkcs11-padding"));
        assert_eq!(how(&[7; 256], r#","pkcs11-kdf":"x""#), unknown("pkcs11-kdf"));
        for len in POINTS {
            let point = [&[4][..], &vec![7; len - 1]].concat();
            assert_eq!(how(&point, ""), Ok(How::Ecdh));
            assert_eq!(how(&point, r#","pkcs11-padding":"oaep-sha1""#), Err(TokenError::Malformed));
        }
        for bad in [
            token("pkcs11:", &[7; 127], ""),
            token("pkcs11:", &[7; 2049], ""),
            token("pkcs11:", &[7; 65], ""),
            token("pkcs11:", &[&[4][..], &[7; 63]].concat(), ""),
            good.replace("pkcs11-uri", "uri"),
            good.replace("BwcH", "!"),
            " ".repeat(MAX + 1),
        ] {
            assert_eq!(Fields::parse(&bad), Err(TokenError::Malformed), "{bad}");
        }
        let evil = token("pkcs11:token=a?module-path=/tmp/evil.so", &[7; 256], "");
        assert!(matches!(Fields::parse(&evil), Err(TokenError::Pkcs11(Pkcs11Error::UriWith { .. }))));
    }
}
