//! Mappings of volumes in the middle of their re-encryption, in a real kernel: the tables are cryptsetup's, and a mapping follows.

use std::fs;

use atrest_testkit::atrest::{binary, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::tool;
use atrest_testkit::{Campaign, Random, Scratch};

use super::put_programs;

/// What is done to a volume. One by turns is the sample.
const KINDS: [&str; 5] = ["key", "encrypt", "cipher", "decrypt", "sector"];
/// How often each is killed at most, and the MiB of its disk, in the sample and in the campaign. Programs are slow under emulation.
const SAMPLE: (u32, u32) = (2, 8);
const WHOLE: (u32, u32) = (60, 16);

#[test]
fn a_mapping_follows_the_reencryption_of_its_volume_as_with_cryptsetup() {
    let share = Scratch::new();
    write_key(share.as_path(), "key", &Random::new(8).bytes(64));
    put_programs(&share, &[("atrest", binary()), ("flock", tool("flock"))]);
    let kinds = Campaign::matrix("kinds of re-encryption that a mapping follows", 1).chosen(&KINDS);
    let lines: String = kinds.iter().map(|kind| format!("{kind} {kind}\n")).collect();
    fs::write(share.path("rewritten"), lines).expect("write the list");
    let (kills, size) = if Campaign::is_full() { WHOLE } else { SAMPLE };
    fs::write(share.path("kills"), kills.to_string()).expect("write a number");
    fs::write(share.path("size"), size.to_string()).expect("write a number");
    let told = Kernel::script("remapped.sh").share(share.as_path()).ok("").text();
    let done = |end: &str| told.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!((done("same, and gone on with"), done(" kills")), (kinds.len(), kinds.len()), "{told}");
    if Campaign::is_full() {
        assert_eq!(told.lines().last(), Some("lock: respected"), "{told}");
    }
    println!("kernel: {} re-encryptions of mappings", kinds.len());
}
