//! `systemd-fido2`: a security key derives the secret from a salt, for whoever touches it or has its PIN. `systemd-cryptenroll` makes such
//! tokens, and so does [`enrol`].

pub use atrest_fido2::Fido2Error;
use atrest_fido2::{Device, Request, SecurityKey};
use atrest_secret::{OsRandom, Passphrase, Random};
use base64ct::{Base64, Encoding};
use serde_json::{Map, Value, json};

use super::enrolled::{Enrolled, encoded};
use super::{Help, Kind, TokenError};

/// The type of the tokens.
pub const KIND_NAME: &str = "systemd-fido2";

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

/// For whom systemd makes credentials.
const RP: &str = "io.systemd.cryptsetup";

/// The longest text of a token that is looked at.
const MAX: usize = 64 << 10;

const KNOWN: &[&str] = &[
    "fido2-credential",
    "fido2-salt",
    "fido2-rp",
    "fido2-clientPin-required",
    "fido2-up-required",
    "fido2-uv-required",
];

const BAD: TokenError = TokenError::Malformed;

/// What a token says. A condition that is `None` is the security key's to decide (systemd 248).
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    credential: Vec<u8>,
    salt: [u8; 32],
    rp: String,
    pin: Option<bool>,
    touch: Option<bool>,
    verification: Option<bool>,
}

impl Fields {
    fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() > MAX {
            return Err(BAD);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(BAD) };
        let unknown = |name: &&String| name.starts_with("fido2") && !KNOWN.contains(&name.as_str());
        if let Some(name) = object.keys().find(unknown) {
            return Err(TokenError::UnknownField { name: name.clone() });
        }
        let rp = match object.get("fido2-rp") {
            None => RP,
            Some(rp) => rp.as_str().ok_or(BAD)?,
        };
        let flag = |name: &str| object.get(name).map(|value| value.as_bool().ok_or(BAD)).transpose();
        let credential = bytes(&object, "fido2-credential")?;
        // Security keys take no longer ones, and a command has room for these.
        if credential.is_empty() || credential.len() > 1024 || rp.len() > 256 {
            return Err(BAD);
        }
        Ok(Self {
            credential,
            salt: bytes(&object, "fido2-salt")?.try_into().map_err(|_| BAD)?,
            rp: rp.into(),
            pin: flag("fido2-clientPin-required")?,
            touch: flag("fido2-up-required")?,
            verification: flag("fido2-uv-required")?,
        })
    }
}

fn bytes(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>, TokenError> {
    object.get(name).and_then(|value| Base64::decode_vec(value.as_str()?).ok()).ok_or(BAD)
}

/// Checks what can be checked of a token's text without a security key. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str) -> Result<(), TokenError> {
    Fields::parse(text).map(drop)
}

/// What opens it, in words.
pub(super) fn needs(text: &str) -> String {
    let Ok(fields) = Fields::parse(text) else {
        return "a security key (FIDO2), in a way that is not known here".into();
    };
    let conditions = [(fields.pin, "its PIN"), (fields.verification, "a finger"), (fields.touch, "a touch")];
    let wanted: Vec<_> =
        conditions.iter().filter(|(condition, _)| *condition == Some(true)).map(|(_, word)| *word).collect();
    match wanted[..] {
        [] => "a security key (FIDO2)".into(),
        _ => format!("a security key (FIDO2), {}", wanted.join(" and ")),
    }
}

fn passphrase(text: &str, help: Help<'_>) -> Result<Passphrase, TokenError> {
    let fields = Fields::parse(text)?;
    let pin = help.pin.filter(|_| fields.pin != Some(false));
    let touch = &mut || help.person.touch();
    first_of(Device::all()?, |device| of_key(device, &fields, pin, touch))
}

