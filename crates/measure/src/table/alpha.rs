//! The four ways in which the article multiplies a tweak by x in GF(2^128). For its table only: the cipher room has its own.
//!
//! One is another field than IEEE 1619's: it takes the bytes from the other end.

/// A way to multiply by x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiply {
    /// Bytes, turned into a big-endian number and back.
    UnalignedBigEndian,
    /// Bytes, turned into a little-endian number and back.
    UnalignedLittleEndian,
    /// A number from the start.
    Aligned,
    /// Four words.
    Words,
}

impl Multiply {
    /// As the article lists them.
    pub const ALL: [Self; 4] =
        [Self::UnalignedBigEndian, Self::UnalignedLittleEndian, Self::Aligned, Self::Words];

    /// As the article calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnalignedBigEndian => "unaligned u128 BE",
            Self::UnalignedLittleEndian => "unaligned u128 LE",
            Self::Aligned => "aligned u128",
            Self::Words => "[u32; 4]",
        }
    }

    /// Fills each chunk of `tweaks` with a first tweak times x^0, x^1 ….
    pub(super) fn powers(self, first: &[[u8; 16]], chunk: usize, tweaks: &mut [[u8; 16]]) {
        match self {
            Self::UnalignedBigEndian => fill(first, chunk, tweaks, |bytes| bytes, big_endian, |tweak| tweak),
            Self::UnalignedLittleEndian => {
                fill(first, chunk, tweaks, |bytes| bytes, little_endian, |tweak| tweak)
            }
            Self::Aligned => fill(first, chunk, tweaks, u128::from_le_bytes, aligned, u128::to_le_bytes),
            Self::Words => fill(first, chunk, tweaks, words_of, words, bytes_of),
        }
    }
}

/// What a carry out of the highest bit becomes.
const REDUCTION: u8 = 0x87;

fn big_endian(tweak: &mut [u8; 16]) {
    let mut number = u128::from_be_bytes(*tweak);
    aligned(&mut number);
    *tweak = number.to_be_bytes();
}

fn little_endian(tweak: &mut [u8; 16]) {
    let mut number = u128::from_le_bytes(*tweak);
    aligned(&mut number);
    *tweak = number.to_le_bytes();
}

fn aligned(tweak: &mut u128) {
    let carry = *tweak >> 127;
    *tweak = (*tweak << 1) ^ (carry * u128::from(REDUCTION));
}

fn words(tweak: &mut [u32; 4]) {
    let [a, b, c, d] = *tweak;
    let carry = (d >> 31) * u32::from(REDUCTION);
    *tweak = [(a << 1) ^ carry, (b << 1) | (a >> 31), (c << 1) | (b >> 31), (d << 1) | (c >> 31)];
}

fn words_of(bytes: [u8; 16]) -> [u32; 4] {
    let number = u128::from_le_bytes(bytes);
    [0, 32, 64, 96].map(|shift| (number >> shift) as u32)
}

fn bytes_of(words: [u32; 4]) -> [u8; 16] {
    words.iter().rev().fold(0, |number, word| (number << 32) | u128::from(*word)).to_le_bytes()
}

fn fill<T: Copy>(
    first: &[[u8; 16]],
    chunk: usize,
    tweaks: &mut [[u8; 16]],
    load: impl Fn([u8; 16]) -> T,
    multiply: impl Fn(&mut T),
    store: impl Fn(T) -> [u8; 16],
) {
    for (first, tweaks) in first.iter().zip(tweaks.chunks_mut(chunk)) {
        let mut power = load(*first);
        for tweak in tweaks {
            *tweak = store(power);
            multiply(&mut power);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as IEEE 1619-2018, 5.2, writes it: from byte to byte, with a carry.
    fn by_the_standard(tweak: [u8; 16]) -> [u8; 16] {
        let mut carry = 0;
        let mut product = tweak.map(|byte| {
            let doubled = (byte << 1) | carry;
            carry = byte >> 7;
            doubled
        });
        product[0] ^= REDUCTION * carry;
        product
    }

    #[test]
    fn the_four_ways_to_multiply_are_the_standards() {
        let mut seed = 1u128;
        for _ in 0..1000 {
            seed = seed.wrapping_mul(0xda94_2042_e4dd_58b5_6cf2_a9b8_9d1b_3f25).rotate_left(41);
            let tweak = seed.to_le_bytes();
            let mut reversed = tweak;
            reversed.reverse();
            for way in Multiply::ALL {
                let first = if way == Multiply::UnalignedBigEndian { reversed } else { tweak };
                let mut powers = [[0; 16]; 3];
                way.powers(&[first], 3, &mut powers);
                if way == Multiply::UnalignedBigEndian {
                    powers.iter_mut().for_each(|power| power.reverse());
                }
                let once = by_the_standard(tweak);
                assert_eq!(powers, [tweak, once, by_the_standard(once)], "{}", way.name());
            }
        }
    }
}
