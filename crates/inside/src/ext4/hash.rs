//! The hashes of names by which directories are indexed (kernel, `fs/ext4/hash.c`). Here they are only part of what names in a
//! locked directory are shown as.

/// Which hash a directory uses, and with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameHash {
    /// The number that superblocks and the roots of indices store.
    pub(super) version: u8,
    /// Whether bytes count as unsigned where the number does not say so.
    pub(super) unsigned: bool,
    /// Four words, or zeros for those of MD4.
    pub(super) seed: [u32; 4],
}

impl NameHash {
    /// Hash and minor hash of a name; none for a version that has no hash of its own.
    pub(super) fn of(self, name: &[u8]) -> Option<(u32, u32)> {
        let unsigned = self.version >= 3 || self.unsigned;
        let mut state = match self.seed {
            [0, 0, 0, 0] => [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            seed => seed,
        };
        let (hash, minor) = match self.version {
            0 | 3 => (legacy(name, unsigned), 0),
            1 | 4 => {
                each(name, unsigned, |words: &[u32; 8]| half_md4(&mut state, words));
                (state[1], state[2])
            }
            2 | 5 => {
                each(name, unsigned, |words: &[u32; 4]| tea(&mut state, words));
                (state[0], state[1])
            }
            _ => return None,
        };
        // The lowest bit marks collisions in the index, and the highest hash stands for its end.
        let hash = match hash & !1 {
            0xffff_fffe => 0xffff_fffc,
            hash => hash,
        };
        Some((hash, minor))
    }
}

fn widened(byte: u8, unsigned: bool) -> u32 {
    if unsigned { byte.into() } else { i32::from(byte.cast_signed()).cast_unsigned() }
}

/// Hands over a name of at most 255 bytes in pieces of `N` words, the last of them filled up with its length.
fn each<const N: usize>(name: &[u8], unsigned: bool, mut work: impl FnMut(&[u32; N])) {
    let mut rest = name;
    while !rest.is_empty() {
        // What is left, the current piece included, in every byte.
        // cannot miss: a name has 255 bytes at most.
        let pad = u32::try_from(rest.len()).unwrap_or(0).wrapping_mul(0x0101_0101);
        let piece = rest.get(..N.saturating_mul(4)).unwrap_or(rest);
        let mut words = [pad; N];
        for (word, bytes) in words.iter_mut().zip(piece.chunks(4)) {
            *word = bytes.iter().fold(pad, |word, byte| (word << 8).wrapping_add(widened(*byte, unsigned)));
        }
        work(&words);
        // cannot miss: the piece is the beginning of it.
        rest = rest.get(piece.len()..).unwrap_or(&[]);
    }
}

fn legacy(name: &[u8], unsigned: bool) -> u32 {
    let (mut last, mut before) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
    for byte in name {
        let mut hash = before.wrapping_add(last ^ widened(*byte, unsigned).wrapping_mul(7_152_373));
        if hash & 0x8000_0000 != 0 {
            hash = hash.wrapping_sub(0x7fff_ffff);
        }
        (before, last) = (last, hash);
    }
    last << 1
}

fn tea(state: &mut [u32; 4], words: &[u32; 4]) {
    let [a, b, c, d] = *words;
    let (mut x, mut y, mut sum) = (state[0], state[1], 0_u32);
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        let mix = |v: u32, k: u32, l: u32| {
            (v << 4).wrapping_add(k) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(l)
        };
        x = x.wrapping_add(mix(y, a, b));
        y = y.wrapping_add(mix(x, c, d));
    }
    state[0] = state[0].wrapping_add(x);
    state[1] = state[1].wrapping_add(y);
}

/// MD4 without its last round and with half of its input.
fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    const ROUNDS: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (|x, y, z| z ^ (x & (y ^ z)), 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]),
        (|x, y, z| (x & y).wrapping_add((x ^ y) & z), 0x5a82_7999, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13]),
        (|x, y, z| x ^ y ^ z, 0x6ed9_eba1, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15]),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, order, turns) in ROUNDS {
        for (index, turn) in order.into_iter().zip(turns.into_iter().cycle()) {
            // cannot miss: the indices are the constants above.
            let word = words.get(index).copied().unwrap_or(0);
            let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(word).wrapping_add(constant);
            (a, b, c, d) = (d, sum.rotate_left(turn), b, c);
        }
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By debugfs 1.47.0: `dx_hash [-h HASH] [-s SEED] NAME`. It has no unsigned hashes, which a kernel gives in another test.
    #[test]
    fn hashes_as_debugfs_does() {
        const SEED: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x6745_2301, 0xefcd_ab89];
        let names = [
            "a",
            "hello.txt",
            "a name that is longer than thirty-two bytes, by some",
            "0123456789abcdef",
            "\u{e9}\u{20ac} name",
            &"x".repeat(200),
        ];
        // By version and seed, hash and minor hash of each name.
        let expected = [
            (
                0,
                [0; 4],
                [
                    (0xe74b53e2, 0x0),
                    (0x65a05776, 0x0),
                    (0xbc3458f4, 0x0),
                    (0x415c16fe, 0x0),
                    (0x610068c0, 0x0),
                    (0x710819b2, 0x0),
                ],
            ),
            (
                0,
                SEED,
                [
                    (0xe74b53e2, 0x0),
                    (0x65a05776, 0x0),
                    (0xbc3458f4, 0x0),
                    (0x415c16fe, 0x0),
                    (0x610068c0, 0x0),
                    (0x710819b2, 0x0),
                ],
            ),
            (
                1,
                [0; 4],
                [
                    (0xd5fa7d7a, 0xacb48187),
                    (0xa26e1d86, 0x133b3f98),
                    (0xea441a8, 0x6a0e7da9),
                    (0x8cb502b6, 0x5acf4f33),
                    (0xa571b36a, 0xd146df31),
                    (0x33c0dad8, 0xe195b5cc),
                ],
            ),
            (
                1,
                SEED,
                [
                    (0x35dc0cc4, 0x3f1dacef),
                    (0x42a85304, 0xcb5c9f78),
                    (0xb219e0a4, 0x42dbd3fc),
                    (0x26e743f8, 0x7133ce34),
                    (0x564a1252, 0x5c2fc66d),
                    (0xe18e1218, 0xeb264d4b),
                ],
            ),
            (
                2,
                [0; 4],
                [
                    (0x6d0ea4c0, 0xc18922df),
                    (0x5107c3f2, 0x3840cb7),
                    (0x3d8efad6, 0xfb80d5f6),
                    (0x5a0788b2, 0xefa4e711),
                    (0xeaba2a8c, 0xe55b13d6),
                    (0xff02471e, 0x9d703638),
                ],
            ),
            (
                2,
                SEED,
                [
                    (0x6d0ea4c0, 0xc18922df),
                    (0x5107c3f2, 0x3840cb7),
                    (0x3d8efad6, 0xfb80d5f6),
                    (0x5a0788b2, 0xefa4e711),
                    (0xeaba2a8c, 0xe55b13d6),
                    (0xff02471e, 0x9d703638),
                ],
            ),
        ];
        for (version, seed, hashes) in expected {
            for (name, hash) in names.iter().zip(hashes) {
                let ours = NameHash { version, unsigned: false, seed }.of(name.as_bytes());
                assert_eq!(ours, Some(hash), "{version} {seed:x?} {name}");
                let unsigned = NameHash { version: version + 3, unsigned: false, seed }.of(name.as_bytes());
                assert_eq!(unsigned == ours, name.is_ascii(), "{version} {name}");
            }
        }
    }
}
