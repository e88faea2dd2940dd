//! Twofish (Schneier, Kelsey, Whiting, Wagner, Hall and Ferguson: "Twofish: A 128-Bit Block Cipher", 1998), for keys of 16, 24 and
//! 32 bytes.
//!
//! Our own, because the library computes the matrix of its S-boxes bit by bit, at some 2 MB/s. Here the last permutation and the
//! matrix are four constant tables; what depends on the key stays 16 bytes of S-box key, so that a keyed cipher is as small as
//! firmware and many-key modes want it. The tables are read at secret indices: not constant-time.

use zeroize::Zeroize;

use crate::block::{Block, BlockCipher, in_batches};

/// Blocks computed side by side: each waits for its tables, not for the others.
const SIDE_BY_SIDE: usize = 4;
/// Rounds.
pub(crate) const ROUNDS: usize = 16;
/// What the matrix of the S-boxes is over: x^8 + x^6 + x^5 + x^3 + 1.
const MATRIX_FIELD: u16 = 0x169;
/// What the matrix of the key schedule is over: x^8 + x^6 + x^3 + x^2 + 1.
const KEY_FIELD: u16 = 0x14d;

/// The permutations q0 and q1 (section 4.3.5).
static Q: [[u8; 256]; 2] = [
    permutation([
        [0x8, 0x1, 0x7, 0xd, 0x6, 0xf, 0x3, 0x2, 0x0, 0xb, 0x5, 0x9, 0xe, 0xc, 0xa, 0x4],
        [0xe, 0xc, 0xb, 0x8, 0x1, 0x2, 0x3, 0x5, 0xf, 0x4, 0xa, 0x6, 0x7, 0x0, 0x9, 0xd],
        [0xb, 0xa, 0x5, 0xe, 0x6, 0xd, 0x9, 0x0, 0xc, 0x8, 0xf, 0x3, 0x2, 0x4, 0x7, 0x1],
        [0xd, 0x7, 0xf, 0x4, 0x1, 0x2, 0x6, 0xe, 0x9, 0xb, 0x3, 0x0, 0x8, 0x5, 0xc, 0xa],
    ]),
    permutation([
        [0x2, 0x8, 0xb, 0xd, 0xf, 0x7, 0x6, 0xe, 0x3, 0x1, 0x9, 0x4, 0x0, 0xa, 0xc, 0x5],
        [0x1, 0xe, 0x2, 0xb, 0x4, 0xc, 0x3, 0x7, 0x6, 0xd, 0xa, 0x5, 0xf, 0x9, 0x0, 0x8],
        [0x4, 0xc, 0x7, 0x5, 0x1, 0x6, 0x9, 0xa, 0x0, 0xe, 0xd, 0x8, 0x2, 0xb, 0x3, 0xf],
        [0xb, 0x9, 0x5, 0x1, 0xc, 0x3, 0xd, 0xe, 0x6, 0x4, 0x7, 0xf, 0x2, 0x0, 0x8, 0xa],
    ]),
];

/// Which permutation each byte goes through: first the last one, which is part of [`MIXED`], then those before it, outwards.
const LAYERS: [[usize; 4]; 5] = [[1, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 1]];

/// The matrix of the S-boxes (section 4.3.2), by rows.
const MATRIX: [[u8; 4]; 4] =
    [[0x01, 0xef, 0x5b, 0x5b], [0x5b, 0xef, 0xef, 0x01], [0xef, 0x5b, 0x01, 0xef], [0xef, 0x01, 0xef, 0x5b]];

/// The matrix of the key schedule (section 4.3), by rows.
const KEY_MATRIX: [[u8; 8]; 4] = [
    [0x01, 0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e],
    [0xa4, 0x56, 0x82, 0xf3, 0x1e, 0xc6, 0x68, 0xe5],
    [0x02, 0xa1, 0xfc, 0xc1, 0x47, 0xae, 0x3d, 0x19],
    [0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e, 0x03],
];

/// For each byte of a word, what its last permutation and its column of the matrix make of it.
static MIXED: [[u32; 256]; 4] = mixed();

const fn permutation(boxes: [[u8; 16]; 4]) -> [u8; 256] {
    let mut table = [0; 256];
    let mut x = 0;
    while x < 256 {
        let (mut a, mut b) = ((x >> 4) as u8, (x & 15) as u8);
        let mut half = 0;
        while half < 4 {
            let turned = ((b >> 1) | (b << 3)) & 15;
            (a, b) = (a ^ b, a ^ turned ^ ((a << 3) & 15));
            (a, b) = (boxes[half][a as usize], boxes[half + 1][b as usize]);
            half += 2;
        }
        table[x] = (b << 4) | a;
        x += 1;
    }
    table
}

