//! The text of the token, and what of it is authenticated (FORMATS.md, "Thresholds of factors").

use atrest_kdf::{Hash, Prf, digest};
use atrest_secret::constant_time_eq;
use atrest_volume::VolumeKey;
use base64ct::{Base64, Encoding};
use p256::elliptic_curve::sec1::FromSec1Point;
use p256::{PublicKey, Sec1Point};
use serde_json::{Map, Value, json};

use super::KIND_NAME;
use crate::token::TokenError;

const BAD: TokenError = TokenError::Malformed;

/// The longest text that is looked at.
const MAX: usize = 256 << 10;

/// Factors of one token at most.
pub const MAX_FACTORS: usize = 16;

/// Bytes of an encrypted share: a number of the field, and a tag.
pub const SHARE: usize = 32 + 16;

const VERSION: u64 = 1;
const SET_FIELDS: &[&str] = &["type", "keyslots", "version", "threshold", "set", "factors", "mac"];
const FACTOR_FIELDS: &[&str] = &["number", "how", "salt", "key", "commitment", "ephemeral", "share"];

/// Which factors there are, and how many of them open the keyslot.
#[derive(Clone, Debug)]
pub struct Set {
    pub needed: u8,
    /// Random: no other set has it.
    pub id: [u8; 16],
    pub factors: Vec<Factor>,
    /// Of [`Set::list`], under a subkey of the volume key.
    pub mac: [u8; 32],
}

/// Who has a share.
#[derive(Clone, Debug)]
pub struct Factor {
    /// Its place on the polynomial, and its name for people.
    pub number: u8,
    /// How its secret is had: a token's text without keyslots, or a derivation for a passphrase.
    pub how: Value,
    pub salt: [u8; 32],
    /// Its public key, made of its secret and the salt.
    pub key: PublicKey,
    /// A hash of its share.
    pub commitment: [u8; 32],
    pub ephemeral: PublicKey,
    /// Its share, encrypted to its key.
    pub share: [u8; SHARE],
}

impl Set {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() > MAX {
            return Err(BAD);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(BAD) };
        only(&object, SET_FIELDS)?;
        if object.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(TokenError::UnknownField { name: "version".into() });
        }
        let factors = object.get("factors").and_then(Value::as_array).ok_or(BAD)?;
        let factors = factors.iter().map(Factor::parse).collect::<Result<Vec<_>, _>>()?;
        let needed = small(&object, "threshold")?;
        let twice =
            |at: usize, factor: &Factor| factors.iter().skip(at + 1).any(|o| o.number == factor.number);
        if usize::from(needed) > factors.len()
            || factors.len() > MAX_FACTORS
            || factors.iter().enumerate().any(|(at, factor)| twice(at, factor))
        {
            return Err(BAD);
        }
        Ok(Self { needed, id: bytes(&object, "set")?, mac: bytes(&object, "mac")?, factors })
    }

    /// The token, for no keyslot yet.
    pub fn fields(&self) -> Result<Value, TokenError> {
        let factors: Result<Vec<Value>, _> = self.factors.iter().map(Factor::fields).collect();
        Ok(json!({
            "type": KIND_NAME,
            "keyslots": [],
            "version": VERSION,
            "threshold": self.needed,
            "set": Base64::encode_string(&self.id),
            "factors": factors?,
            "mac": Base64::encode_string(&self.mac),
        }))
    }

    /// A hash of all that the token says but for what is encrypted. Each share is bound to it, and so is the MAC.
    pub fn list(&self) -> Result<[u8; 32], TokenError> {
        let mut text = b"atrest shares 1\0".to_vec();
        text.extend(self.id);
        text.push(self.needed);
        text.push(u8::try_from(self.factors.len()).map_err(|_| BAD)?);
        for factor in &self.factors {
            text.push(factor.number);
            text.extend(factor.salt);
            text.extend(point(&factor.key)?);
            text.extend(factor.commitment);
            let mut how = String::new();
            sorted(&factor.how, &mut how);
            text.extend(u64::try_from(how.len()).map_err(|_| BAD)?.to_be_bytes());
            text.extend(how.as_bytes());
        }
        let mut list = [0; 32];
        digest(Hash::Sha256, &[&text], &mut list);
        Ok(list)
    }

    /// What the MAC must be under this volume key.
    pub fn mac_under(&self, key: &VolumeKey) -> Result<[u8; 32], TokenError> {
        let subkey = Prf::extract(&[0; 32], key.expose()).expand::<32>(&[b"atrest shares 1"]);
        Ok(*Prf::once(&subkey, &[&self.list()?]))
    }

    /// Whether whoever made it knew the volume key, and nobody has changed it since.
    pub fn is_authentic(&self, key: &VolumeKey) -> Result<bool, TokenError> {
        Ok(constant_time_eq(&self.mac_under(key)?, &self.mac))
    }
}

