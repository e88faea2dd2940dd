//! ChaCha and XChaCha over a batch of data units.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::{Batch, Lanes, Scratch, UNITS};
use crate::block::Block;
use crate::chacha::{BLOCK, CONSTANTS, ChaChaRounds, StreamKey};
use crate::mode::adiantum::NONCE_END;

/// See [`super::VectorInstructions::stream`].
#[inline(always)]
pub(super) unsafe fn stream<V: Lanes>(
    key: &StreamKey,
    scratch: &mut Scratch,
    nonces: &[Block; UNITS],
    batch: Batch,
) {
    // SAFETY: what this function asks for.
    unsafe {
        match key.rounds {
            ChaChaRounds::Twelve => {
                subkeys::<V, 6>(key, scratch, nonces, batch.count);
                encrypt::<V, 6, true>(key, scratch, batch, batch.bulk(), 0);
            }
            ChaChaRounds::Twenty => {
                subkeys::<V, 10>(key, scratch, nonces, batch.count);
                encrypt::<V, 10, true>(key, scratch, batch, batch.bulk(), 0);
            }
        }
    }
}

/// See [`super::VectorInstructions::short_nonce_stream`].
#[inline(always)]
pub(super) unsafe fn short_nonce_stream<V: Lanes>(key: &StreamKey, scratch: &mut Scratch, batch: Batch) {
    // SAFETY: what this function asks for.
    unsafe {
        match key.rounds {
            ChaChaRounds::Twelve => encrypt::<V, 6, false>(key, scratch, batch, batch.len, 0),
            ChaChaRounds::Twenty => encrypt::<V, 10, false>(key, scratch, batch, batch.len, 0),
        }
    }
}

/// Xors the keystream, from block `first` on, to the first `bulk` bytes of each unit: under its subkey (XChaCha) or under its nonce.
#[inline(always)]
pub(super) unsafe fn encrypt<V: Lanes, const DOUBLES: usize, const EXTENDED: bool>(
    key: &StreamKey,
    scratch: &mut Scratch,
    batch: Batch,
    bulk: usize,
    first: u32,
) {
    // SAFETY: what this module asks for.
    unsafe {
        let blocks = bulk.div_ceil(BLOCK);
        let total = blocks * batch.count;
        // Blocks of all units in a row; `unit` and `block` are those of the first lane.
        let (mut unit, mut block) = (0, 0);
        let mut done = 0;
        while done < total {
            let lanes = V::WORDS.min(total - done);
            let mut units = [0u32; 16];
            let mut counters = [0u32; 16];
            let alike = blocks - block >= lanes;
            if alike {
                units = [unit as u32; 16];
                for (lane, counter) in counters.iter_mut().enumerate() {
                    *counter = first + (block + lane) as u32;
                }
            } else {
                let (mut unit, mut block) = (unit, block);
                for (to_unit, counter) in units.iter_mut().zip(&mut counters).take(lanes) {
                    (*to_unit, *counter) = (unit as u32, first + block as u32);
                    block += 1;
                    if block == blocks {
                        (unit, block) = (unit + 1, 0);
                    }
                }
            }
            keystream::<V, DOUBLES, EXTENDED>(key, scratch, &units, &counters, alike);
            let mut from: *const u8 = scratch.keystream.as_ptr().cast();
            let mut left = lanes;
            while left > 0 {
                // The lanes of one unit.
                let here = left.min(blocks - block);
                let start = unit * batch.len + block * BLOCK;
                let len = (here * BLOCK).min(bulk - block * BLOCK);
                xor::<V>(batch.src.add(start), from, batch.dst.add(start), len);
                from = from.add(here * BLOCK);
                left -= here;
                block += here;
                if block == blocks {
                    (unit, block) = (unit + 1, 0);
                }
            }
            done += lanes;
        }
    }
}

/// HChaCha of the nonces, a unit per lane.
#[inline(always)]
unsafe fn subkeys<V: Lanes, const DOUBLES: usize>(
    key: &StreamKey,
    scratch: &mut Scratch,
    nonces: &[Block; UNITS],
    count: usize,
) {
    let mut words = [[0u32; UNITS]; 4];
    for (unit, nonce) in nonces.iter().enumerate().take(count) {
        for (column, word) in words.iter_mut().zip(nonce.as_chunks().0) {
            column[unit] = u32::from_le_bytes(*word);
        }
    }
    // SAFETY: what this module asks for; columns have a lane for every unit.
    unsafe {
        for group in (0..count).step_by(V::WORDS) {
            let mut state = [V::splat32(0); 16];
            for i in 0..4 {
                state[i] = V::splat32(CONSTANTS[i]);
                state[12 + i] = V::load(words[i].as_ptr().add(group).cast());
            }
            for i in 0..8 {
                state[4 + i] = V::splat32(key.words[i]);
            }
            permute::<V, DOUBLES>(&mut state);
            for i in 0..4 {
                state[i].store(scratch.subkeys[i].as_mut_ptr().add(group).cast());
                state[12 + i].store(scratch.subkeys[4 + i].as_mut_ptr().add(group).cast());
            }
        }
    }
}