const fn mixed() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut column = 0;
    while column < 4 {
        let mut x = 0;
        while x < 256 {
            let byte = Q[LAYERS[0][column]][x];
            let mut row = 0;
            while row < 4 {
                tables[column][x] |= (multiply(MATRIX[row][column], byte, MATRIX_FIELD) as u32) << (8 * row);
                row += 1;
            }
            x += 1;
        }
        column += 1;
    }
    tables
}

const fn multiply(a: u8, b: u8, field: u16) -> u8 {
    let (mut a, mut b, mut product) = (a as u16, b, 0);
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= field;
        }
        b >>= 1;
    }
    product as u8
}

/// For the words before and after the rounds, then two for each round.
pub(crate) type Subkeys = [u32; 8 + 2 * ROUNDS];
/// For each byte of a word, all that the key's S-boxes and the last permutation make of it.
#[cfg(target_arch = "x86_64")]
pub(crate) type Tables = [[u8; 256]; 4];

/// A keyed Twofish. Wipes itself on drop.
pub(crate) struct Keyed {
    subkeys: Subkeys,
    /// The key of the S-boxes, innermost layer last; as many as the key has eight bytes.
    boxes: [[u8; 4]; 4],
    layers: u8,
}

impl Keyed {
    /// Expands a key of 16, 24 or 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return None;
        }
        let layers = key.len() / 8;
        let (mut even, mut odd, mut boxes) = ([[0; 4]; 4], [[0; 4]; 4], [[0; 4]; 4]);
        for (i, group) in key.as_chunks::<8>().0.iter().enumerate() {
            even[i].copy_from_slice(&group[..4]);
            odd[i].copy_from_slice(&group[4..]);
            let column = |row: &[u8; 8]| {
                row.iter().zip(group).fold(0, |sum, (a, b)| sum ^ multiply(*a, *b, KEY_FIELD))
            };
            boxes[layers - 1 - i] = KEY_MATRIX.each_ref().map(column);
        }
        let mut subkeys = [0; 8 + 2 * ROUNDS];
        for (i, pair) in (0..).zip(subkeys.as_chunks_mut::<2>().0) {
            let same = |byte: u8| u32::from_le_bytes([byte; 4]);
            let a = g(&even, layers, same(2 * i));
            let b = g(&odd, layers, same(2 * i + 1)).rotate_left(8);
            *pair = [a.wrapping_add(b), a.wrapping_add(b.wrapping_mul(2)).rotate_left(9)];
        }
        even.zeroize();
        odd.zeroize();
        Some(Self { subkeys, boxes, layers: layers as u8 })
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn subkeys(&self) -> &Subkeys {
        &self.subkeys
    }

    /// Tables that take the place of four or six look-ups. Whoever has them wipes them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn tables(&self) -> Tables {
        let mut tables = [[0; 256]; 4];
        for (column, table) in tables.iter_mut().enumerate() {
            for (x, to) in (0..=u8::MAX).zip(table) {
                let mut byte = x;
                for layer in (1..=usize::from(self.layers)).rev() {
                    byte = Q[LAYERS[layer][column]][usize::from(byte)] ^ self.boxes[layer - 1][column];
                }
                *to = Q[LAYERS[0][column]][usize::from(byte)];
            }
        }
        tables
    }

    /// What a round adds to the right half, and what it mixes into it.
    #[inline(always)]
    fn round<const LAYERS: usize>(&self, round: usize, left: [u32; 2]) -> [u32; 2] {
        let a = g(&self.boxes, LAYERS, left[0]);
        let b = g(&self.boxes, LAYERS, left[1].rotate_left(8));
        let sum = a.wrapping_add(b);
        [
            sum.wrapping_add(self.subkeys[8 + 2 * round]),
            sum.wrapping_add(b).wrapping_add(self.subkeys[9 + 2 * round]),
        ]
    }

    #[inline(always)]
    fn encrypt_batch<const LAYERS: usize, const COUNT: usize>(&self, blocks: &mut [Block; COUNT]) {
        let mut words = blocks.map(|block| self.whiten(load(&block), 0));
        for round in 0..ROUNDS {
            for [a, b, c, d] in &mut words {
                let [f0, f1] = self.round::<LAYERS>(round, [*a, *b]);
                (*c, *d) = ((*c ^ f0).rotate_right(1), d.rotate_left(1) ^ f1);
                (*a, *b, *c, *d) = (*c, *d, *a, *b);
            }
        }
        for (block, [a, b, c, d]) in blocks.iter_mut().zip(words) {
            *block = store(self.whiten([c, d, a, b], 4));
        }
    }

    #[inline(always)]
    fn decrypt_batch<const LAYERS: usize, const COUNT: usize>(&self, blocks: &mut [Block; COUNT]) {
        let mut words = blocks.map(|block| {
            let [c, d, a, b] = self.whiten(load(&block), 4);
            [a, b, c, d]
        });
        for round in (0..ROUNDS).rev() {
            for [a, b, c, d] in &mut words {
                (*a, *b, *c, *d) = (*c, *d, *a, *b);
                let [f0, f1] = self.round::<LAYERS>(round, [*a, *b]);
                (*c, *d) = (c.rotate_left(1) ^ f0, (*d ^ f1).rotate_right(1));
            }
        }
        for (block, words) in blocks.iter_mut().zip(words) {
            *block = store(self.whiten(words, 0));
        }
    }

    #[inline(always)]
    fn whiten(&self, words: [u32; 4], from: usize) -> [u32; 4] {
        core::array::from_fn(|i| words[i] ^ self.subkeys[from + i])
    }
}

