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

use atrest_secret::SecretArray;

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use crate::backend::lanes;
use crate::backend::{VectorChoice, for_any_vectors};
use crate::block::{Block, BlockCipher, Direction, LANES};
use crate::chacha::{self, StreamKey};
use crate::nh::{self, NhKey};
use crate::poly1305::{Poly, PolyKey};
use crate::run::Run;
use crate::tweak::Units;

/// Bytes in an IV of Adiantum (kernel, `crypto/adiantum.c`: `TWEAK_SIZE`).
pub(crate) const ADIANTUM_IV_LEN: usize = 32;

/// Bytes in an IV of HPolyC: what fills one block of its hash beside the tweak's length.
pub(crate) const HPOLYC_IV_LEN: usize = 12;

/// The nonce of the stream cipher is the encrypted middle and this, which tells it from that of the key derivation.
pub(crate) const NONCE_END: u64 = 1;

/// The start of the nonce under which all other keys are derived; the rest of it is zero.
const DERIVATION: Block = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The hash's keys.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
pub(crate) enum HashKeys {
    /// Adiantum: Poly1305 of length and tweak, plus Poly1305 of what NH makes of the bulk.
    Nh { header: PolyKey, message: PolyKey, nh: NhKey },
    /// HPolyC: Poly1305 of it all.
    Poly(PolyKey),
}

impl HashKeys {
    /// Adiantum's, and the key of its block cipher.
    pub(crate) fn adiantum(stream: &StreamKey, block_key: &mut [u8; 32]) -> Self {
        let mut derived = stream.keystream(&DERIVATION, 0);
        let mut block = SecretArray::<{ chacha::BLOCK }>::zeroed();
        derived.next(&mut block);
        block_key.copy_from_slice(&block[..32]);
        let (halves, _) = block.as_chunks();
        let (header, message) = (PolyKey::new(&halves[2]), PolyKey::new(&halves[3]));
        let mut nh = NhKey::zeroed();
        for at in (0..nh::STRIDES).step_by(chacha::BLOCK / 16) {
            derived.next(&mut block);
            nh.set(at, &block[..]);
        }
        Self::Nh { header, message, nh }
    }

    /// HPolyC's, and the key of its block cipher.
    pub(crate) fn hpolyc(stream: &StreamKey, block_key: &mut [u8; 32]) -> Self {
        let mut block = SecretArray::<{ chacha::BLOCK }>::zeroed();
        stream.keystream(&DERIVATION, 0).next(&mut block);
        block_key.copy_from_slice(&block[..32]);
        Self::Poly(PolyKey::new(&block.as_chunks().0[2]))
    }

    /// Data units that fill the lanes of the hash: NH works on one at a time, Poly1305 on one per lane.
    #[allow(dead_code, reason = "only backends with vectors ask for it")]
    pub(crate) fn least_units(&self) -> usize {
        match self {
            Self::Nh { .. } => 1,
            Self::Poly(_) => 8,
        }
    }

    /// The key of what comes before the bulk.
    pub(crate) fn header_key(&self) -> &PolyKey {
        match self {
            Self::Nh { header, .. } => header,
            Self::Poly(key) => key,
        }
    }

    /// What comes before the bulk of so many bytes, and its length in blocks, where the tweak is an IV.
    pub(crate) fn header(&self, bulk: usize, fill_iv: impl FnOnce(&mut [u8])) -> ([Block; 3], usize) {
        let mut header = [[0; 16]; 3];
        match self {
            Self::Nh { .. } => {
                header[0] = bulk_bits(bulk);
                fill_iv(header[1..].as_flattened_mut());
                (header, 3)
            }
            Self::Poly(_) => {
                let (length, iv) = header[0].split_at_mut(16 - HPOLYC_IV_LEN);
                length.copy_from_slice(&tweak_bits(iv));
                fill_iv(iv);
                (header, 1)
            }
        }
    }

    /// Hashes what comes before the bulk.
    pub(crate) fn start(&self, tweak: &[u8], bulk: usize) -> Poly {
        let mut poly = Poly::new();
        match self {
            Self::Nh { header, .. } => {
                poly.update(header, &bulk_bits(bulk));
                poly.update(header, tweak);
            }
            Self::Poly(key) => {
                let mut block = [0; 16];
                let (length, rest) = block.split_at_mut(4);
                length.copy_from_slice(&tweak_bits(tweak));
                let (first, tweak) = tweak.split_at(tweak.len().min(rest.len()));
                rest[..first.len()].copy_from_slice(first);
                poly.update(key, &block);
                for piece in tweak.chunks(16) {
                    block = [0; 16];
                    block[..piece.len()].copy_from_slice(piece);
                    poly.update(key, &block);
                }
            }
        }
        poly
    }

