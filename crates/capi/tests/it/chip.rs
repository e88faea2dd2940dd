//! The programs of `firmware/card-c`, in C, in emulators of a Cortex-M4 and an RV32IMC. One opens a card that the desk's program has
//! made, and the desk's program reads what it wrote; the other keeps sealed files.
#![allow(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::Scratch;
use atrest_testkit::atrest::{atrest, write_key};
use atrest_testkit::firmware::{boards, fnv};
use atrest_testkit::oracle::{Outcome, Program, tool, workspace};

struct Board {
    /// As the Makefile calls it.
    name: &'static str,
    target: &'static str,
    compiler: &'static str,
    emulator: &'static str,
    machine: &'static str,
    /// Where the program expects the medium; the task is 1 MiB behind it.
    base: u64,
}

const CORTEX_M4: Board = Board {
    name: "cortex_m4",
    target: "thumbv7em-none-eabi",
    compiler: "arm-none-eabi-gcc",
    emulator: "qemu-system-arm",
    machine: "-M mps2-an386",
    base: 0x2100_0000,
};

const RV32: Board = Board {
    name: "rv32",
    target: "riscv32imc-unknown-none-elf",
    compiler: "riscv64-unknown-elf-gcc",
    emulator: "qemu-system-riscv32",
    machine: "-M virt -bios none",
    base: 0x8200_0000,
};

/// A directory with a card, key files called after their passphrases, and the programs.
struct Bench<'a> {
    board: &'a Board,
    program: PathBuf,
    sealed: PathBuf,
    directory: Scratch,
}

#[test]
fn a_card_travels_between_the_desk_and_a_chip_which_keeps_sealed_files_too() {
    for board in boards() {
        let board = if board.target == CORTEX_M4.target { &CORTEX_M4 } else { &RV32 };
        let bench = Bench::new(board);
        travels(&bench);
        keeps_sealed_files(&bench);
    }
}

