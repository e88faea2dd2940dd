//! New thresholds, and factors that take the place of others.

use atrest_kdf::Argon2Cost;
use atrest_secret::{OsRandom, Passphrase, Random};
use atrest_volume::VolumeKey;
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

use super::layout::{Factor, MAX_FACTORS, SHARE, Set};
use super::twin_in;
use super::{PASSPHRASE, derived, keyslot_passphrase, sealed};
use crate::token::enrolled::Enrolled;
use crate::token::shamir::{Polynomial, place};
use crate::token::thing::twins;
use crate::token::{Thing, TokenError, recovery};

/// A factor whose secret is at hand.
pub struct NewFactor {
    how: Value,
    secret: Passphrase,
}

impl core::fmt::Debug for NewFactor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("NewFactor").field(&self.how).finish()
    }
}

impl NewFactor {
    /// What a TPM, a security key or a smart card was enrolled for.
    pub fn enrolled(enrolled: &Enrolled) -> Self {
        Self::of(enrolled.fields.clone(), &enrolled.passphrase)
    }

    /// What was bound to a tang server.
    #[cfg(feature = "clevis")]
    pub fn tang(bound: &crate::token::clevis::Bound) -> Self {
        Self::of(bound.fields(), &bound.passphrase)
    }

    /// A recovery key, as it is written down.
    pub fn recovery(key: &Passphrase) -> Self {
        Self::of(json!({ "type": recovery::KIND_NAME }), key)
    }

    /// A passphrase, derived by Argon2id at this cost. Empty ones are for the caller to refuse.
    ///
    /// # Errors
    /// [`TokenError::Derivation`]: it takes more memory or time than there is.
    pub fn passphrase(typed: &Passphrase, cost: &Argon2Cost) -> Result<Self, TokenError> {
        let mut salt = [0; 32];
        OsRandom.fill(&mut salt).map_err(|_| TokenError::NoRandom)?;
        let how = json!({
            "type": PASSPHRASE,
            "kdf": "argon2id",
            "salt": Base64::encode_string(&salt),
            "time": cost.time,
            "memory": cost.memory_kib,
            "lanes": cost.lanes,
        });
        let secret = derived(typed, &how)?;
        Ok(Self { how, secret })
    }

    fn of(mut how: Value, secret: &Passphrase) -> Self {
        if let Some(object) = how.as_object_mut() {
            object.remove("keyslots");
        }
        Self { how, secret: Passphrase::copy_from(secret.expose()) }
    }

    /// It, with a key of its own and no share yet.
    fn numbered(self, number: u8) -> Result<Factor, TokenError> {
        let mut salt = [0; 32];
        OsRandom.fill(&mut salt).map_err(|_| TokenError::NoRandom)?;
        let key = sealed::public_key(&self.secret, &salt)?;
        Ok(Factor {
            number,
            how: self.how,
            salt,
            key,
            commitment: [0; 32],
            ephemeral: key,
            share: [0; SHARE],
        })
    }
}

/// A keyslot's passphrase that any `needed` of these factors restore, with its token. The list of them is authenticated under the volume key.
///
/// # Errors
/// [`TokenError::Malformed`] if there are fewer factors than are needed, or too many; [`TokenError::SameThing`], [`TokenError::NoRandom`].
pub fn make(needed: u8, factors: Vec<NewFactor>, key: &VolumeKey) -> Result<Enrolled, TokenError> {
    if needed == 0 || usize::from(needed) > factors.len() || factors.len() > MAX_FACTORS {
        return Err(TokenError::Malformed);
    }
    let things: Vec<Option<Thing>> = factors.iter().map(|factor| Thing::of(&factor.how)).collect();
    if let Some((number, _)) = twins(things.iter().map(Option::as_ref)) {
        return Err(TokenError::SameThing { number });
    }
    let factors =
        (1..).zip(factors).map(|(number, factor)| factor.numbered(number)).collect::<Result<_, _>>()?;
    share_out(needed, factors, key)
}

/// Puts another factor in the place of one: a new passphrase for a new keyslot, and new shares for all.
///
/// The others need not be there, as their shares are encrypted to their public keys, which a MAC under the volume key proves. What the old factor
/// had is of no use for the new keyslot.
///
/// # Errors
/// [`TokenError::NotAuthentic`] if the list was changed, or is not of this volume key; [`TokenError::NoFactor`] if no factor has the number;
/// [`TokenError::SameThing`] if another one is what the new one is.
pub fn replace(text: &str, number: u8, new: NewFactor, key: &VolumeKey) -> Result<Enrolled, TokenError> {
    let mut set = Set::parse(text)?;
    if !set.is_authentic(key)? {
        return Err(TokenError::NotAuthentic);
    }
    if let Some(number) = Thing::of(&new.how).and_then(|thing| twin_in(&set, number, &thing)) {
        return Err(TokenError::SameThing { number });
    }
    let new = new.numbered(number)?;
    let old = set.factors.iter_mut().find(|factor| factor.number == number);
    *old.ok_or(TokenError::NoFactor { number })? = new;
    share_out(set.needed, set.factors, key)
}

fn share_out(needed: u8, factors: Vec<Factor>, key: &VolumeKey) -> Result<Enrolled, TokenError> {
    let mut id = [0; 16];
    OsRandom.fill(&mut id).map_err(|_| TokenError::NoRandom)?;
    let polynomial = Polynomial::fresh(needed.into())?;
    let mut set = Set { needed, id, factors, mac: [0; 32] };
    for factor in &mut set.factors {
        let value = polynomial.value(&place(factor.number));
        factor.commitment = sealed::commitment(&id, factor.number, &value);
    }
    let list = set.list()?;
    for number in set.factors.iter().map(|factor| factor.number).collect::<Vec<_>>() {
        sealed::seal(&mut set, &list, number, &polynomial.value(&place(number)))?;
    }
    set.mac = set.mac_under(key)?;
    Ok(Enrolled { passphrase: keyslot_passphrase(&polynomial.key())?, fields: set.fields()? })
}
