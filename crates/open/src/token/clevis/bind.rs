//! New `clevis` tokens for a tang server, which clevis opens as well.

use atrest_secret::{OsRandom, Passphrase, Random, SecretArray, SecretBytes, with_wiped_stack};
use base64ct::{Base64UrlUnpadded, Encoding};
use p521::PublicKey;
use p521::ecdsa::signature::Verifier;
use p521::ecdsa::{Signature, VerifyingKey};
use p521::elliptic_curve::zeroize::Zeroize;
use serde_json::{Value, json};

use super::{KIND_NAME, curve, http, jwe};
use crate::token::{Thing, TokenError};

const BAD: TokenError = TokenError::BadAnswer;

/// Bytes of randomness in the passphrase, as clevis has it from version 20 on.
const RANDOM: usize = 40;

/// What a server says of its keys, signed by each of them that signs.
#[derive(Debug)]
pub struct Advertised {
    keys: Value,
    exchange: PublicKey,
    signers: Vec<String>,
}

impl Advertised {
    /// The thumbprints of the keys that signed: the administrator of the server knows them (`tang-show-keys`).
    pub fn thumbprints(&self) -> &[String] {
        &self.signers
    }

    /// The server, as it is known by its keys.
    pub(super) fn thing(&self, url: &str) -> Thing {
        Thing::Server { url: url.into(), prints: curve::thumbprints(&self.keys) }
    }