/// The first half of block 0 of ChaCha20 under the nonces, a unit per lane: the keys of Poly1305, as [`Scratch::subkeys`].
#[inline(always)]
pub(super) unsafe fn one_time_keys<V: Lanes>(key: &StreamKey, scratch: &mut Scratch, count: usize) {
    // SAFETY: what this module asks for; columns have a lane for every unit.
    unsafe {
        for group in (0..count).step_by(V::WORDS) {
            let mut start = [V::splat32(0); 16];
            for i in 0..4 {
                start[i] = V::splat32(CONSTANTS[i]);
            }
            for i in 0..8 {
                start[4 + i] = V::splat32(key.words[i]);
            }
            for i in 0..3 {
                start[13 + i] = V::load(scratch.nonces[i].as_ptr().add(group).cast());
            }
            let mut state = start;
            permute::<V, 10>(&mut state);
            for i in 0..8 {
                let word = state[i].add32(start[i]);
                word.store(scratch.subkeys[i].as_mut_ptr().add(group).cast());
            }
        }
    }
}

/// A block of keystream per lane, which all are of one unit if they are `alike`.
#[inline(always)]
unsafe fn keystream<V: Lanes, const DOUBLES: usize, const EXTENDED: bool>(
    key: &StreamKey,
    scratch: &mut Scratch,
    units: &[u32; 16],
    counters: &[u32; 16],
    alike: bool,
) {
    // SAFETY: what this module asks for; the keystream has room for a block per lane.
    unsafe {
        let mut start = [V::splat32(0); 16];
        for i in 0..4 {
            start[i] = V::splat32(CONSTANTS[i]);
        }
        // A lane's word of what its unit has.
        let of_unit = |column: &[u32; UNITS]| {
            if alike { V::splat32(column[units[0] as usize % UNITS]) } else { V::looked_up(column, units) }
        };
        for i in 0..8 {
            start[4 + i] = if EXTENDED { of_unit(&scratch.subkeys[i]) } else { V::splat32(key.words[i]) };
        }
        // Data units are far below 2^32 blocks, so the high half of the counter stays zero.
        start[12] = V::load(counters.as_ptr().cast());
        if EXTENDED {
            start[14] = V::splat32(NONCE_END as u32);
        } else {
            for i in 0..3 {
                start[13 + i] = of_unit(&scratch.nonces[i]);
            }
        }
        let mut state = start;
        permute::<V, DOUBLES>(&mut state);
        for i in 0..16 {
            state[i] = state[i].add32(start[i]);
        }
        V::store_blocks(&state, scratch.keystream.as_mut_ptr().cast());
    }
}

/// RFC 8439, 2.3, four quarter rounds side by side.
#[inline(always)]
unsafe fn permute<V: Lanes, const DOUBLES: usize>(state: &mut [V; 16]) {
    for _ in 0..DOUBLES {
        // SAFETY: the caller has the CPU features.
        unsafe {
            quarters(state, [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]);
            quarters(state, [0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]);
        }
    }
}

#[inline(always)]
unsafe fn quarters<V: Lanes>(x: &mut [V; 16], a: [usize; 4], b: [usize; 4], c: [usize; 4], d: [usize; 4]) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        half::<V, 16, 12>(x, a, b, c, d);
        half::<V, 8, 7>(x, a, b, c, d);
    }
}

#[inline(always)]
unsafe fn half<V: Lanes, const FIRST: i32, const SECOND: i32>(
    x: &mut [V; 16],
    a: [usize; 4],
    b: [usize; 4],
    c: [usize; 4],
    d: [usize; 4],
) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        for i in 0..4 {
            x[a[i]] = x[a[i]].add32(x[b[i]]);
        }
        for i in 0..4 {
            x[d[i]] = x[d[i]].xor(x[a[i]]).rotate32::<FIRST>();
        }
        for i in 0..4 {
            x[c[i]] = x[c[i]].add32(x[d[i]]);
        }
        for i in 0..4 {
            x[b[i]] = x[b[i]].xor(x[c[i]]).rotate32::<SECOND>();
        }
    }
}

/// `dst` is `src` xor `key`, for `len` bytes.
#[inline(always)]
unsafe fn xor<V: Lanes>(src: *const u8, key: *const u8, dst: *mut u8, len: usize) {
    let register = 4 * V::WORDS;
    // SAFETY: the caller has the CPU features, and the pointers are valid for `len` bytes.
    unsafe {
        let mut at = 0;
        while at + register <= len {
            V::load(src.add(at)).xor(V::load(key.add(at))).store(dst.add(at));
            at += register;
        }
        while at + 16 <= len {
            let (a, b) = (src.add(at).cast::<u128>(), key.add(at).cast::<u128>());
            dst.add(at).cast::<u128>().write_unaligned(a.read_unaligned() ^ b.read_unaligned());
            at += 16;
        }
        while at < len {
            *dst.add(at) = *src.add(at) ^ *key.add(at);
            at += 1;
        }
    }
}
