//! QEMU's `mps2-an386`, a Cortex-M4, which runs programs for a Cortex-M0 as well. With `-icount shift=6` an instruction takes 64 ns; SysTick counts at 25 MHz.

use cortex_m::peripheral::{SYST, syst::SystClkSource};
use cortex_m_semihosting::{debug, hprintln};

pub use cortex_m_rt::entry;

/// Counts instructions.
pub struct Counter(());

impl Counter {
    /// Starts the timer.
    pub fn start() -> Self {
        if let Some(mut peripherals) = cortex_m::Peripherals::take() {
            let timer = &mut peripherals.SYST;
            timer.set_clock_source(SystClkSource::Core);
            timer.set_reload(0xff_ffff);
            timer.clear_current();
            timer.enable_counter();
        }
        Self(())
    }

    /// Instructions that `work` takes, at most ten million.
    #[inline(never)]
    pub fn instructions(&self, work: impl FnOnce()) -> u32 {
        let mark = self.mark();
        work();
        self.since(mark)
    }

    /// Something to count from.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        SYST::get_current()
    }

    /// Instructions since a mark, at most ten million.
    #[inline(always)]
    pub fn since(&self, mark: u32) -> u32 {
        let ticks = mark.wrapping_sub(SYST::get_current()) & 0xff_ffff;
        // 64 ns an instruction, 40 ns a tick.
        (u64::from(ticks) * 40 / 64) as u32
    }
}

/// Executes 2·`count` instructions, more or less four.
#[inline(never)]
pub fn steps(count: u32) {
    // SAFETY: registers and flags only.
    unsafe {
        core::arch::asm!("1: subs {0}, {0}, #1", "bne 1b", inout(reg) count => _, options(nomem, nostack));
    }
}

/// The stack pointer of the caller, about.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// One figure.
#[inline(never)]
pub fn print(what: &str, unit: usize, figure: u32) {
    hprintln!("{},{},{}", what, unit, figure);
}

/// A line of two words, with a tab between.
#[inline(never)]
pub fn say(what: &str, text: &str) {
    hprintln!("{}\t{}", what, text);
}

/// Ends the emulator.
pub fn exit() -> ! {
    debug::exit(debug::EXIT_SUCCESS);
    stop()
}

/// Ends the emulator with an error.
pub fn fail() -> ! {
    debug::exit(debug::EXIT_FAILURE);
    stop()
}

fn stop() -> ! {
    loop {
        cortex_m::asm::nop();
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    fail()
}
