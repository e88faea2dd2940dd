//! Policies as a person writes them: `v2:AES-256-XTS:AES-256-CTS:pad=32`.

use core::fmt;
use core::str::FromStr;

use atrest_filetree::{EncryptionFault, KeyName};

use super::mode::EncryptionMode;
use super::policy::{Context, KeyUse, NONCE_LEN, Padding, Policy};

/// A policy that may not say yet which key it has.
///
/// The version (`v1` or `v2`) comes first; then, each at most once, the mode of contents and that of names by the kernel's names
/// for them (`fscryptctl`'s), `pad=4|8|16|32`, one of `direct`, `iv-ino-lblk-64` and `iv-ino-lblk-32`, `unit=` the bytes of a data
/// unit, and `key=` the key's identifier or descriptor in hexadecimal. What is left out is AES-256 (or what goes with the mode
/// of contents), `pad=32`, keys of each file, data units of a block, and the only key there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyText {
    version: u8,
    contents: EncryptionMode,
    names: EncryptionMode,
    padding: Padding,
    key_use: KeyUse,
    log2_data_unit: Option<u8>,
    key: Option<KeyName>,
}

impl PolicyText {
    /// The policy under a key of these two names, unless the text names another. None if the key has no name of its version.
    pub fn with_key(&self, names: &[KeyName]) -> Option<Policy> {
        let of_version = |name: &&KeyName| match name {
            KeyName::Descriptor(_) => self.version == 1,
            KeyName::Identifier(_) => self.version == 2,
        };
        let key = match self.key {
            Some(key) => key,
            None => *names.iter().find(of_version)?,
        };
        Some(self.under(key))
    }

    /// The key that the text names.
    pub fn key(&self) -> Option<KeyName> {
        self.key
    }

    /// Whether inodes must keep their numbers.
    pub fn needs_stable_inodes(&self) -> bool {
        matches!(self.key_use, KeyUse::InodeLblk64 | KeyUse::InodeLblk32)
    }

    /// Whether whoever sees the medium twice learns what changed ([`EncryptionMode::is_single_snapshot`]).
    pub fn is_single_snapshot(&self) -> bool {
        self.contents.is_single_snapshot()
    }

    fn under(&self, key: KeyName) -> Policy {
        Policy {
            contents: self.contents,
            names: self.names,
            padding: self.padding,
            key_use: self.key_use,
            log2_data_unit: self.log2_data_unit,
            key,
        }
    }
}

impl Policy {
    /// A context of this policy, with a nonce that no inode may have.
    pub fn to_template(&self) -> Vec<u8> {
        Context { policy: *self, nonce: [0; NONCE_LEN] }.to_bytes()
    }
}

/// Why a text is no policy.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyTextError {
    /// It does not begin with `v1` or `v2`.
    Version,
    /// A part is unknown, or of a kind that was there already.
    Part(String),
    /// The parts don't go together in the kernel.
    Fault(EncryptionFault),
}

impl fmt::Display for PolicyTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => {
                f.write_str("a policy begins with v1 or v2, as in v2:AES-256-XTS:AES-256-CTS:pad=32")
            }
            Self::Part(part) => write!(
                f,
                "\"{part}\" is no part of a policy, or is there twice; known are modes (AES-256-XTS, AES-256-CTS, AES-256-HCTR2, \
                 AES-128-CBC, AES-128-CTS, Adiantum, ChaCha20), pad=4|8|16|32, direct, iv-ino-lblk-64, iv-ino-lblk-32, unit=512..65536, key=HEX"
            ),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for PolicyTextError {}

impl FromStr for PolicyText {
    type Err = PolicyTextError;

    fn from_str(text: &str) -> Result<Self, PolicyTextError> {
        let mut parts = text.split(':');
        let version = match parts.next() {
            Some("v1") => 1,
            Some("v2") => 2,
            _ => return Err(PolicyTextError::Version),
        };
        let mut modes = Vec::new();
        let (mut padding, mut key_use, mut unit, mut key) = (None, None, None, None);
        for part in parts {
            let known = match part.split_once('=') {
                Some(("pad", value)) => {
                    padding_of(value).is_some_and(|value| padding.replace(value).is_none())
                }
                Some(("unit", value)) => unit_of(value).is_some_and(|value| unit.replace(value).is_none()),
                Some(("key", value)) => {
                    key_of(value, version).is_some_and(|value| key.replace(value).is_none())
                }
                Some(_) => false,
                None => match (use_of(part), mode_of(part)) {
                    (Some(value), _) => key_use.replace(value).is_none(),
                    (None, Some(mode)) => {
                        modes.push(mode);
                        modes.len() <= 2
                    }
                    (None, None) => false,
                },
            };
            if !known {
                return Err(PolicyTextError::Part(part.to_owned()));
            }
        }
        let contents = modes.first().copied().unwrap_or(EncryptionMode::Aes256Xts);
        let names = modes.get(1).copied().unwrap_or(match contents {
            EncryptionMode::Adiantum => EncryptionMode::Adiantum,
            EncryptionMode::Aes128CbcEssiv => EncryptionMode::Aes128Cts,
            _ => EncryptionMode::Aes256Cts,
        });
        let policy = Self {
            version,
            contents,
            names,
            padding: padding.unwrap_or(Padding::ThirtyTwo),
            key_use: key_use.unwrap_or(KeyUse::PerFile),
            log2_data_unit: unit,
            key,
        };
        let any = if version == 1 { KeyName::Descriptor([0; 8]) } else { KeyName::Identifier([0; 16]) };
        policy.under(any).check().map_err(PolicyTextError::Fault)?;
        Ok(policy)
    }
}

