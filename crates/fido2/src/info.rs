//! What a security key says of itself (CTAP 2.1, section 6.4).

use crate::Fido2Error;
use crate::cbor::Value;
use crate::shared::Protocol;

const BAD: Fido2Error = Fido2Error::Malformed;

/// What a security key says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Whether it keeps secrets with credentials (`hmac-secret`).
    pub secrets: bool,
    /// Whether it has a PIN; `None` if it knows of none.
    pub pin: Option<bool>,
    /// Whether it can tell that somebody touches it.
    pub touch: bool,
    /// Whether it verifies somebody by itself, as by a fingerprint.
    pub verification: bool,
    /// Whether a PIN is exchanged for a token that is good for certain commands alone.
    pub(crate) permissions: bool,
    /// How to agree on a key with it.
    pub(crate) protocol: Protocol,
}

impl Info {
    /// Reads the answer to `authenticatorGetInfo`, without its status.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fido2Error> {
        let answer = Value::parse(bytes)?;
        let list = |key: u64| match answer.at(key) {
            None => Ok(&[][..]),
            Some(list) => list.items().ok_or(BAD),
        };
        let secrets = list(2)?.contains(&Value::Text("hmac-secret"));
        let option = |name: &str| match answer.at(4).and_then(|options| options.named(name)) {
            None => Ok(None),
            Some(value) => value.flag().map(Some).ok_or(BAD),
        };
        // In the order of the key's own preference.
        let protocol = match list(6)?.iter().find_map(|number| Protocol::numbered(number.number()?)) {
            Some(protocol) => protocol,
            None if list(6)?.is_empty() => Protocol::One,
            None => return Err(BAD),
        };
        Ok(Self {
            secrets,
            pin: option("clientPin")?,
            touch: option("up")? != Some(false),
            verification: option("uv")? == Some(true),
            permissions: option("pinUvAuthToken")? == Some(true),
            protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_says_of_itself_is_read_strictly() {
        let plain = Info {
            secrets: true,
            pin: None,
            touch: true,
            verification: false,
            permissions: false,
            protocol: Protocol::One,
        };
        let extension = b"\x02\x81\x6bhmac-secret";
        let of = |parts: &[&[u8]]| Info::parse(&[&[0xa0 | parts.len() as u8][..], &parts.concat()].concat());
        assert_eq!(of(&[extension]), Ok(plain));
        assert_eq!(of(&[]), Ok(Info { secrets: false, ..plain }));
        let options = b"\x04\xa4\x62up\xf4\x62uv\xf5\x69clientPin\xf4\x6epinUvAuthToken\xf5";
        let full = Info { touch: false, verification: true, pin: Some(false), permissions: true, ..plain };
        assert_eq!(of(&[extension, options]), Ok(full));
        assert_eq!(of(&[extension, &[6, 0x82, 2, 1]]), Ok(Info { protocol: Protocol::Two, ..plain }));
        assert_eq!(of(&[extension, &[6, 0x83, 9, 1, 2]]), Ok(plain));
        for bad in [&[6, 0x81, 9][..], &[2, 1], &[6, 1], b"\x04\xa1\x62up\x01"] {
            assert_eq!(of(&[bad]), Err(BAD), "{bad:x?}");
        }
    }
}
