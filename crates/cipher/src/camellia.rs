//! Camellia (RFC 3713): its key schedule and S-boxes, for implementations beside the library's.

use zeroize::Zeroize;

/// Keys of a cipher with 24 rounds, and how many there are with 18.
const MOST: usize = 34;
const SHORT: usize = 26;
/// The constants of section 2.2.
const SIGMA: [u64; 6] = [
    0xa09e667f3bcc908b,
    0xb67ae8584caa73b2,
    0xc6ef372fe94f82be,
    0x54ff53a5f1d36f1c,
    0x10e527fade682d1d,
    0xb05688c2b3e6c1fd,
];

/// The S-boxes (section 2.4.1): one, and three that turn what comes out of it or goes into it.
pub(crate) static BOXES: [[u8; 256]; 4] = boxes();
/// Which of them each byte of a half goes through, the highest first.
pub(crate) const BOX_OF: [usize; 8] = [0, 1, 2, 3, 1, 2, 3, 0];

#[rustfmt::skip]
const FIRST: [u8; 256] = [
    112, 130,  44, 236, 179,  39, 192, 229, 228, 133,  87,  53, 234,  12, 174,  65,
     35, 239, 107, 147,  69,  25, 165,  33, 237,  14,  79,  78,  29, 101, 146, 189,
    134, 184, 175, 143, 124, 235,  31, 206,  62,  48, 220,  95,  94, 197,  11,  26,
    166, 225,  57, 202, 213,  71,  93,  61, 217,   1,  90, 214,  81,  86, 108,  77,
    139,  13, 154, 102, 251, 204, 176,  45, 116,  18,  43,  32, 240, 177, 132, 153,
    223,  76, 203, 194,  52, 126, 118,   5, 109, 183, 169,  49, 209,  23,   4, 215,
     20,  88,  58,  97, 222,  27,  17,  28,  50,  15, 156,  22,  83,  24, 242,  34,
    254,  68, 207, 178, 195, 181, 122, 145,  36,   8, 232, 168,  96, 252, 105,  80,
    170, 208, 160, 125, 161, 137,  98, 151,  84,  91,  30, 149, 224, 255, 100, 210,
     16, 196,   0,  72, 163, 247, 117, 219, 138,   3, 230, 218,   9,  63, 221, 148,
    135,  92, 131,   2, 205,  74, 144,  51, 115, 103, 246, 243, 157, 127, 191, 226,
     82, 155, 216,  38, 200,  55, 198,  59, 129, 150, 111,  75,  19, 190,  99,  46,
    233, 121, 167, 140, 159, 110, 188, 142,  41, 245, 249, 182,  47, 253, 180,  89,
    120, 152,   6, 106, 231,  70, 113, 186, 212,  37, 171,  66, 136, 162, 141, 250,
    114,   7, 185,  85, 248, 238, 172,  10,  54,  73,  42, 104,  60,  56, 241, 164,
     64,  40, 211, 123, 187, 201,  67, 193,  21, 227, 173, 244, 119, 199, 128, 158,
];

const fn boxes() -> [[u8; 256]; 4] {
    let mut boxes = [FIRST; 4];
    let mut x = 0;
    while x < 256 {
        boxes[1][x] = FIRST[x].rotate_left(1);
        boxes[2][x] = FIRST[x].rotate_left(7);
        boxes[3][x] = FIRST[(x as u8).rotate_left(1) as usize];
        x += 1;
    }
    boxes
}

/// The keys of one direction, in the order in which they are used. Wipes itself on drop.
pub(crate) struct Schedule {
    keys: [u64; MOST],
    len: usize,
}