fn padding_of(text: &str) -> Option<Padding> {
    [Padding::Four, Padding::Eight, Padding::Sixteen, Padding::ThirtyTwo]
        .into_iter()
        .find(|padding| padding.bytes().to_string() == text)
}

fn unit_of(text: &str) -> Option<u8> {
    (9..=16_u8).find(|log2| (1_u32 << log2).to_string() == text)
}

fn use_of(text: &str) -> Option<KeyUse> {
    Some(match text {
        "direct" => KeyUse::Direct,
        "iv-ino-lblk-64" => KeyUse::InodeLblk64,
        "iv-ino-lblk-32" => KeyUse::InodeLblk32,
        _ => return None,
    })
}

/// A mode by the name that `fscryptctl` has for it, or the one that `fscrypt` and the kernel's log have.
fn mode_of(text: &str) -> Option<EncryptionMode> {
    Some(match text.to_ascii_uppercase().as_str() {
        "AES-256-XTS" => EncryptionMode::Aes256Xts,
        "AES-256-CTS" | "AES-256-CBC-CTS" => EncryptionMode::Aes256Cts,
        "AES-128-CBC" | "AES-128-CBC-ESSIV" => EncryptionMode::Aes128CbcEssiv,
        "AES-128-CTS" | "AES-128-CBC-CTS" => EncryptionMode::Aes128Cts,
        "ADIANTUM" => EncryptionMode::Adiantum,
        "AES-256-HCTR2" => EncryptionMode::Aes256Hctr2,
        // No kernel has it.
        "CHACHA20" | "CHACHA20-EXPERIMENT" => EncryptionMode::ChaCha20,
        _ => return None,
    })
}