/// What the first device says for which the token is. One that is of no use keeps nobody from asking the next.
fn first_of<D, T>(
    devices: Vec<D>,
    mut ask: impl FnMut(&D) -> Result<T, TokenError>,
) -> Result<T, TokenError> {
    let mut last = TokenError::Fido2(Fido2Error::NotThis);
    for device in devices {
        match ask(&device) {
            Err(TokenError::Fido2(Fido2Error::NotThis)) => {}
            // Another program may use one of them, another one hang, and another be no security key but in name.
            Err(
                error @ TokenError::Fido2(
                    Fido2Error::Io(_)
                    | Fido2Error::Busy
                    | Fido2Error::Slow
                    | Fido2Error::Malformed
                    | Fido2Error::NoSecrets
                    | Fido2Error::NotThere { .. },
                ),
            ) => {
                last = error;
            }
            done => return done,
        }
    }
    Err(last)
}

fn of_key(
    device: &Device,
    fields: &Fields,
    pin: Option<&Passphrase>,
    touch: &mut dyn FnMut(),
) -> Result<Passphrase, TokenError> {
    let mut key = SecurityKey::open(device)?;
    // Before somebody types a PIN for nothing.
    if !key.has(&fields.rp, &fields.credential)? {
        return Err(Fido2Error::NotThis.into());
    }
    if fields.pin == Some(true) && pin.is_none() {
        return Err(TokenError::PinNeeded);
    }
    let request = Request {
        rp: &fields.rp,
        credential: &fields.credential,
        salt: &fields.salt,
        touch: fields.touch,
        verification: fields.verification == Some(true),
        pin,
    };
    match key.secret(&request, touch) {
        Ok(secret) => encoded(&secret),
        Err(Fido2Error::PinNeeded) if fields.pin.is_none() && pin.is_none() => Err(TokenError::PinNeeded),
        Err(Fido2Error::BadPin) => Err(TokenError::WrongPin),
        Err(error) => Err(error.into()),
    }
}

/// Whether the one security key that is plugged in says that the token is for it, without a touch or a PIN.
///
/// # Errors
/// [`TokenError`]: the text is no such token, there is no security key, or there are several.
#[cfg(feature = "shares")]
pub(super) fn is_plugged_in(text: &str) -> Result<bool, TokenError> {
    let fields = Fields::parse(text)?;
    Ok(one()?.tells(&fields.rp, &fields.credential)? == Some(true))
}

/// The one security key that is plugged in or named.
fn one() -> Result<SecurityKey, Fido2Error> {
    match &Device::all()?[..] {
        [device] => SecurityKey::open(device),
        several => Err(Fido2Error::Several { count: several.len() }),
    }
}

/// Whether any security key is plugged in, or one is named. Nothing is asked of it.
pub fn is_any_plugged_in() -> bool {
    Device::all().is_ok()
}

/// Whether there is one security key that can be enrolled, with its PIN or without: before somebody types a PIN.
///
/// # Errors
/// [`TokenError::Fido2`].
pub fn is_there(with_pin: bool) -> Result<(), TokenError> {
    fit(&one()?, with_pin)
}

fn fit(key: &SecurityKey, with_pin: bool) -> Result<(), TokenError> {
    match (with_pin, key.info().pin) {
        (true, Some(true)) | (false, None | Some(false)) => Ok(()),
        (true, None | Some(false)) => Err(Fido2Error::NoPin.into()),
        (false, Some(true)) => Err(Fido2Error::PinNeeded.into()),
    }
}

