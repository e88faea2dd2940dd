//! Advanced SIMD on aarch64.

use core::arch::aarch64::{
    uint32x4_t, uint64x2_t, vaddq_u32, vdupq_n_u32, vdupq_n_u64, vget_low_u32, vmlal_high_u32, vmlal_u32,
    vmovn_u64, vmull_u32, vpaddq_u64, vreinterpretq_u16_u32, vreinterpretq_u32_u16, vreinterpretq_u32_u64,
    vreinterpretq_u64_u32, vrev32q_u16, vshlq_n_u32, vshlq_n_u64, vshrq_n_u64, vsriq_n_u32, vst1q_u64,
    vtrn1q_u32, vtrn1q_u64, vtrn2q_u32, vtrn2q_u64,
};

use super::{Lanes, vector_instructions};
use crate::backend::register::Register;

/// Proof that the CPU has Advanced SIMD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    /// Asks the compiler, then the operating system.
    pub(in crate::backend) fn detect() -> Option<Self> {
        if cfg!(target_feature = "neon") {
            return Some(Self(()));
        }
        #[cfg(all(feature = "std", not(target_os = "none")))]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return Some(Self(()));
        }
        None
    }
}

vector_instructions!(
    Neon,
    super::uint32x4_t,
    crate::backend::lanes::poly::Limbs<super::uint32x4_t>,
    instructions,
    "neon"
);

#[cfg(feature = "serpent")]
super::serpent::serpent_instructions!(Neon, super::uint32x4_t, 1, serpent, "neon");

// SAFETY (all of the blocks below): the caller has Advanced SIMD and passes pointers as the trait asks.
impl Lanes for uint32x4_t {
    const WORDS: usize = 4;

    #[inline(always)]
    unsafe fn splat32(value: u32) -> Self {
        // SAFETY: registers only.
        unsafe { vdupq_n_u32(value) }
    }

    #[inline(always)]
    unsafe fn splat64(value: u64) -> Self {
        // SAFETY: registers only.
        unsafe { narrow(vdupq_n_u64(value)) }
    }

    #[inline(always)]
    unsafe fn add32(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { vaddq_u32(self, other) }
    }

    #[inline(always)]
    unsafe fn rotate32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe {
            match BITS {
                16 => vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(self))),
                12 => vsriq_n_u32::<20>(vshlq_n_u32::<12>(self), self),
                8 => vsriq_n_u32::<24>(vshlq_n_u32::<8>(self), self),
                _ => vsriq_n_u32::<25>(vshlq_n_u32::<7>(self), self),
            }
        }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn up32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { vshlq_n_u32::<BITS>(self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { vsriq_n_u32::<DOWN>(vshlq_n_u32::<UP>(self), self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn transposed32([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: registers only.
        unsafe {
            let wide = |x: Self| vreinterpretq_u64_u32(x);
            let (ab, more_ab) = (wide(vtrn1q_u32(a, b)), wide(vtrn2q_u32(a, b)));
            let (cd, more_cd) = (wide(vtrn1q_u32(c, d)), wide(vtrn2q_u32(c, d)));
            [
                narrow(vtrn1q_u64(ab, cd)),
                narrow(vtrn1q_u64(more_ab, more_cd)),
                narrow(vtrn2q_u64(ab, cd)),
                narrow(vtrn2q_u64(more_ab, more_cd)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn up64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { narrow(vshlq_n_u64::<BITS>(wide(self))) }
    }

    #[inline(always)]
    unsafe fn down64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { narrow(vshrq_n_u64::<BITS>(wide(self))) }
    }

    #[inline(always)]
    unsafe fn product(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { narrow(vmull_u32(vmovn_u64(wide(self)), vmovn_u64(wide(other)))) }
    }

    #[inline(always)]
    unsafe fn add_products(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: registers only.
        unsafe {
            // Lanes pair as they stand: words 0 and 1, then words 2 and 3, of both.
            let low = vmlal_u32(wide(sum), vget_low_u32(a), vget_low_u32(b));
            narrow(vmlal_high_u32(low, a, b))
        }
    }

    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self; 4], to: &mut [u64; 4]) {
        // SAFETY: four words are two registers.
        unsafe {
            vst1q_u64(to.as_mut_ptr(), vpaddq_u64(wide(a), wide(b)));
            vst1q_u64(to.as_mut_ptr().add(2), vpaddq_u64(wide(c), wide(d)));
        }
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> (Self, Self) {
        // SAFETY: two strides are two registers.
        unsafe {
            let (a, b) = (wide(Self::load(from)), wide(Self::load(from.add(16))));
            (narrow(vtrn1q_u64(a, b)), narrow(vtrn2q_u64(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn transpose64(x: &mut [Self; 8]) {
        // SAFETY: registers only.
        unsafe {
            let (a, b) = (wide(x[0]), wide(x[1]));
            (x[0], x[1]) = (narrow(vtrn1q_u64(a, b)), narrow(vtrn2q_u64(a, b)));
        }
    }

    #[inline(always)]
    unsafe fn store_blocks(x: &[Self; 16], to: *mut u8) {
        // SAFETY: four blocks of 64 writable bytes.
        unsafe {
            for row in 0..4 {
                let (a, b, c, d) = (x[4 * row], x[4 * row + 1], x[4 * row + 2], x[4 * row + 3]);
                let (ab_even, ab_odd) = (wide(vtrn1q_u32(a, b)), wide(vtrn2q_u32(a, b)));
                let (cd_even, cd_odd) = (wide(vtrn1q_u32(c, d)), wide(vtrn2q_u32(c, d)));
                let to = to.add(16 * row);
                narrow(vtrn1q_u64(ab_even, cd_even)).store(to);
                narrow(vtrn1q_u64(ab_odd, cd_odd)).store(to.add(64));
                narrow(vtrn2q_u64(ab_even, cd_even)).store(to.add(128));
                narrow(vtrn2q_u64(ab_odd, cd_odd)).store(to.add(192));
            }
        }
    }
}

#[inline(always)]
unsafe fn wide(words: uint32x4_t) -> uint64x2_t {
    // SAFETY: registers only.
    unsafe { vreinterpretq_u64_u32(words) }
}

#[inline(always)]
unsafe fn narrow(halves: uint64x2_t) -> uint32x4_t {
    // SAFETY: registers only.
    unsafe { vreinterpretq_u32_u64(halves) }
}
