//! Shares that are encrypted to the keys of factors. Whoever knows the public keys alone can hand out new shares, so that a factor is replaced without
//! the secrets of the others.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use atrest_kdf::{Hash, Prf, digest};
use atrest_secret::{
    OsRandom, Passphrase, Random, SecretArray, SecretBytes, constant_time_eq, with_wiped_stack,
};
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::zeroize::Zeroize;
use p256::{NonZeroScalar, PublicKey};

use super::layout::{Factor, SHARE, Set, point};
use crate::token::TokenError;
use crate::token::shamir::{joined, place};

/// The public key that belongs to a factor's secret and its salt.
pub fn public_key(secret: &Passphrase, salt: &[u8; 32]) -> Result<PublicKey, TokenError> {
    with_wiped_stack(|| {
        let mut scalar = scalar(secret, salt)?;
        let key = PublicKey::from_secret_scalar(&scalar);
        scalar.zeroize();
        Ok(key)
    })
}

/// The private key: the first number of a few that is one below the order of the curve.
fn scalar(secret: &Passphrase, salt: &[u8; 32]) -> Result<NonZeroScalar, TokenError> {
    let prf = Prf::extract(salt, secret.expose());
    let mut candidates = (0_u8..8).map(|counter| prf.expand::<32>(&[b"atrest factor key 1", &[counter]]));
    let found = candidates.find_map(|bytes| NonZeroScalar::from_repr((*bytes).into()).into_option());
    // One in 2^256.
    found.ok_or(TokenError::Malformed)
}

/// The key of one share.
fn share_key(
    shared: &[u8],
    set: &[u8; 16],
    number: u8,
    points: [&PublicKey; 2],
) -> Result<SecretArray<32>, TokenError> {
    let [ephemeral, key] = [point(points[0])?, point(points[1])?];
    Ok(Prf::extract(set, shared).expand(&[b"atrest share 1", &[number], &ephemeral, &key]))
}

/// What a share is to be, so that nobody puts another one in its place.
pub fn commitment(set: &[u8; 16], number: u8, value: &[u8; 32]) -> [u8; 32] {
    let mut hash = [0; 32];
    with_wiped_stack(|| {
        digest(Hash::Sha256, &[b"atrest share commitment 1\0", set, &[number], value], &mut hash)
    });
    hash
}

/// Encrypts a share to the factor with this number of a set whose list is complete: keys and commitments.
pub fn seal(set: &mut Set, list: &[u8; 32], number: u8, value: &SecretArray<32>) -> Result<(), TokenError> {
    let id = set.id;
    let factor =
        set.factors.iter_mut().find(|factor| factor.number == number).ok_or(TokenError::Malformed)?;
    let mut random = SecretArray::<32>::zeroed();
    OsRandom.fill(&mut *random).map_err(|_| TokenError::NoRandom)?;
    let mut share = SecretBytes::copy_from(&**value);
    let tag = with_wiped_stack(|| {
        // One in 2^32 is not below the order of the curve.
        let mut ours =
            NonZeroScalar::from_repr((*random).into()).into_option().ok_or(TokenError::NoRandom)?;
        factor.ephemeral = PublicKey::from_secret_scalar(&ours);
        let mut shared = (factor.key.to_projective() * *ours).to_affine().x();
        ours.zeroize();
        let key = share_key(&shared, &id, number, [&factor.ephemeral, &factor.key]);
        shared.zeroize();
        // The key is for this one text.
        let cipher = Aes256Gcm::new((&*key?).into());
        let tag = cipher.encrypt_inout_detached((&[0; 12]).into(), list, (&mut share[..]).into());
        tag.map_err(|_| TokenError::Malformed)
    })?;
    factor.share = [&share[..], &tag[..]].concat().try_into().map_err(|_| TokenError::Malformed)?;
    Ok(())
}

/// The share of a factor: its place, and the value there.
///
/// # Errors
/// [`TokenError::OtherFactor`] if it is not this factor's secret, [`TokenError::ShareChanged`] if it is, and its share or the list is another.
pub fn open(
    set: &Set,
    list: &[u8; 32],
    factor: &Factor,
    secret: &Passphrase,
) -> Result<SecretBytes, TokenError> {
    if public_key(secret, &factor.salt)? != factor.key {
        return Err(TokenError::OtherFactor);
    }
    let (share, tag) = factor.share.split_at(SHARE - 16);
    let tag: [u8; 16] = tag.try_into().map_err(|_| TokenError::Malformed)?;
    let mut value = SecretArray::<32>::zeroed();
    value.iter_mut().zip(share).for_each(|(to, from)| *to = *from);
    with_wiped_stack(|| {
        let mut scalar = scalar(secret, &factor.salt)?;
        let mut shared = (factor.ephemeral.to_projective() * *scalar).to_affine().x();
        scalar.zeroize();
        let key = share_key(&shared, &set.id, factor.number, [&factor.ephemeral, &factor.key]);
        shared.zeroize();
        let cipher = Aes256Gcm::new((&*key?).into());
        let opened =
            cipher.decrypt_inout_detached((&[0; 12]).into(), list, (&mut value[..]).into(), (&tag).into());
        opened.map_err(|_| TokenError::ShareChanged)
    })?;
    match constant_time_eq(&commitment(&set.id, factor.number, &value), &factor.commitment) {
        true => Ok(joined(&place(factor.number), &value)),
        false => Err(TokenError::ShareChanged),
    }
}
