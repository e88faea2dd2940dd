//! The ciphers against known answers, on the machine that is to boot with them.

use core::fmt;
use core::str::FromStr;
use std::process::ExitCode;

use atrest_cipher::{BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, argon2, digest, pbkdf2};

/// Data units of 512 bytes that count from 0 to 255 twice, encrypted.
struct Known {
    cipher: &'static str,
    key: &'static str,
    /// Number of the first unit.
    first: u64,
    units: usize,
    /// SHA-256 of the ciphertext.
    digest: &'static str,
}

const KNOWN: &[Known] = &[
    // IEEE 1619-2018, Annex B, vectors 4 and 10.
    Known {
        cipher: "aes-xts-plain64",
        key: "27182818284590452353602874713526\
              31415926535897932384626433832795",
        first: 0,
        units: 1,
        digest: "ebee4d64dd2395bb2d6a2d37a0a48ecb2bf4913cfc99d27c2214f2f4144715ea",
    },
    Known {
        cipher: "aes-xts-plain64",
        key: "2718281828459045235360287471352662497757247093699959574966967627\
              3141592653589793238462643383279502884197169399375105820974944592",
        first: 0xff,
        units: 1,
        digest: "e97e974fa393af794f7a4684395814cf820de60a01eaec677d87b452e316b364",
    },
    // By OpenSSL's aes-256-cbc, with IVs by its aes-256-ecb.
    Known {
        cipher: "aes-cbc-essiv:sha256",
        key: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        first: 0,
        units: 8,
        digest: "a5999142154d03b6b29e8bfb0621ee6743f17b898e42d29507d7cc1838341eb5",
    },
];

/// What a run has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    right: usize,
    wrong: usize,
}

/// Runs everything, and prints a line for each, and which AES is in use.
pub fn run() -> ExitCode {
    println!("atrest-init {} on {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let count = all(|line| println!("{line}"));
    println!("AES: {}", BackendChoice::best().name());
    let Count { right, wrong } = count;
    println!("self-test: {right} right, {wrong} wrong");
    if wrong == 0 && right > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all(mut tell: impl FnMut(fmt::Arguments<'_>)) -> Count {
    let mut count = Count::default();
    let mut hold = |what: fmt::Arguments<'_>, right: bool| {
        tell(format_args!("{what}: {}", if right { "right" } else { "WRONG" }));
        *(if right { &mut count.right } else { &mut count.wrong }) += 1;
    };
    for known in KNOWN {
        for backend in BackendChoice::detected() {
            let bits = known.key.len() * 4;
            hold(format_args!("{}, {bits}-bit key, {}", known.cipher, backend.name()), known.agrees(backend));
        }
    }
    // phc-winner-argon2, src/test.c.
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: 2, memory_kib: 256, lanes: 1 };
    let mut key = [0; 32];
    let derived = argon2(&cost, b"password", b"somesalt", &mut key).is_ok();
    let answer = "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe";
    hold(format_args!("argon2id"), derived && hex(&key) == answer);
    // RFC 7914, section 11.
    let derived = pbkdf2(Hash::Sha256, b"passwd", b"salt", 1, &mut key).is_ok();
    let answer = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc";
    hold(format_args!("pbkdf2-sha256"), derived && hex(&key) == answer);
    count
}

impl Known {
    fn agrees(&self, backend: BackendChoice) -> bool {
        let plain: Vec<u8> = (0..512 * self.units).map(|i| i as u8).collect();
        let options =
            MapperOptions { iv_offset: self.first, backend: Some(backend), ..MapperOptions::default() };
        let Ok(spec) = CipherSpec::from_str(self.cipher) else { return false };
        let Ok(mapper) = Mapper::new(&spec, &bytes(self.key), &options) else { return false };
        let mut data = plain.clone();
        let mut sum = [0; 32];
        let encrypted = mapper.encrypt(DataUnitIndex(0), &mut data).is_ok();
        digest(Hash::Sha256, &[&data], &mut sum);
        let decrypted = mapper.decrypt(DataUnitIndex(0), &mut data).is_ok();
        encrypted && hex(&sum) == self.digest && decrypted && data == plain
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    // intended: a digit that is none makes a wrong key or digest, and the test fails.
    let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_right_and_a_wrong_one_is_seen() {
        let count = all(|line| println!("{line}"));
        let expected = KNOWN.len() * BackendChoice::detected().count() + 2;
        assert_eq!(count, Count { right: expected, wrong: 0 });
        let wrong = Known { first: 1, ..Known { ..KNOWN[1] } };
        assert!(!wrong.agrees(BackendChoice::best()));
    }
}