fn key_of(text: &str, version: u8) -> Option<KeyName> {
    match version {
        1 => hex(text).map(KeyName::Descriptor),
        _ => hex(text).map(KeyName::Identifier),
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes().chunks(2).map(|pair| {
        let pair =
            core::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_stored_as_linux_stores_them() {
        // struct fscrypt_context_v1 and _v2: version, contents, names, flags, then a descriptor, or the data unit and an identifier.
        let names = [KeyName::Descriptor([0xd1; 8]), KeyName::Identifier([0x1d; 16])];
        let stored = |text: &str| {
            let policy = text.parse::<PolicyText>().unwrap().with_key(&names).unwrap();
            let bytes = policy.to_template();
            (bytes[..4].to_vec(), bytes[4..8].to_vec(), bytes.len())
        };
        let unit = |log2| vec![log2, 0, 0, 0];
        assert_eq!(stored("v2"), (vec![2, 1, 4, 3], unit(0), 40));
        assert_eq!(stored("v2:AES-256-XTS:AES-256-HCTR2:pad=4"), (vec![2, 1, 10, 0], unit(0), 40));
        assert_eq!(stored("v2:Adiantum:direct:pad=8"), (vec![2, 9, 9, 5], unit(0), 40));
        assert_eq!(stored("v2:AES-128-CBC:AES-128-CTS:unit=512"), (vec![2, 5, 6, 3], unit(9), 40));
        assert_eq!(stored("v2:iv-ino-lblk-64:pad=16"), (vec![2, 1, 4, 0x0a], unit(0), 40));
        assert_eq!(stored("v2:iv-ino-lblk-32"), (vec![2, 1, 4, 0x13], unit(0), 40));
        assert_eq!(stored("v1:adiantum"), (vec![1, 9, 9, 3], vec![0xd1; 4], 28));
        assert_eq!(stored("v1:key=0011223344556677").1, [0, 0x11, 0x22, 0x33]);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for text in ["", "v3", "AES-256-XTS", "xv2"] {
            assert_eq!(text.parse::<PolicyText>(), Err(PolicyTextError::Version), "{text}");
        }
        for part in [
            "pad=5",
            "pad=",
            "AES-256",
            "unit=1000",
            "key=00",
            "key=+0112233445566778899aabbccddeeff",
            "key=00112233445566778899aabbccddee+f",
            "key=0112233445566778899aabbccddeeff",
            "key=00112233445566778899aabbccddeef\u{fc}",
            "key=0011223344556677",
            "",
            "indirect",
        ] {
            let failed = format!("v2:{part}").parse::<PolicyText>();
            assert_eq!(failed, Err(PolicyTextError::Part(part.into())));
        }
        for (text, part) in [("v2:pad=4:pad=8", "pad=8"), ("v2:direct:iv-ino-lblk-64", "iv-ino-lblk-64")] {
            assert_eq!(text.parse::<PolicyText>(), Err(PolicyTextError::Part(part.into())));
        }
        for text in [
            "v2:direct",
            "v1:iv-ino-lblk-64",
            "v1:unit=512",
            "v1:AES-256-XTS:AES-256-HCTR2",
            "v2:AES-256-CTS:AES-256-XTS",
        ] {
            assert!(matches!(text.parse::<PolicyText>(), Err(PolicyTextError::Fault(_))), "{text}");
        }
    }

    #[test]
    fn every_part_means_what_it_says() {
        let parse = |text: &str| text.parse::<PolicyText>().unwrap_or_else(|error| panic!("{text}: {error}"));
        for (text, contents, names) in [
            ("v2:AES-256-XTS:AES-256-CBC-CTS", EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts),
            ("v2:aes-256-xts", EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts),
            ("v2:AES-128-CBC-ESSIV", EncryptionMode::Aes128CbcEssiv, EncryptionMode::Aes128Cts),
            ("v2:AES-128-CBC:AES-128-CBC-CTS", EncryptionMode::Aes128CbcEssiv, EncryptionMode::Aes128Cts),
            ("v2:Adiantum", EncryptionMode::Adiantum, EncryptionMode::Adiantum),
            ("v2:ChaCha20", EncryptionMode::ChaCha20, EncryptionMode::Aes256Cts),
            ("v2:ChaCha20-experiment:AES-256-CTS", EncryptionMode::ChaCha20, EncryptionMode::Aes256Cts),
        ] {
            let policy = parse(text);
            assert_eq!((policy.contents, policy.names), (contents, names), "{text}");
            assert_eq!(policy.is_single_snapshot(), contents == EncryptionMode::ChaCha20, "{text}");
        }
        for (text, stable) in [
            ("v2", false),
            ("v2:Adiantum:direct", false),
            ("v2:iv-ino-lblk-64", true),
            ("v2:iv-ino-lblk-32", true),
        ] {
            assert_eq!(parse(text).needs_stable_inodes(), stable, "{text}");
        }
        for log2 in 9..=16 {
            assert_eq!(parse(&format!("v2:unit={}", 1 << log2)).log2_data_unit, Some(log2));
        }
        for bad in
            ["v2:unit=256", "v2:unit=131072", "v2:AES-256-XTS:AES-256-CTS:AES-256-CTS", "v2:pad=4:pad=4"]
        {
            assert!(matches!(bad.parse::<PolicyText>(), Err(PolicyTextError::Part(_))), "{bad}");
        }
        for bad in
            ["v2:unit=512:unit=512", "v1:key=0011223344556677:key=0011223344556677", "v2:direct:direct"]
        {
            assert!(matches!(bad.parse::<PolicyText>(), Err(PolicyTextError::Part(_))), "{bad}");
        }
    }

    #[test]
    fn a_policy_has_the_key_that_it_names_or_the_one_of_its_version() {
        let (old, new) = (KeyName::Descriptor([1; 8]), KeyName::Identifier([2; 16]));
        let key = |text: &str, names: &[KeyName]| {
            let policy: PolicyText = text.parse().unwrap();
            policy.with_key(names).map(|policy| policy.key)
        };
        for (text, wanted, other) in [("v1", old, new), ("v2", new, old)] {
            assert_eq!(key(text, &[old, new]), Some(wanted), "{text}");
            assert_eq!(key(text, &[new, old]), Some(wanted), "{text}");
            assert_eq!(key(text, &[other]), None, "{text}");
        }
        let named = "v1:key=0011223344556677";
        let descriptor = KeyName::Descriptor([0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
        assert_eq!(key(named, &[old, new]), Some(descriptor));
        assert_eq!(named.parse::<PolicyText>().unwrap().key(), Some(descriptor));
        assert_eq!("v2".parse::<PolicyText>().unwrap().key(), None);
    }

    #[test]
    fn a_template_has_a_nonce_that_no_inode_has() {
        let template = "v2".parse::<PolicyText>().unwrap().with_key(&[KeyName::Identifier([2; 16])]).unwrap();
        assert_eq!(Context::parse(&template.to_template()).unwrap().nonce, [0; NONCE_LEN]);
    }
}
