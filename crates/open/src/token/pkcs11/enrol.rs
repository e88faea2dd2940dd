//! New `systemd-pkcs11` tokens, which systemd opens as well.

use atrest_secret::{OsRandom, Passphrase, Random, SecretBytes, constant_time_eq, with_wiped_stack};
use base64ct::{Base64, Encoding};
use rsa::hazmat::rsa_encrypt;
use rsa::{BoxedUint, PublicKey as RsaPublicKey};
use serde_json::json;
use zeroize::Zeroize;

use super::card::{Card, Public};
use super::uri::Uri;
use super::{KIND_NAME, Padding, Pkcs11Error};
use crate::token::TokenError;
use crate::token::enrolled::{Enrolled, encoded};

/// Bits of a modulus.
const BITS: core::ops::RangeInclusive<u32> = 2048..=4096;

/// Whether there is one card that a URI means: before somebody types a PIN. `auto` means any.
///
/// # Errors
/// [`TokenError::Pkcs11`].
pub fn is_there(uri: &str) -> Result<(), TokenError> {
    Ok(Card::find(&meant(uri)?).map(drop)?)
}

/// Whether one more wrong PIN locks the card that a URI means.
///
/// # Errors
/// [`TokenError::Pkcs11`].
pub fn is_last_try(uri: &str) -> Result<bool, TokenError> {
    Ok(Card::find(&meant(uri)?)?.is_last_try)
}

fn meant(uri: &str) -> Result<Uri, Pkcs11Error> {
    if uri == "auto" { Ok(Uri::default()) } else { Uri::parse(uri) }
}

/// Encrypts a fresh secret to the RSA key that a URI means, and has the card decrypt it, to see that it can be done. `auto` means the only key of
/// the only card.
///
/// # Errors
/// [`TokenError::Pkcs11`], [`TokenError::PinNeeded`], [`TokenError::WrongPin`].
pub fn enrol(uri: &str, pin: Option<&Passphrase>) -> Result<Enrolled, TokenError> {
    let wanted = meant(uri)?;
    let card = Card::find(&wanted)?;
    let session = card.log_in(pin)?;
    let key = session.key(&wanted)?;
    let public = session.public(key)?;
    // As systemd: half as long as the modulus.
    let mut secret = SecretBytes::zeroed(public.modulus.len() / 2);
    OsRandom.fill(&mut secret).map_err(|_| TokenError::NoRandom)?;
    let encrypted = encrypt(&public, &secret)?;
    if !constant_time_eq(&session.decrypt(key, Padding::Pkcs1, &encrypted)?, &secret) {
        return Err(Pkcs11Error::NotDecrypted.into());
    }
    let text = match wanted.names_card() {
        true => uri.into(),
        // systemd takes the first card that it finds.
        false => {
            let id = wanted.id.or(Some(public.id).filter(|id| !id.is_empty()));
            Uri { id, ..card.uri.clone() }.text()
        }
    };
    let fields = json!({
        "type": KIND_NAME,
        "keyslots": [],
        "pkcs11-uri": text,
        "pkcs11-key": Base64::encode_string(&encrypted),
    });
    Ok(Enrolled { passphrase: encoded(&secret)?, fields })
}

/// RSAES-PKCS1-v1_5 (RFC 8017, section 7.2.1).
fn encrypt(public: &Public, secret: &[u8]) -> Result<Vec<u8>, TokenError> {
    let bad = || TokenError::from(Pkcs11Error::BadKey);
    let modulus = BoxedUint::from_be_slice_vartime(&public.modulus);
    if !BITS.contains(&modulus.bit_width()) || !modulus.bit_width().is_multiple_of(8) {
        return Err(bad());
    }
    let len = usize::try_from(modulus.bit_width() / 8).map_err(|_| bad())?;
    let key =
        RsaPublicKey::new(modulus, BoxedUint::from_be_slice_vartime(&public.exponent)).map_err(|_| bad())?;
    let padding = len.checked_sub(secret.len() + 3).filter(|padding| *padding >= 8).ok_or_else(bad)?;
    let mut message = SecretBytes::zeroed(len);
    let (head, tail) = message.split_at_mut(2 + padding);
    OsRandom.fill(head).map_err(|_| TokenError::NoRandom)?;
    // Padding has no zeros. Which bytes take the place of some matters to nobody.
    head.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 0xa5);
    head.iter_mut().zip([0, 2]).for_each(|(to, from)| *to = from);
    tail.iter_mut().skip(1).zip(secret).for_each(|(to, from)| *to = *from);
    let encrypted = with_wiped_stack(|| {
        let mut number = BoxedUint::from_be_slice_vartime(&message);
        let encrypted = rsa_encrypt(&key, &number);
        number.zeroize();
        encrypted
    });
    let bytes = encrypted.map_err(|_| bad())?.to_be_bytes();
    // As long as the modulus, which has whole words.
    let from = bytes.len().checked_sub(len).ok_or_else(bad)?;
    Ok(bytes.get(from..).ok_or_else(bad)?.to_vec())
}
