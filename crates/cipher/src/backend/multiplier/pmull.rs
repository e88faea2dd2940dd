//! PMULL on aarch64 (Arm ARM, PMULL and PMULL2 on 64-bit elements).

use core::arch::aarch64::{
    uint8x16_t, vdupq_n_u8, veorq_u8, vextq_u8, vgetq_lane_u64, vmull_p64, vreinterpretq_u8_p128,
    vreinterpretq_u64_u8,
};

use crate::backend::armv8::ArmCe;
use crate::backend::wide::hashing::hashing;
use crate::backend::wide::hctr2::{Multiply, Product};

type Register = uint8x16_t;

hashing!(ArmCe, ce, "neon,aes", Register, Register);

// SAFETY (all of the blocks below): the caller has Advanced SIMD and PMULL, as the trait asks.
impl Multiply for uint8x16_t {
    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, sum: &mut Product<Self>) {
        // SAFETY: as said above.
        unsafe {
            let ((a_low, a_high), (b_low, b_high)) = (halves(self), halves(other));
            sum.low = veorq_u8(sum.low, product(a_low, b_low));
            sum.high = veorq_u8(sum.high, product(a_high, b_high));
            let crossed = veorq_u8(product(a_low, b_high), product(a_high, b_low));
            sum.middle = veorq_u8(sum.middle, crossed);
        }
    }

    #[inline(always)]
    unsafe fn reduce(sum: Product<Self>) -> Self {
        // SAFETY: as said above.
        unsafe {
            let low = veorq_u8(sum.low, vextq_u8::<8>(vdupq_n_u8(0), sum.middle));
            let high = veorq_u8(sum.high, vextq_u8::<8>(sum.middle, vdupq_n_u8(0)));
            veorq_u8(high, fold(fold(low)))
        }
    }
}

#[inline(always)]
unsafe fn halves(a: uint8x16_t) -> (u64, u64) {
    // SAFETY: the caller has Advanced SIMD.
    unsafe { (vgetq_lane_u64::<0>(vreinterpretq_u64_u8(a)), vgetq_lane_u64::<1>(vreinterpretq_u64_u8(a))) }
}

#[inline]
#[target_feature(enable = "neon,aes")]
unsafe fn product(a: u64, b: u64) -> uint8x16_t {
    vreinterpretq_u8_p128(vmull_p64(a, b))
}

/// x^-64 times a polynomial of 128 bits: the low half times x^63 + x^62 + x^57, added to the swapped halves.
#[inline(always)]
unsafe fn fold(a: uint8x16_t) -> uint8x16_t {
    // SAFETY: the caller has PMULL.
    unsafe { veorq_u8(vextq_u8::<8>(a, a), product(halves(a).0, 0xc200_0000_0000_0000)) }
}
