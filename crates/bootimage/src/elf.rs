//! As much of ELF as tells whether a program runs where nothing else is: its machine, and whether it wants a loader.

use std::fmt;

/// What an ELF file is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// 32 or 64.
    bits: u8,
    big_endian: bool,
    /// `e_machine`.
    number: u16,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.number {
            3 => "x86",
            8 => "MIPS",
            20 => "PowerPC",
            21 => "64-bit PowerPC",
            22 => "S/390",
            40 => "Arm",
            62 => "x86-64",
            183 => "AArch64",
            243 => "RISC-V",
            258 => "LoongArch",
            other => return write!(f, "machine {other}"),
        };
        let order = if self.big_endian { ", big-endian" } else { "" };
        match self.number {
            8 | 22 | 243 | 258 => write!(f, "{name} ({} bits{order})", self.bits),
            _ => write!(f, "{name}{}", if self.big_endian { " (big-endian)" } else { "" }),
        }
    }
}

/// What an ELF file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elf {
    /// The machine that it is for.
    pub machine: Machine,
    /// Whether it names a program interpreter, which a static program does not.
    pub wants_loader: bool,
}

/// Reads the headers; `None` if this is no ELF file or its program headers lie outside.
pub fn read(bytes: &[u8]) -> Option<Elf> {
    const PT_INTERP: u32 = 3;
    let ident = bytes.get(..16).filter(|ident| ident.starts_with(b"\x7fELF"))?;
    let wide = match ident.get(4)? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let big_endian = match ident.get(5)? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let number = |offset: usize, len: usize| -> Option<u64> {
        let field = bytes.get(offset..offset.checked_add(len)?)?;
        let add = |value, byte: &u8| value << 8 | u64::from(*byte);
        Some(if big_endian { field.iter().fold(0, add) } else { field.iter().rev().fold(0, add) })
    };
    let (table, entry_len, count) = match wide {
        true => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
        false => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
    };
    let mut wants_loader = false;
    for index in 0..count {
        let at = usize::try_from(index.checked_mul(entry_len)?.checked_add(table)?).ok()?;
        wants_loader |= number(at, 4)? == u64::from(PT_INTERP);
    }
    let machine = Machine { bits: if wide { 64 } else { 32 }, big_endian, number: number(18, 2)? as u16 };
    Some(Elf { machine, wants_loader })
}
