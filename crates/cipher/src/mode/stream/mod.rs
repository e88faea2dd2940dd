//! ChaCha alone (RFC 8439, 2.4, with Bernstein's layout): every data unit is xored with a keystream of its own, as was
//! proposed for file contents in Linux ("fscrypt: add support for ChaCha20 contents encryption", December 2017).
//!
//! Words 12 and 13 of the state count the blocks of 64 bytes from the unit's start; words 14 and 15 are the nonce: the IV
//! rule's eight bytes, which are the unit's number. RFC 8439 has the same layout, with 32 bits of counter and zeros in front
//! of the nonce.
//!
//! What is written twice to a data unit is xored with the same keystream: whoever sees both ciphertexts knows the
//! difference of the plaintexts.

use crate::chacha::StreamKey;
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template};
use crate::run::{Position, Run};
use crate::tweak::NumberForm;

/// Bytes in an IV, which is the nonce.
pub(crate) const IV_LEN: usize = 8;

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "stream",
    template: Template::Bare,
    primitives: Primitives::ChaCha,
    key_lens: KeyLens::OneKey(&[32]),
    iv_len: IV_LEN,
    iv_rules: IvRules::Numbers64,
    takes_parts: false,
    constant_time: true,
    single_snapshot: true,
    discouraged: false,
};

/// What ChaCha alone asks of a backend.
pub(crate) trait StreamBackend: Copy {
    /// Xors keystreams to a run of units of `unit_blocks` cipher blocks; `nonce` is asked for that of each unit.
    fn stream(self, key: &StreamKey, unit_blocks: usize, nonce: impl Fn(usize) -> [u8; IV_LEN], run: Run<'_>);
}

/// A keyed ChaCha and the rule for its nonces.
pub(crate) struct StreamKeyed<B> {
    pub(crate) key: StreamKey,
    pub(crate) form: NumberForm,
    pub(crate) backend: B,
}

impl<B: StreamBackend> StreamKeyed<B> {
    /// Encrypts or decrypts a run, which is the same.
    pub(crate) fn run(&self, position: Position, run: Run<'_>) {
        let nonce = |unit| {
            let mut nonce = [0; IV_LEN];
            self.form.write(position.after(unit).number, &mut nonce);
            nonce
        };
        self.backend.stream(&self.key, position.unit_blocks, nonce, run);
    }
}

/// What [`StreamBackend::stream`] does, in code for any CPU.
pub(crate) fn portable(
    key: &StreamKey,
    unit_blocks: usize,
    nonce: impl Fn(usize) -> [u8; IV_LEN],
    run: Run<'_>,
) {
    for (i, unit) in run.into_place().chunks_mut(unit_blocks * 16).enumerate() {
        key.keystream_at(&nonce(i)).apply(unit);
    }
}
