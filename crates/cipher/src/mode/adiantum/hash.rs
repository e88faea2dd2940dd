//! The hashes of Adiantum and HPolyC (the papers are named in [`adiantum`](super)), and how their keys are derived.

use atrest_secret::SecretArray;

use crate::block::Block;
use crate::chacha::{self, StreamKey};
use crate::nh::{self, NhKey};
use crate::poly1305::{Poly, PolyKey};

/// Bytes in an IV of HPolyC: what fills one block of its hash beside the tweak's length.
pub(crate) const HPOLYC_IV_LEN: usize = 12;

/// The start of the nonce under which all other keys are derived; the rest of it is zero.
const DERIVATION: Block = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A keyed hash of tweak and bulk.
pub trait WideHash {
    /// The key of what comes before the bulk.
    fn header_key(&self) -> &PolyKey;

    /// What comes before the bulk of so many bytes, and its length in blocks, where the tweak is an IV.
    fn header(&self, bulk: usize, fill_iv: impl FnOnce(&mut [u8])) -> ([Block; 3], usize);

    /// Hashes what comes before the bulk.
    fn start(&self, tweak: &[u8], bulk: usize) -> Poly;

    /// The hash of a unit, of which `start` is the beginning; the bulk is whole blocks and less than one.
    fn finish(&self, start: &Poly, bulk: &[Block], rest: &[u8]) -> u128;
}

/// One whose keys are derived in place.
pub trait DerivedHash: WideHash {
    /// Name of the type that is the cipher with this hash alone.
    const NAME: &str;
    /// Without keys.
    const EMPTY: Self;

    /// Derives its keys, and the key of the block cipher.
    fn derive(&mut self, stream: &StreamKey, block_key: &mut [u8; 32]);

    /// Forgets its keys.
    fn wipe(&mut self);
}

/// Adiantum's: Poly1305 of length and tweak, plus Poly1305 of what NH makes of the bulk.
pub struct NhHash {
    pub(crate) header: PolyKey,
    pub(crate) message: PolyKey,
    pub(crate) nh: NhKey,
}

impl DerivedHash for NhHash {
    const NAME: &str = "AdiantumPlain64";
    const EMPTY: Self = Self { header: PolyKey::EMPTY, message: PolyKey::EMPTY, nh: NhKey::EMPTY };

    fn derive(&mut self, stream: &StreamKey, block_key: &mut [u8; 32]) {
        let mut derived = stream.keystream(&DERIVATION, 0);
        let mut block = SecretArray::<{ chacha::BLOCK }>::zeroed();
        derived.next(&mut block);
        block_key.copy_from_slice(&block[..32]);
        let (halves, _) = block.as_chunks();
        self.header.set(&halves[2]);
        self.message.set(&halves[3]);
        for at in (0..nh::STRIDES).step_by(chacha::BLOCK / 16) {
            derived.next(&mut block);
            self.nh.set(at, &block[..]);
        }
    }

    fn wipe(&mut self) {
        self.header.wipe();
        self.message.wipe();
        self.nh.wipe();
    }
}

impl WideHash for NhHash {
    fn header_key(&self) -> &PolyKey {
        &self.header
    }

    fn header(&self, bulk: usize, fill_iv: impl FnOnce(&mut [u8])) -> ([Block; 3], usize) {
        let mut header = [bulk_bits(bulk), [0; 16], [0; 16]];
        fill_iv(header[1..].as_flattened_mut());
        (header, 3)
    }

    fn start(&self, tweak: &[u8], bulk: usize) -> Poly {
        let mut poly = Poly::new();
        poly.update(&self.header, &bulk_bits(bulk));
        poly.update(&self.header, tweak);
        poly
    }

    fn finish(&self, start: &Poly, bulk: &[Block], rest: &[u8]) -> u128 {
        const STRIDES: usize = nh::CHUNK / 16;
        let mut poly = Poly::new();
        let mut add = |chunk: &[Block], rest: &[u8]| {
            for pair in self.nh.hash(chunk, rest).as_chunks::<2>().0 {
                let [low, high] = pair.map(u128::from);
                poly.blocks(&self.message, &[(low | high << 64).to_le_bytes()]);
            }
        };
        for chunk in bulk.chunks(STRIDES) {
            add(chunk, if chunk.len() < STRIDES { rest } else { &[] });
        }
        if bulk.len().is_multiple_of(STRIDES) && !rest.is_empty() {
            add(&[], rest);
        }
        start.finish().wrapping_add(poly.finish())
    }
}

