//! `atrest unlock` and atrest-init in a real kernel, without udev: crypttab, command lines, prompts, late devices.

use std::fs;

use atrest_testkit::atrest::{VolumeFile, binary, init_binary, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::{Random, Scratch};

use super::put_programs;

const COST: &str = "--yes --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";

#[test]
fn volumes_are_unlocked_at_boot() {
    let share = Scratch::new();
    let key = write_key(share.as_path(), "key", &Random::new(9).bytes(256));
    let typed = write_key(share.as_path(), "second", b"battery staple");
    put_programs(&share, &[("atrest", binary()), ("atrest-init", init_binary())]);
    // A terminal for whoever types; it needs nothing but the C library.
    fs::copy(tool("script"), share.path("script")).expect("copy script");

    let volume = |name: &str, key: &std::path::Path, options: &str| {
        let volume = VolumeFile { path: share.path(name), key: key.into() };
        volume.run("format", &format!("--size 20M {COST} {options}")).expect_code(0);
        volume.path
    };
    let first = volume("a.img", &key, "--label first");
    let second = volume("b.img", &typed, "");
    let third = volume("c.img", &typed, "");
    let header = share.path("header.img");
    let apart = volume("d.img", &key, &format!("--header {}", header.display()));
    let root = volume("e.img", &key, "--label crypt-root");
    // A disk with a partition table, for what is in its partition later.
    let disk = share.path("disk.img");
    fs::File::create(&disk).and_then(|disk| disk.set_len(22 << 20)).expect("an image");
    Program::named("sfdisk").arg("-q").arg(&disk).stdin(*b"label: gpt\nstart=2048, name=\"late\"\n").ok();
    let mut kernel = Kernel::script("unlock.sh").share(share.as_path());
    for image in [&first, &second, &third, &apart, &root] {
        kernel = kernel.disk(image);
    }
    let told = kernel.ok("").text();
    let good: Vec<&str> = told.lines().filter_map(|line| line.strip_suffix(": good")).collect();
    let parts = ["crypttab", "passphrases", "keys elsewhere", "command lines", "late devices", "init"];
    assert_eq!(good, parts, "{told}");
}
