//! Nothing: what the programs beside this one have in common.
#![no_std]
#![no_main]

use core::hint::black_box;

use firmware_board::{entry, exit, print, stack};

#[entry]
fn main() -> ! {
    print("stack", 0, stack::used(nothing));
    print("data", 0, 0);
    exit()
}

#[inline(never)]
fn nothing() {
    black_box(());
}
