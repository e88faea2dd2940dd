//! `open --dm` of other systems' volumes against cryptsetup in a real kernel: BitLocker with AES in XTS, in CBC, and in CBC with Elephant; FileVault 2;
//! VeraCrypt volumes of ours with every cipher and hash that cryptsetup has, too; and a system that VeraCrypt has encrypted.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use atrest_testkit::atrest::{VolumeFile, atrest, binary, write_key};
use atrest_testkit::bitlocker::BitLocker;
use atrest_testkit::fvault2::FileVault;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::tcrypt::{CHAINS, Tcrypt};
use atrest_testkit::{Campaign, Random, Scratch};

use super::put_programs;

/// Methods of BitLocker, and bytes of a sector. The image of FileVault comes beside them. Of each cipher one is the sample, by turns.
const ELEPHANT: &[(u16, u32)] = &[(0x8000, 512), (0x8001, 512)];
const CBC: &[(u16, u32)] = &[(0x8002, 512), (0x8003, 512), (0x8002, 4096)];
const XTS: &[(u16, u32)] = &[(0x8004, 512), (0x8005, 512), (0x8004, 4096)];
/// Hashes of VeraCrypt volumes that cryptsetup has, too; each with each chain. One by turns is the sample.
const HASHES: [&str; 3] = ["sha512", "sha256", "whirlpool"];
/// Bytes of the drive with an encrypted system, and where its partitions begin, which are as long as one another.
const DRIVE: (usize, [usize; 2], usize) = (4 << 20, [1 << 20, 2 << 20], 256 << 10);

#[test]
fn volumes_of_other_systems_are_mapped_as_cryptsetup_maps_them() {
    let share = Scratch::new();
    put_programs(&share, &[("atrest", binary())]);
    let chosen = |what, all| Campaign::matrix(what, 1).chosen(all);
    let mut volumes = Vec::new();
    for (method, sector) in [
        chosen("Elephant in a kernel", ELEPHANT),
        chosen("CBC in a kernel", CBC),
        chosen("XTS in a kernel", XTS),
    ]
    .concat()
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
    write_key(share.as_path(), "second", b"battery staple");
    let veracrypt = make_veracrypt(&share);
    fs::write(share.path("veracrypt"), veracrypt.concat()).expect("write the list");
    let (drive, hash) = make_system(&share);
    let letter = char::from(b'a' + volumes.len() as u8);
    fs::write(share.path("system"), format!("/dev/vd{letter} {hash}\n")).expect("write the place");
    kernel = kernel.disk(&drive);
    let told = kernel.ok("").text();
    let same = told.lines().filter(|line| line.ends_with(": same")).count();
    assert_eq!(same, volumes.len() + veracrypt.len() + 1, "{told}");
    println!("kernel: {} volumes of others, {} of VeraCrypt, a system", volumes.len(), veracrypt.len());
}

/// A drive with two partitions, of which the first is a system that VeraCrypt has encrypted, and what its plaintext hashes to.
fn make_system(share: &Scratch) -> (PathBuf, String) {
    let (size, starts, len) = DRIVE;
    let (drive, plain) = (share.path("drive"), share.path("plain"));
    let mut image = Random::new(12).bytes(size);
    // A master boot record with two entries of 16 bytes.
    image[446..512].fill(0);
    for (number, start) in starts.iter().enumerate() {
        let entry = &mut image[446 + 16 * number..][..16];
        entry[4] = 0x07;
        entry[8..12].copy_from_slice(&(*start as u32 / 512).to_le_bytes());
        entry[12..].copy_from_slice(&(len as u32 / 512).to_le_bytes());
    }
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&drive, image).expect("write a drive");
    fs::write(&plain, Random::new(13).bytes(len)).expect("write a plaintext");
    let password = b"battery staple".to_vec();
    let system = Tcrypt {
        magic: "VERA",
        iterations: 16_000,
        place: "system",
        start: Some(starts[0] as u64),
        password,
        ..Tcrypt::default()
    };
    system.make(&drive, size, &plain);
    let hash = Program::named("sha256sum").arg(&plain).ok().text();
    fs::remove_file(&plain).expect("remove the plaintext");
    (drive, hash.split(' ').next().expect("a hash").to_owned())
}

/// Makes VeraCrypt volumes; a line for each: its name, its hash, and what the plaintext hashes to, by us.
fn make_veracrypt(share: &Scratch) -> Vec<String> {
    let each = |chain| HASHES.map(|hash| (chain, hash));
    let all: Vec<(&str, &str)> = CHAINS.into_iter().flat_map(each).collect();
    let chosen = Campaign::matrix("VeraCrypt volumes that cryptsetup maps", 1).chosen(&all);
    let line = |(cipher, hash): &(&str, &str)| {
        let volume =
            VolumeFile { path: share.path(format!("{cipher}-{hash}.hc")), key: share.path("second") };
        fs::write(&volume.path, Random::new(31).bytes(400 << 10)).expect("write an image");
        let made =
            format!("--yes --type veracrypt --veracrypt-pim 1 --cipher {cipher} --hash {hash} --quick");
        volume.run("format", &made).expect_code(0);
        let plain = share.path("shown");
        let decrypt = Program::at(binary()).arg("decrypt").arg(&volume.path).arg(&plain);
        let decrypt = decrypt.words("--quiet --type veracrypt --veracrypt-pim 1 --key-file").arg(&volume.key);
        decrypt.ok();
        let sum = Program::named("sha256sum").arg(&plain).ok().text();
        fs::remove_file(&plain).expect("remove the plaintext");
        let sum = sum.split(' ').next().expect("a sum").to_owned();
        format!("{cipher}-{hash} {hash} {sum}\n")
    };
    chosen.iter().map(line).collect()
}
