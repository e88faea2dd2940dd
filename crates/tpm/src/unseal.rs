//! Unsealing: the object is loaded, its policy is met, and the secret comes back encrypted.

use atrest_codec::Reader;
use atrest_secret::{SecretArray, SecretBytes};

use crate::commands;
use crate::exchange::Auth;
use crate::parent::name_of;
use crate::session::{InSession, Kind, Session};
use crate::wire::{Bytes, sized};
use crate::{Parent, Policy, Tpm, TpmError};

/// How often a policy is tried again because a PCR changed meanwhile.
const RESTLESS_LIMIT: u32 = 30;

/// The exponent of a signing key as its Name has it: as it is, and as some versions of systemd wrote it.
const EXPONENTS: [u32; 2] = [65537, 0];

/// A sealed object as it lies outside of the TPM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The content of `TPM2B_PRIVATE`, which the parent has encrypted.
    pub private: Vec<u8>,
    /// The content of `TPM2B_PUBLIC`.
    pub public: Vec<u8>,
}

impl Sealed {
    /// From `TPM2B_PRIVATE` and `TPM2B_PUBLIC`, one after the other.
    ///
    /// # Errors
    /// [`TpmError::Malformed`], also if anything follows.
    pub fn parse(blob: &[u8]) -> Result<Self, TpmError> {
        let mut reader = Reader::new(blob);
        let (private, public) = (sized(&mut reader)?, sized(&mut reader)?);
        reader.finish()?;
        Ok(Self { private: private.to_vec(), public: public.to_vec() })
    }

    /// The digest of its policy, if that is one by SHA-256.
    pub fn policy(&self) -> Option<[u8; 32]> {
        let mut reader = Reader::new(&self.public);
        let (_, _, _) = (reader.be16().ok()?, reader.be16().ok()?, reader.be32().ok()?);
        sized(&mut reader).ok()?.try_into().ok()
    }

    /// Both, one after the other.
    ///
    /// # Errors
    /// [`TpmError::TooLong`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, TpmError> {
        Ok(Bytes::default().sized(&self.private)?.sized(&self.public)?.0)
    }
}

impl Tpm {
    /// The secret of an object whose policy is met. `expected` is the digest to which its policy leads, `pin` the value that the object's
    /// password has, filled up with zeros; it counts only if the policy asks for it.
    ///
    /// What does not lead to the digest is told before the TPM is asked to unseal: it counts no wrong PIN then.
    ///
    /// # Errors
    /// [`TpmError::PcrsChanged`], [`TpmError::NoSignature`] or [`TpmError::PolicyUnmet`] if the policy is not met, [`TpmError::WrongPin`],
    /// [`TpmError::LockedOut`], [`TpmError::OtherTpm`]; [`TpmError::Tampered`] if the answer was changed; otherwise as all commands.
    pub fn unseal(
        &mut self,
        parent: &Parent,
        sealed: &Sealed,
        policy: &Policy<'_>,
        expected: &[u8; 32],
        pin: &SecretArray<32>,
    ) -> Result<SecretBytes, TpmError> {
        // Without it in the policy the object has no password, which is a part of keys all the same.
        let none = SecretArray::zeroed();
        let pin = if policy.pin { pin } else { &none };
        let object = self.load(parent, sealed)?;
        let mut tries = RESTLESS_LIMIT;
        loop {
            let unsealed = self.unseal_once(parent, (object, &sealed.public), policy, expected, pin);
            match unsealed {
                Err(TpmError::Restless) if tries > 0 => tries -= 1,
                done => {
                    self.flush(object)?;
                    return done;
                }
            }
        }
    }

    /// The secret of an object that anybody may unseal who has its parent: it has an empty password.
    ///
    /// # Errors
    /// As [`Tpm::unseal`].
    pub fn unseal_without_policy(
        &mut self,
        parent: &Parent,
        sealed: &Sealed,
    ) -> Result<SecretBytes, TpmError> {
        let object = self.load(parent, sealed)?;
        let mut session = self.start_session(Kind::Hmac, parent)?;
        let unsealed = self.unseal_in(&mut session, (object, &sealed.public), &SecretArray::zeroed());
        self.flush(session.handle)?;
        self.flush(object)?;
        unsealed
    }

    fn load(&mut self, parent: &Parent, sealed: &Sealed) -> Result<u32, TpmError> {
        let answer = self.exchange(commands::LOAD, &[parent.handle], &Auth::Empty, &sealed.to_bytes()?)?;
        answer.handle.ok_or(TpmError::Malformed)
    }

    fn unseal_once(
        &mut self,
        parent: &Parent,
        object: (u32, &[u8]),
        policy: &Policy<'_>,
        expected: &[u8; 32],
        pin: &SecretArray<32>,
    ) -> Result<SecretBytes, TpmError> {
        for exponent in EXPONENTS {
            let mut session = self.start_session(Kind::Policy, parent)?;
            let met = self.meet(&mut session, policy, exponent);
            let unsealed = match &met {
                Ok(digest) if digest == expected => Some(self.unseal_in(&mut session, object, pin)),
                _ => None,
            };
            self.flush(session.handle)?;
            if let Some(unsealed) = unsealed {
                return unsealed;
            }
            met?;
            if policy.signed.is_none() {
                break;
            }
        }
        Err(policy.pcrs.map_or(TpmError::PolicyUnmet, |pcrs| TpmError::PcrsChanged { mask: pcrs.mask }))
    }

    fn unseal_in(
        &mut self,
        session: &mut Session,
        (handle, public): (u32, &[u8]),
        auth: &SecretArray<32>,
    ) -> Result<SecretBytes, TpmError> {
        let name = name_of(public)?;
        let objects = &[(handle, &name[..])];
        let code = commands::UNSEAL;
        let command = InSession { code, objects, auth, secret: None, rest: &[], answers_secret: true };
        let unsealed = self.in_session(session, command).map_err(|error| match error {
            // Nobody has typed one: the keys of the session differ, as somebody on the way has changed what it was made of.
            TpmError::WrongPin if !session.with_auth_value => TpmError::Tampered,
            error => error,
        });
        let (secret, rest) = unsealed?;
        if rest.is_empty() { Ok(secret) } else { Err(TpmError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_object_has_two_parts_and_nothing_else() {
        let sealed = Sealed { private: vec![1, 2], public: vec![3] };
        let bytes = sealed.to_bytes().expect("short");
        assert_eq!(bytes, [0, 2, 1, 2, 0, 1, 3]);
        assert_eq!(Sealed::parse(&bytes), Ok(sealed));
        for len in 0..bytes.len() {
            assert_eq!(Sealed::parse(&bytes[..len]), Err(TpmError::Malformed));
        }
        assert_eq!(Sealed::parse(&[&bytes[..], &[0]].concat()), Err(TpmError::Malformed));
    }
}
