//! The words that hold one bit of every byte of several blocks, and how blocks get into them.

use core::ops::{BitAnd, BitXor};

use zeroize::Zeroize;

use super::sbox;
use crate::block::Block;

#[cfg(not(any(target_arch = "x86_64", target_pointer_width = "64")))]
mod native {
    pub(in crate::backend::portable) type Native = u32;
    pub(in crate::backend::portable) const BLOCKS: usize = 2;
}
#[cfg(all(not(target_arch = "x86_64"), target_pointer_width = "64"))]
mod native {
    pub(in crate::backend::portable) type Native = u64;
    pub(in crate::backend::portable) const BLOCKS: usize = 4;
}
#[cfg(target_arch = "x86_64")]
mod native {
    pub(in crate::backend::portable) type Native = super::super::sse2::Lanes;
    pub(in crate::backend::portable) const BLOCKS: usize = 8;
}

/// The word that this target is best at, and the number of blocks in it.
pub(super) use native::{BLOCKS, Native};

/// Plane i holds bit i of every byte.
pub(super) type Planes<W> = [W; 8];

/// One bit of every byte of some blocks.
pub(super) trait Word: Copy + BitXor<Output = Self> + BitAnd<Output = Self> {
    /// Every byte zero.
    const ZERO: Self;

    /// Every byte the same.
    fn bytes(byte: u8) -> Self;

    /// Bits of a byte moved up; what crosses into the next byte is masked out by the caller.
    fn up<const BITS: i32>(self) -> Self;

    /// Bits of a byte moved down; what crosses into the next byte is masked out by the caller.
    fn down<const BITS: i32>(self) -> Self;

    /// To every byte the one that is `ROWS` rows below and `ROWS`·`N` columns to the right, around the edges.
    fn taken_from_below<const ROWS: u32, const N: u32>(self) -> Self;

    /// Rows 1 and 3 moved by two columns.
    fn odd_rows_turned_by_two(self) -> Self;

    /// SubBytes without adding 0x63.
    #[inline(always)]
    fn sub_bytes(planes: &mut Planes<Self>) {
        sbox::sub_bytes(planes);
    }

    /// InvSubBytes after adding 0x63.
    #[inline(always)]
    fn inverse_sub_bytes(planes: &mut Planes<Self>) {
        sbox::inverse_sub_bytes(planes);
    }

    /// Overwrites planes in a way the compiler can't remove.
    fn wipe(planes: &mut Planes<Self>);
}

/// A word for that many blocks.
pub(super) trait Sliced<const BLOCKS: usize>: Word {
    /// Blocks to planes.
    fn pack(blocks: &[Block; BLOCKS]) -> Planes<Self>;

    /// Planes to blocks.
    fn unpack(planes: &Planes<Self>) -> [Block; BLOCKS];
}

/// Exchanges the number of a word with the number of a bit in its byte. Its own inverse.
#[cfg_attr(not(thumb2), inline(always))]
pub(super) fn transposed<W: Word>(mut words: Planes<W>) -> Planes<W> {
    exchange::<1, 1, W>(&mut words, 0x55);
    exchange::<2, 2, W>(&mut words, 0x33);
    exchange::<4, 4, W>(&mut words, 0x0f);
    words
}

/// For words whose numbers differ by `DISTANCE`: exchanges the bits of the one outside `mask` with those of the other
/// inside it, which are `BITS` = `DISTANCE` lower.
#[inline(always)]
fn exchange<const DISTANCE: usize, const BITS: i32, W: Word>(words: &mut Planes<W>, mask: u8) {
    for i in 0..8 {
        if i & DISTANCE == 0 {
            let moving = (words[i].down::<BITS>() ^ words[i + DISTANCE]) & W::bytes(mask);
            words[i + DISTANCE] = words[i + DISTANCE] ^ moving;
            words[i] = words[i] ^ moving.up::<BITS>();
        }
    }
}

/// A word in a general register. A bit's position is row, column, block, from high to low.
macro_rules! integer_word {
    ($word:ty, $blocks:literal $(, $better:item)*) => {
        impl Word for $word {
            $($better)*

            const ZERO: Self = 0;

            #[inline(always)]
            fn bytes(byte: u8) -> Self {
                <$word>::MAX / 0xff * <$word>::from(byte)
            }

            #[inline(always)]
            fn up<const BITS: i32>(self) -> Self {
                self << BITS
            }

            #[inline(always)]
            fn down<const BITS: i32>(self) -> Self {
                self >> BITS
            }

            #[inline(always)]
            fn taken_from_below<const ROWS: u32, const N: u32>(self) -> Self {
                const ROW: u32 = 4 * $blocks;
                let columns = $blocks * (ROWS * N % 4);
                let turned = if columns == 0 {
                    self
                } else {
                    // Within each row the low part comes down by so many columns, the rest goes around.
                    let low = <$word>::MAX / ((1 << ROW) - 1) * ((1 << (ROW - columns)) - 1);
                    (self >> columns) & low | (self << (ROW - columns)) & !low
                };
                // Rows last: an ARM takes a rotation along with what comes next.
                turned.rotate_right(ROW * ROWS)
            }

            #[inline(always)]
            fn odd_rows_turned_by_two(self) -> Self {
                const ROW: u32 = 4 * $blocks;
                let even = <$word>::MAX / ((1 << (2 * ROW)) - 1) * ((1 << ROW) - 1);
                let low = <$word>::MAX / ((1 << ROW) - 1) * ((1 << (ROW / 2)) - 1);
                let turned = (self >> (ROW / 2)) & low | (self << (ROW / 2)) & !low;
                self & even | turned & !even
            }

            fn wipe(planes: &mut Planes<Self>) {
                planes.zeroize();
            }
        }
    };
}

