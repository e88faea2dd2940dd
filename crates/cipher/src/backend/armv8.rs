//! The ARMv8 Cryptography Extension on aarch64 (Arm ARM, AESE, AESMC and relatives).

use core::arch::aarch64::{
    uint8x16_t, vaddq_u64, vandq_u64, vcombine_u64, vcreate_u64, vdupq_n_u8, vdupq_n_u32, veorq_u8,
    veorq_u64, vextq_s64, vextq_u8, vgetq_lane_u32, vreinterpretq_s64_u8, vreinterpretq_u8_u32,
    vreinterpretq_u8_u64, vreinterpretq_u32_u8, vreinterpretq_u64_s64, vreinterpretq_u64_u8, vrev64q_u8,
    vshrq_n_s64,
};
use core::arch::asm;

use super::register::Register as _;
use super::schedule::Schedule;
use super::wide::{Meanwhile, Vector, instructions, modes};
use crate::block::Block;

/// Proof that the CPU has Advanced SIMD and the AES instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmCe(());

impl ArmCe {
    /// Asks the compiler, then the operating system. The CPU itself answers privileged code only.
    pub(super) fn detect() -> Option<Self> {
        if cfg!(all(target_feature = "neon", target_feature = "aes")) {
            return Some(Self(()));
        }
        #[cfg(all(feature = "std", not(target_os = "none")))]
        if std::arch::is_aarch64_feature_detected!("neon") && std::arch::is_aarch64_feature_detected!("aes") {
            return Some(Self(()));
        }
        None
    }

    /// Takes the caller's word.
    ///
    /// # Safety
    ///
    /// The CPU has Advanced SIMD and the AES instructions, and they are enabled.
    pub(crate) const unsafe fn assume() -> Self {
        Self(())
    }
}

type Register = uint8x16_t;

instructions!(ArmCe, ce, "neon,aes", modes, Register);

/// Defines an AES step on a block and a key. It is written as assembly because CPUs fuse AESE with AESMC only
/// where the two stand side by side.
macro_rules! step {
    ($name:ident, $($text:literal),+) => {
        #[inline(always)]
        unsafe fn $name(mut block: Register, key: Register) -> Register {
            // SAFETY: the caller has the extension; nothing but `block` changes.
            unsafe {
                asm!(".arch_extension aes", $($text),+, block = inout(vreg) block, key = in(vreg) key,
                    options(pure, nomem, nostack, preserves_flags));
            }
            block
        }
    };
}

step!(encrypt_round, "aese {block:v}.16b, {key:v}.16b", "aesmc {block:v}.16b, {block:v}.16b");
step!(encrypt_last, "aese {block:v}.16b, {key:v}.16b");
step!(decrypt_round, "aesd {block:v}.16b, {key:v}.16b", "aesimc {block:v}.16b, {block:v}.16b");
step!(decrypt_last, "aesd {block:v}.16b, {key:v}.16b");

/// The S-box on each byte of a word. In a block of four equal columns AESE's ShiftRows changes nothing.
#[inline(always)]
unsafe fn sub_word(word: u32) -> u32 {
    // SAFETY: the caller has the extension.
    unsafe {
        let columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
        vgetq_lane_u32::<0>(vreinterpretq_u32_u8(encrypt_last(columns, vdupq_n_u8(0))))
    }
}

/// AESD with a key of zeros undoes what AESE with a key of zeros does, and leaves AESIMC's part.
#[inline(always)]
unsafe fn inverse_mix(key: &Block) -> Block {
    let mut mixed = [0; 16];
    // SAFETY: the caller has the extension; both blocks are 16 bytes long.
    unsafe {
        let substituted = encrypt_last(Register::load(key.as_ptr()), Register::zero());
        decrypt_round(substituted, Register::zero()).store(mixed.as_mut_ptr());
    }
    mixed
}

impl Vector for uint8x16_t {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn reversed(self) -> Self {
        // SAFETY: the caller has Advanced SIMD.
        unsafe {
            let halves = vrev64q_u8(self);
            vextq_u8::<8>(halves, halves)
        }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: the caller has Advanced SIMD.
        unsafe {
            // The top bit of each half goes around: from the low half into bit 64, from the high half into 0x87.
            let signs = vshrq_n_s64::<63>(vreinterpretq_s64_u8(self));
            let swapped = vreinterpretq_u64_s64(vextq_s64::<1>(signs, signs));
            let carries = vandq_u64(swapped, vcombine_u64(vcreate_u64(0x87), vcreate_u64(1)));
            let halves = vreinterpretq_u64_u8(self);
            vreinterpretq_u8_u64(veorq_u64(vaddq_u64(halves, halves), carries))
        }
    }

    #[inline(always)]
    unsafe fn encrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    ) {
        // SAFETY: the caller has the extension, and the schedule has R + 1 keys.
        unsafe {
            for round in 1..R {
                let key = Self::load(schedule.0[round - 1].as_ptr());
                for block in blocks.iter_mut() {
                    *block = encrypt_round(*block, key);
                }
                meanwhile.step(round);
            }
            let before_last = Self::load(schedule.0[R - 1].as_ptr());
            let last = Self::load(schedule.0[R].as_ptr());
            for (block, mask) in blocks.iter_mut().zip(masks) {
                *block = veorq_u8(encrypt_last(*block, before_last), veorq_u8(*mask, last));
            }
        }
    }

    #[inline(always)]
    unsafe fn decrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    ) {
        // SAFETY: the caller has the extension, and the schedule has R + 1 keys.
        unsafe {
            for round in 1..R {
                let key = Self::load(schedule.0[round - 1].as_ptr());
                for block in blocks.iter_mut() {
                    *block = decrypt_round(*block, key);
                }
                meanwhile.step(round);
            }
            let before_last = Self::load(schedule.0[R - 1].as_ptr());
            let last = Self::load(schedule.0[R].as_ptr());
            for (block, mask) in blocks.iter_mut().zip(masks) {
                *block = veorq_u8(decrypt_last(*block, before_last), veorq_u8(*mask, last));
            }
        }
    }
}
