//! A sealed card of the desk, and where its units lie.

use std::fs;

use super::{Ran, Scratch};

pub const CHEAP: [&str; 4] = ["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
/// Behind the header of two blocks.
pub const DATA: usize = 8192;
pub const BLOCK: usize = 4096;
/// Bytes that a unit takes.
pub const STRIDE: usize = 448;
/// Units in a block.
pub const UNITS: usize = 9;

/// Where a unit lies in its block: behind the first one stand 16 bytes for the salt.
pub fn unit_at(unit: usize) -> usize {
    unit * STRIDE + if unit == 0 { 0 } else { 16 }
}

/// A card `card` of 1 MiB with the store `store`, that opens with the key file `key`.
pub fn with_card() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    format(&scratch, "card", "store", &["--size", "1M"]).ok();
    scratch
}

/// `format --type sealed` with the key file `key`.
pub fn format(scratch: &Scratch, card: &str, store: &str, more: &[&str]) -> Ran {
    let args = ["format", card, "--type", "sealed", "--store", store, "--key-file", "key"];
    scratch.atrest(&[&args, &CHEAP[..], more].concat())
}

/// What a file holds.
pub fn bytes(scratch: &Scratch, name: &str) -> Vec<u8> {
    fs::read(scratch.path(name)).expect("the file")
}

/// A command on `card` with its store and its key.
pub fn run(scratch: &Scratch, line: &str) -> Ran {
    scratch.bash(&format!("K='--key-file key --store store'; {line}"))
}