fn travels(bench: &Bench<'_>) {
    let content: Vec<u8> = (0..10_000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    fs::create_dir(bench.path("in")).expect("a directory");
    fs::write(bench.path("in/from the desk.bin"), &content).expect("a file");
    let made =
        "image in card.img --type flash --size 256K --erase-size 4096 --prog-size 16 --kdf catena --garlic 8";
    bench.desk(made, "desk").expect_code(0);

    // The chip refuses as the desk does, and in words.
    let refused = bench.chip(b'u', "chip", "");
    assert_eq!(refused.code, Some(1));
    assert_eq!(said(&refused), "open: no keyslot opens with this passphrase\n");

    let read = bench.chip(b'u', "desk", "").expect_code(0);
    assert!(said(&read).contains(&format!("read,10000,{}\n", fnv(&content))), "{}", said(&read));
    assert!(!said(&read).contains("watchdog,0,0"), "the derivation lets nobody else run");
    let file = |name: &str| bench.desk_file(name, "desk").stdout;
    assert_eq!(bench.desk("ls card.img /", "desk").expect_code(0).text(), "from the chip.txt\nread.bin\n");
    assert_eq!(file("/from the chip.txt"), b"written in C");
    assert_eq!(file("/read.bin"), content);

    bench.chip(b'c', "desk", "chip").expect_code(0);
    bench.desk("key test card.img", "desk").expect_code(2);
    assert_eq!(bench.desk_file("/from the chip.txt", "chip").stdout, b"written in C");

    bench.chip(b'e', "chip", "").expect_code(0);
    for passphrase in ["desk", "chip"] {
        let outcome = bench.desk("ls card.img /", passphrase);
        assert!(!outcome.is_ok() && outcome.messages().contains("crypto-erased"), "{}", outcome.messages());
    }
}

fn keeps_sealed_files(bench: &Bench<'_>) {
    let outcome = bench.run(&bench.sealed, b's', "", "");
    let expected = "start,1,1\nstart,0,2\nstart,0,3\nstart,0,4\n\
        an earlier state: the medium is not as the trusted store knows it: an older state was put back, or it was changed or damaged\n\
        an erased chip: the medium is not as the trusted store knows it: an older state was put back, or it was changed or damaged\n\
        start,0,5\n";
    assert_eq!((outcome.code, said(&outcome).as_str()), (Some(0), expected));
}

impl<'a> Bench<'a> {
    fn new(board: &'a Board) -> Self {
        let directory = Scratch::new();
        for passphrase in ["desk", "chip"] {
            write_key(directory.as_path(), passphrase, passphrase.as_bytes());
        }
        let library = built(board);
        let [program, sealed] =
            ["card", "sealed"].map(|program| linked(board, program, &library, directory.as_path()));
        Self { board, program, sealed, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }

    /// `atrest` with a passphrase.
    fn desk(&self, words: &str, passphrase: &str) -> Outcome {
        atrest(words).args(["--key-file", passphrase]).current_dir(self.directory.as_path()).run()
    }

    /// `atrest cat` of a file.
    fn desk_file(&self, name: &str, passphrase: &str) -> Outcome {
        let program = atrest("cat card.img").arg(name).args(["--key-file", passphrase]);
        program.current_dir(self.directory.as_path()).ok()
    }

    /// Runs the program over the card. What it makes of the card takes the card's place.
    fn chip(&self, verb: u8, passphrase: &str, new_passphrase: &str) -> Outcome {
        let outcome = self.run(&self.program, verb, passphrase, new_passphrase);
        let written = fs::rename(self.path("card.out"), self.path("card.img"));
        assert_eq!(written.is_ok(), outcome.is_ok(), "{outcome:?}");
        outcome
    }

    /// Runs a program with the card and a task.
    fn run(&self, program: &Path, verb: u8, passphrase: &str, new_passphrase: &str) -> Outcome {
        fs::write(self.path("task"), task(verb, passphrase, new_passphrase)).expect("a task");
        let loaded = |file: &str, at: u64| format!("loader,file={file},addr={at:#x},force-raw=on");
        Program::named(self.board.emulator)
            .words(self.board.machine)
            .words(
                "-nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel",
            )
            .arg(program)
            .args(["-device", &loaded("card.img", self.board.base)])
            .args(["-device", &loaded("task", self.board.base + (1 << 20))])
            .current_dir(self.directory.as_path())
            .run()
    }
}

/// Builds the library for the board.
fn built(board: &Board) -> PathBuf {
    let here = std::env::current_exe().expect("the path of this program");
    // Where the other programs for boards are built: a build of tests would make us wait for its end.
    let target = here.ancestors().nth(3).expect("tests lie in TARGET/PROFILE/deps").join("firmware");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Program::at(&cargo)
        .words("build --quiet --locked --package atrest-capi --target")
        .args([board.target, "--target-dir"])
        .arg(&target)
        // What optimising takes is more than what the emulator gains.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(workspace())
        .ok();
    target.join(board.target).join("debug/libatrest_capi.a")
}

/// Builds a program by the Makefile.
fn linked(board: &Board, program: &str, library: &Path, directory: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for needed in [board.compiler, "jq"] {
        tool(needed);
    }
    let variable = |name: &str, path: &Path| format!("{name}={}", path.display());
    let made = Program::named("make")
        .args(["-C", "firmware/card-c", &format!("BOARD={}", board.name), &format!("PROGRAM={program}")])
        .args([
            variable("OUT", directory),
            variable("LIBRARY", library),
            variable("CARGO", Path::new(&cargo)),
        ])
        .current_dir(workspace())
        .ok();
    println!("{}", made.text().lines().rev().take(2).collect::<Vec<_>>().join("\n"));
    directory.join(board.name).join(program)
}

/// What the program is told: `struct task` of firmware/card-c/board.h.
fn task(verb: u8, passphrase: &str, new_passphrase: &str) -> Vec<u8> {
    let mut bytes = vec![verb];
    for text in [passphrase, new_passphrase] {
        bytes.push(text.len() as u8);
        bytes.extend(text.bytes());
        bytes.resize(bytes.len() + 31 - text.len(), 0);
    }
    let entropy = atrest_testkit::Random::new(77).bytes(256 - bytes.len());
    [bytes, entropy].concat()
}

/// What a program has printed, wherever its emulator prints it.
fn said(outcome: &Outcome) -> String {
    outcome.text() + &outcome.messages()
}
