//! What an operating system and a C library would do: the start, the registers' state, output, and moving bytes.

use core::arch::{asm, naked_asm};
use core::fmt;

use crate::Buffer;

/// Where `run` puts the record, after its length as a 64-bit number.
const RECORD: usize = 64 << 20;

const STACK: usize = 1 << 20;

#[repr(C, align(64))]
struct Stack([u8; STACK]);

static mut STACK_SPACE: Stack = Stack([0; STACK]);
static mut BUFFER: Buffer = Buffer([0; size_of::<Buffer>()]);

/// Prints a line for `run` to find among Bochs's own.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(Console, "cpu: {}", format_args!($($text)*));
    }};
}

/// Entered from `rom.S`: 64-bit mode, memory mapped one to one, interrupts off, no stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        "lea rsp, [rip + {stack}]",
        "add rsp, {size}",
        // CR0: no x87 emulation (EM), traps of the FPU as exceptions (MP).
        "mov rax, cr0",
        "and eax, 0xfffffffb",
        "or eax, 2",
        "mov cr0, rax",
        // CR4: OSFXSR, OSXMMEXCPT and OSXSAVE.
        "mov rax, cr4",
        "or eax, 0x40600",
        "mov cr4, rax",
        "call {begin}",
        "ud2",
        stack = sym STACK_SPACE,
        size = const STACK,
        begin = sym begin,
    )
}

extern "C" fn begin() -> ! {
    save_registers(0b11);
    let buffer = &raw mut BUFFER;
    // SAFETY: `run` has put the length there, and after it as many bytes, which nobody writes to. The buffer is
    // borrowed here only, and this runs once.
    let (record, buffer) = unsafe {
        let len = *(RECORD as *const u64);
        (core::slice::from_raw_parts((RECORD + 8) as *const u8, len as usize), &mut *buffer)
    };
    crate::main(record, &mut buffer.0);
    end()
}

/// Sets XCR0. Its bits are those that an x86-64 CPU with AVX-512 has.
pub fn save_registers(which: u64) {
    // SAFETY: CR4.OSXSAVE is set, and this is ring 0.
    unsafe { asm!("xsetbv", in("ecx") 0, in("eax") which as u32, in("edx") (which >> 32) as u32) };
}

/// Ends the emulation, by what Bochs calls its shutdown port.
fn end() -> ! {
    for byte in *b"Shutdown" {
        // SAFETY: nothing but Bochs listens there.
        unsafe { asm!("out dx, al", in("dx") 0x8900u16, in("al") byte) };
    }
    loop {
        // SAFETY: waits for ever, as interrupts are off.
        unsafe { asm!("hlt") };
    }
}

/// Bochs's debug output.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: nothing but Bochs listens there.
            unsafe { asm!("out 0xe9, al", in("al") byte) };
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    say!("failed: {}", info.message());
    end()
}

/// What the core library, which is built to unwind, refers to.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// Bochs takes time for each repetition, so words go first.

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's pointers are valid for `len` bytes and do not overlap.
    unsafe {
        asm!("rep movsq", "mov ecx, {rest:e}", "rep movsb", rest = in(reg) len % 8,
            inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len / 8 => _);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: forwards nothing is overwritten before it is read: a word is read whole before it is written.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the caller's pointers are valid for `len` bytes; backwards nothing is overwritten before it is read.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to.wrapping_add(len).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(len).wrapping_sub(1) => _, inout("rcx") len => _);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's pointer is valid for `len` bytes.
    unsafe {
        asm!("rep stosq", "mov ecx, {rest:e}", "rep stosb", rest = in(reg) len % 8, inout("rdi") to => _,
            in("rax") u64::from(byte as u8) * 0x0101_0101_0101_0101, inout("rcx") len / 8 => _);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    let mut at = 0;
    // SAFETY: the caller's pointers are valid for `len` bytes.
    unsafe {
        while at + 8 <= len
            && left.add(at).cast::<u64>().read_unaligned() == right.add(at).cast::<u64>().read_unaligned()
        {
            at += 8;
        }
        while at < len {
            let (left, right) = (*left.add(at), *right.add(at));
            if left != right {
                return i32::from(left) - i32::from(right);
            }
            at += 1;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, len) }
}
