//! ChaCha20 and Poly1305 over a batch of data units.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::hash::{column, set_column, whole_rows};
use super::poly::Field;
use super::{Batch, Lanes, Scratch, chacha};
use crate::chacha::StreamKey;

/// See [`super::VectorInstructions::chacha_poly`].
#[inline(always)]
pub(super) unsafe fn run<V: Lanes, F: Field<V>>(
    key: &StreamKey,
    scratch: &mut Scratch,
    batch: Batch,
    lengths: [u64; 2],
    open: bool,
) {
    // SAFETY: what this module asks for.
    unsafe {
        chacha::one_time_keys::<V>(key, scratch, batch.count);
        clamp(scratch);
        // The tag is that of the ciphertext.
        for is_hash in [open, !open] {
            if is_hash {
                hash::<V, F>(scratch, batch, lengths);
            } else {
                chacha::encrypt::<V, 10, false>(key, scratch, batch, batch.len, 1);
            }
        }
    }
}

/// The multiplier of each unit: the first half of its key, without some bits (RFC 8439, 2.5).
#[inline(always)]
fn clamp(scratch: &mut Scratch) {
    let [w0, w1, w2, w3, ..] = &scratch.subkeys;
    let [low, high, ..] = &mut scratch.header;
    for unit in 0..low.len() {
        low[unit] = (u64::from(w0[unit]) | u64::from(w1[unit]) << 32) & 0x0fff_fffc_0fff_ffff;
        high[unit] = (u64::from(w2[unit]) | u64::from(w3[unit]) << 32) & 0x0fff_fffc_0fff_fffc;
    }
}

/// Poly1305 of each unit under a multiplier of its own, without the second half of the key.
#[inline(always)]
unsafe fn hash<V: Lanes, F: Field<V>>(scratch: &mut Scratch, batch: Batch, lengths: [u64; 2]) {
    // SAFETY: what this module asks for; whole units are strides of every register.
    unsafe {
        for group in (0..batch.count).step_by(V::HALF) {
            let [low, high, associated @ ..] = &scratch.header;
            let by = F::of_lanes(column(low, group), column(high, group));
            let mut h = F::begin([V::splat64(0); 5]);
            for [low, high] in associated.as_chunks().0 {
                by.block(&mut h, column(low, group), column(high, group), true);
            }
            whole_rows(&by, &mut h, batch, group, batch.len);
            by.block(&mut h, V::splat64(lengths[0]), V::splat64(lengths[1]), true);
            let (low, high) = F::finish(h);
            set_column(&mut scratch.hash[0], group, low);
            set_column(&mut scratch.hash[1], group, high);
        }
    }
}
