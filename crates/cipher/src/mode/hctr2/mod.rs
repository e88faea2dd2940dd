//! HCTR2 (Crowley, Huckleberry and Biggers, "Length-preserving encryption with HCTR2", 2021): a hash of all but the
//! first block, that block through the cipher, a counter mode, and the hash again, so that every bit of a data unit
//! depends on all others.
//!
//! With H the hash of tweak and bulk, encryption is
//!
//! ```text
//! middle = block ^ H(bulk); out = E(middle); bulk ^= XCTR(middle ^ out ^ L); block = out ^ H(bulk)
//! ```
//!
//! and decryption the same with the cipher's inverse. Units go [`LANES`] at a time, so that the first pass over them
//! and their single blocks keep a pipeline full.

use atrest_secret::wipe;
use zeroize::Zeroize;

use crate::block::{Block, BlockCipher, Direction, LANES, xor};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template};
use crate::run::Run;
use crate::tweak::Units;

/// Bytes in an IV (kernel, `crypto/hctr2.c`: `TWEAK_SIZE`).
pub(crate) const IV_LEN: usize = 32;

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "hctr2",
    template: Template::OfCipher,
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::OneKey(&[16, 24, 32]),
    iv_len: IV_LEN,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What HCTR2 asks of a backend.
pub(crate) trait Hctr2Backend: BlockCipher {
    /// The hash that goes with it.
    type Hash: Polyval;

    /// HCTR2 over whole units.
    fn hctr2(&self, key: &Hctr2Key<Self::Hash>, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        self::run(self, key, direction, units, run);
    }

    /// POLYVAL's state after more blocks.
    fn polyval(&self, key: &Self::Hash, state: u128, blocks: &[Block]) -> u128 {
        key.absorb(state, blocks)
    }

    /// HCTR2's second half: XCTR with this cipher over whole blocks, in place, and POLYVAL's state after what comes out.
    fn xctr_polyval(&self, hash: &Self::Hash, nonce: &Block, state: u128, blocks: &mut [Block]) -> u128 {
        xctr_polyval(self, hash, nonce, state, blocks)
    }
}

/// POLYVAL (RFC 8452, section 3) with a key, and what is computed from it once. Wipes itself on drop.
pub(crate) trait Polyval {
    /// Without a key: zeros.
    const EMPTY: Self;

    /// Whether anyone asks for [`Hctr2Key::iv_start`].
    const WANTS_IV_START: bool;

    /// Takes a key.
    fn set(&mut self, key: &Block);

    /// Forgets it.
    fn wipe(&mut self);

    /// The state after more blocks.
    fn absorb(&self, state: u128, blocks: &[Block]) -> u128;
}

/// What the cipher's key makes beside itself.
pub(crate) struct Hctr2Key<H: Polyval> {
    pub(crate) hash: H,
    /// The paper's L: tells XCTR's inputs from others of the cipher.
    pub(crate) separator: Block,
    /// The hash's state before an IV where the bulk is whole blocks.
    #[allow(dead_code, reason = "only backends with a multiplier ask for it, and only for them it is made")]
    pub(crate) iv_start: u128,
}

impl<H: Polyval> Hctr2Key<H> {
    /// Without a key: zeros.
    pub(crate) const EMPTY: Self = Self { hash: H::EMPTY, separator: [0; 16], iv_start: 0 };

    pub(crate) fn new(cipher: &impl BlockCipher) -> Self {
        let mut new = Self::EMPTY;
        new.set(cipher);
        new
    }

    pub(crate) fn set(&mut self, cipher: &impl BlockCipher) {
        let mut derived = [0u128.to_le_bytes(), 1u128.to_le_bytes()];
        cipher.encrypt(&mut derived);
        self.hash.set(&derived[0]);
        self.separator = derived[1];
        if H::WANTS_IV_START {
            self.iv_start = self.hash.absorb(0, &[length(IV_LEN, true)]);
        }
        wipe(derived.as_flattened_mut());
    }

    pub(crate) fn wipe(&mut self) {
        self.hash.wipe();
        self.separator.zeroize();
        self.iv_start.zeroize();
    }

    /// The hash's state after the tweak. `whole` says that the bulk is whole blocks.
    fn start<C: Hctr2Backend<Hash = H>>(&self, cipher: &C, tweak: &[u8], whole: bool) -> u128 {
        let mut blocks = [[0; 16]; 1 + IV_LEN / 16];
        blocks[0] = length(tweak.len(), whole);
        // Usually that is all of it.
        let (first, more) = tweak.split_at(tweak.len().min(IV_LEN));
        blocks[1..].as_flattened_mut()[..first.len()].copy_from_slice(first);
        let mut state = cipher.polyval(&self.hash, 0, &blocks[..1 + first.len().div_ceil(16)]);
        let (blocks, rest) = more.as_chunks();
        state = cipher.polyval(&self.hash, state, blocks);
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            state = cipher.polyval(&self.hash, state, &[last]);
        }
        state
    }

    /// The state after the bulk's last bytes, which are no whole block.
    fn absorb_rest<C: Hctr2Backend<Hash = H>>(&self, cipher: &C, state: u128, rest: &[u8]) -> u128 {
        if rest.is_empty() {
            return state;
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 1;
        cipher.polyval(&self.hash, state, &[last])
    }
}

