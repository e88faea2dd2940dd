//! `systemd-pkcs11`: the secret is encrypted to an RSA key of a smart card, which decrypts it for whoever has its PIN. `systemd-cryptenroll` makes
//! such tokens, and so does [`enrol`].

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

const KNOWN: &[&str] = &["pkcs11-uri", "pkcs11-key"];

/// What a token says.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    uri: Uri,
    /// The encrypted secret.
    encrypted: Vec<u8>,
}

impl Fields {
    fn parse(text: &str) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        if text.len() > MAX {
            return Err(bad);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(bad) };
        // Such as the padding of systemd 261.
        let unknown = |name: &&String| name.starts_with("pkcs11") && !KNOWN.contains(&name.as_str());
        if let Some(name) = object.keys().find(unknown) {
            return Err(TokenError::UnknownField { name: name.clone() });
        }
        let text = |name: &str| object.get(name).and_then(Value::as_str).ok_or(TokenError::Malformed);
        let encrypted = Base64::decode_vec(text("pkcs11-key")?).map_err(|_| TokenError::Malformed)?;
        // A point on a curve is shorter, and a modulus of 16384 bits is the longest that anybody has.
        if !(128..=2048).contains(&encrypted.len()) || encrypted.first() == Some(&4) && encrypted.len() == 133
        {
            return Err(bad);
        }
        Ok(Self { uri: Uri::parse(text("pkcs11-uri")?)?, encrypted })
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
    let key = session.key(&fields.uri)?;
    encoded(&session.decrypt(key, &fields.encrypted)?)
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
        let unknown = TokenError::UnknownField { name: "pkcs11-padding".into() };
        assert_eq!(
            Fields::parse(&token("pkcs11:", &[7; 256], r#","pkcs11-padding":"oaep-sha1""#)),
            Err(unknown)
        );
        for bad in [
            token("pkcs11:", &[7; 127], ""),
            token("pkcs11:", &[7; 2049], ""),
            token("pkcs11:", &[&[4][..], &[7; 64]].concat(), ""),
            token("pkcs11:", &[&[4][..], &[7; 132]].concat(), ""),
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
