//! `sss`: any t of some shares restore the key (Shamir, How to Share a Secret, 1979), each of which is a text for a pin of its own.

use atrest_secret::{SecretArray, SecretBytes};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U256};
use serde_json::Value;

use super::jwe::{Jwe, bytes};
use crate::token::TokenError;

/// Bytes of a number of the field.
const LEN: usize = 32;

type Number = FixedMontyForm<4>;

/// The shares, and how many of them are needed.
#[derive(Debug)]
pub struct Threshold {
    needed: usize,
    field: FixedMontyParams<4>,
    shares: Vec<Jwe>,
}

impl Threshold {
    pub fn read(pin: &Value) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        let needed = pin.get("t").and_then(Value::as_u64).and_then(|needed| usize::try_from(needed).ok());
        let needed = needed.filter(|needed| *needed > 0).ok_or(bad.clone())?;
        let prime: [u8; LEN] = bytes(pin.get("p"))?.try_into().map_err(|_| bad.clone())?;
        let prime = Odd::new(U256::from_be_slice(&prime)).into_option().ok_or(bad.clone())?;
        if *prime == U256::ONE {
            return Err(bad);
        }
        let shares = pin.get("jwe").and_then(Value::as_array).ok_or(bad.clone())?;
        let shares = shares.iter().map(|share| Jwe::compact(share.as_str().ok_or(TokenError::Malformed)?));
        let shares = shares.collect::<Result<Vec<_>, _>>()?;
        if needed > shares.len() {
            return Err(bad);
        }
        Ok(Self { needed, field: FixedMontyParams::new_vartime(prime), shares })
    }

    /// How many shares are needed.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Who has shares.
    pub fn shares(&self) -> &[Jwe] {
        &self.shares
    }

    /// The key, from the first shares that `open` opens.
    pub fn key(
        &self,
        mut open: impl FnMut(&Jwe) -> Result<SecretBytes, TokenError>,
    ) -> Result<SecretArray<32>, TokenError> {
        let mut points = Vec::new();
        let mut failed = Vec::new();
        for share in &self.shares {
            match open(share).and_then(|share| self.point(&share)) {
                Ok(point) => points.push(point),
                Err(error) => failed.push(error.to_string()),
            }
            if points.len() == self.needed {
                return self.at_zero(&points);
            }
        }
        let why = failed.join("; ");
        Err(TokenError::TooFew { opened: points.len(), needed: self.needed, why })
    }

    fn point(&self, share: &[u8]) -> Result<[Number; 2], TokenError> {
        match share.as_chunks::<LEN>() {
            ([x, y], []) => Ok([x, y].map(|number| Number::new(&U256::from_be_slice(number), &self.field))),
            _ => Err(TokenError::Malformed),
        }
    }

    /// What the polynomial through these points is at zero (Lagrange).
    fn at_zero(&self, points: &[[Number; 2]]) -> Result<SecretArray<32>, TokenError> {
        let mut sum = Number::zero(&self.field);
        for (at, [x, y]) in points.iter().enumerate() {
            let (mut above, mut below) = (*y, Number::one(&self.field));
            for (_, [other, _]) in points.iter().enumerate().filter(|(other, _)| *other != at) {
                above *= other;
                below *= &(*other - x);
            }
            // Two shares at one place tell as much as one.
            let inverse = below.invert().into_option().ok_or(TokenError::Malformed)?;
            sum += &(above * inverse);
        }
        let mut key = SecretArray::<32>::zeroed();
        let number = sum.retrieve().to_be_bytes();
        key.iter_mut().zip(number.as_ref() as &[u8]).for_each(|(to, from)| *to = *from);
        Ok(key)
    }
}
