//! CBC with ciphertext stealing (NIST SP 800-38A addendum, CBC-CS3, which is what the kernel's `cts(cbc(…))` and fscrypt
//! take): the last two blocks change places, and what is missing of the last one is cut off the one before.

use crate::block::{Block, Direction, xor};
use crate::mode::cbc::CbcBackend;
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::run::Run;
use crate::tweak::{Iv, TweakRule, Units};

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "cts",
    template: Template::Around("cbc"),
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([16, 24, 32])),
    iv_len: 16,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// Encrypts or decrypts a run. Its units are whole blocks, so that the last two change places and nothing is cut off.
pub(crate) fn run<C: CbcBackend>(cipher: &C, direction: Direction, units: Units<'_, C>, run: Run<'_>) {
    let unit_blocks = units.blocks();
    let blocks = run.into_blocks();
    if direction == Direction::Decrypt {
        exchange_last_blocks(blocks, unit_blocks);
    }
    cipher.cbc(direction, units, Run::of_blocks(blocks));
    if direction == Direction::Encrypt {
        exchange_last_blocks(blocks, unit_blocks);
    }
}

fn exchange_last_blocks(blocks: &mut [Block], unit_blocks: usize) {
    for unit in blocks.chunks_mut(unit_blocks) {
        if let [.., last_but_one, last] = unit {
            core::mem::swap(last_but_one, last);
        }
    }
}

/// Encrypts or decrypts one data unit of any length from 16 bytes on. Shorter ones are left alone.
pub(crate) fn unit<C: CbcBackend>(cipher: &C, direction: Direction, iv: &Iv, unit: &mut [u8]) {
    let cbc = |blocks: &mut [u8]| {
        let units = Units::new(TweakRule::Given(*iv), 0, 0, blocks.len() / 16);
        cipher.cbc(direction, units, Run::in_place(blocks));
    };
    if unit.len() < 16 {
        return;
    }
    // All but the last block, which may be a part of one.
    let body = (unit.len() - 1) / 16 * 16;
    if body == 0 {
        return cbc(unit);
    }
    let (body, tail) = unit.split_at_mut(body);
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    match direction {
        Direction::Encrypt => {
            cbc(body);
            let Some(previous) = body.last_chunk_mut::<16>() else { return };
            let mut block = [xor(previous, &last)];
            cipher.encrypt(&mut block);
            tail.copy_from_slice(&previous[..tail.len()]);
            *previous = block[0];
        }
        Direction::Decrypt => {
            let Some(previous) = body.last_chunk_mut::<16>() else { return };
            let mut block = [*previous];
            cipher.decrypt(&mut block);
            // What was cut off is there, because zeros were encrypted in the place of what is missing.
            last[tail.len()..].copy_from_slice(&block[0][tail.len()..]);
            *previous = last;
            tail.copy_from_slice(&xor(&block[0], &last)[..tail.len()]);
            cbc(body);
        }
    }
}