#[cfg(not(thumb2))]
integer_word!(u32, 2);
#[cfg(thumb2)]
integer_word!(
    u32,
    2,
    #[inline(always)]
    fn sub_bytes(planes: &mut Planes<Self>) {
        // SAFETY: eight words.
        unsafe { super::thumb2::sub_bytes(planes.as_mut_ptr()) }
    },
    #[inline(always)]
    fn inverse_sub_bytes(planes: &mut Planes<Self>) {
        // SAFETY: eight words.
        unsafe { super::thumb2::inverse_sub_bytes(planes.as_mut_ptr()) }
    }
);
integer_word!(u64, 4);

/// Two blocks to planes: a word per column and block, with its rows as bytes; word 2·c + b is column c of block b.
#[inline(always)]
pub(super) fn pack_words(words: [u32; 8]) -> Planes<u32> {
    transposed(words)
}

/// Takes [`pack_words`] back.
#[inline(always)]
pub(super) fn unpack_words(planes: Planes<u32>) -> [u32; 8] {
    transposed(planes)
}

impl Sliced<2> for u32 {
    #[inline(always)]
    fn pack(blocks: &[Block; 2]) -> Planes<u32> {
        pack_words(core::array::from_fn(|i| u32::from_le_bytes(blocks[i % 2].as_chunks().0[i / 2])))
    }

    #[inline(always)]
    fn unpack(planes: &Planes<u32>) -> [Block; 2] {
        let words = unpack_words(*planes);
        let mut blocks = [[0; 16]; 2];
        for (i, word) in words.iter().enumerate() {
            blocks[i % 2].as_chunks_mut().0[i / 2] = word.to_le_bytes();
        }
        blocks
    }
}

impl Sliced<4> for u64 {
    #[inline(always)]
    fn pack(blocks: &[Block; 4]) -> Planes<u64> {
        // A word per low bit of the column and block; its bytes are the rows of two columns, interleaved.
        transposed(core::array::from_fn(|i| {
            let columns = blocks[i % 4].as_chunks().0;
            spread(u32::from_le_bytes(columns[i / 4])) | spread(u32::from_le_bytes(columns[i / 4 + 2])) << 8
        }))
    }

    #[inline(always)]
    fn unpack(planes: &Planes<u64>) -> [Block; 4] {
        let words = transposed(*planes);
        let mut blocks = [[0; 16]; 4];
        for (i, word) in words.iter().enumerate() {
            let columns = blocks[i % 4].as_chunks_mut().0;
            columns[i / 4] = gathered(*word).to_le_bytes();
            columns[i / 4 + 2] = gathered(*word >> 8).to_le_bytes();
        }
        blocks
    }
}

/// Byte i to byte 2·i.
#[inline(always)]
fn spread(word: u32) -> u64 {
    let word = u64::from(word);
    let word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    (word | word << 8) & 0x00ff_00ff_00ff_00ff
}

/// Byte 2·i to byte i.
#[inline(always)]
fn gathered(word: u64) -> u32 {
    let word = word & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    (word | word >> 16) as u32
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    /// Bytes that are all different, and differ between blocks.
    fn blocks<const BLOCKS: usize>() -> [Block; BLOCKS] {
        core::array::from_fn(|block| core::array::from_fn(|i| (block * 16 + i).wrapping_mul(151) as u8))
    }

    /// What a permutation of a word does to bytes, as (row, column) to (row, column) where they come from.
    fn check<W: Sliced<BLOCKS>, const BLOCKS: usize>(
        permute: impl Fn(W) -> W,
        source: impl Fn(usize, usize) -> (usize, usize),
    ) {
        let before = blocks::<BLOCKS>();
        let after = W::unpack(&W::pack(&before).map(permute));
        for (before, after) in before.iter().zip(&after) {
            for (row, column) in (0..16).map(|i| (i % 4, i / 4)) {
                let (from_row, from_column) = source(row, column);
                assert_eq!(after[4 * column + row], before[4 * from_column + from_row]);
            }
        }
    }

    fn check_all<W: Sliced<BLOCKS>, const BLOCKS: usize>() {
        check::<W, BLOCKS>(|w| w, |row, column| (row, column));
        check::<W, BLOCKS>(W::taken_from_below::<1, 0>, |row, column| ((row + 1) % 4, column));
        check::<W, BLOCKS>(W::taken_from_below::<1, 1>, |row, column| ((row + 1) % 4, (column + 1) % 4));
        check::<W, BLOCKS>(W::taken_from_below::<1, 2>, |row, column| ((row + 1) % 4, (column + 2) % 4));
        check::<W, BLOCKS>(W::taken_from_below::<1, 3>, |row, column| ((row + 1) % 4, (column + 3) % 4));
        check::<W, BLOCKS>(W::taken_from_below::<2, 0>, |row, column| ((row + 2) % 4, column));
        check::<W, BLOCKS>(W::taken_from_below::<2, 1>, |row, column| ((row + 2) % 4, (column + 2) % 4));
        check::<W, BLOCKS>(W::taken_from_below::<2, 3>, |row, column| ((row + 2) % 4, (column + 6) % 4));
        check::<W, BLOCKS>(W::odd_rows_turned_by_two, |row, column| (row, (column + 2 * (row % 2)) % 4));
    }

    pub(crate) fn every_word_moves_rows_and_columns_as_it_says() {
        check_all::<u32, 2>();
        check_all::<u64, 4>();
        check_all::<Native, BLOCKS>();
    }

    pub(crate) fn plane_i_holds_bit_i() {
        for bit in 0..8 {
            let planes = u64::pack(&[[1 << bit; 16]; 4]);
            for (i, plane) in planes.iter().enumerate() {
                assert_eq!(*plane, if i == bit { u64::MAX } else { 0 });
            }
        }
    }
}