/// HPolyC's: Poly1305 of it all.
pub struct PolyHash(pub(crate) PolyKey);

impl DerivedHash for PolyHash {
    const NAME: &str = "HPolyCPlain64";
    const EMPTY: Self = Self(PolyKey::EMPTY);

    fn derive(&mut self, stream: &StreamKey, block_key: &mut [u8; 32]) {
        let mut block = SecretArray::<{ chacha::BLOCK }>::zeroed();
        stream.keystream(&DERIVATION, 0).next(&mut block);
        block_key.copy_from_slice(&block[..32]);
        self.0.set(&block.as_chunks().0[2]);
    }

    fn wipe(&mut self) {
        self.0.wipe();
    }
}

impl WideHash for PolyHash {
    fn header_key(&self) -> &PolyKey {
        &self.0
    }

    fn header(&self, _: usize, fill_iv: impl FnOnce(&mut [u8])) -> ([Block; 3], usize) {
        let mut header = [[0; 16]; 3];
        let (length, iv) = header[0].split_at_mut(16 - HPOLYC_IV_LEN);
        length.copy_from_slice(&tweak_bits(iv));
        fill_iv(iv);
        (header, 1)
    }

    fn start(&self, tweak: &[u8], _: usize) -> Poly {
        let mut poly = Poly::new();
        let mut block = [0; 16];
        let (length, rest) = block.split_at_mut(4);
        length.copy_from_slice(&tweak_bits(tweak));
        let (first, tweak) = tweak.split_at(tweak.len().min(rest.len()));
        rest[..first.len()].copy_from_slice(first);
        poly.update(&self.0, &block);
        for piece in tweak.chunks(16) {
            block = [0; 16];
            block[..piece.len()].copy_from_slice(piece);
            poly.update(&self.0, &block);
        }
        poly
    }

    fn finish(&self, start: &Poly, bulk: &[Block], rest: &[u8]) -> u128 {
        let mut poly = start.clone();
        poly.blocks(&self.0, bulk);
        poly.rest(&self.0, rest);
        poly.finish()
    }
}

/// Either.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
pub(crate) enum HashKeys {
    Nh(NhHash),
    Poly(PolyHash),
}

impl HashKeys {
    /// Adiantum's, and the key of its block cipher.
    pub(crate) fn adiantum(stream: &StreamKey, block_key: &mut [u8; 32]) -> Self {
        let mut hash = NhHash::EMPTY;
        hash.derive(stream, block_key);
        Self::Nh(hash)
    }

    /// HPolyC's, and the key of its block cipher.
    pub(crate) fn hpolyc(stream: &StreamKey, block_key: &mut [u8; 32]) -> Self {
        let mut hash = PolyHash::EMPTY;
        hash.derive(stream, block_key);
        Self::Poly(hash)
    }

    /// Data units that fill the lanes of the hash: NH works on one at a time, Poly1305 on one per lane.
    #[allow(dead_code, reason = "only backends with vectors ask for it")]
    pub(crate) fn least_units(&self) -> usize {
        match self {
            Self::Nh(_) => 1,
            Self::Poly(_) => 8,
        }
    }
}

impl WideHash for HashKeys {
    fn header_key(&self) -> &PolyKey {
        match self {
            Self::Nh(hash) => hash.header_key(),
            Self::Poly(hash) => hash.header_key(),
        }
    }

    fn header(&self, bulk: usize, fill_iv: impl FnOnce(&mut [u8])) -> ([Block; 3], usize) {
        match self {
            Self::Nh(hash) => hash.header(bulk, fill_iv),
            Self::Poly(hash) => hash.header(bulk, fill_iv),
        }
    }

    fn start(&self, tweak: &[u8], bulk: usize) -> Poly {
        match self {
            Self::Nh(hash) => hash.start(tweak, bulk),
            Self::Poly(hash) => hash.start(tweak, bulk),
        }
    }

    fn finish(&self, start: &Poly, bulk: &[Block], rest: &[u8]) -> u128 {
        match self {
            Self::Nh(hash) => hash.finish(start, bulk, rest),
            Self::Poly(hash) => hash.finish(start, bulk, rest),
        }
    }
}

fn bulk_bits(bulk: usize) -> Block {
    (bulk as u128 * 8).to_le_bytes()
}

fn tweak_bits(tweak: &[u8]) -> [u8; 4] {
    (tweak.len() as u32).wrapping_mul(8).to_le_bytes()
}
