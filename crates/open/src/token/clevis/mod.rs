//! `clevis`: the passphrase is encrypted to a key that a server (`tang`), a TPM (`tpm2`), or a number of such together (`sss`) restore.
//! clevis makes such tokens, and so does [`bind`] for servers.
//!
//! Everything that is read here is hostile: the token, and what a server answers.

mod bind;
mod curve;
mod http;
mod jwe;
mod sss;
mod tang;
mod threshold;
#[cfg(feature = "tpm")]
mod tpm2;

use std::time::{Duration, Instant};

use atrest_secret::{Passphrase, SecretArray, SecretBytes};
use serde_json::Value;

pub use bind::{Advertised, Bound, advertised, bind};
use jwe::Jwe;
pub use threshold::{Pin, bind_threshold, replace, shares};

use super::{Help, Kind, Thing, TokenError};

/// The type of the tokens.
pub const KIND_NAME: &str = "clevis";

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

/// The longest text of a token that is looked at.
const MAX: usize = 256 << 10;

/// How deep thresholds may be nested, and how many servers and TPMs one token may have asked in all.
const DEPTH: u32 = 4;
const PINS: u32 = 32;

/// After this none of them is asked any more.
const LIMIT: Duration = Duration::from_secs(60);

/// What opens it, in words.
pub(super) fn needs(text: &str) -> String {
    let token = serde_json::from_str::<Value>(text).ok();
    let jwe = token.as_ref().and_then(|token| Jwe::flattened(token.get("jwe")?).ok());
    jwe.map_or_else(|| "clevis, in a way that is not known here".into(), |jwe| pin_needs(&jwe, 0))
}

/// What a token was bound by: `tang`, `tpm2`, `sss`.
pub(super) fn pin(text: &str) -> Option<String> {
    let token = serde_json::from_str::<Value>(text).ok()?;
    let jwe = Jwe::flattened(token.get("jwe")?).ok()?;
    jwe.pin().ok().map(|(name, _)| name.into())
}

/// What a token's text was bound to.
#[cfg(feature = "shares")]
pub(super) fn thing_in(token: &Value) -> Option<Thing> {
    thing(&Jwe::flattened(token.get("jwe")?).ok()?)
}

fn thing(jwe: &Jwe) -> Option<Thing> {
    match jwe.pin().ok()? {
        ("tpm2", _) => Some(Thing::Tpm),
        ("tang", pin) => {
            let mut prints = pin.get("adv").map(curve::thumbprints).unwrap_or_default(); // intended: as far as it says
            prints.extend(jwe.header.get("kid").and_then(Value::as_str).map(String::from));
            Some(Thing::Server { url: pin.get("url")?.as_str()?.into(), prints })
        }
        _ => None,
    }
}

fn pin_needs(jwe: &Jwe, depth: u32) -> String {
    match jwe.pin() {
        Ok(("tang", pin)) => {
            // intended: a server without an address is shown as one.
            let url = pin.get("url").and_then(Value::as_str).unwrap_or_default();
            format!("the server {url:?}")
        }
        Ok(("tpm2", pin)) => match pin.get("pcr_ids").and_then(Value::as_str) {
            Some(pcrs) => format!("the TPM of one machine, PCR {pcrs:?} as it was"),
            None => "the TPM of one machine".into(),
        },
        Ok(("sss", pin)) if depth <= DEPTH => match sss::Threshold::read(pin) {
            Ok(threshold) => {
                let shares = threshold.shares().iter().map(|share| pin_needs(share, depth + 1));
                format!("{} of: ({})", threshold.needed(), shares.collect::<Vec<_>>().join("; "))
            }
            Err(_) => "clevis, in a way that is not known here".into(),
        },
        _ => "clevis, in a way that is not known here".into(),
    }
}

fn passphrase(text: &str, _: Help<'_>) -> Result<Passphrase, TokenError> {
    if text.len() > MAX {
        return Err(TokenError::Malformed);
    }
    let token: Value = serde_json::from_str(text).map_err(|_| TokenError::Malformed)?;
    let jwe = Jwe::flattened(token.get("jwe").ok_or(TokenError::Malformed)?)?;
    let secret = Opening { depth: 0, pins: 0, end: Instant::now() + LIMIT }.open(&jwe)?;
    Ok(Passphrase::new(secret))
}

/// Checks what can be checked of a token's text without asking anybody. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str) -> Result<(), TokenError> {
    let token: Value = serde_json::from_str(text).map_err(|_| TokenError::Malformed)?;
    let jwe = Jwe::flattened(token.get("jwe").ok_or(TokenError::Malformed)?)?;
    let (name, pin) = jwe.pin()?;
    match name {
        "tang" => tang::Binding::read(&jwe, pin).map(drop),
        "sss" => sss::Threshold::read(pin).map(drop),
        #[cfg(feature = "tpm")]
        "tpm2" => tpm2::Binding::read(pin).map(drop),
        _ => Err(TokenError::UnknownPin { name: name.into() }),
    }
}

/// Reads what a server might answer. For fuzzing.
#[doc(hidden)]
pub fn check_answer(bytes: &[u8]) {
    if let Ok((_, body)) = http::read(&mut { bytes }, Instant::now() + http::LIMIT) {
        let _ = tang::answer(&body);
        let _ = Advertised::parse(&body);
    }
}

/// How far the pins of a token have been followed.
struct Opening {
    depth: u32,
    pins: u32,
    end: Instant,
}

impl Opening {
    fn until(end: Instant) -> Self {
        Self { depth: 0, pins: 0, end }
    }

    /// What is encrypted in it.
    fn open(&mut self, jwe: &Jwe) -> Result<SecretBytes, TokenError> {
        self.pins += 1;
        if self.depth > DEPTH || self.pins > PINS {
            return Err(TokenError::Malformed);
        }
        if Instant::now() >= self.end {
            return Err(TokenError::TooLong);
        }
        let (name, pin) = jwe.pin()?;
        let key: SecretArray<32> = match name {
            "tang" => tang::Binding::read(jwe, pin)?.key()?,
            "sss" => {
                self.depth += 1;
                let key = sss::Threshold::read(pin)?.key(|share| self.open(share));
                self.depth -= 1;
                key?
            }
            #[cfg(feature = "tpm")]
            "tpm2" => tpm2::Binding::read(pin)?.key()?,
            _ => return Err(TokenError::UnknownPin { name: name.into() }),
        };
        jwe.decrypt(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_after_the_time_that_all_have_together() {
        let header = r#"{"alg":"dir","enc":"A256GCM","clevis":{"pin":"none","none":{}}}"#;
        let text = serde_json::json!({
            "protected": <base64ct::Base64UrlUnpadded as base64ct::Encoding>::encode_string(header.as_bytes()),
            "iv": "AAAAAAAAAAAAAAAA", "ciphertext": "AA", "tag": "AAAAAAAAAAAAAAAAAAAAAA",
        });
        let jwe = Jwe::flattened(&text).expect("a text");
        let opened = |end| Opening { depth: 0, pins: 0, end }.open(&jwe).err();
        assert_eq!(opened(Instant::now() + LIMIT), Some(TokenError::UnknownPin { name: "none".into() }));
        assert_eq!(opened(Instant::now()), Some(TokenError::TooLong));
    }
}
