//! loop-AES's IVs in its multi-key modes 2 and 3: a hash of the sector's own plaintext after the first block, and of
//! its number (kernel, `drivers/md/dm-crypt.c`, `crypt_iv_lmk_one`).

use atrest_secret::SecretArray;

use crate::block::{Block, xor};
use crate::run::Position;

pub(crate) mod md5;

/// Bytes of the 65th key that the hash starts with.
pub(crate) const SEED_LEN: usize = 16;

/// Blocks in a sector; loop-AES knows no other size.
const SECTOR_BLOCKS: usize = 32;

/// The rule; mode 3 hashes a seed, mode 2 does not.
pub(crate) struct Lmk {
    seed: Option<SecretArray<SEED_LEN>>,
}

impl Lmk {
    pub(crate) fn new(seed: Option<&[u8; SEED_LEN]>) -> Self {
        Self { seed: seed.map(|seed| SecretArray::new(*seed)) }
    }

    /// Adds each sector's IV to its first block of plaintext, or takes it away. CBC with that IV is the same as CBC
    /// with an IV of zeros between these two.
    pub(crate) fn apply(&self, position: Position, sectors: &mut [Block]) {
        for (i, sector) in sectors.as_chunks_mut::<SECTOR_BLOCKS>().0.iter_mut().enumerate() {
            let [first, rest @ ..] = sector;
            *first = xor(first, &self.iv(position.after(i).number, rest));
        }
    }

    /// MD5's state, without its padding, after the seed, the blocks, and the number's low 56 bits with what would be
    /// padding: a bit and the length of 503 bytes.
    fn iv(&self, number: u64, rest: &[Block; SECTOR_BLOCKS - 1]) -> Block {
        let mut state = md5::State::new();
        if let Some(seed) = &self.seed {
            let mut first = [[0; 16]; 4];
            first[0] = **seed;
            state.absorb(&first);
            atrest_secret::wipe(first.as_flattened_mut());
        }
        let mut last = [0; 16];
        last[..8].copy_from_slice(&(number & 0x00ff_ffff_ffff_ffff | 1 << 63).to_le_bytes());
        last[8..12].copy_from_slice(&4024u32.to_le_bytes());
        let (whole, tail) = rest.as_chunks::<4>();
        for blocks in whole {
            state.absorb(blocks);
        }
        if let [a, b, c] = tail {
            state.absorb(&[*a, *b, *c, last]);
        }
        state.bytes()
    }
}
