//! What programs for the emulators have in common: the entry point, output by semihosting, counters, memory outside the stack, and
//! flash in RAM.
#![no_std]

#[cfg_attr(target_arch = "arm", path = "cortex_m.rs")]
#[cfg_attr(target_arch = "riscv32", path = "rv32.rs")]
mod chip;
#[cfg(feature = "nor")]
mod nor;
pub mod stack;

use core::cell::UnsafeCell;

pub use chip::*;
#[cfg(feature = "nor")]
pub use nor::{Nor, NorError};

/// Memory outside the stack, for one who takes it.
pub struct Memory<T>(UnsafeCell<T>);

// SAFETY: the programs have one thread and no interrupts.
unsafe impl<T> Sync for Memory<T> {}

impl<T> Memory<T> {
    /// With a value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice.
    #[allow(clippy::mut_from_ref, reason = "that is what it is for")]
    pub unsafe fn take(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.get() }
    }
}

/// The value, or the end of the program. `expect` would bring in some kilobytes that print.
pub fn done<T, E>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(_) => fail(),
    }
}
