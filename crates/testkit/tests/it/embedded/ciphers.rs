//! The ciphers that keep the length of what they encrypt: a program of `firmware/bench/src/bin` for each.

use std::fmt::Write as _;
use std::path::Path;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_testkit::firmware::{BOARDS, Board, Build, flash_size, fnv};

use crate::embedded::figures::{BUILDS, Figures, counted};

/// Bytes that each program encrypts per call.
const RUN: u64 = 4096;

/// The programs, each with the specification that it must agree with and its bytes of key.
const CIPHERS: [(&str, &str, usize); 6] = [
    ("aes_128_xts", "aes-xts-plain64", 32),
    ("aes_256_xts", "aes-xts-plain64", 64),
    ("adiantum_12", "xchacha12,aes-adiantum-plain64", 32),
    ("hpolyc_12", "xchacha12,aes-hpolyc-plain64", 32),
    ("aes_256_hctr2", "aes-hctr2-plain64", 32),
    ("aes_256_cbc_essiv", "aes-cbc-essiv:sha256", 32),
];

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

/// What they are called.
pub fn programs() -> impl Iterator<Item = &'static str> {
    CIPHERS.into_iter().map(|(program, ..)| program)
}

/// Runs the programs of one build.
pub fn count(board: &Board, build: &str, directory: &Path, figures: &mut Figures) {
    let empty = flash_size(&directory.join("nothing"));
    for (cipher, specification, key_len) in CIPHERS {
        let program = directory.join(cipher);
        figures.add(board, build, cipher, "code", flash_size(&program) - empty);
        let expected = |unit| fingerprint(specification, key_len, unit);
        for (what, figure) in counted(board, &program, 15, expected) {
            figures.add(board, build, cipher, &what, figure);
        }
    }
}

/// What a program must print about its ciphertext, by the mapper of this machine.
fn fingerprint(specification: &str, key_len: usize, data_unit: usize) -> u64 {
    let specification: CipherSpec = specification.parse().expect("a cipher");
    let key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
    let options = MapperOptions { data_unit, ..MapperOptions::default() };
    let mapper = Mapper::new(&specification, &key, &options).expect("a key");
    let mut run = vec![0; RUN as usize];
    mapper.encrypt(DataUnitIndex(0), &mut run).expect("whole units");
    fnv(&run)
}

/// The first part of docs/EMBEDDED.md.
pub fn document(figures: &Figures) -> String {
    let mut text = String::from(
        "# Ciphers on microcontrollers\n\n\
         After this page you know what each cipher costs on a microcontroller. The page is for developers of firmware.\n\
         \n\
         * *encrypt, decrypt:* instructions executed per byte of a run of 4096 bytes, as one data unit / as eight units.\n\
         * *code, stack:* bytes of code, and of stack at its deepest point (set-up, encryption, decryption).\n\
         * *key:* bytes of the expanded key, in memory of the caller's (`KeyPlace`, here a `static`), not on the stack.\n\
         \n\
         The eight units have 512 bytes each. All ciphers are constant-time and need no heap.\n\
         `make bench-embedded` writes this page. The counts are exact, in QEMU, and so equal on every machine.\n\
         The speed build is opt-level 3, the size build opt-level s.\n\
         \n\
         | cipher | board | build | encrypt | decrypt | code | stack | key |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (cipher, ..) in CIPHERS {
        for board in &BOARDS {
            for build in BUILDS.map(Build::name) {
                let figure = |what: &str| figures.of(board, build, cipher, what);
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
        "\nThese are other implementations, for encryption in speed builds.\n\
         They were counted in the same way when the project was planned.\n\n",
    );
    text.push_str("| | Cortex-M4 | RV32IMC |\n|---|---|---|\n");
    for (name, m4, rv32) in PEERS {
        writeln!(text, "| {name} | {m4} | {rv32} |").expect("a String");
    }
    text
}
