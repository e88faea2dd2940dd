//! The carry-less product of words for Thumb-2 (ARMv7-M and later), which is most of POLYVAL there. The operations are those
//! of `word32.rs`; the compiler keeps half of the intermediate words on the stack, which takes as long again.
//! Tested against the other backends where the firmware runs, in `crates/testkit/tests/embedded`.
//!
//! UMULL takes one cycle on Cortex-M4 and later; on a Cortex-M3 its time depends on the factors.

use core::arch::naked_asm;

/// `a` times the word that is the sum of `b`: its bits, split by their places modulo 4.
#[inline(always)]
pub(super) fn product_of_words(a: u32, b: &[u32; 4]) -> u64 {
    // SAFETY: four words.
    unsafe { product(a, b.as_ptr()) }
}

/// # Safety
///
/// `b` points to four words.
#[unsafe(naked)]
unsafe extern "C" fn product(a: u32, b: *const u32) -> u64 {
    naked_asm!(
        "push {{r4-r11, lr}}",
        "ldm r1, {{r4-r7}}", // b0 to b3
        "and r8, r0, #0x11111111",
        "and r9, r0, #0x22222222",
        "and r10, r0, #0x44444444",
        "and r11, r0, #0x88888888",
        // a0·b0 + a1·b3 + a2·b2 + a3·b1
        "umull r12, lr, r8, r4",
        "umull r2, r3, r9, r7",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r10, r6",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r11, r5",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "and r0, r12, #0x11111111",
        "and r1, lr, #0x11111111",
        // a0·b1 + a1·b0 + a2·b3 + a3·b2
        "umull r12, lr, r8, r5",
        "umull r2, r3, r9, r4",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r10, r7",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r11, r6",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "and r12, r12, #0x22222222",
        "and lr, lr, #0x22222222",
        "orr r0, r0, r12",
        "orr r1, r1, lr",
        // a0·b2 + a1·b1 + a2·b0 + a3·b3
        "umull r12, lr, r8, r6",
        "umull r2, r3, r9, r5",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r10, r4",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r11, r7",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "and r12, r12, #0x44444444",
        "and lr, lr, #0x44444444",
        "orr r0, r0, r12",
        "orr r1, r1, lr",
        // a0·b3 + a1·b2 + a2·b1 + a3·b0
        "umull r12, lr, r8, r7",
        "umull r2, r3, r9, r6",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r10, r5",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "umull r2, r3, r11, r4",
        "eor r12, r12, r2",
        "eor lr, lr, r3",
        "and r12, r12, #0x88888888",
        "and lr, lr, #0x88888888",
        "orr r0, r0, r12",
        "orr r1, r1, lr",
        "pop {{r4-r11, pc}}",
    )
}
