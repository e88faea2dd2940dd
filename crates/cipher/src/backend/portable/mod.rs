//! AES (FIPS 197) for any CPU: bit-sliced, so without a branch or an index that depends on secrets.
//!
//! Eight planes hold one bit each of every byte of several blocks. As in fixslicing (Adomnicai and Peyrin, "Fixslicing
//! AES-like ciphers", CHES 2021) ShiftRows moves nothing: after n rounds, what belongs at row r, column c is kept at
//! row r, column c + n·r. MixColumns makes up for it: the byte k rows below in the same column is found k rows below
//! and k·n columns to the right, for all bytes alike. Round keys are stored in the same arrangement.
//!
//! The number of blocks side by side depends on the word: 2 in 32 bits, 4 in 64 bits, 8 in an SSE2 register.

#[cfg(all(feature = "internals", target_arch = "x86_64"))]
pub(crate) mod planted;
mod sbox;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(thumb2)]
mod thumb2;
pub(crate) mod word;
#[cfg(not(any(target_arch = "x86_64", target_pointer_width = "64")))]
mod xts;

use zeroize::Zeroize;

use self::word::{BLOCKS, Native, Planes, Sliced, Word};
use super::polyval::PolyvalKey;
use super::schedule::{self, Rounds};
use crate::block::{Block, BlockCipher, Direction};
use crate::mode::cbc::CbcBackend;
use crate::mode::ctr::CtrBackend;
use crate::mode::ecb::EcbBackend;
use crate::mode::gcm::GcmBackend;
use crate::mode::hctr2::Hctr2Backend;
use crate::mode::lrw::LrwBackend;
use crate::mode::xex1::Xex1Backend;
use crate::mode::xts::XtsBackend;
#[cfg(not(any(target_arch = "x86_64", target_pointer_width = "64")))]
use crate::{mode::xts::XtsUnits, run::Run};

/// A keyed AES.
pub(crate) struct PortableAes {
    /// The key of each round, alike for all blocks, its columns arranged as the state's are in that round.
    keys: [Planes<Native>; 15],
    rounds: Rounds,
}

impl PortableAes {
    /// Expands a key; `None` if AES takes no key of that length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut cipher = Self::EMPTY;
        cipher.expand(key).map(|()| cipher)
    }

    /// Without a key: zeros, so that a `static` takes no room in flash.
    pub(crate) const EMPTY: Self = Self { keys: [[Native::ZERO; 8]; 15], rounds: Rounds::Ten };

    /// Expands a key in place; `None` if AES takes no key of that length.
    pub(crate) fn expand(&mut self, key: &[u8]) -> Option<()> {
        let rounds = Rounds::for_key(key.len())?;
        let last = rounds.count();
        self.rounds = rounds;
        schedule::for_round_keys(key, rounds, sub_word, |round, key| {
            let mut arranged = *key;
            if round < last {
                arrange(&mut arranged, key, round);
            }
            let mut planes = Native::pack(&[arranged; BLOCKS]);
            if round > 0 {
                add_0x63(&mut planes);
            }
            if let Some(to) = self.keys.get_mut(round) {
                *to = planes;
            }
            arranged.zeroize();
            Native::wipe(&mut planes);
        });
        Some(())
    }

    /// Forgets the key.
    pub(crate) fn wipe(&mut self) {
        for planes in &mut self.keys {
            Native::wipe(planes);
        }
    }

    /// All rounds. Not inlined, so that there is one copy of either direction.
    fn apply_planes(&self, direction: Direction, state: &mut Planes<Native>) {
        match direction {
            Direction::Encrypt => self.encrypt_planes(state),
            Direction::Decrypt => self.decrypt_planes(state),
        }
    }

    #[inline(never)]
    fn encrypt_planes(&self, state: &mut Planes<Native>) {
        let last = self.rounds.count();
        add(state, &self.keys[0]);
        for round in 1..last {
            Word::sub_bytes(state);
            match round % 4 {
                0 => mix_columns::<0, _>(state),
                1 => mix_columns::<1, _>(state),
                2 => mix_columns::<2, _>(state),
                _ => mix_columns::<3, _>(state),
            }
            add(state, &self.keys[round]);
        }
        Word::sub_bytes(state);
        self.settle(state);
        add(state, &self.keys[last]);
    }

    #[inline(never)]
    fn decrypt_planes(&self, state: &mut Planes<Native>) {
        let last = self.rounds.count();
        add(state, &self.keys[last]);
        self.settle(state);
        Word::inverse_sub_bytes(state);
        for round in (1..last).rev() {
            add(state, &self.keys[round]);
            match round % 2 {
                0 => add_four_times_opposite::<0, _>(state),
                _ => add_four_times_opposite::<1, _>(state),
            }
            match round % 4 {
                0 => mix_columns::<0, _>(state),
                1 => mix_columns::<1, _>(state),
                2 => mix_columns::<2, _>(state),
                _ => mix_columns::<3, _>(state),
            }
            Word::inverse_sub_bytes(state);
        }
        add(state, &self.keys[0]);
    }

    /// Makes up for the ShiftRows of all rounds, or takes that back. Ten and fourteen of them move row r by 2·r
    /// columns, twelve move nothing.
    #[inline(always)]
    fn settle(&self, state: &mut Planes<Native>) {
        if !matches!(self.rounds, Rounds::Twelve) {
            for plane in state {
                *plane = plane.odd_rows_turned_by_two();
            }
        }
    }
}

