//! Speck128 and NOEKEON as their papers write them, a block at a time.

use super::{Block, BlockCipher, xor};

/// Speck128 (ePrint 2013/404, 3), with words in the byte order of the kernel.
pub struct Speck(Vec<u64>);

impl Speck {
    pub fn new(key: &[u8]) -> Self {
        let words: Vec<u64> = key.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (m, rounds) = (words.len(), 30 + words.len());
        let (mut k, mut l) = (vec![words[0]], words[1..].to_vec());
        for i in 0..rounds - 1 {
            l.push(k[i].wrapping_add(l[i].rotate_right(8)) ^ i as u64);
            k.push(k[i].rotate_left(3) ^ l[i + m - 1]);
        }
        Self(k)
    }
}

fn halves(block: Block) -> (u64, u64) {
    let block = u128::from_le_bytes(block);
    ((block >> 64) as u64, block as u64)
}

impl BlockCipher for Speck {
    fn encrypt(&self, block: Block) -> Block {
        let (mut x, mut y) = halves(block);
        for k in &self.0 {
            x = x.rotate_right(8).wrapping_add(y) ^ k;
            y = y.rotate_left(3) ^ x;
        }
        (u128::from(x) << 64 | u128::from(y)).to_le_bytes()
    }

    fn decrypt(&self, block: Block) -> Block {
        let (mut x, mut y) = halves(block);
        for k in self.0.iter().rev() {
            y = (y ^ x).rotate_right(3);
            x = (x ^ k).wrapping_sub(y).rotate_left(8);
        }
        (u128::from(x) << 64 | u128::from(y)).to_le_bytes()
    }
}

/// NOEKEON in direct-key mode (the specification of 2000, 3): words are big-endian, and gamma is its S-box, looked up for
/// each column of four bits. Decryption undoes each step.
pub struct Noekeon(Block);

const SBOX: [u32; 16] = [7, 10, 2, 12, 4, 8, 15, 0, 5, 9, 1, 14, 3, 13, 11, 6];

fn rows(block: Block) -> [u32; 4] {
    std::array::from_fn(|i| u32::from_be_bytes(block.as_chunks().0[i]))
}

fn bytes(rows: [u32; 4]) -> Block {
    rows.map(u32::to_be_bytes).as_flattened().try_into().expect("16 bytes")
}

fn theta(key: Block, block: Block) -> Block {
    let mixed = |x: u32| x ^ x.rotate_left(8) ^ x.rotate_left(24);
    let [a, b, c, d] = rows(block);
    let t = mixed(a ^ c);
    let [a, b, c, d] = rows(xor(bytes([a, b ^ t, c, d ^ t]), key));
    let t = mixed(b ^ d);
    bytes([a ^ t, b, c ^ t, d])
}

fn gamma(block: Block) -> Block {
    let (rows, mut out) = (rows(block), [0; 4]);
    for column in 0..32 {
        let nibble = (0..4).fold(0, |nibble, row| nibble | (rows[row] >> column & 1) << row);
        for (row, out) in out.iter_mut().enumerate() {
            *out |= (SBOX[nibble as usize] >> row & 1) << column;
        }
    }
    bytes(out)
}

fn rotated(block: Block, [b, c, d]: [u32; 3]) -> Block {
    let rows = rows(block);
    bytes([rows[0], rows[1].rotate_left(b), rows[2].rotate_left(c), rows[3].rotate_left(d)])
}

fn constant(round: usize) -> Block {
    let doubled = |x: u32| if x & 0x80 != 0 { (x << 1 ^ 0x1b) & 0xff } else { x << 1 };
    bytes([(0..round).fold(0x80, |x, _| doubled(x)), 0, 0, 0])
}

/// Gamma between the two rotations, which is its own inverse.
fn confused(block: Block) -> Block {
    rotated(gamma(rotated(block, [1, 5, 2])), [31, 27, 30])
}

impl Noekeon {
    pub fn new(key: &[u8]) -> Self {
        Self(key.try_into().expect("16 bytes"))
    }
}

impl BlockCipher for Noekeon {
    fn encrypt(&self, block: Block) -> Block {
        let state = (0..16).fold(block, |state, i| confused(theta(self.0, xor(state, constant(i)))));
        theta(self.0, xor(state, constant(16)))
    }

    fn decrypt(&self, block: Block) -> Block {
        // Theta with a key is undone by theta with that key put through it.
        let key = theta([0; 16], self.0);
        let state = xor(theta(key, block), constant(16));
        (0..16).rev().fold(state, |state, i| xor(theta(key, confused(state)), constant(i)))
    }
}