impl<H: Polyval> Drop for Hctr2Key<H> {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// What the hash starts with.
fn length(tweak: usize, whole: bool) -> Block {
    (16 * tweak as u128 + if whole { 2 } else { 3 }).to_le_bytes()
}

/// Encrypts or decrypts a run.
pub(crate) fn run<C: Hctr2Backend>(
    cipher: &C,
    key: &Hctr2Key<C::Hash>,
    direction: Direction,
    mut units: Units<'_, C>,
    run: Run<'_>,
) {
    let unit = units.blocks() * 16;
    for batch in run.into_place().chunks_mut(unit * LANES) {
        let mut starts = [0; LANES];
        let count = batch.len() / unit;
        for start in &mut starts[..count] {
            let mut iv = [0; IV_LEN];
            units.next_of_any_length(&mut iv);
            *start = key.start(cipher, &iv, true);
        }
        units_of(cipher, key, direction, &starts[..count], batch, unit);
    }
}

/// Encrypts or decrypts one data unit of any length from 16 bytes on, under a tweak of any length. Shorter ones are left
/// alone. `src`, if any, is as long as `dst`.
pub(crate) fn unit<C: Hctr2Backend>(
    cipher: &C,
    key: &Hctr2Key<C::Hash>,
    direction: Direction,
    tweak: &[u8],
    src: Option<&[u8]>,
    dst: &mut [u8],
) {
    let len = dst.len();
    if len < 16 {
        return;
    }
    if let Some(src) = src.filter(|src| src.len() == len) {
        dst.copy_from_slice(src);
    }
    let start = key.start(cipher, tweak, len.is_multiple_of(16));
    units_of(cipher, key, direction, &[start], dst, len);
}

/// At most [`LANES`] units of `unit` bytes, with the states of their hashes after the tweaks.
fn units_of<C: Hctr2Backend>(
    cipher: &C,
    key: &Hctr2Key<C::Hash>,
    direction: Direction,
    starts: &[u128],
    units: &mut [u8],
    unit: usize,
) {
    let mut inputs = [[0; 16]; LANES];
    let mut outputs = [[0; 16]; LANES];
    let count = starts.len().min(LANES);
    let (inputs, outputs) = (&mut inputs[..count], &mut outputs[..count]);
    for ((unit, start), input) in units.chunks(unit).zip(starts).zip(inputs.iter_mut()) {
        if let Some((block, bulk)) = unit.split_first_chunk() {
            let (bulk, rest) = bulk.as_chunks();
            let state = cipher.polyval(&key.hash, *start, bulk);
            *input = xor(block, &key.absorb_rest(cipher, state, rest).to_le_bytes());
        }
    }
    outputs.copy_from_slice(inputs);
    cipher.apply(direction, outputs);
    for (((unit, start), input), output) in units.chunks_mut(unit).zip(starts).zip(inputs).zip(outputs) {
        if let Some((block, bulk)) = unit.split_first_chunk_mut() {
            let nonce = xor(&xor(input, output), &key.separator);
            let (bulk, rest) = bulk.as_chunks_mut();
            let state = cipher.xctr_polyval(&key.hash, &nonce, *start, bulk);
            if !rest.is_empty() {
                let mut stream = [xctr_input(&nonce, bulk.len())];
                cipher.encrypt(&mut stream);
                rest.iter_mut().zip(&stream[0]).for_each(|(byte, stream)| *byte ^= stream);
            }
            *block = xor(output, &key.absorb_rest(cipher, state, rest).to_le_bytes());
        }
    }
}

/// What is encrypted to the keystream for block `at`; the paper counts from 1.
fn xctr_input(nonce: &Block, at: usize) -> Block {
    xor(nonce, &(at as u128 + 1).to_le_bytes())
}

/// XCTR over whole blocks, in place, and POLYVAL of what comes out.
pub(crate) fn xctr_polyval<C: Hctr2Backend>(
    cipher: &C,
    hash: &C::Hash,
    nonce: &Block,
    mut state: u128,
    blocks: &mut [Block],
) -> u128 {
    let mut at = 0;
    for blocks in blocks.chunks_mut(LANES) {
        let mut stream: [Block; LANES] = core::array::from_fn(|i| xctr_input(nonce, at + i));
        cipher.encrypt(&mut stream[..blocks.len()]);
        for (block, stream) in blocks.iter_mut().zip(&stream) {
            *block = xor(block, stream);
        }
        state = cipher.polyval(hash, state, blocks);
        at += blocks.len();
    }
    state
}
