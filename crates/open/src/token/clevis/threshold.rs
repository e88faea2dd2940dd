//! New `clevis` tokens that any few of several servers and TPMs open together (`sss`), which clevis opens as well, and other shares in them.

use atrest_secret::{OsRandom, Random, SecretBytes};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value, json};

use super::bind::{Advertised, Bound, encrypt, fresh, token};
use super::jwe::{self, Jwe};
use super::sss::Threshold;
use super::{LIMIT, Opening, pin_needs, thing};
use crate::token::shamir::{LEN, PRIME, Polynomial, joined};
use crate::token::thing::twins;
use crate::token::{Thing, TokenError};

/// Who gets a share.
#[derive(Debug)]
pub enum Pin {
    /// A server at an address.
    Tang(String, Box<Advertised>),
    /// This machine's TPM, with PCRs as they are now: bit n is PCR n.
    #[cfg(feature = "tpm")]
    Tpm2(u32),
}

impl Pin {
    fn thing(&self) -> Thing {
        match self {
            Self::Tang(url, advertised) => advertised.thing(url),
            #[cfg(feature = "tpm")]
            Self::Tpm2(_) => Thing::Tpm,
        }
    }

    /// The share, for this pin alone.
    fn encrypt(&self, share: &[u8]) -> Result<String, TokenError> {
        let jwe = match self {
            Self::Tang(url, advertised) => encrypt(url, advertised, share)?,
            #[cfg(feature = "tpm")]
            Self::Tpm2(mask) => super::tpm2::encrypt(*mask, share)?,
        };
        jwe::compacted(&jwe)
    }
}

/// Makes a passphrase that `needed` of these pins restore.
///
/// # Errors
/// [`TokenError`]: there are fewer pins than are needed, two are one thing, or the TPM does not do it.
pub fn bind_threshold(needed: u8, pins: &[Pin]) -> Result<Bound, TokenError> {
    if needed == 0 || usize::from(needed) > pins.len() {
        return Err(TokenError::Malformed);
    }
    let things: Vec<Thing> = pins.iter().map(Pin::thing).collect();
    if let Some((number, _)) = twins(things.iter().map(Some)) {
        return Err(TokenError::SameThing { number });
    }
    let polynomial = Polynomial::fresh(needed.into())?;
    let mut shares = Vec::new();
    for pin in pins {
        shares.push(pin.encrypt(&polynomial.share(&somewhere()?))?);
    }
    let passphrase = fresh()?;
    let sss = json!({ "t": needed, "p": Base64UrlUnpadded::encode_string(&PRIME), "jwe": shares });
    let jwe = jwe::encrypt(&polynomial.key(), &header(&sss), &passphrase)?;
    Ok(Bound::of(passphrase, jwe))
}

fn header(sss: &Value) -> Value {
    json!({ "alg": "dir", "enc": "A256GCM", "clevis": { "pin": "sss", "sss": sss } })
}

/// A random place, where no other share is, and not zero. It is below 2^255, and so below each prime of 256 bits.
fn somewhere() -> Result<[u8; LEN], TokenError> {
    let mut place = [0; LEN];
    OsRandom.fill(&mut place).map_err(|_| TokenError::NoRandom)?;
    if let Some(first) = place.first_mut() {
        *first &= 0x7f;
    }
    Ok(place)
}

/// What each share of a threshold needs, in words and in order; `None` if a token is none.
pub fn shares(text: &str) -> Option<Vec<String>> {
    let jwe = of(text).ok()?;
    let (_, pin) = jwe.pin().ok().filter(|(name, _)| *name == "sss")?;
    let threshold = Threshold::read(pin).ok()?;
    Some(threshold.shares().iter().map(|share| pin_needs(share, 1)).collect())
}

fn of(text: &str) -> Result<Jwe, TokenError> {
    let token: Value = serde_json::from_str(text).map_err(|_| TokenError::Malformed)?;
    Jwe::flattened(token.get("jwe").ok_or(TokenError::Malformed)?)
}

/// The text of a token for the same keyslots with another pin in the place of the share with this number, which counts from 1. As many of the
/// shares as are needed are opened, and restore the polynomial: its value at a new place is the new share. The passphrase stays.
///
/// # Errors
/// [`TokenError`]: it is no threshold, another share is of the same thing, too few of the shares open, it has no share of that number, or the pin does not do it.
pub fn replace(text: &str, keyslots: &[u32], number: u8, pin: &Pin) -> Result<String, TokenError> {
    let jwe = of(text)?;
    let (_, sss) = jwe.pin()?;
    let threshold = Threshold::read(sss)?;
    let at = usize::from(number).checked_sub(1).filter(|at| *at < threshold.shares().len());
    let at = at.ok_or(TokenError::NoFactor { number })?;
    let new = pin.thing();
    for (number, share) in (1..).zip(threshold.shares()) {
        if usize::from(number) != at + 1 && thing(share).is_some_and(|thing| thing.is_same(&new)) {
            return Err(TokenError::SameThing { number });
        }
    }
    let mut opening = Opening::until(std::time::Instant::now() + LIMIT);
    let opened = threshold.open(|share| opening.open(share))?;
    let key = threshold.field().value(&opened, &[0; LEN])?;
    let passphrase: SecretBytes = jwe.decrypt(&key)?;
    let place = somewhere()?;
    let value = threshold.field().value(&opened, &place)?;
    let mut sss = sss.clone();
    let share = sss.get_mut("jwe").and_then(|shares| shares.get_mut(at)).ok_or(TokenError::Malformed)?;
    *share = pin.encrypt(&joined(&place, &value))?.into();
    Ok(token(keyslots, &jwe::encrypt(&key, &header(&sss), &passphrase)?))
}
