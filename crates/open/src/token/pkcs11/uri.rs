//! The URIs of smart cards and of what is on them (RFC 7512).

use core::fmt::Write;

use super::Pkcs11Error;

/// The longest one that is looked at.
const MAX: usize = 4 << 10;

/// What a URI says of a card and of a key on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    pub token: Option<String>,
    pub serial: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    /// `CKA_LABEL` of the key.
    pub object: Option<Vec<u8>>,
    /// `CKA_ID` of the key.
    pub id: Option<Vec<u8>>,
}

impl Uri {
    /// Reads one. Names of modules and PINs in it are refused: the URI of a token may be anybody's who can write the header.
    ///
    /// # Errors
    /// [`Pkcs11Error::BadUri`], [`Pkcs11Error::UriWith`].
    pub fn parse(text: &str) -> Result<Self, Pkcs11Error> {
        let bad = || Pkcs11Error::BadUri { uri: text.chars().take(100).collect() };
        let rest = text.strip_prefix("pkcs11:").filter(|_| text.len() <= MAX).ok_or_else(bad)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if let Some(part) = query.split('&').find(|part| !part.is_empty()) {
            let name = part.split('=').next().unwrap_or(part); // cannot be none: a part has a beginning
            return Err(Pkcs11Error::UriWith { name: name.into() });
        }
        let mut uri = Self::default();
        for attribute in path.split(';').filter(|attribute| !attribute.is_empty()) {
            let (name, value) = attribute.split_once('=').ok_or_else(bad)?;
            let bytes = decoded(value).ok_or_else(bad)?;
            let mut said_before = false;
            let mut text_of = |field: &mut Option<String>| {
                let text = String::from_utf8(bytes.clone()).map_err(|_| bad())?;
                said_before = field.replace(text).is_some();
                Ok(())
            };
            match name {
                "token" => text_of(&mut uri.token)?,
                "serial" => text_of(&mut uri.serial)?,
                "manufacturer" => text_of(&mut uri.manufacturer)?,
                "model" => text_of(&mut uri.model)?,
                "object" => said_before = uri.object.replace(bytes).is_some(),
                "id" => said_before = uri.id.replace(bytes).is_some(),
                // The key is looked for, whatever belongs to it.
                "type" if matches!(value, "private" | "cert" | "public") => {}
                // Where the card is may change, and which program reaches it.
                "slot-id"
                | "slot-description"
                | "slot-manufacturer"
                | "library-manufacturer"
                | "library-description"
                | "library-version" => {}
                _ => return Err(Pkcs11Error::UriWith { name: name.into() }),
            }
            if said_before {
                return Err(bad());
            }
        }
        Ok(uri)
    }

    /// Whether it says which card.
    pub fn names_card(&self) -> bool {
        [&self.token, &self.serial, &self.manufacturer, &self.model].iter().any(|field| field.is_some())
    }

    /// Whether nothing that both say differs.
    pub fn may_be(&self, other: &Self) -> bool {
        fn fits<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        fits(&self.token, &other.token)
            && fits(&self.serial, &other.serial)
            && fits(&self.manufacturer, &other.manufacturer)
            && fits(&self.model, &other.model)
            && fits(&self.object, &other.object)
            && fits(&self.id, &other.id)
    }

    /// Whether it may be a card with these: its label, serial number, manufacturer and model.
    pub fn is_of(&self, [token, serial, manufacturer, model]: [&str; 4]) -> bool {
        let is =
            |wanted: &Option<String>, there: &str| wanted.as_deref().is_none_or(|wanted| wanted == there);
        is(&self.token, token)
            && is(&self.serial, serial)
            && is(&self.manufacturer, manufacturer)
            && is(&self.model, model)
    }

    /// As text.
    pub fn text(&self) -> String {
        let texts = [
            ("model", self.model.as_deref().map(str::as_bytes)),
            ("manufacturer", self.manufacturer.as_deref().map(str::as_bytes)),
            ("serial", self.serial.as_deref().map(str::as_bytes)),
            ("token", self.token.as_deref().map(str::as_bytes)),
            ("id", self.id.as_deref()),
            ("object", self.object.as_deref()),
        ];
        let said = texts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value?))));
        format!("pkcs11:{}", said.collect::<Vec<_>>().join(";"))
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'%' => {
                let (pair, after) = after.split_at_checked(2)?;
                let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
                bytes.push(u8::try_from(digit(0)? << 4 | digit(1)?).ok()?);
                rest = after;
            }
            byte => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Some(bytes)
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte))
            }
            // Writing to a text can't fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_read_and_written_as_the_rfc_has_it() {
        let text = "pkcs11:model=SoftHSM%20v2;manufacturer=SoftHSM%20project;serial=0f;token=a%2Fb;id=%01%ff;object=key;type=cert;slot-id=3";
        let uri = Uri::parse(text).expect("a URI");
        assert_eq!((uri.token.as_deref(), uri.id.as_deref()), (Some("a/b"), Some(&[1, 0xff][..])));
        let written = uri.text();
        assert_eq!(
            written,
            "pkcs11:model=SoftHSM%20v2;manufacturer=SoftHSM%20project;serial=0f;token=a%2Fb;id=%01%FF;object=key"
        );
        assert_eq!(Uri::parse(&written), Ok(uri.clone()));
        assert!(uri.is_of(["a/b", "0f", "SoftHSM project", "SoftHSM v2"]));
        assert!(!uri.is_of(["a/b", "0e", "SoftHSM project", "SoftHSM v2"]));
        assert!(Uri::parse("pkcs11:").expect("any card").is_of(["a", "b", "c", "d"]));
        for bad in [
            "",
            "pkcs11",
            "http:a=b",
            "pkcs11:token",
            "pkcs11:token=%",
            "pkcs11:token=%0",
            "pkcs11:token=%zz",
            "pkcs11:token=%ff",
            "pkcs11:token=a;token=a",
        ] {
            assert!(matches!(Uri::parse(bad), Err(Pkcs11Error::BadUri { .. })), "{bad}");
        }
        for (bad, name) in [
            ("pkcs11:token=a?module-path=/tmp/evil.so", "module-path"),
            ("pkcs11:token=a?pin-value=1234", "pin-value"),
            ("pkcs11:token=a?pin-source=file:/etc/pin", "pin-source"),
            ("pkcs11:x-vendor=a", "x-vendor"),
            ("pkcs11:type=data", "type"),
        ] {
            assert_eq!(Uri::parse(bad), Err(Pkcs11Error::UriWith { name: name.into() }), "{bad}");
        }
        assert!(Uri::parse(&format!("pkcs11:token={}", "a".repeat(MAX))).is_err());
    }
}
