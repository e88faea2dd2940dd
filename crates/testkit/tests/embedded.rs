//! What the ciphers cost on a Cortex-M4 and an RV32IMC, counted in QEMU and held against `firmware/figures.tsv`: more
//! than 3 % worse fails. `make bench-embedded` takes what it counts for the new figures, and writes docs/EMBEDDED.md.
//!
//! The counts are exact (`-icount`), so they hang on the pinned toolchain and the locked dependencies alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_testkit::oracle::{Program, workspace};

/// How much worse a figure may be than the committed one, in percent.
const TOLERANCE: u64 = 3;

/// Bytes that each program encrypts per call.
const RUN: u64 = 4096;

struct Board {
    name: &'static str,
    target: &'static str,
    emulator: &'static str,
    machine: &'static str,
}

const BOARDS: [Board; 2] = [
    Board {
        name: "Cortex-M4",
        target: "thumbv7em-none-eabi",
        emulator: "qemu-system-arm",
        machine: "-M mps2-an386 -icount shift=6",
    },
    Board {
        name: "RV32IMC",
        target: "riscv32imc-unknown-none-elf",
        emulator: "qemu-system-riscv32",
        machine: "-M virt -bios none -icount shift=0",
    },
];

/// The programs of `firmware/bench/src/bin`, each with the specification that it must agree with and its bytes of key.
const CIPHERS: [(&str, &str, usize); 6] = [
    ("aes_128_xts", "aes-xts-plain64", 32),
    ("aes_256_xts", "aes-xts-plain64", 64),
    ("adiantum_12", "xchacha12,aes-adiantum-plain64", 32),
    ("hpolyc_12", "xchacha12,aes-hpolyc-plain64", 32),
    ("aes_256_hctr2", "aes-hctr2-plain64", 32),
    ("aes_256_cbc_essiv", "aes-cbc-essiv:sha256", 32),
];

/// Cargo profiles of `firmware/Cargo.toml`, and what they are called in the table.
const PROFILES: [(&str, &str); 2] = [("release", "speed"), ("size", "size")];

/// What others need, in the same way of counting, from the figures that the project was planned with: see BENCHMARKS.md.
const PEERS: &[(&str, &str, &str)] = &[
    ("BearSSL, constant-time AES-256-XTS", "210.5 / 221.9", "231.2 / 243.6"),
    ("mbedTLS AES-128-XTS (tables, not constant-time)", "48.9 / 50.1", "95.9 / 97.9"),
    ("RustCrypto xts-mode 0.6 with aes 0.9, AES-128", "249.3", ""),
    ("RustCrypto xts-mode 0.6 with aes 0.9, AES-256", "339.2", "333.8"),
    ("google/adiantum in C, Adiantum-XChaCha12 (its AES reads a table)", "26.9 / 32.4", "47.7 / 57.7"),
    ("adiantum crate 0.2, XChaCha12", "37.4 / 51.0", "54.0 / 71.9"),
    ("google/adiantum in C, HPolyC-XChaCha12", "27.1 / 31.5", "55.4 / 62.8"),
];

/// Figures by board, build, cipher and what was counted.
type Figures = BTreeMap<(String, String, String, String), u64>;

#[test]
fn no_cipher_has_become_more_than_three_percent_dearer() {
    let counted = count();
    let committed = workspace().join("firmware/figures.tsv");
    if std::env::var_os("ATREST_BLESS").is_some() {
        fs::write(&committed, tsv(&counted)).expect("the figures can be written");
        fs::write(workspace().join("docs/EMBEDDED.md"), document(&counted))
            .expect("the table can be written");
        return;
    }
    let text = fs::read_to_string(&committed).expect("firmware/figures.tsv");
    let expected = parse(&text);
    let keys = |figures: &Figures| figures.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&counted), keys(&expected), "`make bench-embedded` writes the figures anew");
    let mut worse = String::new();
    for (key, is) in &counted {
        let was = expected[key];
        if is * 100 > was * (100 + TOLERANCE) {
            writeln!(worse, "{} {} {} {}: {was} before, {is} now", key.0, key.1, key.2, key.3)
                .expect("a String");
        }
        if is * (100 + TOLERANCE) < was * 100 {
            println!("{} {} {} {}: {was} before, {is} now: better", key.0, key.1, key.2, key.3);
        }
    }
    assert!(worse.is_empty(), "dearer than firmware/figures.tsv says:\n{worse}");
    assert_eq!(document(&expected), fs::read_to_string(workspace().join("docs/EMBEDDED.md")).expect("it"));
}

