//! `tang`: a server that helps to derive a key without learning it (the exchange of McCallum and Relyea).
//!
//! The token has epk = d·G. Its key was derived from d·s, where s is the server's point. Nobody has d any more. We send epk + e·G for a
//! random e; the server, who has the number behind s, multiplies it by that number; and we take e·s away. An answer that is wrong leads
//! to a wrong key, which the tag of the text shows.

use atrest_kdf::Hash;
use atrest_secret::{SecretArray, with_wiped_stack};
use p521::elliptic_curve::zeroize::Zeroize;
use p521::{ProjectivePoint, PublicKey};
use serde_json::Value;

use super::jwe::Jwe;
use super::{curve, http};
use crate::token::TokenError;

/// What a text says of its server.
pub struct Binding<'a> {
    url: &'a str,
    kid: &'a str,
    server: PublicKey,
    ephemeral: PublicKey,
}

impl<'a> Binding<'a> {
    pub fn read(jwe: &'a Jwe, pin: &'a Value) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        let text = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_str);
        if text(&jwe.header, "alg") != Some("ECDH-ES") {
            return Err(bad);
        }
        let kid = text(&jwe.header, "kid").ok_or(bad.clone())?;
        // It becomes a part of an address.
        if !kid.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(bad);
        }
        let hash = if kid.len() == 27 { Hash::Sha1 } else { Hash::Sha256 };
        let keys = pin.get("adv").and_then(|advertised| advertised.get("keys")).and_then(Value::as_array);
        // Others may be keys of another curve.
        let mut points = keys.ok_or(bad.clone())?.iter().filter_map(|key| curve::point(key).ok());
        let server = points.find(|point| curve::thumbprint(point, hash).is_ok_and(|print| print == kid));
        Ok(Self {
            url: text(pin, "url").ok_or(bad.clone())?,
            kid,
            server: server.ok_or(bad.clone())?,
            ephemeral: curve::point(jwe.header.get("epk").ok_or(bad)?)?,
        })
    }

    /// The key of the text, which the server helps to derive.
    pub fn key(&self) -> Result<SecretArray<32>, TokenError> {
        let mut key = SecretArray::zeroed();
        with_wiped_stack(|| self.ask(&mut key))?;
        Ok(key)
    }

    fn ask(&self, key: &mut SecretArray<32>) -> Result<(), TokenError> {
        let mut blind = curve::scalar()?;
        let sent = self.ephemeral.to_projective() + ProjectivePoint::GENERATOR * *blind;
        let sent = PublicKey::from_affine(sent.to_affine()).map_err(|_| TokenError::Malformed)?;
        let body = curve::jwk(&sent, Some("ECMR"))?.to_string();
        let place = format!("{}/rec/{}", self.url.trim_end_matches('/'), self.kid);
        let answered = http::post(&place, "application/jwk+json", body.as_bytes());
        let answered = answered.map_err(|error| error.of(self.url)).and_then(|body| answer(&body))?;
        curve::derive(answered.to_projective() - self.server.to_projective() * *blind, key);
        blind.zeroize();
        Ok(())
    }
}

/// The point in an answer.
pub fn answer(body: &[u8]) -> Result<PublicKey, TokenError> {
    let jwk: Value = serde_json::from_slice(body).map_err(|_| TokenError::BadAnswer)?;
    curve::point(&jwk).map_err(|_| TokenError::BadAnswer)
}