    /// Reads what a server sends (JSON Web Signature, RFC 7515) and checks the signature of each key that signs.
    pub(super) fn parse(body: &[u8]) -> Result<Self, TokenError> {
        let jws: Value = serde_json::from_slice(body).map_err(|_| BAD)?;
        let payload = jws.get("payload").and_then(Value::as_str).ok_or(BAD)?;
        let keys: Value = serde_json::from_slice(&decoded(payload)?).map_err(|_| BAD)?;
        let list = keys.get("keys").and_then(Value::as_array).ok_or(BAD)?;
        let signatures = match jws.get("signatures").and_then(Value::as_array) {
            Some(signatures) => signatures.iter().collect(),
            None => vec![&jws],
        };
        let mut signers = Vec::new();
        // All of them, so that nobody who has one key adds another.
        for key in list.iter().filter(|key| may(key, "verify")) {
            let point = curve::point(key).map_err(|_| BAD)?;
            if !signatures.iter().any(|signature| is_signed(&point, payload, signature)) {
                return Err(TokenError::BadAdvertisement);
            }
            signers.push(curve::thumbprint(&point, atrest_kdf::Hash::Sha256)?);
        }
        if signers.is_empty() {
            return Err(TokenError::BadAdvertisement);
        }
        let is_exchange =
            |key: &&Value| may(key, "deriveKey") && key.get("alg").and_then(Value::as_str) == Some("ECMR");
        let exchange = list.iter().find(is_exchange).ok_or(BAD)?;
        let exchange = curve::point(exchange).map_err(|_| BAD)?;
        Ok(Self { keys, exchange, signers })
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, TokenError> {
    Base64UrlUnpadded::decode_vec(text).map_err(|_| BAD)
}

/// Whether a key is there for this.
fn may(key: &Value, operation: &str) -> bool {
    let operations = key.get("key_ops").and_then(Value::as_array);
    operations.is_some_and(|operations| operations.iter().any(|one| one.as_str() == Some(operation)))
}

fn is_signed(point: &PublicKey, payload: &str, signature: &Value) -> bool {
    let check = || {
        let protected = signature.get("protected")?.as_str()?;
        let header: Value = serde_json::from_slice(&decoded(protected).ok()?).ok()?;
        if header.get("alg")?.as_str()? != "ES512" {
            return None;
        }
        let signature = decoded(signature.get("signature")?.as_str()?).ok()?;
        let signature = Signature::from_slice(&signature).ok()?;
        let signed = format!("{protected}.{payload}");
        VerifyingKey::from(point).verify(signed.as_bytes(), &signature).ok()
    };
    check().is_some()
}

/// Asks a server for its keys. Somebody must then compare a thumbprint, or whoever is on the way has the volume as well.
///
/// # Errors
/// [`TokenError`]: the server can't be reached, or what it says makes no sense or is not signed.
pub fn advertised(url: &str) -> Result<Advertised, TokenError> {
    let body = http::get(&format!("{}/adv", url.trim_end_matches('/'))).map_err(|error| error.of(url))?;
    Advertised::parse(&body)
}

/// What was bound to a server.
#[derive(Debug)]
pub struct Bound {
    /// The passphrase of the keyslot.
    pub passphrase: Passphrase,
    jwe: Value,
}

impl Bound {
    pub(super) fn of(passphrase: SecretBytes, jwe: Value) -> Self {
        Self { passphrase: Passphrase::new(passphrase), jwe }
    }

    /// The token's text, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        token(&[keyslot], &self.jwe)
    }

    /// The token, for no keyslot.
    #[cfg(feature = "shares")]
    pub(in crate::token) fn fields(&self) -> Value {
        json!({ "type": KIND_NAME, "jwe": self.jwe })
    }
}

/// The text of a token for these keyslots.
pub(super) fn token(keyslots: &[u32], jwe: &Value) -> String {
    let keyslots: Vec<_> = keyslots.iter().map(u32::to_string).collect();
    json!({ "type": KIND_NAME, "keyslots": keyslots, "jwe": jwe }).to_string()
}

/// Makes a passphrase, and encrypts it so that the server is needed to decrypt it. The server is not asked.
///
/// # Errors
/// [`TokenError::NoRandom`].
pub fn bind(url: &str, advertised: &Advertised) -> Result<Bound, TokenError> {
    let passphrase = fresh()?;
    let jwe = encrypt(url, advertised, &passphrase)?;
    Ok(Bound::of(passphrase, jwe))
}

/// A fresh passphrase.
pub(super) fn fresh() -> Result<SecretBytes, TokenError> {
    let mut random = SecretArray::<RANDOM>::zeroed();
    OsRandom.fill(&mut *random).map_err(|_| TokenError::NoRandom)?;
    let mut passphrase = SecretBytes::zeroed(Base64UrlUnpadded::encoded_len(&*random));
    Base64UrlUnpadded::encode(&*random, &mut passphrase).map_err(|_| TokenError::Malformed)?;
    Ok(passphrase)
}

/// Encrypts a text so that the server is needed to decrypt it.
pub(super) fn encrypt(url: &str, advertised: &Advertised, text: &[u8]) -> Result<Value, TokenError> {
    let mut key = SecretArray::<32>::zeroed();
    let ephemeral = with_wiped_stack(|| {
        let mut ours = curve::scalar()?;
        let ephemeral = PublicKey::from_secret_scalar(&ours);
        curve::derive(advertised.exchange.to_projective() * *ours, &mut key);
        ours.zeroize();
        Ok::<_, TokenError>(ephemeral)
    })?;
    let header = json!({
        "alg": "ECDH-ES",
        "enc": "A256GCM",
        "clevis": { "pin": "tang", "tang": { "url": url, "adv": advertised.keys } },
        "epk": curve::jwk(&ephemeral, None)?,
        "kid": curve::thumbprint(&advertised.exchange, atrest_kdf::Hash::Sha256)?,
    });
    jwe::encrypt(&key, &header, text)
}

#[cfg(test)]
mod tests {
    use p521::NonZeroScalar;
    use p521::ecdsa::SigningKey;
    use p521::ecdsa::signature::Signer;

    use super::*;

    fn key(scalar: &NonZeroScalar, operation: &str, algorithm: &str) -> Value {
        let mut key = curve::jwk(&PublicKey::from_secret_scalar(scalar), Some(algorithm)).expect("a point");
        key["key_ops"] = json!([operation]);
        key
    }

    fn text(value: &Value) -> String {
        Base64UrlUnpadded::encode_string(value.to_string().as_bytes())
    }

