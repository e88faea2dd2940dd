//! The assertion by which a service account asks for a token: a JSON web token (RFC 7519) in compact form (RFC 7515, section 3.1), signed by
//! RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3). What it says is in "Using OAuth 2.0 for Server to Server Applications"
//! (Google's documentation of identity).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use atrest_secret::wipe;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use serde::Serialize;

use crate::google::token::SCOPE;

/// Seconds for which an assertion holds: as long as Google lets it.
const LIFETIME: u64 = 3600;

/// Who signs.
pub(crate) struct Account {
    pub(crate) email: String,
    /// Which of the account's keys it is.
    pub(crate) key_id: Option<String>,
    pub(crate) key: Arc<dyn SigningKey>,
    /// Whom it is said to: the URL of the server of tokens.
    pub(crate) audience: String,
}

/// A key of RSA, of PEM text; `None` if it is none.
pub(crate) fn key(pem: &[u8]) -> Option<Arc<dyn SigningKey>> {
    let (kind, mut der) = <(SectionKind, Vec<u8>)>::from_pem_slice(pem).ok()?;
    let key = match kind {
        SectionKind::PrivateKey => Some(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_slice()))),
        SectionKind::RsaPrivateKey => Some(PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der.as_slice()))),
        _ => None,
    };
    let key = key.and_then(|key| any_supported_type(&key).ok());
    wipe(&mut der);
    key.filter(|key| key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).is_some())
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    typ: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

/// What the account says at a time, signed. Who has it is given a token. A clock before 1970 is told as 1970, and refused.
pub(crate) fn assertion(account: &Account, at: SystemTime) -> Option<String> {
    let iat = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let header = Header { alg: "RS256", typ: "JWT", kid: account.key_id.as_deref() };
    let exp = iat.checked_add(LIFETIME)?;
    let claims = Claims { iss: &account.email, scope: SCOPE, aud: &account.audience, iat, exp };
    let part = |json: serde_json::Result<Vec<u8>>| json.ok().map(|json| base64url(&json));
    let said = [part(serde_json::to_vec(&header))?, part(serde_json::to_vec(&claims))?].join(".");
    let signer = account.key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?;
    let signature = signer.sign(said.as_bytes()).ok()?;
    Some(format!("{said}.{}", base64url(&signature)))
}

/// Base64 with the alphabet for URLs and without padding (RFC 4648, section 5).
fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for letter in 0..=group.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * letter)) as usize % 64]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10, without the padding, and RFC 7515, appendix C; the last one has both letters of this alphabet.
    #[test]
    fn bytes_are_written_as_the_standards_write_them() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"fooba", "Zm9vYmE"),
            (b"foobar", "Zm9vYmFy"),
            (&[3, 236, 255, 224, 193], "A-z_4ME"),
        ] {
            assert_eq!(base64url(bytes), text);
        }
    }

    /// The header of RFC 7515, appendix A.2.
    #[test]
    fn a_header_is_that_of_the_standard() {
        assert_eq!(base64url(br#"{"alg":"RS256"}"#), "eyJhbGciOiJSUzI1NiJ9");
    }

    #[test]
    fn what_is_no_key_of_rsa_is_told() {
        for bad in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(key(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
