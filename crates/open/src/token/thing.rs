//! Things that are had or lost as one. Two factors that are one thing would count twice.

#[cfg(feature = "shares")]
use serde_json::Value;

#[cfg(feature = "shares")]
use super::recovery;

/// What a factor is, where another one may be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A TPM. A machine has one.
    Tpm,
    /// A recovery key. One is enough.
    Recovery,
    /// A tang server.
    Server {
        /// Its address.
        url: String,
        /// Thumbprints of its keys, as far as they are known.
        prints: Vec<String>,
    },
    /// A key of a smart card, by its URI, or `auto`.
    Card(String),
}

impl Thing {
    /// The server at an address.
    pub fn server(url: &str) -> Self {
        Self::Server { url: url.into(), prints: Vec::new() }
    }

    /// That which a token's text without keyslots is about, as far as others may be the same.
    #[cfg(feature = "shares")]
    pub(super) fn of(how: &Value) -> Option<Self> {
        match how.get("type")?.as_str()? {
            "systemd-tpm2" => Some(Self::Tpm),
            recovery::KIND_NAME => Some(Self::Recovery),
            "systemd-pkcs11" => Some(Self::Card(how.get("pkcs11-uri")?.as_str()?.into())),
            #[cfg(feature = "clevis")]
            "clevis" => super::clevis::thing_in(how),
            _ => None,
        }
    }

    /// Whether both are, or may be, one. A server is one under several addresses, if it has the same keys there.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tpm, Self::Tpm) | (Self::Recovery, Self::Recovery) => true,
            (Self::Server { url: a, prints: of_a }, Self::Server { url: b, prints: of_b }) => {
                let address = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
                address(a) == address(b) || of_a.iter().any(|key| of_b.contains(key))
            }
            (Self::Card(a), Self::Card(b)) => a == b || may_be_one_card(a, b),
            _ => false,
        }
    }
}

#[cfg(feature = "pkcs11")]
fn may_be_one_card(a: &str, b: &str) -> bool {
    super::pkcs11::may_be_one(a, b)
}

#[cfg(not(feature = "pkcs11"))]
fn may_be_one_card(_: &str, _: &str) -> bool {
    false
}

/// The first two of these, as numbers that count from 1, that are one thing.
pub(super) fn twins<'a>(things: impl Iterator<Item = Option<&'a Thing>>) -> Option<(u8, u8)> {
    let things: Vec<(u8, &Thing)> = (1..).zip(things).filter_map(|(at, thing)| Some((at, thing?))).collect();
    things.iter().enumerate().find_map(|(at, (number, thing))| {
        let (other, _) = things.iter().skip(at + 1).find(|(_, other)| thing.is_same(other))?;
        Some((*number, *other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_told_from_two() {
        let server = |url: &str, keys: &[&str]| Thing::Server {
            url: url.into(),
            prints: keys.iter().map(|key| (*key).into()).collect(),
        };
        let card = |uri: &str| Thing::Card(uri.into());
        assert!(Thing::Tpm.is_same(&Thing::Tpm) && Thing::Recovery.is_same(&Thing::Recovery));
        assert!(!Thing::Tpm.is_same(&Thing::Recovery));
        assert!(server("http://A/", &[]).is_same(&server("http://a", &[])));
        assert!(server("http://a", &["x", "y"]).is_same(&server("http://b", &["z", "y"])));
        assert!(!server("http://a", &["x"]).is_same(&server("http://b", &["y"])));
        assert!(card("auto").is_same(&card("auto")));
        assert!(!card("auto").is_same(&card("pkcs11:token=a")));
        let things = [Some(Thing::Tpm), None, Some(server("a", &[])), None, Some(server("a", &[]))];
        assert_eq!(twins(things.iter().map(Option::as_ref)), Some((3, 5)));
        assert_eq!(twins(things.iter().take(4).map(Option::as_ref)), None);
        #[cfg(feature = "pkcs11")]
        for (a, b, same) in [
            ("pkcs11:token=a;object=b", "pkcs11:object=b;token=a", true),
            ("pkcs11:token=a", "pkcs11:token=a;id=%01", true),
            ("pkcs11:token=a", "pkcs11:token=b", false),
            ("pkcs11:token=a;id=%01", "pkcs11:token=a;id=%02", false),
        ] {
            assert_eq!(card(a).is_same(&card(b)), same, "{a} {b}");
        }
    }
}
