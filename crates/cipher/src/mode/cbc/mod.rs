//! CBC (NIST SP 800-38A, 6.2), a chain per data unit. Encryption is serial inside a chain, so it runs several
//! data units side by side.

use crate::block::{BlockCipher, Direction, LANES, WIDE, xor};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::run::Run;
use crate::tweak::{IvStream, Units};

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "cbc",
    template: Template::OfCipher,
    primitives: Primitives::AnyBlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([16, 24, 32])),
    iv_len: 16,
    iv_rules: IvRules::NumbersAndKeyed,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What CBC asks of a backend.
pub(crate) trait CbcBackend: BlockCipher {
    /// CBC, each data unit a chain of its own.
    fn cbc(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        match (direction, self.is_wide()) {
            (Direction::Encrypt, false) => encrypt::<_, LANES>(self, units, run),
            (Direction::Encrypt, true) => encrypt::<_, WIDE>(self, units, run),
            (Direction::Decrypt, false) => decrypt::<_, LANES>(self, units, run),
            (Direction::Decrypt, true) => decrypt::<_, WIDE>(self, units, run),
        }
    }
}

/// Encrypts a run, `AT_ONCE` units side by side.
fn encrypt<C: BlockCipher, const AT_ONCE: usize>(cipher: &C, mut units: Units<'_, C>, mut run: Run<'_>) {
    let unit_blocks = units.blocks();
    let total = run.blocks() / unit_blocks;
    let mut first = 0;
    while first < total {
        let count = (total - first).min(AT_ONCE);
        let mut chains = [[0; 16]; AT_ONCE];
        let chains = &mut chains[..count];
        units.fill(chains);
        for block in 0..unit_blocks {
            let position = |lane: usize| (first + lane) * unit_blocks + block;
            for (lane, chain) in chains.iter_mut().enumerate() {
                let mut plain = [[0; 16]];
                run.load(position(lane), &mut plain);
                *chain = xor(chain, &plain[0]);
            }
            cipher.encrypt(chains);
            for (lane, chain) in chains.iter().enumerate() {
                run.store(position(lane), core::slice::from_ref(chain));
            }
        }
        first += count;
    }
}

/// Decrypts a run; nothing is serial here.
fn decrypt<C: BlockCipher, const AT_ONCE: usize>(cipher: &C, units: Units<'_, C>, mut run: Run<'_>) {
    let unit_blocks = units.blocks();
    let total = run.blocks();
    let mut ivs = IvStream::new(units, None, total.div_ceil(unit_blocks));
    let mut previous = [0; 16];
    let mut left = 0;
    let mut cipher_text = [[0; 16]; AT_ONCE];
    let mut blocks = [[0; 16]; AT_ONCE];
    let mut at = 0;
    while at < total {
        let count = (total - at).min(AT_ONCE);
        let (cipher_text, blocks) = (&mut cipher_text[..count], &mut blocks[..count]);
        run.load(at, cipher_text);
        blocks.copy_from_slice(cipher_text);
        cipher.decrypt(blocks);
        for (block, cipher_text) in blocks.iter_mut().zip(&*cipher_text) {
            if left == 0 {
                left = unit_blocks;
                previous = ivs.next();
            }
            left -= 1;
            *block = xor(block, &previous);
            previous = *cipher_text;
        }
        run.store(at, blocks);
        at += count;
    }
}
