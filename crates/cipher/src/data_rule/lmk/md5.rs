//! MD5's compression function (RFC 1321, 3.4). MD5 is broken as a hash; loop-AES uses its bare state.

use zeroize::Zeroize;

use crate::block::Block;

/// The four words A, B, C, D. Wiped on drop.
pub(crate) struct State([u32; 4]);

/// Rotations of a round's four steps in turn.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The integer part of 2^32 times |sin(i + 1)|.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

impl State {
    pub(crate) fn new() -> Self {
        Self([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476])
    }

    /// Compresses 64 bytes.
    pub(crate) fn absorb(&mut self, input: &[Block; 4]) {
        let bytes = input.as_flattened();
        let word = |i: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[4 * i..][..4]);
            u32::from_le_bytes(word)
        };
        let [mut a, mut b, mut c, mut d] = self.0;
        for (i, sine) in SINES.iter().enumerate() {
            let (mixed, at) = match i / 16 {
                0 => (d ^ (b & (c ^ d)), i),
                1 => (c ^ (d & (b ^ c)), 5 * i + 1),
                2 => (b ^ c ^ d, 3 * i + 5),
                _ => (c ^ (b | !d), 7 * i),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(*sine).wrapping_add(word(at % 16));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(ROTATIONS[i / 16][i % 4]));
        }
        for (word, add) in self.0.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(add);
        }
    }

    /// The state as the digest would print it.
    pub(crate) fn bytes(&self) -> Block {
        let mut bytes = [0; 16];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    /// Source: RFC 1321, A.5.
    pub(crate) fn padded_messages_give_the_published_digests() {
        for (message, published) in [
            ("", 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427eu128),
            ("message digest", 0xf96b_697d_7cb7_938d_525a_2f31_aaf1_61d0),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                0x57ed_f4a2_2be3_c955_ac49_da2e_2107_b67a,
            ),
        ] {
            let mut padded = [[[0; 16]; 4]; 2];
            let bytes = padded.as_flattened_mut().as_flattened_mut();
            bytes[..message.len()].copy_from_slice(message.as_bytes());
            bytes[message.len()] = 0x80;
            let blocks = (message.len() + 8) / 64 + 1;
            bytes[64 * blocks - 8..][..8].copy_from_slice(&(8 * message.len() as u64).to_le_bytes());
            let mut state = State::new();
            for block in &padded[..blocks] {
                state.absorb(block);
            }
            assert_eq!(u128::from_be_bytes(state.bytes()), published, "{message:?}");
        }
    }
}