/// Makes a credential on the security key for the volume of this name, and takes a secret from it. `touch` is called each time that somebody
/// has to touch it: twice.
///
/// # Errors
/// [`TokenError::Fido2`]: there is none or there are several, it has a PIN and none is given, or whatever else it says.
pub fn enrol(
    volume: &str,
    pin: Option<&Passphrase>,
    touch: &mut dyn FnMut(),
) -> Result<Enrolled, TokenError> {
    let mut key = one()?;
    fit(&key, pin.is_some())?;
    let random = |_| TokenError::NoRandom;
    let (mut user, mut salt) = ([0; 32], [0; 32]);
    OsRandom.fill(&mut user).map_err(random)?;
    OsRandom.fill(&mut salt).map_err(random)?;
    let credential = key.make_credential((RP, "Encrypted Volume"), (&user, volume), pin, touch)?.id;
    let touched = key.info().touch;
    let request = Request {
        rp: RP,
        credential: &credential,
        salt: &salt,
        touch: Some(touched),
        verification: false,
        pin,
    };
    let secret = key.secret(&request, touch)?;
    let fields = json!({
        "type": KIND_NAME,
        "keyslots": [],
        "fido2-credential": Base64::encode_string(&credential),
        "fido2-salt": Base64::encode_string(&salt),
        "fido2-rp": RP,
        "fido2-clientPin-required": pin.is_some(),
        "fido2-up-required": touched,
        "fido2-uv-required": false,
    });
    Ok(Enrolled { passphrase: encoded(&secret)?, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(more: &str) -> String {
        let salt = Base64::encode_string(&[7; 32]);
        format!(
            r#"{{"type":"{KIND_NAME}","keyslots":["1"],"fido2-credential":"AQI=","fido2-salt":"{salt}"{more}}}"#
        )
    }

    #[test]
    fn fields_of_every_version_are_understood() {
        let first = Fields {
            credential: vec![1, 2],
            salt: [7; 32],
            rp: RP.into(),
            pin: None,
            touch: None,
            verification: None,
        };
        assert_eq!(Fields::parse(&token("")), Ok(first));
        assert_eq!(needs(&token("")), "a security key (FIDO2)");
        let more = r#","fido2-rp":"a","fido2-clientPin-required":true,"fido2-up-required":true,"fido2-uv-required":false"#;
        let later = Fields::parse(&token(more)).expect("249");
        assert_eq!(
            (&later.rp[..], later.pin, later.touch, later.verification),
            ("a", Some(true), Some(true), Some(false))
        );
        assert_eq!(needs(&token(more)), "a security key (FIDO2), its PIN and a touch");
    }

    #[test]
    fn a_device_that_hangs_or_lies_keeps_nobody_from_asking_the_next() {
        let of = |answers: Vec<Result<u8, Fido2Error>>| {
            first_of(answers, |answer| answer.clone().map_err(TokenError::Fido2))
        };
        let error = |error: Fido2Error| Err(TokenError::Fido2(error));
        let useless = [Fido2Error::Slow, Fido2Error::Malformed, Fido2Error::Busy, Fido2Error::NotThis];
        for device in useless {
            assert_eq!(of(vec![Err(device.clone()), Ok(7)]), Ok(7), "{device:?}");
            assert_eq!(of(vec![Err(device.clone())]), error(device));
        }
        assert_eq!(of(vec![Err(Fido2Error::Slow), Err(Fido2Error::NotThis)]), error(Fido2Error::Slow));
        assert_eq!(of(vec![Err(Fido2Error::PinBlocked), Ok(7)]), error(Fido2Error::PinBlocked));
        assert_eq!(of(Vec::new()), error(Fido2Error::NotThis));
    }

    #[test]
    fn what_is_not_understood_is_refused_and_never_guessed() {
        for more in [
            r#","fido2-rp":1"#,
            r#","fido2-clientPin-required":"true""#,
            r#","fido2-up-required":1"#,
            r#","fido2-uv-required":null"#,
        ] {
            assert_eq!(Fields::parse(&token(more)), Err(BAD), "{more}");
        }
        let unknown = TokenError::UnknownField { name: "fido2-future".into() };
        assert_eq!(Fields::parse(&token(r#","fido2-future":1"#)), Err(unknown));
        for (from, to) in
            [("AQI=", ""), ("AQI=", "?"), ("Bw", ""), ("fido2-salt", "salt"), ("AQI=", &"AAAA".repeat(400))]
        {
            let text = token("").replacen(from, to, 1);
            assert!(Fields::parse(&text).is_err(), "{text}");
        }
        let long = token(&format!(r#","fido2-rp":"{}""#, "a".repeat(257)));
        assert_eq!(Fields::parse(&long), Err(BAD));
        assert_eq!(Fields::parse(&" ".repeat(MAX + 1)), Err(BAD));
    }
}
