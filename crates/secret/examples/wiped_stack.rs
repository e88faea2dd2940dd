//! Work on wiped stacks of several sizes, for `scripts/wipes` to look at the code that a release has.

use std::hint::black_box;

use atrest_secret::{
    with_wiped_stack, with_wiped_stack_by_depth, with_wiped_stack_of, with_wiped_stack_up_to,
};

fn work() -> u64 {
    black_box(7)
}

/// What wiping must not become: nothing keeps these zeros, and the compiler leaves them out.
#[inline(never)]
fn planted_without_a_wipe() {
    let area = [0_u8; 8192];
    black_box(area.len());
}

fn main() {
    let mut sum = with_wiped_stack(work);
    sum += with_wiped_stack_up_to::<{ 24 << 10 }, _>(work);
    // What a run of XTS asks for.
    sum += with_wiped_stack_by_depth::<{ 8 << 10 }, { 24 << 10 }, _>(black_box(true), work);
    sum += with_wiped_stack_of::<4096, _>(work);
    // The smallest that firmware asks for.
    sum += with_wiped_stack_of::<1024, _>(work);
    black_box(planted_without_a_wipe as fn())();
    black_box(sum);
}
