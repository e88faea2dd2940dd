//! The backends of atrest-kdf on the emulated CPU, for the SHA extensions, which few machines of ours have. The cases
//! are short enough to stand here; the crate's own tests hold the backends of other CPUs against more.

use core::fmt::Write;

use atrest_kdf::{Sha256Backend, pbkdf2_sha256_with};

use crate::bare::Console;
use crate::say;

/// Passphrase, salt, iterations, key. Lengths that fill one to four blocks, and cut the last one.
type Case = (&'static str, &'static str, u32, &'static [u8]);

const CASES: [Case; 5] = [
    // RFC 7914, section 11.
    (
        "passwd",
        "salt",
        1,
        b"55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
          49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783",
    ),
    // Computed by CPython's hashlib (OpenSSL 3.0).
    (PASSPHRASE, SALT, 250, KEY.first_chunk::<64>().expect("is longer")),
    (PASSPHRASE, SALT, 250, KEY.first_chunk::<128>().expect("is longer")),
    (PASSPHRASE, SALT, 250, KEY.first_chunk::<200>().expect("is longer")),
    (PASSPHRASE, SALT, 250, KEY),
];
const PASSPHRASE: &str = "correct horse battery staple";
const SALT: &str = "atrest emulated cpu";
const KEY: &[u8] = b"5b5380d1e6703fdde861cfc4271e02fe10216ede081761b8a6ac355aa14876c6\
    723e7f428eb161bc533e6f623924b071e893a96a5fa31c8b91b4ccbf2dbb9db1\
    1aee70639fc7e7d022f76e0a8f3e2a9ddbc27d5cacea52951fd83f4801a4755b\
    7afc58c6c2c2dab44b4bdd9245daf26b157c65e156bb93f15cf3a25f26f849b2";

/// The backends to be found under each of `crate::EXPECTED`'s states of XCR0.
pub const EXPECTED: [&[&str]; 3] = [
    &["sha-ni", "portable"],
    &["sha-ni", "avx-lanes", "portable"],
    &["sha-ni", "avx512-lanes", "avx-lanes", "portable"],
];

/// Whether detection finds these.
pub fn found(expected: &[&str]) -> bool {
    Sha256Backend::detected().map(Sha256Backend::name).eq(expected.iter().copied())
}

/// All cases on all backends.
pub fn play() {
    for backend in Sha256Backend::detected() {
        for (passphrase, salt, iterations, expected) in CASES {
            let mut key = [0; KEY.len() / 2];
            let key = &mut key[..expected.len() / 2];
            pbkdf2_sha256_with(backend, passphrase.as_bytes(), salt.as_bytes(), iterations, key)
                .expect("valid inputs");
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            let agrees =
                key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).eq(expected.iter().copied());
            assert!(agrees, "{}: PBKDF2, {} bytes, {iterations} times: wrong key", backend.name(), key.len());
        }
        say!("pbkdf2 {}: {} cases passed", backend.name(), CASES.len());
    }
}