impl Drop for PortableAes {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl BlockCipher for PortableAes {
    fn is_constant_time(&self) -> bool {
        true
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Decrypt, blocks);
    }

    #[cfg(any(target_arch = "x86_64", target_pointer_width = "64"))]
    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        for_batches(blocks, |state| self.apply_planes(direction, state));
    }

    // Where flash is short, one copy of this serves both directions and what is left over.
    #[cfg(not(any(target_arch = "x86_64", target_pointer_width = "64")))]
    #[inline(never)]
    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        for pair in blocks.chunks_mut(BLOCKS) {
            let mut words = [0; 8];
            for (at, block) in pair.iter().enumerate() {
                for (word, bytes) in words.iter_mut().skip(at).step_by(BLOCKS).zip(block.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            let mut planes = word::pack_words(words);
            self.apply_planes(direction, &mut planes);
            let words = word::unpack_words(planes);
            for (at, block) in pair.iter_mut().enumerate() {
                for (word, bytes) in words.iter().skip(at).step_by(BLOCKS).zip(block.as_chunks_mut().0) {
                    *bytes = word.to_le_bytes();
                }
            }
        }
    }
}

impl CbcBackend for PortableAes {}
impl CtrBackend for PortableAes {}
impl EcbBackend for PortableAes {}
impl GcmBackend for PortableAes {}
impl LrwBackend for PortableAes {}
impl Xex1Backend for PortableAes {}

impl Hctr2Backend for PortableAes {
    type Hash = PolyvalKey;
}

#[cfg(any(target_arch = "x86_64", target_pointer_width = "64"))]
impl XtsBackend for PortableAes {}

#[cfg(not(any(target_arch = "x86_64", target_pointer_width = "64")))]
impl XtsBackend for PortableAes {
    fn xts(&self, direction: Direction, units: XtsUnits<'_, Self>, run: Run<'_>) {
        xts::run(self, direction, units, 0, run);
    }

    fn xts_from(&self, direction: Direction, units: XtsUnits<'_, Self>, skipped: usize, run: Run<'_>) {
        xts::run(self, direction, units, skipped, run);
    }
}

/// SubBytes, ShiftRows and MixColumns of each block: a round without its key, as AEGIS wants it.
pub(super) fn rounds(blocks: &mut [Block]) {
    for batch in blocks.chunks_mut(BLOCKS) {
        let mut whole = [[0; 16]; BLOCKS];
        whole[..batch.len()].copy_from_slice(batch);
        let mut state = Native::pack(&whole);
        Word::sub_bytes(&mut state);
        add_0x63(&mut state);
        mix_columns::<1, _>(&mut state);
        for (to, from) in batch.iter_mut().zip(&Native::unpack(&state)) {
            arrange_back(to, from);
        }
    }
}

