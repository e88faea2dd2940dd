//! `tpm2`: a TPM has sealed the key, to PCRs or to nothing but itself.

use atrest_kdf::Hash;
use atrest_secret::{OsRandom, Random, SecretArray, SecretBytes};
use atrest_tpm::{Bank, Device, Pcrs, Policy, Sealed, Template, Tpm};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde::Deserialize;
use serde_json::{Value, json};

use super::jwe::{self, bytes};
use crate::token::TokenError;

/// The sealed key as a JSON Web Key, whose text is not copied.
#[derive(Deserialize)]
struct Key<'a> {
    k: &'a str,
}

/// What a text says of its TPM.
#[derive(Debug)]
pub struct Binding {
    parent: Template,
    sealed: Sealed,
    pcrs: Option<Pcrs>,
}

impl Binding {
    pub fn read(pin: &Value) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        let text = |name: &str| pin.get(name).and_then(Value::as_str);
        // Another program's, with policies of its own.
        if let Some(name) =
            ["policy_pubkey_path", "policy_ref", "policy_path"].iter().find(|name| text(name).is_some())
        {
            return Err(TokenError::UnknownField { name: (*name).into() });
        }
        let hash = text("hash").and_then(|name| Hash::named(name).ok()).ok_or(bad.clone())?;
        let parent = match text("key") {
            Some("ecc") => Template::Ecc(hash),
            Some("rsa") => Template::Rsa(hash),
            _ => return Err(bad),
        };
        let parts = [bytes(pin.get("jwk_priv"))?, bytes(pin.get("jwk_pub"))?].concat();
        let sealed = Sealed::parse(&parts)?;
        let pcrs = text("pcr_ids").map(|list| -> Option<Pcrs> {
            let bank = Bank::named(text("pcr_bank")?)?;
            let mask = list.split(',').try_fold(0, |mask, pcr| {
                let pcr = pcr.trim().parse::<u32>().ok().filter(|pcr| *pcr < 24)?;
                Some(mask | 1 << pcr)
            })?;
            Some(Pcrs { bank, mask })
        });
        Ok(Self { parent, sealed, pcrs: pcrs.map(|pcrs| pcrs.ok_or(bad)).transpose()? })
    }

    /// The key of the text.
    pub fn key(&self) -> Result<SecretArray<32>, TokenError> {
        let mut tpm = Tpm::open(&Device::from_environment()?)?;
        let parent = tpm.create_primary(self.parent)?;
        let text = match self.pcrs {
            None => tpm.unseal_without_policy(&parent, &self.sealed)?,
            Some(pcrs) => {
                let policy = Policy { pcrs: Some(pcrs), ..Policy::default() };
                let expected = self.sealed.policy().ok_or(TokenError::Malformed)?;
                tpm.unseal(&parent, &self.sealed, &policy, &expected, &SecretArray::zeroed())?
            }
        };
        let jwk: Key<'_> = serde_json::from_slice(&text).map_err(|_| TokenError::Malformed)?;
        let mut key = SecretArray::<32>::zeroed();
        match Base64UrlUnpadded::decode(jwk.k, &mut *key) {
            Ok(decoded) if decoded.len() == 32 => Ok(key),
            _ => Err(TokenError::Malformed),
        }
    }
}

/// What stands before and after the key in the text that is sealed.
const BEFORE: &[u8] = br#"{"alg":"A256GCM","k":""#;
const AFTER: &[u8] = b"\",\"key_ops\":[\"encrypt\",\"decrypt\"],\"kty\":\"oct\"}\n";

/// Encrypts a text to a key that this machine's TPM has sealed, to these PCRs as they are now, or, if the mask is 0, to nothing but itself.
pub fn encrypt(mask: u32, text: &[u8]) -> Result<Value, TokenError> {
    let mut tpm = Tpm::open(&Device::from_environment()?)?;
    let pcrs = match mask {
        0 => None,
        mask => Some(Pcrs { bank: tpm.bank_in_use(mask)?, mask }),
    };
    let mut key = SecretArray::<32>::zeroed();
    OsRandom.fill(&mut *key).map_err(|_| TokenError::NoRandom)?;
    let mut k = SecretArray::<43>::zeroed();
    Base64UrlUnpadded::encode(&*key, &mut *k).map_err(|_| TokenError::Malformed)?;
    let mut jwk = SecretBytes::zeroed(BEFORE.len() + k.len() + AFTER.len());
    jwk.iter_mut().zip(BEFORE.iter().chain(k.iter()).chain(AFTER)).for_each(|(to, from)| *to = *from);
    let parent = tpm.create_primary(Template::Ecc(Hash::Sha256))?;
    let sealed = match pcrs {
        None => tpm.seal_without_policy(&parent, &jwk)?,
        Some(_) => {
            let policy = Policy { pcrs, ..Policy::default() };
            tpm.seal(&parent, &policy, &SecretArray::zeroed(), &jwk)?.sealed
        }
    };
    let part = |bytes: &[u8]| {
        let len = u16::try_from(bytes.len()).map_err(|_| TokenError::Malformed)?;
        Ok::<_, TokenError>(Base64UrlUnpadded::encode_string(&[&len.to_be_bytes()[..], bytes].concat()))
    };
    let mut pin = json!({
        "hash": "sha256",
        "key": "ecc",
        "jwk_pub": part(&sealed.public)?,
        "jwk_priv": part(&sealed.private)?,
    });
    if let (Some(pcrs), Some(object)) = (pcrs, pin.as_object_mut()) {
        let list = (0..24).filter(|pcr| mask >> pcr & 1 == 1).map(|pcr: u32| pcr.to_string());
        object.insert("pcr_bank".into(), pcrs.bank.name().into());
        object.insert("pcr_ids".into(), list.collect::<Vec<_>>().join(",").into());
    }
    let header = json!({ "alg": "dir", "enc": "A256GCM", "clevis": { "pin": "tpm2", "tpm2": pin } });
    jwe::encrypt(&key, &header, text)
}
