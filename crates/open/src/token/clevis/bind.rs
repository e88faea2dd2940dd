//! New `clevis` tokens for a tang server, which clevis opens as well.

use atrest_secret::{OsRandom, Passphrase, Random, SecretArray, SecretBytes};
use base64ct::{Base64UrlUnpadded, Encoding};
use p521::PublicKey;
use p521::ecdsa::signature::Verifier;
use p521::ecdsa::{Signature, VerifyingKey};
use p521::elliptic_curve::zeroize::Zeroize;
use serde_json::{Value, json};

use super::{KIND_NAME, curve, http, jwe};
use crate::token::TokenError;

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
    /// The token's text, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        json!({ "type": KIND_NAME, "keyslots": [keyslot.to_string()], "jwe": self.jwe }).to_string()
    }
}

/// Makes a passphrase, and encrypts it so that the server is needed to decrypt it. The server is not asked.
///
/// # Errors
/// [`TokenError::NoRandom`].
pub fn bind(url: &str, advertised: &Advertised) -> Result<Bound, TokenError> {
    let mut random = SecretArray::<RANDOM>::zeroed();
    OsRandom.fill(&mut *random).map_err(|_| TokenError::NoRandom)?;
    let mut passphrase = SecretBytes::zeroed(Base64UrlUnpadded::encoded_len(&*random));
    Base64UrlUnpadded::encode(&*random, &mut passphrase).map_err(|_| TokenError::Malformed)?;
    let mut ours = curve::scalar()?;
    let ephemeral = PublicKey::from_secret_scalar(&ours);
    let key = curve::derived(advertised.exchange.to_projective() * *ours);
    ours.zeroize();
    let header = json!({
        "alg": "ECDH-ES",
        "enc": "A256GCM",
        "clevis": { "pin": "tang", "tang": { "url": url, "adv": advertised.keys } },
        "epk": curve::jwk(&ephemeral, None)?,
        "kid": curve::thumbprint(&advertised.exchange, atrest_kdf::Hash::Sha256)?,
    });
    let mut iv = [0; 12];
    OsRandom.fill(&mut iv).map_err(|_| TokenError::NoRandom)?;
    let jwe = jwe::encrypt(&key, iv, &header, &passphrase)?;
    Ok(Bound { passphrase: Passphrase::new(passphrase), jwe })
}