impl Factor {
    fn parse(value: &Value) -> Result<Self, TokenError> {
        let object = value.as_object().ok_or(BAD)?;
        only(object, FACTOR_FIELDS)?;
        Ok(Self {
            number: small(object, "number")?,
            how: object.get("how").filter(|how| how.is_object()).ok_or(BAD)?.clone(),
            salt: bytes(object, "salt")?,
            key: public_key(&bytes(object, "key")?)?,
            commitment: bytes(object, "commitment")?,
            ephemeral: public_key(&bytes(object, "ephemeral")?)?,
            share: bytes(object, "share")?,
        })
    }

    fn fields(&self) -> Result<Value, TokenError> {
        Ok(json!({
            "number": self.number,
            "how": self.how,
            "salt": Base64::encode_string(&self.salt),
            "key": Base64::encode_string(&point(&self.key)?),
            "commitment": Base64::encode_string(&self.commitment),
            "ephemeral": Base64::encode_string(&point(&self.ephemeral)?),
            "share": Base64::encode_string(&self.share),
        }))
    }

    /// The type of token that says how its secret is had.
    pub fn kind(&self) -> &str {
        // intended: one without a type is of none that is known.
        self.how.get("type").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Fields that are not known may be conditions.
fn only(object: &Map<String, Value>, known: &[&str]) -> Result<(), TokenError> {
    match object.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(TokenError::UnknownField { name: name.clone() }),
        None => Ok(()),
    }
}

/// A number from 1 to 255.
fn small(object: &Map<String, Value>, name: &str) -> Result<u8, TokenError> {
    let number = object.get(name).and_then(Value::as_u64).and_then(|number| u8::try_from(number).ok());
    number.filter(|number| *number != 0).ok_or(BAD)
}

fn bytes<const N: usize>(object: &Map<String, Value>, name: &str) -> Result<[u8; N], TokenError> {
    let text = object.get(name).and_then(Value::as_str).ok_or(BAD)?;
    Base64::decode_vec(text).map_err(|_| BAD)?.try_into().map_err(|_| BAD)
}

/// A point on P-256 without compression (SEC 1, section 2.3.3).
pub fn point(key: &PublicKey) -> Result<[u8; 65], TokenError> {
    Sec1Point::from(key).as_bytes().try_into().map_err(|_| BAD)
}

fn public_key(bytes: &[u8; 65]) -> Result<PublicKey, TokenError> {
    let point = Sec1Point::from_bytes(bytes).map_err(|_| BAD)?;
    PublicKey::from_sec1_point(&point).into_option().ok_or(BAD)
}

/// JSON text without spaces, the members of objects by their names: other programs may write them in another order.
fn sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                sorted(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                sorted(value, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_does_not_matter_and_everything_else_does() {
        let of = |text: &str| {
            let mut out = String::new();
            sorted(&serde_json::from_str(text).expect("JSON"), &mut out);
            out
        };
        assert_eq!(
            of(r#"{ "b": [1, {"d": null, "c": "x\"y"}], "a": true }"#),
            r#"{"a":true,"b":[1,{"c":"x\"y","d":null}]}"#
        );
        assert_eq!(
            of(r#"{"a":true,"b":[1,{"c":"x\"y","d":null}]}"#),
            of(r#"{"b":[1,{"d":null,"c":"x\"y"}],"a":true}"#)
        );
        assert_ne!(of(r#"[1,2]"#), of(r#"[2,1]"#));
    }
}
