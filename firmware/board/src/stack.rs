//! How deep the stack gets: the part below the current frame is painted, and looked at afterwards.

use core::hint::black_box;

use crate::stack_pointer;

const PAINT: u32 = 0xa5c3_5a3c;
/// Bytes painted.
const DEPTH: usize = 16 * 1024;
/// Bytes left alone below the stack pointer, for the frames of the painting itself.
const MARGIN: usize = 256;

/// Bytes of stack that `work` takes.
#[inline(never)]
pub fn used(work: impl FnOnce()) -> u32 {
    let top = stack_pointer() & !3;
    let bottom = top - DEPTH;
    // SAFETY: the stacks of these programs have over 64 KiB, so this lies in memory that nobody uses yet: below every
    // frame, the margin allows for those of these loops.
    unsafe {
        for at in (bottom..top - MARGIN).step_by(4) {
            (at as *mut u32).write_volatile(PAINT);
        }
    }
    work();
    black_box(());
    // SAFETY: the same words, below every frame that is in use.
    let touched =
        unsafe { (bottom..top - MARGIN).step_by(4).find(|at| (*at as *const u32).read_volatile() != PAINT) };
    (top - touched.unwrap_or(top - MARGIN)) as u32
}