/// Transfers of 16 bytes to 4 KiB, against the cipher alone over the same bytes.
#[test]
fn crypt_flash_costs_at_most_ten_percent_more_than_its_cipher() {
    for board in &BOARDS {
        let output = emulated(board, &built(board, "release").join("crypt_flash"));
        let figures: BTreeMap<(&str, u64), u64> = output
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.trim().split(',').collect();
                let [what, len, figure] = fields[..] else { panic!("{line}") };
                ((what, len.parse().expect("a length")), figure.parse().expect("instructions"))
            })
            .collect();
        assert_eq!(figures.len(), 16, "an incomplete report:\n{output}");
        for ((what, len), cipher) in &figures {
            let layer = match *what {
                "encrypt" => figures[&("prog", *len)],
                "decrypt" => figures[&("read", *len)],
                _ => continue,
            };
            println!("{}: {what} {len} bytes, {cipher} instructions, through CryptFlash {layer}", board.name);
            assert!(layer * 100 <= cipher * 110, "{what} of {len} bytes: {layer} instead of {cipher}");
        }
    }
}

/// Builds and runs every program.
fn count() -> Figures {
    let mut figures = Figures::new();
    for board in &BOARDS {
        for (profile, build) in PROFILES {
            let directory = built(board, profile);
            let empty = flash(&directory.join("nothing"));
            for (cipher, specification, key_len) in CIPHERS {
                let program = directory.join(cipher);
                let key = |what: &str| (board.name.into(), build.into(), cipher.into(), what.into());
                figures.insert(key("code"), flash(&program) - empty);
                let expected = |unit| fingerprint(specification, key_len, unit);
                let mut add = |what: &str, figure: u64| {
                    figures.insert(key(what), figure);
                };
                run(board, &program, &expected, &mut add);
            }
        }
    }
    figures
}

/// What a program must print about its ciphertext, by the mapper of this machine: FNV-1a of the run, encrypted from zeros.
fn fingerprint(specification: &str, key_len: usize, data_unit: usize) -> u64 {
    let specification: CipherSpec = specification.parse().expect("a cipher");
    let key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
    let options = MapperOptions { data_unit, ..MapperOptions::default() };
    let mapper = Mapper::new(&specification, &key, &options).expect("a key");
    let mut run = vec![0; RUN as usize];
    mapper.encrypt(DataUnitIndex(0), &mut run).expect("whole units");
    let hash =
        run.iter().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}

