//! Runs on the bare emulated CPU, started by `rom.S` in 64-bit mode: plays the recorded cases of atrest-cipher's tests
//! (their form is in `crates/cipher/tests/recording`) back on every backend that the CPU has, and on what is left of
//! them when the system, here this program, saves fewer registers. What it finds is written to Bochs's port 0xe9.
#![no_std]
#![no_main]

mod bare;
mod cases;
mod pbkdf2;
mod planted;

use core::fmt::Write;

use atrest_cipher::{
    BackendChoice, Cipher, CipherSpec, DataUnitIndex, Mapper, MapperOptions, VectorChoice, Xts,
};

use crate::bare::Console;
use crate::cases::{Case, Start};

/// What XCR0 says is saved, and the backends to be found then. The last one is what the cases run with.
const EXPECTED: [(u64, &[&str]); 3] = [
    (0b0000_0011, &["aes-ni-sse", "portable"]),
    // The three bits of AVX-512 can be set together only, so there is nothing between this and all.
    (0b0000_0111, &["vaes-256", "aes-ni", "aes-ni-sse", "portable"]),
    (0b1110_0111, &["vaes-512", "vaes-256", "aes-ni", "aes-ni-sse", "portable"]),
];

/// Bytes before and after a run that must stay as they are.
const GUARD: usize = 64;
const FILLER: u8 = 0xa5;
/// The longest run of any case.
const LONGEST: usize = 256 << 10;

#[repr(C, align(64))]
struct Buffer([u8; LONGEST + 2 * GUARD + 64]);

/// Called once, on its own stack.
fn main(record: &[u8], buffer: &mut [u8]) {
    core::hint::black_box(planted::all());
    for ((saved, expected), kdf) in EXPECTED.into_iter().zip(pbkdf2::EXPECTED) {
        bare::save_registers(saved);
        let mut found = BackendChoice::detected();
        let matches = expected.iter().all(|name| found.next().is_some_and(|backend| backend.name() == *name));
        assert!(matches && found.next().is_none(), "other backends than expected with XCR0 {saved:#x}");
        assert!(pbkdf2::found(kdf), "other backends of PBKDF2 than expected with XCR0 {saved:#x}");
        say!("with XCR0 {saved:#04x}: {expected:?}, {kdf:?}");
    }
    pbkdf2::play();
    for backend in BackendChoice::detected() {
        let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
        play_all(record, backend.name(), options, |case| !case.is_of_vectors(), buffer);
    }
    for vectors in VectorChoice::detected() {
        let options = MapperOptions { vectors: Some(vectors), ..MapperOptions::default() };
        play_all(record, vectors.name(), options, |case| case.is_of_vectors(), buffer);
    }
}

/// Those of the cases that are wanted, by one implementation.
fn play_all(
    record: &[u8],
    name: &str,
    options: MapperOptions,
    wanted: impl Fn(&Case<'_>) -> bool,
    buffer: &mut [u8],
) {
    let every = match name {
        // The tests run these on most machines.
        "portable" => return,
        "aes-ni" | "aes-ni-sse" | "avx2" | "sse2" => 8,
        // An emulated CPU is slow: a sample, unless the whole campaign was asked for.
        _ if option_env!("ATREST_CAMPAIGN") == Some("full") => 1,
        _ => 3,
    };
    let mut left = record;
    let (mut number, mut count) = (0, 0);
    while !left.is_empty() {
        let (case, rest) = Case::read(left).expect("a whole case");
        left = rest;
        if !wanted(&case) {
            continue;
        }
        if number % every == 0 {
            play(&case, name, options, number, buffer);
            count += 1;
        }
        number += 1;
    }
    assert!(count > 0, "no cases were recorded");
    say!("{name}: {count} cases passed");
}

/// In place and from the record to the buffer, at some offset from alignment, with guards on both sides.
fn play(case: &Case<'_>, name: &str, choice: MapperOptions, number: usize, buffer: &mut [u8]) {
    let len = case.input.len();
    let options = MapperOptions { backend: choice.backend, vectors: choice.vectors, ..case.options };
    for in_place in [true, false] {
        let at = GUARD + (7 * number + usize::from(in_place)) % 64;
        let (before, rest) = buffer.split_at_mut(at);
        let (run, after) = rest.split_at_mut(len);
        let (before, after) = (&mut before[at - GUARD..], &mut after[..GUARD]);
        before.fill(FILLER);
        after.fill(FILLER);
        if in_place {
            run.copy_from_slice(case.input);
        }
        let source = (!in_place).then_some(case.input);
        match case.start {
            Start::Unit(first) => {
                let spec: CipherSpec = case.spec.parse().expect("a specification");
                let mapper = Mapper::new(&spec, case.key, &options).expect("a good key");
                let first = DataUnitIndex(first);
                match (case.encrypt, source) {
                    (true, None) => mapper.encrypt(first, run),
                    (false, None) => mapper.decrypt(first, run),
                    (true, Some(source)) => mapper.encrypt_to(first, source, run),
                    (false, Some(source)) => mapper.decrypt_to(first, source, run),
                }
                .expect("whole units");
            }
            Start::Tweak(tweak) => {
                let xts = Xts::new(Cipher::Aes, case.key, &options).expect("a good key");
                match (case.encrypt, source) {
                    (true, None) => xts.encrypt(tweak, run),
                    (false, None) => xts.decrypt(tweak, run),
                    (true, Some(source)) => xts.encrypt_to(tweak, source, run),
                    (false, Some(source)) => xts.decrypt_to(tweak, source, run),
                }
                .expect("long enough");
            }
        }
        let agrees = run == case.output;
        let kept = *before == [FILLER; GUARD] && *after == [FILLER; GUARD];
        assert!(
            agrees && kept,
            "{name}: case {number}, {} with {options:?}, {len} bytes, encrypt {}, in place {in_place}: {}",
            case.spec,
            case.encrypt,
            if agrees { "wrote outside the run" } else { "wrong result" }
        );
    }
}
