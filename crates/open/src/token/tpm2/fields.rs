//! The fields of a `systemd-tpm2` token, of every version of systemd from 248 to 262. A field that is not known may be another condition
//! or derivation: then the token is refused instead of yielding a wrong key.

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, digest};
use atrest_tpm::{Bank, SigningKey};
use base64ct::{Base64, Encoding};
use serde_json::{Map, Value};

use super::pin::Derivation;
use crate::token::TokenError;

/// The longest text of a token that is looked at.
const MAX: usize = 64 << 10;

const KNOWN: &[&str] = &[
    "type",
    "keyslots",
    "tpm2-blob",
    "tpm2-pcrs",
    "tpm2-policy-hash",
    "tpm2-pcr-bank",
    "tpm2-primary-alg",
    "tpm2-pin",
    "tpm2_pubkey",
    "tpm2_pubkey_pcrs",
    "tpm2_pubkey_ref",
    "tpm2_salt",
    "tpm2_srk",
    "tpm2_pcrlock",
    "tpm2_pcrlock_nv",
    "tpm2_argon2id_memcost",
    "tpm2_argon2id_iterations",
    "tpm2_argon2id_lanes",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primary {
    Ecc,
    Rsa,
}

/// Whose signature over PCRs is taken.
#[derive(Debug)]
pub struct Signer {
    pub key: SigningKey,
    pub mask: u32,
    /// Empty, or the hash of the signer's reference.
    pub reference: Vec<u8>,
}

/// What a token says.
#[derive(Debug)]
pub struct Fields {
    pub blob: Vec<u8>,
    pub mask: u32,
    pub policy: [u8; 32],
    pub bank: Option<Bank>,
    pub primary: Primary,
    pub pin: bool,
    pub derivation: Derivation,
    pub signer: Option<Signer>,
    /// The serialised storage key.
    pub storage_root: Option<Vec<u8>>,
}

/// A field that is there and has the wrong form, or is not there though it must be.
type Field<T> = Result<T, TokenError>;

const BAD: TokenError = TokenError::Malformed;

/// A token's object, with readers for its fields: `None` where there is no such field.
struct Object(Map<String, Value>);

impl Object {
    fn read<'a, T>(&'a self, name: &str, form: impl FnOnce(&'a Value) -> Option<T>) -> Field<Option<T>> {
        self.0.get(name).map(|value| form(value).ok_or(BAD)).transpose()
    }

    fn text(&self, name: &str) -> Field<Option<&str>> {
        self.read(name, Value::as_str)
    }

    fn bytes(&self, name: &str) -> Field<Option<Vec<u8>>> {
        self.read(name, |value| Base64::decode_vec(value.as_str()?).ok())
    }

    fn flag(&self, name: &str) -> Field<bool> {
        // intended: a flag that is not there is off.
        Ok(self.read(name, Value::as_bool)?.unwrap_or(false))
    }

    fn number(&self, name: &str) -> Field<Option<u64>> {
        self.read(name, Value::as_u64)
    }

    fn mask(&self, name: &str) -> Field<Option<u32>> {
        self.read(name, |value| {
            value.as_array()?.iter().try_fold(0, |mask, pcr| {
                let pcr = pcr.as_u64().filter(|pcr| *pcr < 24)?;
                Some(mask | 1_u32 << pcr)
            })
        })
    }
}

impl Fields {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() > MAX {
            return Err(BAD);
        }
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Err(BAD) };
        let unknown = |name: &&String| name.starts_with("tpm2") && !KNOWN.contains(&name.as_str());
        if let Some(name) = object.keys().find(unknown) {
            return Err(TokenError::UnknownField { name: name.clone() });
        }
        let object = Object(object);
        let sharded = ["tpm2-blob", "tpm2-policy-hash"]
            .iter()
            .any(|name| object.0.get(*name).is_some_and(Value::is_array));
        if object.flag("tpm2_pcrlock")? || object.0.contains_key("tpm2_pcrlock_nv") || sharded {
            return Err(TokenError::UnknownField { name: "tpm2_pcrlock".into() });
        }
        let policy = object.text("tpm2-policy-hash")?.and_then(hex32).ok_or(BAD)?;
        let bank = object.read("tpm2-pcr-bank", |value| Bank::named(value.as_str()?))?;
        let primary = match object.text("tpm2-primary-alg")? {
            None | Some("ecc") => Primary::Ecc,
            Some("rsa") => Primary::Rsa,
            Some(_) => return Err(BAD),
        };
        Ok(Self {
            blob: object.bytes("tpm2-blob")?.ok_or(BAD)?,
            mask: object.mask("tpm2-pcrs")?.ok_or(BAD)?,
            policy,
            bank,
            primary,
            pin: object.flag("tpm2-pin")?,
            derivation: derivation(&object)?,
            signer: signer(&object)?,
            storage_root: object.bytes("tpm2_srk")?,
        })
    }
}