/// Moves to column c of row r what is kept in column c + r after one round.
fn arrange_back(to: &mut Block, from: &Block) {
    for (at, byte) in to.iter_mut().enumerate() {
        let (column, row) = (at / 4, at % 4);
        *byte = from[4 * ((column + row) % 4) + row];
    }
}

/// Takes as many blocks at a time as a word holds; the last batch is filled up.
#[cfg(any(target_arch = "x86_64", target_pointer_width = "64"))]
#[inline(always)]
fn for_batches(blocks: &mut [Block], apply: impl Fn(&mut Planes<Native>)) {
    let (whole, rest) = blocks.as_chunks_mut::<BLOCKS>();
    for batch in whole {
        let mut state = Native::pack(batch);
        apply(&mut state);
        *batch = Native::unpack(&state);
    }
    if !rest.is_empty() {
        let mut batch = [[0; 16]; BLOCKS];
        batch[..rest.len()].copy_from_slice(rest);
        let mut state = Native::pack(&batch);
        apply(&mut state);
        rest.copy_from_slice(&Native::unpack(&state)[..rest.len()]);
    }
}

/// The S-box on each byte of a word.
fn sub_word(word: u32) -> u32 {
    let mut block = [0; 16];
    block[..4].copy_from_slice(&word.to_le_bytes());
    let mut state = u32::pack(&[block; 2]);
    Word::sub_bytes(&mut state);
    add_0x63(&mut state);
    let [[a, b, c, d, ..], ..] = u32::unpack(&state);
    u32::from_le_bytes([a, b, c, d])
}

/// Moves what belongs in column c of row r to column c + `round`·r.
fn arrange(to: &mut Block, key: &Block, round: usize) {
    for (at, byte) in key.iter().enumerate() {
        let (column, row) = (at / 4, at % 4);
        to[4 * ((column + round * row) % 4) + row] = *byte;
    }
}

#[inline(always)]
fn add<W: Word>(state: &mut Planes<W>, key: &Planes<W>) {
    for (plane, key) in state.iter_mut().zip(key) {
        *plane = *plane ^ *key;
    }
}

/// What the S-box circuit leaves out.
fn add_0x63<W: Word>(state: &mut Planes<W>) {
    for (bit, plane) in state.iter_mut().enumerate() {
        if 0x63 >> bit & 1 == 1 {
            *plane = *plane ^ W::bytes(0xff);
        }
    }
}

/// x times every byte (FIPS 197, 4.2.1).
#[inline(always)]
fn times_x<W: Word>([p0, p1, p2, p3, p4, p5, p6, p7]: Planes<W>) -> Planes<W> {
    [p7, p0 ^ p7, p1, p2 ^ p7, p3 ^ p7, p4, p5, p6]
}

/// MixColumns (FIPS 197, 5.1.3) where row r is `N`·r columns off: with a the byte itself and b, c, d those below it,
/// 2a + 3b + c + d = 2(a + b) + b + (c + d).
#[cfg_attr(not(thumb2), inline(always))]
fn mix_columns<const N: u32, W: Word>(state: &mut Planes<W>) {
    let below = state.map(|plane| plane.taken_from_below::<1, N>());
    let mut pairs = *state;
    add(&mut pairs, &below);
    let doubled = times_x(pairs);
    for i in 0..8 {
        state[i] = doubled[i] ^ below[i] ^ pairs[i].taken_from_below::<2, N>();
    }
}

/// The start of InvMixColumns (FIPS 197, 5.3.3), which is MixColumns after adding 4(a + c) to every byte. Byte c is two
/// rows below, so that only the parity of `N` counts.
#[cfg_attr(not(thumb2), inline(always))]
fn add_four_times_opposite<const N: u32, W: Word>(state: &mut Planes<W>) {
    let mut sums = state.map(|plane| plane.taken_from_below::<2, N>());
    add(&mut sums, state);
    add(state, &times_x(times_x(sums)));
}
