//! From a PIN to the password of the sealed object, in the three ways that systemd has had.

use atrest_kdf::{Argon2Cost, Hash, Prf, WorkLimit, argon2, digest, pbkdf2};
use atrest_secret::{Passphrase, SecretArray, SecretBytes};
use base64ct::{Base64, Encoding};

use crate::token::TokenError;

/// Iterations of PBKDF2 from systemd 253 on.
const ITERATIONS: u32 = 10_000;

/// How a PIN is derived.
#[derive(Debug)]
pub enum Derivation {
    /// 251 and 252.
    Hash,
    /// From 253 on.
    Pbkdf2 { salt: Vec<u8> },
    /// From 262 on: the TPM alone does not have the key.
    Argon2 { salt: Vec<u8>, cost: Argon2Cost },
}

/// What comes of a PIN.
pub struct Derived {
    /// The password of the object.
    pub auth: SecretArray<32>,
    /// What the sealed secret is joined with.
    pub lock: Option<Lock>,
}

/// The other half of the key.
pub struct Lock(SecretArray<32>);

impl Lock {
    /// The secret of the keyslot, from what the TPM has unsealed.
    pub fn unlock(&self, unsealed: &[u8]) -> Result<SecretBytes, TokenError> {
        let unsealed: &[u8; 32] = unsealed.try_into().map_err(|_| TokenError::Malformed)?;
        let secret = Prf::extract(unsealed, &*self.0).expand::<32>(&[b"systemd-tpm2-argon2id-lock"]);
        Ok(SecretBytes::copy_from(&*secret))
    }
}

impl Derivation {
    /// Derives a PIN.
    pub fn derive(&self, pin: &Passphrase) -> Result<Derived, TokenError> {
        let mut auth = SecretArray::<32>::zeroed();
        match self {
            Self::Hash => {
                digest(Hash::Sha256, &[pin.expose()], &mut *auth);
                Ok(Derived { auth, lock: None })
            }
            Self::Pbkdf2 { salt } => {
                let mut key = SecretArray::<32>::zeroed();
                let derived = pbkdf2(Hash::Sha256, pin.expose(), salt, ITERATIONS, &mut *key);
                derived.map_err(|error| TokenError::Derivation { error: error.to_string() })?;
                of_text(&key, &mut auth)?;
                Ok(Derived { auth, lock: None })
            }
            Self::Argon2 { salt, cost } => {
                let mut key = SecretArray::<64>::zeroed();
                let derive = || argon2(cost, pin.expose(), salt, &mut *key);
                let derived = WorkLimit::default().during(derive);
                derived.map_err(|error| TokenError::Derivation { error: error.to_string() })?;
                let (mut lock, mut second) = (SecretArray::<32>::zeroed(), SecretArray::<32>::zeroed());
                lock.iter_mut().zip(key.iter()).for_each(|(to, from)| *to = *from);
                second.iter_mut().zip(key.iter().skip(32)).for_each(|(to, from)| *to = *from);
                of_text(&second, &mut auth)?;
                Ok(Derived { auth, lock: Some(Lock(lock)) })
            }
        }
    }
}

/// The hash of base64 of a key.
fn of_text(key: &SecretArray<32>, auth: &mut SecretArray<32>) -> Result<(), TokenError> {
    let mut text = SecretArray::<44>::zeroed();
    Base64::encode(&**key, &mut *text).map_err(|_| TokenError::Malformed)?;
    digest(Hash::Sha256, &[&*text], &mut **auth);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passwords that objects of systemd 252, 257 and 262 had in a software TPM.
    #[test]
    fn pins_are_derived_as_systemd_does() {
        let hex = |auth: &[u8]| auth.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let of = |derivation: Derivation| {
            let derived = derivation.derive(&Passphrase::copy_from(b"1234")).expect("it is derived");
            hex(&*derived.auth)
        };
        assert_eq!(of(Derivation::Hash), "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4");
        let salt = (0..32).collect();
        let salted = "707057c835474da74bcd75b848540fe2bbbf46d9d30a96b148814aecadeddedd";
        assert_eq!(of(Derivation::Pbkdf2 { salt }), salted);
    }
}
