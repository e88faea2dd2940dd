//! Boards under emulation: the programs of `firmware/` are built, run, and weighed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::oracle::{Program, workspace};

/// A microcontroller in an emulator.
#[derive(Debug)]
pub struct Board {
    /// What people call it.
    pub name: &'static str,
    /// Rust's name for it.
    pub target: &'static str,
    emulator: &'static str,
    machine: &'static str,
    /// Makes the counters of the board count instructions, exactly.
    counting: &'static str,
    /// Where programs of `firmware/card` expect the medium: RAM behind their own.
    pub medium: u64,
}

/// The boards that tests run on.
pub const BOARDS: [Board; 2] = [
    Board {
        name: "Cortex-M4",
        target: "thumbv7em-none-eabi",
        emulator: "qemu-system-arm",
        machine: "-M mps2-an386",
        counting: "-icount shift=6",
        medium: 0x2100_0000,
    },
    Board {
        name: "RV32IMC",
        target: "riscv32imc-unknown-none-elf",
        emulator: "qemu-system-riscv32",
        machine: "-M virt -bios none",
        counting: "-icount shift=0",
        medium: 0x8200_0000,
    },
];

impl Board {
    /// Builds programs of `firmware/` with a profile of its `Cargo.toml`, and gives their directory. `arguments` are cargo's;
    /// programs that are built with other `flags` of the compiler are kept apart.
    pub fn build(&self, profile: &str, arguments: &str, flags: &str) -> PathBuf {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let kept = if flags.is_empty() { "target/firmware" } else { "target/firmware-compact" };
        let target = workspace().join(kept);
        Program::at(cargo)
            .words("build --quiet --locked --profile")
            .args([profile, "--target", self.target, "--target-dir"])
            .arg(&target)
            .words(arguments)
            .env("RUSTFLAGS", flags)
            .current_dir(workspace().join("firmware"))
            .ok();
        target.join(self.target).join(profile)
    }

    /// Runs a program, whose counters count instructions, and gives what it prints.
    pub fn count(&self, program: &Path) -> String {
        self.emulator(program).words(self.counting).ok().text()
    }

    /// The same in a directory, with files of it in memory at addresses.
    pub fn run(&self, program: &Path, directory: &Path, files: &[(&str, u64)]) -> String {
        let loaded = |(file, at): &(&str, u64)| -> [OsString; 2] {
            ["-device".into(), format!("loader,file={file},addr={at:#x},force-raw=on").into()]
        };
        let emulator = self.emulator(program).words(self.counting).args(files.iter().flat_map(loaded));
        emulator.current_dir(directory).ok().text()
    }

    fn emulator(&self, program: &Path) -> Program {
        Program::named(self.emulator)
            .words(self.machine)
            .words(
                "-nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel",
            )
            .arg(program)
    }
}

/// Bytes that a program puts into flash: what the segments of its ELF file have in the file.
pub fn flash_size(program: &Path) -> u64 {
    let elf = Elf::read(program);
    const LOAD: u32 = 1;
    let segments = elf.table(28, 42, 44);
    segments.filter(|at| elf.word(*at) == LOAD).map(|at| u64::from(elf.word(at + 16))).sum()
}

/// Bytes of RAM that a program has for itself from the start.
pub fn static_ram(program: &Path) -> u64 {
    let elf = Elf::read(program);
    let names = elf.table(32, 46, 48).nth(elf.half(50)).map(|at| elf.word(at + 16) as usize).expect("names");
    let is_ram = |at: &usize| {
        let name = &elf.0[names + elf.word(*at) as usize..];
        [&b".data\0"[..], b".bss\0"].iter().any(|ram| name.starts_with(ram))
    };
    elf.table(32, 46, 48).filter(is_ram).map(|at| u64::from(elf.word(at + 20))).sum()
}

/// An ELF file of 32 bits, little endian.
struct Elf(Vec<u8>);

impl Elf {
    fn read(program: &Path) -> Self {
        let bytes = fs::read(program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        assert_eq!(&bytes[..6], b"\x7fELF\x01\x01", "{}", program.display());
        Self(bytes)
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    fn half(&self, at: usize) -> usize {
        u16::from_le_bytes(self.0[at..at + 2].try_into().expect("2 bytes")).into()
    }

    /// Where the entries of a table are, whose place, size of entries and count are at these places of the file.
    fn table(&self, place: usize, size: usize, count: usize) -> impl Iterator<Item = usize> {
        let (start, size, count) = (self.word(place) as usize, self.half(size), self.half(count));
        (0..count).map(move |i| start + i * size)
    }
}