/// The function g: the key's S-boxes on each byte, then the matrix. `layers` is 2, 3 or 4.
#[inline(always)]
fn g(boxes: &[[u8; 4]; 4], layers: usize, word: u32) -> u32 {
    let mut bytes = word.to_le_bytes();
    for layer in (1..=layers).rev() {
        for (column, byte) in bytes.iter_mut().enumerate() {
            *byte = Q[LAYERS[layer][column]][usize::from(*byte)] ^ boxes[layer - 1][column];
        }
    }
    let mixed = |column: usize| MIXED[column][usize::from(bytes[column])];
    mixed(0) ^ mixed(1) ^ mixed(2) ^ mixed(3)
}

#[inline(always)]
fn load(block: &Block) -> [u32; 4] {
    let words = block.as_chunks::<4>().0;
    core::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

#[inline(always)]
fn store(words: [u32; 4]) -> Block {
    let mut block = [0; 16];
    block.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    block
}

impl BlockCipher for Keyed {
    fn is_constant_time(&self) -> bool {
        false
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        match self.layers {
            2 => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.encrypt_batch::<2, _>(some),
                |one| self.encrypt_batch::<2, _>(one),
            ),
            3 => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.encrypt_batch::<3, _>(some),
                |one| self.encrypt_batch::<3, _>(one),
            ),
            _ => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.encrypt_batch::<4, _>(some),
                |one| self.encrypt_batch::<4, _>(one),
            ),
        }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        match self.layers {
            2 => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.decrypt_batch::<2, _>(some),
                |one| self.decrypt_batch::<2, _>(one),
            ),
            3 => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.decrypt_batch::<3, _>(some),
                |one| self.decrypt_batch::<3, _>(one),
            ),
            _ => in_batches::<SIDE_BY_SIDE>(
                blocks,
                |some| self.decrypt_batch::<4, _>(some),
                |one| self.decrypt_batch::<4, _>(one),
            ),
        }
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        self.subkeys.zeroize();
        self.boxes.zeroize();
    }
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    /// The example tables of the paper's section 4.3.5, at their ends.
    pub(crate) fn the_permutations_are_those_of_the_paper() {
        assert_eq!(Q[0][..8], [0xa9, 0x67, 0xb3, 0xe8, 0x04, 0xfd, 0xa3, 0x76]);
        assert_eq!(Q[0][252..], [0x4a, 0x5e, 0xc1, 0xe0]);
        assert_eq!(Q[1][..8], [0x75, 0xf3, 0xc6, 0xf4, 0xdb, 0x7b, 0xfb, 0xc8]);
        assert_eq!(Q[1][252..], [0x55, 0x09, 0xbe, 0x91]);
    }

    pub(crate) fn any_number_of_blocks_comes_back() {
        for len in [16, 24, 32] {
            let key: [u8; 32] = core::array::from_fn(|i| (7 * i + 3) as u8);
            let twofish = Keyed::new(&key[..len]).expect("a key");
            for count in 0..10 {
                let mut blocks = [[0; 16]; 10];
                blocks.iter_mut().enumerate().for_each(|(i, block)| block.fill(i as u8));
                let plain = blocks;
                twofish.encrypt(&mut blocks[..count]);
                for (i, (block, plain)) in blocks.iter().zip(plain).enumerate() {
                    let mut alone = [plain];
                    twofish.encrypt(&mut alone);
                    assert_eq!(*block == plain, i >= count);
                    assert!(i >= count || *block == alone[0]);
                }
                twofish.decrypt(&mut blocks[..count]);
                assert_eq!(blocks, plain);
            }
        }
        assert!([0, 15, 17, 31, 33].iter().all(|len| Keyed::new(&[1; 33][..*len]).is_none()));
    }
}