    /// The hash of a unit, of which `start` is the beginning.
    fn finish(&self, start: &Poly, bulk: &[u8]) -> u128 {
        match self {
            Self::Nh { message, nh, .. } => {
                let mut poly = Poly::new();
                for chunk in bulk.chunks(nh::CHUNK) {
                    for pair in nh.hash(chunk).as_chunks::<2>().0 {
                        let [low, high] = pair.map(u128::from);
                        poly.update(message, &(low | high << 64).to_le_bytes());
                    }
                }
                start.finish().wrapping_add(poly.finish())
            }
            Self::Poly(key) => {
                let mut poly = start.clone();
                poly.update(key, bulk);
                poly.finish()
            }
        }
    }
}

/// A keyed Adiantum or HPolyC, but for its block cipher.
pub(crate) struct WideBlock {
    pub(crate) stream: StreamKey,
    pub(crate) hash: HashKeys,
    pub(crate) vectors: VectorChoice,
}

/// Calls `lanes::run::$function` for the instructions that were chosen, or else `$portable`.
macro_rules! with_vectors {
    ($self:ident, $function:ident ($($argument:expr),*), $portable:expr) => {{
        #[allow(unused_variables, reason = "there are targets without vectors")]
        let keys = (&$self.stream, &$self.hash);
        for_any_vectors!($self.vectors, cpu => lanes::run::$function(cpu, keys, $($argument),*), $portable)
    }};
}

impl WideBlock {
    /// Encrypts or decrypts a run.
    pub(crate) fn run<C: BlockCipher>(
        &self,
        cipher: &C,
        direction: Direction,
        units: Units<'_, C>,
        run: Run<'_>,
    ) {
        with_vectors!(
            self,
            run(cipher, direction, units, run),
            self.portable_run(cipher, direction, units, run)
        )
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
        let Some(bulk) = dst.len().checked_sub(16) else { return };
        if let Some(src) = src.filter(|src| src.len() == dst.len()) {
            dst.copy_from_slice(src);
        }
        with_vectors!(self, unit(cipher, direction, tweak, dst), {
            let len = dst.len();
            let start = self.hash.start(tweak, bulk);
            units_of(cipher, &self.stream, &self.hash, direction, &[start], dst, len);
        });
    }

    /// [`WideBlock::run`] in code for any CPU, whatever was chosen.
    pub(crate) fn portable_run<C: BlockCipher>(
        &self,
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
                let (header, blocks) = self.hash.header(unit - 16, |iv| units.next_of_any_length(iv));
                start.update(self.hash.header_key(), header[..blocks].as_flattened());
            }
            units_of(cipher, &self.stream, &self.hash, direction, &starts, batch, unit);
        }
    }
}

/// At most [`LANES`] units of `unit` bytes, with the beginnings of their hashes.
fn units_of<C: BlockCipher>(
    cipher: &C,
    stream: &StreamKey,
    hash: &HashKeys,
    direction: Direction,
    starts: &[Poly],
    units: &mut [u8],
    unit: usize,
) {
    let mut nonces = [[0; 16]; LANES];
    let mut ends = [[0; 16]; LANES];
    let count = (units.len() / unit).min(starts.len()).min(LANES);
    let (nonces, ends) = (&mut nonces[..count], &mut ends[..count]);
    for ((unit, start), end) in units.chunks(unit).zip(starts).zip(ends.iter_mut()) {
        if let Some((bulk, block)) = unit.split_last_chunk() {
            *end = u128::from_le_bytes(*block).wrapping_add(hash.finish(start, bulk)).to_le_bytes();
        }
    }
    // The nonce is the block cipher's output, whichever way the unit goes.
    nonces.copy_from_slice(ends);
    cipher.apply(direction, ends);
    if direction == Direction::Encrypt {
        nonces.copy_from_slice(ends);
    }
    for (((unit, start), end), nonce) in units.chunks_mut(unit).zip(starts).zip(ends).zip(nonces) {
        if let Some((bulk, block)) = unit.split_last_chunk_mut() {
            stream.keystream(nonce, NONCE_END).apply(bulk);
            *block = u128::from_le_bytes(*end).wrapping_sub(hash.finish(start, bulk)).to_le_bytes();
        }
    }
}

fn bulk_bits(bulk: usize) -> Block {
    (bulk as u128 * 8).to_le_bytes()
}

fn tweak_bits(tweak: &[u8]) -> [u8; 4] {
    (tweak.len() as u32).wrapping_mul(8).to_le_bytes()
}
