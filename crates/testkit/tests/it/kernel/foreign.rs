//! `open --dm` of BitLocker and FileVault 2 against cryptsetup in a real kernel: AES in XTS, and in CBC with Elephant.

use std::fmt::Write;
use std::fs;

use atrest_testkit::atrest::{atrest, binary};
use atrest_testkit::bitlocker::BitLocker;
use atrest_testkit::fvault2::FileVault;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

/// Methods of BitLocker, and bytes of a sector. The image of FileVault comes beside them. Of each cipher one is the sample, by turns.
const ELEPHANT: &[(u16, u32)] = &[(0x8000, 512), (0x8001, 512)];
const XTS: &[(u16, u32)] = &[(0x8004, 512), (0x8005, 512), (0x8004, 4096)];

#[test]
fn volumes_of_other_systems_are_mapped_as_cryptsetup_maps_them() {
    let share = Scratch::new();
    let program = share.path("atrest");
    Program::named("strip").arg("-o").arg(&program).arg(binary()).ok();
    let unwind = Program::named("cc").words("-print-file-name=libgcc_s.so.1").ok().text();
    fs::copy(unwind.trim(), share.path("libgcc_s.so.1")).expect("copy the unwinder");
    let chosen = |what, all| Campaign::matrix(what, 1).chosen(all);
    let mut volumes = Vec::new();
    for (method, sector) in
        [chosen("Elephant in a kernel", ELEPHANT), chosen("XTS in a kernel", XTS)].concat()
    {
        let (name, key) = (format!("{method:x}-{sector}"), format!("{method:x}-{sector}.BEK"));
        let plain = vec![(0, Random::new(6).bytes(4096)), (0x28000, Random::new(7).bytes(8192))];
        let volume = BitLocker { method, sector, plain, ..BitLocker::default() };
        volume.make(&share.path(&name), &share.path(&key));
        volumes.push((name, "bitlk", key));
    }
    fs::write(share.path("plain"), Random::new(8).bytes(65536)).expect("write a plaintext");
    fs::write(share.path("secret"), "correct horse").expect("write a password");
    FileVault::default().make(&share.path("filevault"), &share.path("plain"));
    volumes.push(("filevault".into(), "fvault2", "secret".into()));

    let mut kernel = Kernel::script("foreign.sh").module("dm-zero").share(share.as_path());
    let mut lines = String::new();
    for ((name, kind, key), letter) in volumes.iter().zip('a'..='z') {
        let (image, shown) = (share.path(name), share.path("shown"));
        // What it shows here is what dislocker shows, as other tests say.
        let key_file = share.path(key);
        atrest("decrypt --quiet").arg(&image).arg(&shown).arg("--key-file").arg(&key_file).ok();
        let hash = Program::named("sha256sum").arg(&shown).ok().text();
        let hash = hash.split_whitespace().next().expect("a hash");
        fs::remove_file(&shown).expect("the plaintext");
        writeln!(lines, "{name} /dev/vd{letter} {kind} {key} {hash}").expect("write to a string");
        kernel = kernel.disk(&image);
    }
    fs::write(share.path("volumes"), lines).expect("write the list");
    let told = kernel.ok("").text();
    assert_eq!(told.lines().filter(|line| line.ends_with(": same")).count(), volumes.len(), "{told}");
}
