//! The hashes of Adiantum and HPolyC over a batch of data units.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::poly::{self, Field, Multiplier};
use super::{Batch, Lanes, PREFETCH, Scratch, UNITS};
use crate::backend::register::prefetch;
use crate::mode::adiantum::HashKeys;
use crate::nh::{self, NhKey};

/// See [`super::VectorInstructions::start`].
#[inline(always)]
pub(super) unsafe fn start<V: Lanes>(keys: &HashKeys, scratch: &mut Scratch, blocks: usize, count: usize) {
    let key = match keys {
        HashKeys::Nh(hash) => &hash.header,
        HashKeys::Poly(hash) => &hash.0,
    };
    // SAFETY: the caller has the CPU features; columns have a lane for every unit.
    unsafe {
        let by = Multiplier::<V>::new(key);
        for group in (0..count).step_by(V::HALF) {
            let mut h = [V::splat64(0); 5];
            for block in scratch.header.as_chunks().0.iter().take(blocks) {
                let [low, high]: &[[u64; UNITS]; 2] = block;
                poly::block(&mut h, &by, column(low, group), column(high, group));
            }
            for (limbs, limb) in scratch.starts.iter_mut().zip(h) {
                set_column(limbs, group, limb);
            }
        }
    }
}

/// See [`super::VectorInstructions::hash`].
#[inline(always)]
pub(super) unsafe fn bulk<V: Lanes, F: Field<V>>(keys: &HashKeys, scratch: &mut Scratch, batch: Batch) {
    // SAFETY: what this function asks for.
    unsafe {
        match keys {
            HashKeys::Nh(hash) => {
                let by = Multiplier::<V>::new(&hash.message);
                nh_poly(&hash.nh, &by, scratch, batch);
            }
            HashKeys::Poly(hash) => {
                let by = F::new(&hash.0);
                for group in (0..batch.count).step_by(V::HALF) {
                    whole_poly::<V, F>(&by, scratch, batch, group);
                }
            }
        }
    }
}

/// Poly1305 of what NH makes of each chunk, and to it the hash of the header.
#[inline(always)]
unsafe fn nh_poly<V: Lanes>(key: &NhKey, by: &Multiplier<V>, scratch: &mut Scratch, batch: Batch) {
    // SAFETY: what this module asks for; every chunk lies in its unit.
    unsafe {
        // Of as many groups as the narrowest register makes.
        let mut hashes = [[V::splat64(0); 5]; UNITS / 2];
        let mut at = 0;
        while at < batch.bulk() {
            let len = (batch.bulk() - at).min(nh::CHUNK);
            for unit in 0..batch.count {
                let mut sums = [0; 4];
                nh_chunk::<V>(key, batch.src.add(unit * batch.len + at), len, &mut sums);
                for (column, sum) in scratch.sums.iter_mut().zip(sums) {
                    column[unit % UNITS] = sum;
                }
            }
            for (h, group) in hashes.iter_mut().zip((0..batch.count).step_by(V::HALF)) {
                for [low, high] in scratch.sums.as_chunks().0 {
                    poly::block(h, by, column(low, group), column(high, group));
                }
            }
            at += len;
        }
        for (h, group) in hashes.iter().zip((0..batch.count).step_by(V::HALF)) {
            let mut start = [V::splat64(0); 5];
            for (limb, limbs) in start.iter_mut().zip(&scratch.starts) {
                *limb = column(limbs, group);
            }
            let header = poly::finish(&start);
            let message = poly::finish(h);
            // Two numbers of 128 bits: the caller adds a third, so the sum is left to it.
            let [low, high] = &mut scratch.hash;
            set_column(low, group, message.0);
            set_column(high, group, message.1);
            let mut first = [0u64; UNITS];
            let mut second = [0u64; UNITS];
            set_column(&mut first, group, header.0);
            set_column(&mut second, group, header.1);
            for unit in group..(group + V::HALF).min(UNITS) {
                let sum = join(low[unit], high[unit]).wrapping_add(join(first[unit], second[unit]));
                (low[unit], high[unit]) = (sum as u64, (sum >> 64) as u64);
            }
        }
    }
}

