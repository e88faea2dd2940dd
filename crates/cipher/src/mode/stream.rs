//! ChaCha alone (RFC 8439, 2.4, with Bernstein's layout): every data unit is xored with a keystream of its own, as was
//! proposed for file contents in Linux ("fscrypt: add support for ChaCha20 contents encryption", December 2017).
//!
//! Words 12 and 13 of the state count the blocks of 64 bytes from the unit's start; words 14 and 15 are the nonce: the IV
//! rule's eight bytes, which are the unit's number. RFC 8439 has the same layout, with 32 bits of counter and zeros in front
//! of the nonce.
//!
//! What is written twice to a data unit is xored with the same keystream: whoever sees both ciphertexts knows the
//! difference of the plaintexts.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use crate::backend::lanes;
use crate::backend::{VectorChoice, for_any_vectors};
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::mapper::{KeyError, MapperOptions};
use crate::run::{Position, Run};
use crate::spec::{Cipher, CipherSpec};
use crate::tweak::NumberForm;

/// Bytes in an IV, which is the nonce.
pub(crate) const IV_LEN: usize = 8;

/// A keyed ChaCha and the rule for its nonces.
pub(crate) struct StreamKeyed {
    key: StreamKey,
    form: NumberForm,
    vectors: VectorChoice,
}

impl StreamKeyed {
    /// Takes the key of `spec`.
    pub(crate) fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let key = key.as_array().ok_or(KeyError::Length { len: key.len() })?;
        let rounds = match spec.cipher {
            Cipher::ChaCha20 => ChaChaRounds::Twenty,
            _ => ChaChaRounds::Twelve,
        };
        Ok(Self {
            key: StreamKey::new(key, rounds),
            form: spec.iv.number,
            vectors: options.vectors_or_best(),
        })
    }

    /// Encrypts or decrypts a run, which is the same.
    pub(crate) fn run(&self, position: Position, run: Run<'_>) {
        for_any_vectors!(self.vectors, cpu => self.run_on(cpu, position, run), {
            for (i, unit) in run.into_place().chunks_mut(position.unit_blocks * 16).enumerate() {
                self.key.keystream_at(&self.nonce(position, i)).apply(unit);
            }
        });
    }

    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
    fn run_on<I: lanes::VectorInstructions>(&self, cpu: I, position: Position, run: Run<'_>) {
        lanes::run::stream(cpu, &self.key, position.unit_blocks, |i| self.nonce(position, i), run);
    }

    fn nonce(&self, position: Position, unit: usize) -> [u8; IV_LEN] {
        let mut nonce = [0; IV_LEN];
        self.form.write(position.after(unit).number, &mut nonce);
        nonce
    }

    /// Name of the vector instructions in use.
    pub(crate) fn backend_name(&self) -> &'static str {
        self.vectors.name()
    }
}