    /// What a server says of these keys, signed by those.
    fn said(keys: &[&Value], signers: &[&NonZeroScalar], algorithm: &str) -> Value {
        let payload = text(&json!({ "keys": keys }));
        let protected = text(&json!({ "alg": algorithm, "cty": "jwk-set+json" }));
        let signatures = signers.iter().map(|signer| {
            let signature: Signature =
                SigningKey::from(**signer).sign(format!("{protected}.{payload}").as_bytes());
            let signature = Base64UrlUnpadded::encode_string(&signature.to_bytes());
            json!({ "protected": protected, "signature": signature })
        });
        json!({ "payload": payload, "signatures": signatures.collect::<Vec<_>>() })
    }

    fn scalar() -> NonZeroScalar {
        curve::scalar().expect("random")
    }

    #[test]
    fn a_list_of_keys_counts_if_each_key_that_signs_has_signed_it() {
        let (one, two, ours) = (scalar(), scalar(), scalar());
        let (first, second) = (key(&one, "verify", "ES512"), key(&two, "verify", "ES512"));
        let exchange = key(&ours, "deriveKey", "ECMR");
        let read = |said: &Value| Advertised::parse(said.to_string().as_bytes());
        let both = said(&[&first, &second, &exchange], &[&two, &one], "ES512");
        assert_eq!(read(&both).expect("signed by both").thumbprints().len(), 2);
        let bad = Some(TokenError::BadAdvertisement);
        // Somebody who has one key adds his own to the other, or signs nothing at all.
        for signers in [&[&one][..], &[&two], &[&ours, &ours], &[]] {
            let said = said(&[&first, &second, &exchange], signers, "ES512");
            assert_eq!(read(&said).err(), bad);
        }
        assert_eq!(read(&said(&[&exchange], &[&one], "ES512")).err(), bad, "nobody signs");
        assert_eq!(read(&said(&[&first, &exchange], &[&one], "none")).err(), bad, "another algorithm");
        let mut other = said(&[&first, &exchange], &[&one], "ES512");
        other["payload"] = text(&json!({ "keys": [first, key(&two, "deriveKey", "ECMR")] })).into();
        assert_eq!(read(&other).err(), bad, "signed for another list");
        let none = said(&[&first, &key(&ours, "deriveKey", "ECDH")], &[&one], "ES512");
        assert_eq!(read(&none).err(), Some(BAD), "no key to exchange with");
    }

    #[test]
    fn what_is_bound_opens_by_the_key_of_the_server_and_unchanged() {
        let (signer, server) = (scalar(), scalar());
        let keys = [&key(&signer, "verify", "ES512"), &key(&server, "deriveKey", "ECMR")];
        let said = said(&keys, &[&signer], "ES512");
        let advertised = Advertised::parse(said.to_string().as_bytes()).expect("signed");
        let bound = bind("http://server", &advertised).expect("random");
        let opened = |jwe: &Value, server: &NonZeroScalar| {
            let jwe = jwe::Jwe::flattened(jwe)?;
            let ephemeral = curve::point(&jwe.header["epk"])?;
            let mut key = SecretArray::zeroed();
            curve::derive(ephemeral.to_projective() * **server, &mut key);
            jwe.decrypt(&key)
        };
        assert!(*opened(&bound.jwe, &server).expect("its key") == *bound.passphrase.expose());
        let wrong = Some(TokenError::WrongKey);
        assert_eq!(opened(&bound.jwe, &signer).err(), wrong);
        for name in ["ciphertext", "iv", "tag"] {
            let mut changed = bound.jwe.clone();
            let mut bytes = jwe::bytes(changed.get(name)).expect("base64url");
            bytes[0] ^= 1;
            changed[name] = Base64UrlUnpadded::encode_string(&bytes).into();
            assert_eq!(opened(&changed, &server).err(), wrong, "{name}");
        }
        let mut changed = bound.jwe.clone();
        let mut header = jwe::Jwe::flattened(&changed).expect("a text").header;
        header["clevis"]["tang"]["url"] = "http://somebody-else".into();
        changed["protected"] = text(&header).into();
        assert_eq!(opened(&changed, &server).err(), wrong, "the address");
    }
}