fn join(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

/// As many strides that are there as a register takes, then as many that are not.
static STRIDES: [u64; 16] =
    [u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0, 0, 0, 0, 0];

/// NH of at most 1024 bytes, of which zeros fill the last stride. A block follows that may be read.
#[inline(always)]
unsafe fn nh_chunk<V: Lanes>(key: &NhKey, message: *const u8, len: usize, sums: &mut [u64; 4]) {
    let step = 16 * V::HALF;
    let (low, high) = (key.low.as_ptr(), key.high.as_ptr());
    // SAFETY: what this module asks for; the key has strides enough beyond the last one for a register of the last pass.
    unsafe {
        let mut accumulators = [V::splat64(0); 4];
        let mut at = 0;
        while at + step <= len {
            prefetch(message.wrapping_add(at + PREFETCH));
            if step > 64 {
                prefetch(message.wrapping_add(at + PREFETCH + 64));
            }
            let (first, second) = V::halves(message.add(at));
            for pass in 0..4 {
                let stride = at / 16 + pass;
                let a = first.add32(V::load(low.add(stride).cast()));
                let b = second.add32(V::load(high.add(stride).cast()));
                accumulators[pass] = V::add_products(accumulators[pass], a, b);
            }
            at += step;
        }
        let rest = len - at;
        if rest > 0 {
            // Strides that are not there must not count: neither they nor their keys.
            let mask = V::load(STRIDES.as_ptr().add(8 - rest.div_ceil(16)).cast());
            let (first, second) = if rest.is_multiple_of(16) && rest + 16 >= step {
                // The rest and the block that ends the unit.
                V::halves(message.add(at))
            } else {
                let mut filled = [0u8; 128];
                core::ptr::copy_nonoverlapping(message.add(at), filled.as_mut_ptr(), rest);
                V::halves(filled.as_ptr())
            };
            let (first, second) = (first.and(mask), second.and(mask));
            for pass in 0..4 {
                let stride = at / 16 + pass;
                let a = first.add32(V::load(low.add(stride).cast()).and(mask));
                let b = second.add32(V::load(high.add(stride).cast()).and(mask));
                accumulators[pass] = V::add_products(accumulators[pass], a, b);
            }
        }
        V::sums(accumulators, sums);
    }
}

/// Poly1305 of the bulks of the units from number `group` on, a unit per lane.
#[inline(always)]
unsafe fn whole_poly<V: Lanes, F: Field<V>>(by: &F, scratch: &mut Scratch, batch: Batch, group: usize) {
    // SAFETY: what this module asks for; every row read lies in its unit.
    unsafe {
        let mut start = [V::splat64(0); 5];
        for (limb, limbs) in start.iter_mut().zip(&scratch.starts) {
            *limb = column(limbs, group);
        }
        let mut h = F::begin(start);
        let at = whole_rows(by, &mut h, batch, group, batch.bulk());
        let row = |lane: usize| row(batch, group, lane);
        let mut rows = [V::splat64(0); 8];
        let rest = batch.bulk() - at;
        if rest > 0 {
            let mut last = [[0u8; 64]; 8];
            for (lane, last) in last.iter_mut().enumerate().take(V::HALF) {
                core::ptr::copy_nonoverlapping(row(lane).add(at), last.as_mut_ptr(), rest);
                rows[lane] = V::load(last.as_ptr());
            }
            V::transpose64(&mut rows);
            for pair in 0..rest / 16 {
                by.block(&mut h, rows[2 * pair], rows[2 * pair + 1], true);
            }
            if !rest.is_multiple_of(16) {
                let [low, high] = ends(rest % 16);
                let pair = rest / 16;
                let (low, high) =
                    (rows[2 * pair].or(V::splat64(low)), rows[2 * pair + 1].or(V::splat64(high)));
                by.block(&mut h, low, high, false);
            }
        }
        let (low, high) = F::finish(h);
        set_column(&mut scratch.hash[0], group, low);
        set_column(&mut scratch.hash[1], group, high);
    }
}

/// The unit of a lane. Lanes without a unit repeat the last one.
#[inline(always)]
unsafe fn row(batch: Batch, group: usize, lane: usize) -> *const u8 {
    // SAFETY: the batch has that unit.
    unsafe { batch.src.add((group + lane).min(batch.count - 1) * batch.len) }
}

/// Hashes the units from number `group` on as far as the first `bytes` of them are whole registers, and tells how far.
#[inline(always)]
pub(super) unsafe fn whole_rows<V: Lanes, F: Field<V>>(
    by: &F,
    h: &mut F::Hash,
    batch: Batch,
    group: usize,
    bytes: usize,
) -> usize {
    let step = 8 * V::HALF;
    // SAFETY: what this module asks for; every row read lies in its unit.
    unsafe {
        let row = |lane: usize| row(batch, group, lane);
        let mut rows = [V::splat64(0); 8];
        let mut at = 0;
        while at + step <= bytes {
            for lane in 0..V::HALF {
                prefetch(row(lane).wrapping_add(at + PREFETCH));
                rows[lane] = V::load(row(lane).add(at));
            }
            V::transpose64(&mut rows);
            if V::HALF == 2 {
                by.block(h, rows[0], rows[1], true);
            }
            for four in 0..V::HALF / 4 {
                let [low, high, next_low, next_high] =
                    [rows[4 * four], rows[4 * four + 1], rows[4 * four + 2], rows[4 * four + 3]];
                by.two_blocks(h, [(low, high), (next_low, next_high)]);
            }
            at += step;
        }
        at
    }
}

/// The bit after the end of a block of fewer than 16 bytes.
fn ends(bytes: usize) -> [u64; 2] {
    let end = 1u128 << (8 * bytes);
    [end as u64, (end >> 64) as u64]
}

/// The lanes of a column from unit `group` on.
#[inline(always)]
pub(super) unsafe fn column<V: Lanes>(column: &[u64; UNITS], group: usize) -> V {
    // SAFETY: `group` is a multiple of the number of lanes, of which the column has a multiple.
    unsafe { V::load(column.as_ptr().add(group).cast()) }
}

#[inline(always)]
pub(super) unsafe fn set_column<V: Lanes>(column: &mut [u64; UNITS], group: usize, lanes: V) {
    // SAFETY: `group` is a multiple of the number of lanes, of which the column has a multiple.
    unsafe { lanes.store(column.as_mut_ptr().add(group).cast()) }
}