/// The directory with the programs.
fn built(board: &Board, profile: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = workspace().join("target/firmware");
    Program::at(cargo)
        .words("build --quiet --locked --profile")
        .args([profile, "--target", board.target, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", "")
        .current_dir(workspace().join("firmware"))
        .ok();
    target.join(board.target).join(profile)
}

/// Runs one program and hands over its figures.
fn run(board: &Board, program: &Path, fingerprint: &dyn Fn(usize) -> u64, add: &mut dyn FnMut(&str, u64)) {
    let output = emulated(board, program);
    let mut seen = 0;
    let mut lines = Vec::new();
    for line in output.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [what, unit, figure] = fields[..] else { panic!("{}: {line}", program.display()) };
        let figure: u64 = figure.trim().parse().unwrap_or_else(|_| panic!("{}: {line}", program.display()));
        match what {
            "calibration" => assert!(figure.abs_diff(20_000) <= 10, "the counter counts {figure} for 20,000"),
            "fingerprint" => {
                let unit = unit.parse().expect("a data unit");
                assert_eq!(
                    figure,
                    fingerprint(unit),
                    "{}: not the ciphertext of this machine",
                    program.display()
                );
            }
            "damaged" => assert_eq!(figure, 0, "{}: decrypting gave other bytes", program.display()),
            _ => lines.push((what.to_owned(), unit.to_owned(), figure)),
        }
        seen += 1;
    }
    assert_eq!(seen, 15, "{}: an incomplete report:\n{output}", program.display());
    for (what, unit, figure) in lines {
        let key = if unit == "0" { what } else { format!("{what} {unit}") };
        add(&key, figure);
    }
}

/// What a program prints on its board.
fn emulated(board: &Board, program: &Path) -> String {
    Program::named(board.emulator)
        .words(board.machine)
        .words("-nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel")
        .arg(program)
        .ok()
        .text()
}

/// Bytes that an ELF file of 32 bits puts into flash: what its segments have in the file.
fn flash(program: &Path) -> u64 {
    let elf = fs::read(program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("4 bytes"));
    let half = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().expect("2 bytes")));
    assert_eq!(&elf[..5], b"\x7fELF\x01");
    let (table, size, count) = (word(28) as usize, half(42), half(44));
    const LOAD: u32 = 1;
    (0..count)
        .map(|i| table + i * size)
        .filter(|at| word(*at) == LOAD)
        .map(|at| u64::from(word(at + 16)))
        .sum()
}

fn tsv(figures: &Figures) -> String {
    let mut text = String::new();
    for ((board, build, cipher, what), figure) in figures {
        writeln!(text, "{board}\t{build}\t{cipher}\t{what}\t{figure}").expect("a String");
    }
    text
}

fn parse(text: &str) -> Figures {
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [board, build, cipher, what, figure] = fields[..] else { panic!("figures.tsv: {line}") };
            let key = (board.into(), build.into(), cipher.into(), what.into());
            (key, figure.parse().unwrap_or_else(|_| panic!("figures.tsv: {line}")))
        })
        .collect()
}

/// docs/EMBEDDED.md.
fn document(figures: &Figures) -> String {
    let mut text = String::from(
        "# Ciphers on microcontrollers\n\n\
         Executed instructions per byte of a run of 4096 bytes, as one data unit / as eight of 512 bytes; bytes of code\n\
         and of stack (set-up, encryption and decryption, whatever is deepest); bytes of the expanded key, which is made in\n\
         memory of the caller's (`KeyPlace`, here a `static`) and is no part of the stack. All ciphers are constant-time and\n\
         take no heap. Written by `make bench-embedded`: exact counts in QEMU, so the same on every machine. The speed build\n\
         is opt-level 3, the size build opt-level s.\n\n\
         | cipher | board | build | encrypt | decrypt | code | stack | key |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (cipher, ..) in CIPHERS {
        for board in &BOARDS {
            for (_, build) in PROFILES {
                let key = |what: &str| (board.name.into(), build.into(), cipher.into(), what.to_owned());
                let figure = |what: &str| figures[&key(what)];
                let per_byte = |what: &str| {
                    let rate = |unit: u32| figure(&format!("{what} {unit}")) as f64 / RUN as f64;
                    format!("{:.1} / {:.1}", rate(4096), rate(512))
                };
                let stack = ["setup", "encrypt", "decrypt"].map(|what| figure(&format!("stack {what}")));
                let deepest = stack.into_iter().max().unwrap_or(0);
                writeln!(
                    text,
                    "| {} | {} | {build} | {} | {} | {} | {deepest} | {} |",
                    cipher.replace('_', "-"),
                    board.name,
                    per_byte("encrypt"),
                    per_byte("decrypt"),
                    figure("code"),
                    figure("context"),
                )
                .expect("a String");
            }
        }
    }
    text.push_str(
        "\nOthers, speed builds, encryption, counted in the same way when the project was planned:\n\n",
    );
    text.push_str("| | Cortex-M4 | RV32IMC |\n|---|---|---|\n");
    for (name, m4, rv32) in PEERS {
        writeln!(text, "| {name} | {m4} | {rv32} |").expect("a String");
    }
    text
}
