//! Points on P-521 as JSON Web Keys (RFC 7518, section 6.2), and what is derived from a shared one.

use atrest_kdf::{Hash, digest};
use atrest_secret::{OsRandom, Random, SecretArray, with_wiped_stack};
use base64ct::{Base64UrlUnpadded, Encoding};
use p521::elliptic_curve::point::AffineCoordinates;
use p521::elliptic_curve::sec1::FromSec1Point;
use p521::elliptic_curve::zeroize::Zeroize;
use p521::{NonZeroScalar, ProjectivePoint, PublicKey, Sec1Point};
use serde_json::{Value, json};

use super::jwe::bytes;
use crate::token::TokenError;

/// Bytes of a coordinate.
pub const LEN: usize = 66;

/// The point of a JSON Web Key: on the curve, and not infinity.
pub fn point(jwk: &Value) -> Result<PublicKey, TokenError> {
    let is = |name: &str, value: &str| jwk.get(name).and_then(Value::as_str) == Some(value);
    if !is("kty", "EC") || !is("crv", "P-521") {
        return Err(TokenError::Malformed);
    }
    let (x, y) = (bytes(jwk.get("x"))?, bytes(jwk.get("y"))?);
    if x.len() != LEN || y.len() != LEN {
        return Err(TokenError::Malformed);
    }
    let sec1 = [&[4][..], &x, &y].concat();
    let point = Sec1Point::from_bytes(sec1).map_err(|_| TokenError::Malformed)?;
    PublicKey::from_sec1_point(&point).into_option().ok_or(TokenError::Malformed)
}

fn coordinates(point: &PublicKey) -> Result<[String; 2], TokenError> {
    let point = Sec1Point::from(point);
    match (point.x(), point.y()) {
        (Some(x), Some(y)) => Ok([x, y].map(|number| Base64UrlUnpadded::encode_string(number))),
        _ => Err(TokenError::Malformed),
    }
}

/// A point as a JSON Web Key, for this algorithm if one is named.
pub fn jwk(point: &PublicKey, algorithm: Option<&str>) -> Result<Value, TokenError> {
    let [x, y] = coordinates(point)?;
    let mut jwk = json!({ "kty": "EC", "crv": "P-521", "x": x, "y": y });
    if let (Some(object), Some(algorithm)) = (jwk.as_object_mut(), algorithm) {
        object.insert("alg".into(), algorithm.into());
    }
    Ok(jwk)
}

/// The thumbprint of a key (RFC 7638).
pub fn thumbprint(point: &PublicKey, hash: Hash) -> Result<String, TokenError> {
    let [x, y] = coordinates(point)?;
    let text = format!(r#"{{"crv":"P-521","kty":"EC","x":"{x}","y":"{y}"}}"#);
    let mut print = [0; 64];
    let len = digest(hash, &[text.as_bytes()], &mut print);
    Ok(Base64UrlUnpadded::encode_string(print.get(..len).ok_or(TokenError::Malformed)?))
}

/// The thumbprints of a list of keys, but for those on other curves.
pub fn thumbprints(keys: &Value) -> Vec<String> {
    let list = keys.get("keys").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|key| thumbprint(&point(key).ok()?, Hash::Sha256).ok()).collect()
}

/// A random number below the order of the curve, and not zero. Whoever takes it wipes it.
pub fn scalar() -> Result<NonZeroScalar, TokenError> {
    for _ in 0..64 {
        let mut bytes = SecretArray::<LEN>::zeroed();
        OsRandom.fill(&mut *bytes).map_err(|_| TokenError::NoRandom)?;
        // The order has 521 bits.
        if let Some(first) = bytes.first_mut() {
            *first &= 1;
        }
        if let Some(scalar) = NonZeroScalar::from_repr((*bytes).into()).into_option() {
            return Ok(scalar);
        }
    }
    Err(TokenError::NoRandom)
}

/// Writes the key that is derived from a shared point: Concat KDF (RFC 7518, section 4.6.2) for A256GCM.
pub fn derive(shared: ProjectivePoint, key: &mut SecretArray<32>) {
    with_wiped_stack(|| {
        let mut z = shared.to_affine().x();
        let number = |number: u32| number.to_be_bytes();
        let (one, seven, none, bits) = (number(1), number(7), number(0), number(256));
        digest(Hash::Sha256, &[&one, &z, &seven, b"A256GCM", &none, &none, &bits], &mut **key);
        z.zeroize();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_point_is_refused() {
        let point_of = |scalar: NonZeroScalar| PublicKey::from_secret_scalar(&scalar);
        let good = jwk(&point_of(scalar().expect("random")), None).expect("a point");
        assert!(point(&good).is_ok());
        for (name, value) in [("kty", "RSA"), ("crv", "P-256"), ("x", ""), ("y", "AA"), ("x", "!")] {
            let mut bad = good.clone();
            bad[name] = value.into();
            assert_eq!(point(&bad).err(), Some(TokenError::Malformed), "{name} {value}");
        }
        let mut beside = good.clone();
        let mut y = bytes(beside.get("y")).expect("base64url");
        y[65] ^= 1;
        beside["y"] = Base64UrlUnpadded::encode_string(&y).into();
        assert_eq!(point(&beside).err(), Some(TokenError::Malformed));
    }
}
