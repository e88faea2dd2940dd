//! Boards under emulation: the programs of `firmware/` are built, run, and weighed.

mod report;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::campaign::{self, Campaign};
use crate::oracle::{Program, workspace};

pub use report::{Counted, figure, fnv, hold_table, is_of_this_run};

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

const CORTEX_M4: Board = Board {
    name: "Cortex-M4",
    target: "thumbv7em-none-eabi",
    emulator: "qemu-system-arm",
    machine: "-M mps2-an386",
    counting: "-icount shift=6",
    medium: 0x2100_0000,
};

/// All boards.
pub static BOARDS: [Board; 2] = [
    CORTEX_M4,
    Board {
        name: "RV32IMC",
        target: "riscv32imc-unknown-none-elf",
        emulator: "qemu-system-riscv32",
        machine: "-M virt -bios none",
        counting: "-icount shift=0",
        medium: 0x8200_0000,
    },
];

/// A Cortex-M0: what ARMv6-M has not (wide instructions, division, exclusive access) no program for it uses, so a Cortex-M4 runs it.
pub static CORTEX_M0: Board = Board { name: "Cortex-M0", target: "thumbv6m-none-eabi", ..CORTEX_M4 };

/// The boards of this run: one of them, another one by the rotation of the commit. Whole campaigns take all, and so does
/// `make bench-embedded`, which writes figures down.
pub fn boards() -> Vec<&'static Board> {
    if Campaign::is_full() || is_blessed() {
        return BOARDS.iter().collect();
    }
    let rotation = campaign::rotation();
    let board = &BOARDS[(rotation % BOARDS.len() as u64) as usize];
    println!("on {} alone, by ATREST_ROTATION={rotation}", board.name);
    vec![board]
}

/// Whether what is counted becomes the expectation.
pub fn is_blessed() -> bool {
    std::env::var_os("ATREST_BLESS").is_some()
}

/// What programs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Speed: opt-level 3.
    Speed,
    /// Little flash: opt-level s.
    Size,
    /// As little as can be: SHA-256 in a loop instead of unrolled, too.
    Compact,
}

impl Build {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Size => "size",
            Self::Compact => "compact",
        }
    }

    fn opt_level(self) -> &'static str {
        if self == Self::Speed { "3" } else { "s" }
    }

    fn flags(self) -> &'static str {
        match self {
            Self::Compact => "--cfg sha2_backend=\"soft\" --cfg sha2_backend_soft=\"compact\"",
            Self::Speed | Self::Size => "",
        }
    }
}

impl Board {
    /// Builds programs of `firmware/`, and gives the directory that they are in.
    ///
    /// All builds share a profile and a target directory, and with them whatever runs on the host: bindgen alone would take longer
    /// than the programs, each time. They have all features, so that the crates below the programs are built once for all of them: what
    /// a program does not call is not in it. Programs are copied away before the next build replaces them.
    pub fn build(&self, build: Build, programs: &[&str]) -> PathBuf {
        let selection = "--package firmware-card --package firmware-bench --features firmware-card/littlefs,firmware-card/fat";
        self.build_selected(build, selection, programs)
    }

    /// Builds a program of `firmware/smallest` with no feature but its own, as a firmware would be built.
    pub fn build_alone(&self, build: Build, program: &str, features: &str) -> PathBuf {
        let selection = format!("--package firmware-smallest --features={features}");
        self.build_selected(build, &selection, &[program]).join(program)
    }

    fn build_selected(&self, build: Build, selection: &str, programs: &[&str]) -> PathBuf {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = workspace().join("target/firmware");
        let kept = target.join("programs").join(self.target).join(build.name());
        fs::create_dir_all(&kept).expect("a directory");
        // Between a build and its copies there is no other build.
        let lock = File::create(target.join("programs/lock")).expect("a lock file");
        lock.lock().expect("the lock");
        let messages = Program::at(cargo)
            .words("build --quiet --locked --profile size --message-format json-render-diagnostics --target")
            .args([self.target, "--target-dir"])
            .arg(&target)
            .words(selection)
            .args(programs.iter().flat_map(|program| ["--bin", program]))
            .env("RUSTFLAGS", build.flags())
            .env("CARGO_PROFILE_SIZE_OPT_LEVEL", build.opt_level())
            .current_dir(workspace().join("firmware"))
            .ok()
            .text();
        for message in messages.lines() {
            let message: serde_json::Value = serde_json::from_str(message).expect("JSON of cargo");
            let Some(program) = message["executable"].as_str().map(Path::new) else { continue };
            fs::copy(program, kept.join(program.file_name().expect("a name")))
                .expect("a copy of the program");
        }
        kept
    }

    /// Runs a program, whose counters count instructions, and gives what it prints.
    pub fn count(&self, program: &Path) -> String {
        self.emulator(program).words(self.counting).ok().text()
    }

    /// Runs a program in a directory, with files of that in memory at addresses, and gives what it prints. Its counters
    /// count instructions.
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
