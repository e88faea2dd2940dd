//! Sessions whose key only the owner of a storage key can derive (part 1, "Session-Based Authorizations"), which carry secrets encrypted.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use atrest_codec::Reader;
use atrest_kdf::{Hash, Prf, digest};
use atrest_secret::{OsRandom, Random, SecretArray, SecretBytes, constant_time_eq, with_wiped_stack};
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::zeroize::Zeroize;
use p256::{NonZeroScalar, PublicKey, Sec1Point};

use crate::commands::{self, NULL, algorithm};
use crate::exchange::Auth;
use crate::wire::{Bytes, sized};
use crate::{Parent, Tpm, TpmError};

/// `TPM_SE`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hmac = 0,
    Policy = 1,
}

/// A session. Its owner flushes it.
pub struct Session {
    pub handle: u32,
    kind: Kind,
    nonce_tpm: Vec<u8>,
    key: SecretArray<32>,
    /// Whether the policy asks for the PIN.
    pub with_auth_value: bool,
}

/// What a command in a session takes along.
pub struct InSession<'a> {
    pub code: u32,
    /// What it is about, each by its handle and its Name. The session speaks for the first one.
    pub objects: &'a [(u32, &'a [u8])],
    /// The password of the first one, filled up with zeros.
    pub auth: &'a SecretArray<32>,
    /// The content of the first parameter, which is sent encrypted.
    pub secret: Option<SecretBytes>,
    /// The other parameters.
    pub rest: &'a [u8],
    /// Whether the first parameter of the answer comes encrypted.
    pub answers_secret: bool,
}

impl Tpm {
    /// Starts a session that is salted to a storage key: to the parent itself, or, if that is no key on P-256, to a primary key that is.
    pub(crate) fn start_session(&mut self, kind: Kind, parent: &Parent) -> Result<Session, TpmError> {
        let other;
        let (key, point) = match parent.point {
            Some(point) => (parent, point),
            None => {
                other =
                    self.create_primary(crate::Template::Ecc(Hash::Sha256)).map_err(|error| match error {
                        // A code of format one is about a parameter: here, the curve. Others say what the TPM is short of.
                        TpmError::Code { code, .. } if code & 0x80 != 0 => TpmError::NoCurve,
                        error => error,
                    })?;
                (&other, other.point.ok_or(TpmError::NoCurve)?)
            }
        };
        let mut salt = SecretArray::zeroed();
        let sent = salt_to(&point, &mut salt)?;
        let mut nonce = [0; 32];
        OsRandom.fill(&mut nonce)?;
        let parameters = Bytes::default().sized(&nonce)?.sized(&sent)?.u8(kind as u8);
        let parameters = parameters.u16(algorithm::AES).u16(128).u16(algorithm::CFB).u16(algorithm::SHA256).0;
        let answer =
            self.exchange(commands::START_AUTH_SESSION, &[key.handle, NULL], &Auth::Nobody, &parameters)?;
        if key.handle != parent.handle {
            self.flush(key.handle)?;
        }
        let mut reader = Reader::new(&answer.parameters);
        let nonce_tpm = sized(&mut reader)?.to_vec();
        reader.finish()?;
        let key = kdfa(&salt, &SecretArray::zeroed(), "ATH", &nonce_tpm, &nonce);
        let handle = answer.handle.ok_or(TpmError::Malformed)?;
        Ok(Session { handle, kind, nonce_tpm, key, with_auth_value: false })
    }

    /// Runs a command in a session: the content of the first parameter of the answer, and what follows it.
    pub(crate) fn in_session(
        &mut self,
        session: &mut Session,
        command: InSession<'_>,
    ) -> Result<(SecretBytes, Vec<u8>), TpmError> {
        let (auth, answers_secret) = (command.auth, command.answers_secret);
        let (parameters, nonce) = self.proven(session, command)?;
        let mut reader = Reader::new(&parameters);
        let mut first = SecretBytes::copy_from(sized(&mut reader)?);
        if answers_secret {
            cfb(&kdfa(&session.key, auth, "CFB", &session.nonce_tpm, &nonce), &mut first, false);
        }
        Ok((first, reader.rest().to_vec()))
    }

