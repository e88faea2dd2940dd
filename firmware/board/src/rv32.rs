//! QEMU's `virt` with an RV32IMC core. With `-icount shift=0` its `minstret` counts every instruction.

use riscv::register::minstret;
use semihosting::{println, process};

pub use riscv_rt::entry;

/// Counts instructions.
pub struct Counter(());

impl Counter {
    /// The counter always runs.
    pub fn start() -> Self {
        Self(())
    }

    /// Instructions that `work` takes.
    #[inline(never)]
    pub fn instructions(&self, work: impl FnOnce()) -> u32 {
        let mark = self.mark();
        work();
        self.since(mark)
    }

    /// Something to count from.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        minstret::read() as u32
    }

    /// Instructions since a mark.
    #[inline(always)]
    pub fn since(&self, mark: u32) -> u32 {
        self.mark().wrapping_sub(mark)
    }
}

/// Executes 2·`count` instructions, more or less four.
#[inline(never)]
pub fn steps(count: u32) {
    // SAFETY: registers only.
    unsafe {
        core::arch::asm!("1: addi {0}, {0}, -1", "bnez {0}, 1b", inout(reg) count => _, options(nomem, nostack));
    }
}

/// The stack pointer of the caller, about.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// One figure.
#[inline(never)]
pub fn print(what: &str, unit: usize, figure: u32) {
    println!("{what},{unit},{figure}");
}

/// A line of two words, with a tab between.
#[inline(never)]
pub fn say(what: &str, text: &str) {
    println!("{what}\t{text}");
}

/// Ends the emulator.
pub fn exit() -> ! {
    process::exit(0)
}

/// Ends the emulator with an error.
pub fn fail() -> ! {
    process::exit(1)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    fail()
}
