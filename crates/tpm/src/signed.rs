//! Policies that somebody signed: which values of PCRs are good is told by a signature, and new ones need no new sealing.

use core::fmt;

use atrest_codec::Reader;
use atrest_kdf::{Hash, digest};

use crate::commands::{self, OWNER, algorithm};
use crate::exchange::Auth;
use crate::parent::name_of;
use crate::session::Session;
use crate::wire::Bytes;
use crate::{Pcrs, Tpm, TpmError};

/// An RSA key that signs policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    modulus: Vec<u8>,
    /// SHA-256 of its PKCS#1 form, by which files of signatures name it.
    fingerprint: [u8; 32],
}

/// One element of DER with this tag: its content.
fn element<'a>(reader: &mut Reader<'a>, tag: u8) -> Option<&'a [u8]> {
    if reader.u8().ok()? != tag {
        return None;
    }
    let len = match reader.u8().ok()? {
        0x81 => reader.u8().ok()?.into(),
        0x82 => reader.be16().ok()?.into(),
        len if len < 0x80 => len.into(),
        _ => return None,
    };
    reader.bytes(len).ok()
}

impl SigningKey {
    /// From DER, a `SubjectPublicKeyInfo` (RFC 5280) of an RSA key with the exponent 65537; `None` for anything else.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 1, 5, 0];
        let mut info = Reader::new(element(&mut Reader::new(der), 0x30)?);
        let algorithm = element(&mut info, 0x30)?;
        let (unused, pkcs1) = element(&mut info, 3)?.split_first()?;
        let mut key = Reader::new(element(&mut Reader::new(pkcs1), 0x30)?);
        let (modulus, exponent) = (element(&mut key, 2)?, element(&mut key, 2)?);
        let modulus = modulus.strip_prefix(&[0])?;
        if algorithm != RSA || *unused != 0 || exponent != [1, 0, 1] || !(128..=512).contains(&modulus.len())
        {
            return None;
        }
        let mut fingerprint = [0; 32];
        digest(Hash::Sha256, &[pkcs1], &mut fingerprint);
        Some(Self { modulus: modulus.to_vec(), fingerprint })
    }

    /// SHA-256 of its PKCS#1 form.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// As a TPM has it: `TPMT_PUBLIC` with sign, decrypt and userWithAuth.
    fn public(&self, exponent: u32) -> Result<Vec<u8>, TpmError> {
        let bits = self.modulus.len().checked_mul(8).and_then(|bits| u16::try_from(bits).ok());
        let public = Bytes::default().u16(algorithm::RSA).u16(algorithm::SHA256).u32(0x0006_0040).u16(0);
        let public = public.u16(algorithm::NULL).u16(algorithm::NULL).u16(bits.ok_or(TpmError::TooLong)?);
        Ok(public.u32(exponent).sized(&self.modulus)?.0)
    }
}

/// The signature over a policy digest, if there is one: RSASSA with SHA-256 over the digest and the reference.
pub type FindSignature<'a> = &'a dyn Fn(&[u8; 32]) -> Option<Vec<u8>>;

/// PCRs whose values are good if somebody signed them.
#[derive(Clone, Copy)]
pub struct SignedPolicy<'a> {
    /// Who signs.
    pub key: &'a SigningKey,
    /// What is signed.
    pub pcrs: Pcrs,
    /// The signer's `policyRef`: no bytes, or a hash.
    pub reference: &'a [u8],
    /// Finds the signature for a digest of the PCRs as they are now.
    pub find: FindSignature<'a>,
}

impl fmt::Debug for SignedPolicy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedPolicy")
            .field("key", self.key)
            .field("pcrs", &self.pcrs)
            .finish_non_exhaustive()
    }
}

impl Tpm {
    /// `PolicyPCR`, and `PolicyAuthorize` with the signature that fits it.
    pub(crate) fn meet_signed(
        &mut self,
        session: &Session,
        signed: &SignedPolicy<'_>,
        exponent: u32,
    ) -> Result<(), TpmError> {
        self.policy_pcr(session, signed.pcrs)?;
        let approved = self.policy_digest(session)?;
        let none = TpmError::NoSignature { mask: signed.pcrs.mask };
        let signature = (signed.find)(&approved).ok_or(none)?;
        let public = signed.key.public(exponent)?;
        let parameters = Bytes::default().u16(0).sized(&public)?.u32(OWNER).0;
        let loaded = self.exchange(commands::LOAD_EXTERNAL, &[], &Auth::Nobody, &parameters)?;
        let key = loaded.handle.ok_or(TpmError::Malformed)?;
        let mut of_policy = [0; 32];
        digest(Hash::Sha256, &[&approved, signed.reference], &mut of_policy);
        let parameters = Bytes::default().sized(&of_policy)?.u16(algorithm::RSASSA).u16(algorithm::SHA256);
        let parameters = parameters.sized(&signature)?.0;
        let ticket = self.exchange(commands::VERIFY_SIGNATURE, &[key], &Auth::Nobody, &parameters);
        self.flush(key)?;
        let ticket = ticket.map_err(|error| match error {
            // TPM_RC_SIGNATURE or TPM_RC_SIZE of the second parameter
            TpmError::Code { code: 0x2db | 0x2d5, .. } => TpmError::BadSignatures,
            other => other,
        })?;
        let parameters =
            Bytes::default().sized(&approved)?.sized(signed.reference)?.sized(&name_of(&public)?)?;
        let parameters = parameters.bytes(&ticket.parameters).0;
        self.exchange(commands::POLICY_AUTHORIZE, &[session.handle], &Auth::Nobody, &parameters).map(drop)
    }
}