fn derivation(object: &Object) -> Field<Derivation> {
    let salt = object.bytes("tpm2_salt")?;
    let number = |name| object.number(name)?.map(u32::try_from).transpose().map_err(|_| BAD);
    // In bytes, and in KiB.
    let memory = object.number("tpm2_argon2id_memcost")?.map(|bytes| u32::try_from(bytes / 1024));
    let memory = memory.transpose().map_err(|_| BAD)?;
    match (salt, memory, number("tpm2_argon2id_iterations")?, number("tpm2_argon2id_lanes")?) {
        (None, None, None, None) => Ok(Derivation::Hash),
        (Some(salt), None, None, None) => Ok(Derivation::Pbkdf2 { salt }),
        (Some(salt), Some(memory_kib), Some(time), Some(lanes)) => Ok(Derivation::Argon2 {
            salt,
            cost: Argon2Cost { kind: Argon2Kind::Id, time, memory_kib, lanes },
        }),
        _ => Err(BAD),
    }
}

fn signer(object: &Object) -> Field<Option<Signer>> {
    let Some(pem) = object.bytes("tpm2_pubkey")? else { return Ok(None) };
    let pem = String::from_utf8(pem).map_err(|_| BAD)?;
    let lines = pem.trim().lines();
    let text: String = lines.filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let der = Base64::decode_vec(&text).map_err(|_| BAD)?;
    let reference = object.text("tpm2_pubkey_ref")?.map(|reference| {
        let mut hash = vec![0; 32];
        digest(Hash::Sha256, &[reference.as_bytes()], &mut hash);
        hash
    });
    Ok(Some(Signer {
        key: SigningKey::from_der(&der).ok_or(BAD)?,
        mask: object.mask("tpm2_pubkey_pcrs")?.ok_or(BAD)?,
        // intended: a signer without a reference signs the digest alone.
        reference: reference.unwrap_or_default(),
    }))
}

/// 32 bytes in hexadecimal.
pub fn hex32(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digits = text.as_bytes().as_chunks::<2>();
    if digits.0.len() != bytes.len() || !digits.1.is_empty() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(digits.0) {
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(more: &str) -> String {
        let policy = "8b".repeat(32);
        format!(
            r#"{{"type":"systemd-tpm2","keyslots":["1"],"tpm2-blob":"AAAAAA==","tpm2-pcrs":[7,11],"tpm2-policy-hash":"{policy}"{more}}}"#
        )
    }

    #[test]
    fn fields_of_every_version_are_understood() {
        let first = Fields::parse(&token("")).expect("248");
        assert_eq!((first.mask, first.bank, first.primary, first.pin), (0x880, None, Primary::Ecc, false));
        assert!(matches!(first.derivation, Derivation::Hash) && first.storage_root.is_none());
        let more = r#","tpm2-pcr-bank":"sha384","tpm2-primary-alg":"rsa","tpm2-pin":true,"tpm2_salt":"AAEC","tpm2_srk":"gQ=="#;
        let later = Fields::parse(&token(&format!("{more}\",\"tpm2_pcrlock\":false"))).expect("255");
        assert_eq!((later.bank, later.primary, later.pin), (Bank::named("sha384"), Primary::Rsa, true));
        assert!(matches!(&later.derivation, Derivation::Pbkdf2 { salt } if *salt == [0, 1, 2]));
        assert_eq!(later.storage_root.as_deref(), Some(&[0x81][..]));
        let more = r#","tpm2_salt":"AAEC","tpm2_argon2id_memcost":1048576,"tpm2_argon2id_iterations":4,"tpm2_argon2id_lanes":2"#;
        let last = Fields::parse(&token(more)).expect("262");
        let cost = Argon2Cost { kind: Argon2Kind::Id, time: 4, memory_kib: 1024, lanes: 2 };
        assert!(matches!(&last.derivation, Derivation::Argon2 { cost: found, .. } if *found == cost));
    }

    #[test]
    fn what_is_not_understood_is_refused_and_never_guessed() {
        for more in [
            r#","tpm2-pcr-bank":"md5""#,
            r#","tpm2-primary-alg":"dsa""#,
            r#","tpm2-pin":1"#,
            r#","tpm2_salt":7"#,
            r#","tpm2_argon2id_lanes":2"#,
            r#","tpm2_salt":"AAEC","tpm2_argon2id_lanes":2,"tpm2_argon2id_iterations":1"#,
            r#","tpm2_pubkey":"AAEC","tpm2_pubkey_pcrs":[11]"#,
            r#","tpm2_srk":"?""#,
        ] {
            assert_eq!(Fields::parse(&token(more)).err(), Some(BAD), "{more}");
        }
        for (more, name) in [
            (r#","tpm2_future":1"#, "tpm2_future"),
            (r#","tpm2_pcrlock":true"#, "tpm2_pcrlock"),
            (r#","tpm2_pcrlock_nv":"AA==""#, "tpm2_pcrlock"),
        ] {
            let unknown = TokenError::UnknownField { name: name.into() };
            assert_eq!(Fields::parse(&token(more)).err(), Some(unknown), "{more}");
        }
        for (from, to) in
            [("[7,11]", "[24]"), ("[7,11]", "7"), ("\"8b", "\"8"), ("AAAAAA==", "A"), ("tpm2-blob", "blob")]
        {
            assert_eq!(Fields::parse(&token("").replacen(from, to, 1)).err(), Some(BAD), "{from} {to}");
        }
        let sharded = token("").replace(r#""AAAAAA==""#, r#"["AAAAAA==","AAAAAA=="]"#);
        assert!(matches!(Fields::parse(&sharded), Err(TokenError::UnknownField { .. })));
        assert_eq!(Fields::parse(&" ".repeat(MAX + 1)).err(), Some(BAD));
    }
}