impl Schedule {
    /// Those of encryption and of decryption, for a key of 16, 24 or 32 bytes; `None` for other lengths (section 2.2).
    pub(crate) fn both(key: &[u8]) -> Option<[Self; 2]> {
        let half = |at: usize| Some(u64::from_be_bytes(*key.get(at..at + 8)?.first_chunk()?));
        let long = |at: usize| Some(u128::from(half(at)?) << 64 | u128::from(half(at + 8)?));
        let left = long(0)?;
        let right = match key.len() {
            16 => 0,
            24 => u128::from(half(16)?) << 64 | u128::from(!half(16)?),
            32 => long(16)?,
            _ => return None,
        };
        let a = mixed(mixed(left ^ right, SIGMA[0], SIGMA[1]) ^ left, SIGMA[2], SIGMA[3]);
        let b = mixed(a ^ right, SIGMA[4], SIGMA[5]);
        let mut forwards = Self { keys: [0; MOST], len: if key.len() == 16 { SHORT } else { MOST } };
        // In the order of their use, by how many bits each is turned.
        let turned: [(u128, u32); 17] = if key.len() == 16 {
            let whole = [
                (left, 0),
                (a, 0),
                (left, 15),
                (a, 15),
                (a, 30),
                (left, 45),
                // Of these two, one half each.
                (left, 60),
                (a, 60),
                (left, 77),
                (left, 94),
                (a, 94),
                (left, 111),
                (a, 111),
            ];
            let mut all = [(0, 0); 17];
            all[..13].copy_from_slice(&whole);
            all
        } else {
            [
                (left, 0),
                (b, 0),
                (right, 15),
                (a, 15),
                (right, 30),
                (b, 30),
                (left, 45),
                (a, 45),
                (left, 60),
                (right, 60),
                (b, 60),
                (left, 77),
                (a, 77),
                (right, 94),
                (a, 94),
                (left, 111),
                (b, 111),
            ]
        };
        for (pair, (value, by)) in forwards.keys.as_chunks_mut::<2>().0.iter_mut().zip(turned) {
            let value = value.rotate_left(by);
            *pair = [(value >> 64) as u64, value as u64];
        }
        if key.len() == 16 {
            forwards.keys[12] = (a.rotate_left(45) >> 64) as u64;
        }
        // Backwards they decrypt, but the keys of each end stay in their order (section 2.3.3).
        let mut backwards = Self { keys: forwards.keys, len: forwards.len };
        let keys = &mut backwards.keys[..forwards.len];
        keys.reverse();
        keys.swap(0, 1);
        keys.swap(forwards.len - 2, forwards.len - 1);
        Some([forwards, backwards])
    }

    /// The keys of the first whitening, then those of six rounds and two for FL and its inverse in turns, and those of the last whitening.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys[..self.len]
    }
}

/// Two rounds.
fn mixed(block: u128, first: u64, second: u64) -> u128 {
    let (left, right) = ((block >> 64) as u64, block as u64);
    let right = right ^ f(left, first);
    let left = left ^ f(right, second);
    u128::from(left) << 64 | u128::from(right)
}

/// The function F (section 2.4.1).
fn f(half: u64, key: u64) -> u64 {
    let mut t = (half ^ key).to_be_bytes();
    for (byte, which) in t.iter_mut().zip(BOX_OF) {
        *byte = BOXES[which][usize::from(*byte)];
    }
    let [t1, t2, t3, t4, t5, t6, t7, t8] = t;
    u64::from_be_bytes([
        t1 ^ t3 ^ t4 ^ t6 ^ t7 ^ t8,
        t1 ^ t2 ^ t4 ^ t5 ^ t7 ^ t8,
        t1 ^ t2 ^ t3 ^ t5 ^ t6 ^ t8,
        t2 ^ t3 ^ t4 ^ t5 ^ t6 ^ t7,
        t1 ^ t2 ^ t6 ^ t7 ^ t8,
        t2 ^ t3 ^ t5 ^ t7 ^ t8,
        t3 ^ t4 ^ t5 ^ t6 ^ t8,
        t1 ^ t4 ^ t5 ^ t6 ^ t7,
    ])
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}
