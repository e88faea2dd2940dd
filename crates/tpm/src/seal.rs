//! Sealing: the secret and the PIN go to the TPM encrypted, and what was made is unsealed once before anybody relies on it.

use atrest_codec::Reader;
use atrest_secret::{SecretArray, SecretBytes};

use crate::commands::{self, algorithm};
use crate::policy::{are_in_use, digest_of};
use crate::session::{InSession, Kind};
use crate::wire::{Bytes, sized};
use crate::{Parent, Policy, Sealed, Tpm, TpmError};

/// fixedTPM and fixedParent: it never leaves this TPM. noDA: nobody guesses at it, so that it locks nothing.
const SEALED: u32 = 0x12;
const SEALED_NO_DA: u32 = 0x412;
/// Those, userWithAuth and adminWithPolicy: whoever has its parent unseals it by an empty password, as clevis has it.
const SEALED_OPEN: u32 = 0x4d2;

/// A new sealed object.
#[derive(Clone, Debug)]
pub struct NewSeal {
    /// The object.
    pub sealed: Sealed,
    /// The digest of its policy.
    pub policy: [u8; 32],
}

impl Tpm {
    /// Seals a secret of at most 128 bytes under a storage key: it comes back to whoever meets the policy, which is taken from PCRs
    /// as they are now. `pin` is the value of the object's password, filled up with zeros.
    ///
    /// # Errors
    /// [`TpmError::TooLong`]; [`TpmError::Tampered`] if what was made does not unseal to the same secret; [`TpmError::NoBank`];
    /// [`TpmError::Unused`] if nothing was measured into the PCRs; otherwise as all commands. A signed policy can't be asked for yet:
    /// [`TpmError::BadSignatures`].
    pub fn seal(
        &mut self,
        parent: &Parent,
        policy: &Policy<'_>,
        pin: &SecretArray<32>,
        secret: &[u8],
    ) -> Result<NewSeal, TpmError> {
        if policy.signed.is_some() {
            return Err(TpmError::BadSignatures);
        }
        let values =
            policy.pcrs.map(|pcrs| self.pcr_values(pcrs).map(|values| (pcrs, values))).transpose()?;
        // The TPM meets the digest of these below. What was read when the bank was chosen, somebody on the way may have made up.
        if let Some((pcrs, values)) = &values
            && !are_in_use(values)
        {
            return Err(TpmError::Unused { mask: pcrs.mask });
        }
        let digest = digest_of(values.as_ref().map(|(pcrs, values)| (*pcrs, &values[..])), policy.pin)?;
        let attributes = if policy.pin { SEALED } else { SEALED_NO_DA };
        let sealed = self.create(parent, attributes, &digest, policy.pin.then_some(pin), secret)?;
        let unsealed = self.unseal(parent, &sealed, policy, &digest, pin)?;
        match atrest_secret::constant_time_eq(&unsealed, secret) {
            true => Ok(NewSeal { sealed, policy: digest }),
            false => Err(TpmError::Tampered),
        }
    }

    /// Seals a secret of at most 128 bytes under a storage key for whoever has this TPM.
    ///
    /// # Errors
    /// As [`Tpm::seal`].
    pub fn seal_without_policy(&mut self, parent: &Parent, secret: &[u8]) -> Result<Sealed, TpmError> {
        let sealed = self.create(parent, SEALED_OPEN, &[], None, secret)?;
        let unsealed = self.unseal_without_policy(parent, &sealed)?;
        match atrest_secret::constant_time_eq(&unsealed, secret) {
            true => Ok(sealed),
            false => Err(TpmError::Tampered),
        }
    }

    fn create(
        &mut self,
        parent: &Parent,
        attributes: u32,
        policy: &[u8],
        pin: Option<&SecretArray<32>>,
        secret: &[u8],
    ) -> Result<Sealed, TpmError> {
        let public = Bytes::default().u16(algorithm::KEYEDHASH).u16(algorithm::SHA256).u32(attributes);
        let public = public.sized(policy)?.u16(algorithm::NULL).u16(0).0;
        // Its own description, nothing from outside, no PCRs.
        let rest = Bytes::default().sized(&public)?.u16(0).u32(0).0;
        let mut session = self.start_session(Kind::Hmac, parent)?;
        let made = self.in_session(
            &mut session,
            InSession {
                code: commands::CREATE,
                objects: &[(parent.handle, &parent.name)],
                auth: &SecretArray::zeroed(),
                secret: Some(sensitive(pin, secret)?),
                rest: &rest,
                answers_secret: false,
            },
        );
        self.flush(session.handle)?;
        let (private, rest) = made?;
        let public = sized(&mut Reader::new(&rest))?.to_vec();
        Ok(Sealed { private: private.to_vec(), public })
    }
}

/// The content of `TPM2B_SENSITIVE_CREATE`: the password without the zeros at its end, and the secret.
fn sensitive(pin: Option<&SecretArray<32>>, secret: &[u8]) -> Result<SecretBytes, TpmError> {
    let pin: &[u8] = match pin {
        Some(pin) => {
            let len = pin.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            &pin[..len]
        }
        None => &[],
    };
    if secret.len() > 128 {
        return Err(TpmError::TooLong);
    }
    let mut sensitive = SecretBytes::zeroed(4 + pin.len() + secret.len());
    let mut writer = atrest_codec::Writer::new(&mut sensitive);
    for part in [pin, secret] {
        let len = u16::try_from(part.len()).map_err(|_| TpmError::TooLong)?;
        writer.be16(len).and_then(|()| writer.bytes(part)).map_err(|_| TpmError::TooLong)?;
    }
    Ok(sensitive)
}
