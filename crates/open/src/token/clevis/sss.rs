//! `sss`: any t of some shares restore the key (Shamir, How to Share a Secret, 1979), each of which is a text for a pin of its own.

use atrest_secret::{SecretArray, SecretBytes};
use serde_json::Value;

use super::jwe::{Jwe, bytes};
use crate::token::TokenError;
use crate::token::shamir::{Field, LEN};

/// The shares, and how many of them are needed.
#[derive(Debug)]
pub struct Threshold {
    needed: usize,
    field: Field,
    shares: Vec<Jwe>,
}

impl Threshold {
    pub fn read(pin: &Value) -> Result<Self, TokenError> {
        let bad = TokenError::Malformed;
        let needed = pin.get("t").and_then(Value::as_u64).and_then(|needed| usize::try_from(needed).ok());
        let needed = needed.filter(|needed| *needed > 0).ok_or(bad.clone())?;
        let prime: [u8; LEN] = bytes(pin.get("p"))?.try_into().map_err(|_| bad.clone())?;
        let field = Field::of(&prime)?;
        let shares = pin.get("jwe").and_then(Value::as_array).ok_or(bad.clone())?;
        let shares = shares.iter().map(|share| Jwe::compact(share.as_str().ok_or(TokenError::Malformed)?));
        let shares = shares.collect::<Result<Vec<_>, _>>()?;
        if needed > shares.len() {
            return Err(bad);
        }
        Ok(Self { needed, field, shares })
    }

    /// Over which the key is shared.
    pub fn field(&self) -> &Field {
        &self.field
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
        open: impl FnMut(&Jwe) -> Result<SecretBytes, TokenError>,
    ) -> Result<SecretArray<LEN>, TokenError> {
        self.field.value(&self.open(open)?, &[0; LEN])
    }

    /// As many shares as are needed: the first that `open` opens.
    pub fn open(
        &self,
        mut open: impl FnMut(&Jwe) -> Result<SecretBytes, TokenError>,
    ) -> Result<Vec<SecretBytes>, TokenError> {
        let mut opened = Vec::new();
        let mut failed = Vec::new();
        for share in &self.shares {
            match open(share) {
                Ok(point) if point.len() == 2 * LEN => opened.push(point),
                Ok(_) => failed.push(TokenError::Malformed.to_string()),
                Err(error) => failed.push(error.to_string()),
            }
            if opened.len() == self.needed {
                return Ok(opened);
            }
        }
        let why = failed.join("; ");
        Err(TokenError::TooFew { opened: opened.len(), needed: self.needed, why })
    }
}

#[cfg(test)]
mod tests {
    use base64ct::{Base64UrlUnpadded, Encoding};

    use super::*;

    fn threshold() -> Threshold {
        let mut prime = [0; LEN];
        prime[29..].copy_from_slice(&[1, 0, 1]);
        let text = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
        let share = format!("{}..{}..{}", text(br#"{"enc":"A256GCM"}"#), text(&[0; 12]), text(&[0; 16]));
        let pin = serde_json::json!({ "t": 2, "p": text(&prime), "jwe": [share, share, share] });
        Threshold::read(&pin).expect("two of three")
    }

    /// What comes of these shares, modulo 65537: the last byte of the key, all others of which are zero.
    fn of(shares: &[&[u8]]) -> Result<u8, TokenError> {
        let mut shares = shares.iter().map(|share| SecretBytes::copy_from(share));
        let key = threshold().key(|_| shares.next().ok_or(TokenError::WrongKey))?;
        assert!(key[..LEN - 1].iter().all(|byte| *byte == 0));
        Ok(key[LEN - 1])
    }

    #[test]
    fn shares_make_the_key_if_they_are_enough_and_differ() {
        // On the line 42 + 2x.
        let share = |x: u8, y: u8| {
            let mut bytes = [0; 2 * LEN];
            (bytes[LEN - 1], bytes[2 * LEN - 1]) = (x, y);
            bytes
        };
        let (one, five) = (share(1, 44), share(5, 52));
        assert_eq!(of(&[&one, &five]), Ok(42));
        assert_eq!(of(&[b"too short", &five, &one]), Ok(42));
        assert_eq!(of(&[&one, &one]), Err(TokenError::Malformed));
        assert_eq!(of(&[&[&one[..], &[0]].concat(), &five]).err().map(|error| error.to_string()), {
            let why =
                "it does not have the fields of its type; ".to_owned() + &TokenError::WrongKey.to_string();
            Some(TokenError::TooFew { opened: 1, needed: 2, why }.to_string())
        });
    }
}
