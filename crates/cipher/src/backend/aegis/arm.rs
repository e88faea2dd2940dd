//! AEGIS by the ARMv8 Cryptography Extension (Arm ARM, AESE and AESMC).

use core::arch::aarch64::{uint8x16_t, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, veorq_u8};

use super::{Round, aegis};
use crate::backend::armv8::ArmCe;

type Register = uint8x16_t;

aegis!(ArmCe, ce, "neon,aes", Register, Register);

impl Round for uint8x16_t {
    #[inline(always)]
    unsafe fn round(self, key: Self) -> Self {
        // Called from functions that have the features, into which it is inlined.
        #[inline]
        #[target_feature(enable = "neon,aes")]
        unsafe fn round(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
            // AESE adds a key before its round, AEGIS after it.
            veorq_u8(vaesmcq_u8(vaeseq_u8(block, vdupq_n_u8(0))), key)
        }
        // SAFETY: the caller has the AES instructions.
        unsafe { round(self, key) }
    }

    #[inline(always)]
    unsafe fn turn(_: &mut [Self; 4]) {}
}