    /// Runs a command in a session: the parameters of the answer, once the TPM has proven that they are its own, and our nonce.
    pub(crate) fn proven(
        &mut self,
        session: &mut Session,
        command: InSession<'_>,
    ) -> Result<(Vec<u8>, [u8; 32]), TpmError> {
        let InSession { code, objects, auth, secret, rest, answers_secret } = command;
        let mut nonce = [0; 32];
        OsRandom.fill(&mut nonce)?;
        // continueSession; decrypt: the TPM decrypts; encrypt: it encrypts.
        let attributes = 1 | u8::from(secret.is_some()) << 5 | u8::from(answers_secret) << 6;
        let mut parameters = Bytes::default();
        if let Some(mut secret) = secret {
            cfb(&kdfa(&session.key, auth, "CFB", &nonce, &session.nonce_tpm), &mut secret, true);
            parameters = parameters.sized(&secret)?;
        }
        let parameters = parameters.bytes(rest).0;
        let names: Vec<u8> = objects.iter().flat_map(|(_, name)| name.iter().copied()).collect();
        let mut of_command = [0; 32];
        digest(Hash::Sha256, &[&code.to_be_bytes(), &names, &parameters], &mut of_command);
        let key = match session.kind == Kind::Hmac || session.with_auth_value {
            true => joined(&session.key, auth),
            false => joined(&session.key, &SecretArray::zeroed()),
        };
        let hmac = Prf::once(&key, &[&of_command, &nonce, &session.nonce_tpm, &[attributes]]);
        let sent = Bytes::default().u32(session.handle).sized(&nonce)?.u8(attributes).sized(&*hmac)?.0;
        let handles: Vec<u32> = objects.iter().map(|(handle, _)| *handle).collect();
        let answer = self.exchange(code, &handles, &Auth::Sessions(&sent), &parameters)?;

        let mut reader = Reader::new(&answer.auth);
        let nonce_tpm = sized(&mut reader)?.to_vec();
        let (attributes, theirs) = (reader.u8()?, sized(&mut reader)?);
        let mut of_answer = [0; 32];
        digest(Hash::Sha256, &[&[0; 4], &code.to_be_bytes(), &answer.parameters], &mut of_answer);
        let hmac = Prf::once(&key, &[&of_answer, &nonce_tpm, &nonce, &[attributes]]);
        if !constant_time_eq(&*hmac, theirs) {
            return Err(TpmError::Tampered);
        }
        reader.finish()?;
        session.nonce_tpm = nonce_tpm;
        Ok((answer.parameters, nonce))
    }
}

/// Makes a salt that the owner of this point alone derives. Returns what is sent for it (part 1, annex C.6.1).
fn salt_to(point: &PublicKey, salt: &mut SecretArray<32>) -> Result<Vec<u8>, TpmError> {
    with_wiped_stack(|| {
        let mut scalar = scalar()?;
        let ephemeral = Sec1Point::from(PublicKey::from_secret_scalar(&scalar));
        let theirs = Sec1Point::from(point);
        let mut shared = (point.to_projective() * *scalar).to_affine().x();
        scalar.zeroize();
        let (Some(x), Some(y), Some(their_x)) = (ephemeral.x(), ephemeral.y(), theirs.x()) else {
            return Err(TpmError::Malformed);
        };
        digest(Hash::Sha256, &[&1_u32.to_be_bytes(), &shared, b"SECRET\0", x, their_x], &mut **salt);
        shared.zeroize();
        Ok(Bytes::default().sized(x)?.sized(y)?.0)
    })
}

/// A random number below the order of the curve, and not zero.
fn scalar() -> Result<NonZeroScalar, TpmError> {
    // Each try fails with a probability of one in 2^32.
    for _ in 0..8 {
        let mut bytes = SecretArray::<32>::zeroed();
        OsRandom.fill(&mut *bytes)?;
        if let Some(scalar) = NonZeroScalar::from_repr((*bytes).into()).into_option() {
            return Ok(scalar);
        }
    }
    Err(TpmError::NoRandom)
}

/// One key after the other.
fn joined(first: &SecretArray<32>, second: &SecretArray<32>) -> SecretArray<64> {
    let mut both = SecretArray::<64>::zeroed();
    both.iter_mut().zip(first.iter().chain(second.iter())).for_each(|(to, from)| *to = *from);
    both
}

/// `KDFa` with SHA-256 and 256 bits (part 1, "KDFa"). HMAC fills its key up with zeros, so that those at the end of a password do not count.
fn kdfa(key: &SecretArray<32>, auth: &SecretArray<32>, label: &str, u: &[u8], v: &[u8]) -> SecretArray<32> {
    let parts: [&[u8]; 6] = [&1_u32.to_be_bytes(), label.as_bytes(), &[0], u, v, &256_u32.to_be_bytes()];
    Prf::once(&joined(key, auth), &parts)
}

/// AES-128 in CFB mode with a key and an IV.
fn cfb(key_and_iv: &SecretArray<32>, data: &mut [u8], encrypt: bool) {
    with_wiped_stack(|| {
        let [key, iv] = key_and_iv.as_chunks::<16>().0 else { return };
        let cipher = Aes128::new(&(*key).into());
        let mut block = *iv;
        for piece in data.chunks_mut(16) {
            let mut stream = block.into();
            cipher.encrypt_block(&mut stream);
            for ((byte, mask), next) in piece.iter_mut().zip(stream).zip(&mut block) {
                let ciphertext = if encrypt { *byte ^ mask } else { *byte };
                *byte ^= mask;
                *next = ciphertext;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST SP 800-38A, section F.3.13.
    #[test]
    fn cfb_is_that_of_nist() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len() / 2)
                .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex"))
                .collect()
        };
        let mut key = SecretArray::<32>::zeroed();
        key.copy_from_slice(&hex("2b7e151628aed2a6abf7158809cf4f3c000102030405060708090a0b0c0d0e0f"));
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let mut data = plain.clone();
        cfb(&key, &mut data, true);
        assert_eq!(data, hex("3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b"));
        cfb(&key, &mut data, false);
        assert_eq!(data, plain);
    }
}
