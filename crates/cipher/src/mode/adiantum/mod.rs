//! Adiantum and HPolyC (Crowley and Biggers, "Adiantum: length-preserving encryption for entry-level processors",
//! IACR ToSC 2018(4), and its first version): a hash, one cipher block, a stream cipher and the hash again, so that
//! every bit of a data unit depends on all others.
//!
//! A unit is its bulk and, at its end, one block. With H the hash of tweak and bulk, encryption is
//!
//! ```text
//! middle = block + H(bulk); nonce = E(middle); bulk ^= stream(nonce); block = nonce - H(bulk)
//! ```
//!
//! Units go [`LANES`] at a time, so that a block cipher for several blocks has them.

mod hash;

use crate::block::{BlockCipher, Direction, LANES};
use crate::chacha::StreamKey;
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template};
use crate::poly1305::Poly;
use crate::run::Run;
use crate::tweak::Units;

pub(crate) use hash::{DerivedHash, HashKeys, NhHash, PolyHash, WideHash};

/// Bytes in an IV of Adiantum (kernel, `crypto/adiantum.c`: `TWEAK_SIZE`).
const ADIANTUM_IV_LEN: usize = 32;

/// What is to be known of Adiantum.
pub(crate) const ADIANTUM: Facts = Facts {
    name: "adiantum",
    template: Template::OfCipher,
    primitives: Primitives::XChaChaAndAes,
    key_lens: KeyLens::OneKey(&[32]),
    iv_len: ADIANTUM_IV_LEN,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What is to be known of HPolyC, which no kernel has.
pub(crate) const HPOLYC: Facts = Facts {
    name: "hpolyc",
    template: Template::OfCipher,
    primitives: Primitives::XChaChaAndAes,
    key_lens: KeyLens::OneKey(&[32]),
    iv_len: hash::HPOLYC_IV_LEN,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What Adiantum and HPolyC ask of a backend for all but their block cipher.
pub(crate) trait AdiantumBackend: Copy {
    /// Encrypts or decrypts a run.
    fn run<C: BlockCipher>(
        self,
        keys: (&StreamKey, &HashKeys),
        cipher: &C,
        direction: Direction,
        units: Units<'_, C>,
        run: Run<'_>,
    );

    /// Encrypts or decrypts one data unit of at least 16 bytes, in place.
    fn unit<C: BlockCipher>(
        self,
        keys: (&StreamKey, &HashKeys),
        cipher: &C,
        direction: Direction,
        tweak: &[u8],
        unit: &mut [u8],
    );
}

/// The nonce of the stream cipher is the encrypted middle and this, which tells it from that of the key derivation.
pub(crate) const NONCE_END: u64 = 1;

/// A keyed Adiantum or HPolyC, but for its block cipher.
pub(crate) struct WideBlock<B> {
    pub(crate) stream: StreamKey,
    pub(crate) hash: HashKeys,
    pub(crate) backend: B,
}

impl<B: AdiantumBackend> WideBlock<B> {
    /// Encrypts or decrypts a run.
    pub(crate) fn run<C: BlockCipher>(
        &self,
        cipher: &C,
        direction: Direction,
        units: Units<'_, C>,
        run: Run<'_>,
    ) {
        self.backend.run((&self.stream, &self.hash), cipher, direction, units, run);
    }

    /// Encrypts or decrypts one data unit of any length from 16 bytes on, under a tweak of any length. Shorter ones are
    /// left alone. `src`, if any, is as long as `dst`.
    pub(crate) fn unit<C: BlockCipher>(
        &self,
        cipher: &C,
        direction: Direction,
        tweak: &[u8],
        src: Option<&[u8]>,
        dst: &mut [u8],
    ) {
        if dst.len() < 16 {
            return;
        }
        if let Some(src) = src.filter(|src| src.len() == dst.len()) {
            dst.copy_from_slice(src);
        }
        self.backend.unit((&self.stream, &self.hash), cipher, direction, tweak, dst);
    }
}

/// What [`AdiantumBackend::run`] does, in code for any CPU.
pub(crate) fn portable_run<C: BlockCipher>(
    (stream, hash): (&StreamKey, &impl WideHash),
    cipher: &C,
    direction: Direction,
    mut units: Units<'_, C>,
    run: Run<'_>,
) {
    let unit = units.blocks() * 16;
    let dst = run.into_place();
    for batch in dst.chunks_mut(unit * LANES) {
        let mut starts: [Poly; LANES] = core::array::from_fn(|_| Poly::new());
        let count = batch.len() / unit;
        for start in &mut starts[..count] {
            let (header, blocks) = hash.header(unit - 16, |iv| units.next_of_any_length(iv));
            start.blocks(hash.header_key(), &header[..blocks]);
        }
        units_of::<C, true>(cipher, (stream, hash), direction, &starts, batch, unit);
    }
}

/// What [`AdiantumBackend::unit`] does, in code for any CPU.
pub(crate) fn portable_unit<C: BlockCipher>(
    (stream, hash): (&StreamKey, &impl WideHash),
    cipher: &C,
    direction: Direction,
    tweak: &[u8],
    unit: &mut [u8],
) {
    let len = unit.len();
    let Some(bulk) = len.checked_sub(16) else { return };
    let start = hash.start(tweak, bulk);
    units_of::<C, false>(cipher, (stream, hash), direction, &[start], unit, len);
}

/// At most [`LANES`] units of `unit` bytes, with the beginnings of their hashes. `WHOLE` says that units are whole blocks.
fn units_of<C: BlockCipher, const WHOLE: bool>(
    cipher: &C,
    (stream, hash): (&StreamKey, &impl WideHash),
    direction: Direction,
    starts: &[Poly],
    units: &mut [u8],
    unit: usize,
) {
    let mut ends = [[0; 16]; LANES];
    let count = (units.len() / unit).min(starts.len()).min(LANES);
    let hashed = |start: &Poly, bulk: &[u8]| {
        let (bulk, rest) = bulk.as_chunks();
        hash.finish(start, bulk, if WHOLE { &[] } else { rest })
    };
    for ((unit, start), end) in units.chunks(unit).zip(starts).zip(&mut ends) {
        if let Some((bulk, block)) = unit.split_last_chunk() {
            *end = u128::from_le_bytes(*block).wrapping_add(hashed(start, bulk)).to_le_bytes();
        }
    }
    // The nonce is the block cipher's output, whichever way the unit goes.
    let mut nonces = ends;
    cipher.apply(direction, &mut ends[..count]);
    if direction == Direction::Encrypt {
        nonces = ends;
    }
    for (((unit, start), end), nonce) in units.chunks_mut(unit).zip(starts).zip(&ends).zip(&nonces) {
        if let Some((bulk, block)) = unit.split_last_chunk_mut() {
            stream.keystream(nonce, NONCE_END).apply(bulk);
            *block = u128::from_le_bytes(*end).wrapping_sub(hashed(start, bulk)).to_le_bytes();
        }
    }
}
