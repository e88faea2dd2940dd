//! QEMU's LUKS1 driver is an independent implementation of the data path too: what one writes, the other reads.

use std::fs;
use std::path::Path;

use atrest_testkit::atrest::{VolumeFile, atrest, write_key};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

/// cipher-alg, cipher-mode, ivgen-alg, ivgen-hash-alg, and the same for us.
const CIPHERS: &[(&str, &str, &str, &str, &str, u32)] = &[
    ("aes-256", "xts", "plain64", "", "aes-xts-plain64", 512),
    ("aes-128", "xts", "plain64", "", "aes-xts-plain64", 256),
    ("aes-256", "cbc", "plain64", "", "aes-cbc-plain64", 256),
    ("aes-256", "cbc", "plain", "", "aes-cbc-plain", 256),
    ("aes-128", "cbc", "essiv", "sha256", "aes-cbc-essiv:sha256", 128),
    ("aes-256", "cbc", "essiv", "sha256", "aes-cbc-essiv:sha256", 256),
    ("serpent-256", "xts", "plain64", "", "serpent-xts-plain64", 512),
    ("serpent-256", "cbc", "plain64", "", "serpent-cbc-plain64", 256),
    ("serpent-128", "cbc", "plain64", "", "serpent-cbc-plain64", 128),
    ("twofish-256", "xts", "plain64", "", "twofish-xts-plain64", 512),
    ("twofish-256", "cbc", "plain64", "", "twofish-cbc-plain64", 256),
    ("twofish-256", "xts", "plain", "", "twofish-xts-plain", 512),
];
const HASHES: &[&str] = &["sha1", "sha256", "sha512", "ripemd160"];
const PLAIN_SIZE: usize = 3 << 20;

#[derive(Clone, Debug)]
struct Cell {
    cipher: usize,
    hash: &'static str,
}

fn cells() -> Vec<Cell> {
    (0..CIPHERS.len()).flat_map(|cipher| HASHES.iter().map(move |hash| Cell { cipher, hash })).collect()
}

/// `driver=luks,…` for a file, with the passphrase in the secret `pass`.
fn image(path: &Path) -> String {
    format!("driver=luks,key-secret=pass,file.filename={}", path.display())
}

fn qemu_img(command: &str, key: &Path) -> Program {
    Program::named("qemu-img")
        .arg(command)
        .arg("--object")
        .arg(format!("secret,id=pass,file={}", key.display()))
}

fn plaintext(directory: &Path, seed: u64) -> (std::path::PathBuf, Vec<u8>) {
    let path = directory.join("plain.bin");
    let bytes = Random::new(seed).bytes(PLAIN_SIZE);
    fs::write(&path, &bytes).expect("write the plaintext");
    (path, bytes)
}

#[test]
fn we_read_and_write_volumes_that_qemu_made() {
    // QEMU measures for two seconds of a core how fast it hashes, whatever it is asked for.
    Campaign::matrix("qemu-img's for us", 2).over(&cells(), |cell| {
        let directory = Scratch::new();
        let (plain, bytes) = plaintext(directory.as_path(), 1);
        let key = write_key(directory.as_path(), "key", b"correct horse");
        let volume = VolumeFile { path: directory.path("qemu.luks"), key };
        let (alg, mode, iv, iv_hash, name, _) = CIPHERS[cell.cipher];
        let iv_hash = if iv_hash.is_empty() { String::new() } else { format!(",ivgen-hash-alg={iv_hash}") };
        let options = format!(
            "key-secret=pass,cipher-alg={alg},cipher-mode={mode},ivgen-alg={iv}{iv_hash},hash-alg={},iter-time=10",
            cell.hash
        );
        qemu_img("create", &volume.key).args(["-f", "luks", "-o", &options]).arg(&volume.path).arg(PLAIN_SIZE.to_string()).ok_making_luks_by_qemu();
        let info = atrest("info").arg(&volume.path).ok().text();
        assert!(info.contains(name), "atrest info does not name {name}:\n{info}");

        // qemu writes, we read.
        qemu_img("convert", &volume.key).args(["-n", "-f", "raw", "--target-image-opts"]).arg(&plain).arg(image(&volume.path)).ok();
        let out = directory.path("out.bin");
        volume.decrypt(&out);
        assert!(fs::read(&out).expect("our plaintext") == bytes, "what qemu wrote is read differently");

        // We write, qemu reads.
        let (plain, bytes) = plaintext(directory.as_path(), 2);
        volume.encrypt(&plain);
        assert!(qemu_reads(directory.as_path(), &volume) == bytes, "what we wrote is read differently by qemu");
    });
}

#[test]
fn qemu_reads_and_writes_volumes_that_we_made() {
    Campaign::matrix("ours for qemu-img", 6).over(&cells(), |cell| {
        let directory = Scratch::new();
        let (plain, bytes) = plaintext(directory.as_path(), 3);
        let (.., cipher, key_bits) = CIPHERS[cell.cipher];
        let options = format!(
            "--type luks1 --cipher {cipher} --key-size {key_bits} --hash {} --pbkdf-force-iterations 1000",
            cell.hash
        );
        let volume = VolumeFile::format(directory.as_path(), "ours.luks", "8M", &options);
        volume.encrypt(&plain);
        let read = qemu_reads(directory.as_path(), &volume);
        assert!(read[..bytes.len()] == bytes, "what we wrote is read differently by qemu");

        // qemu writes a pattern at odd places; we read it.
        let write = "write -P 0xa5 512 1024";
        let secret = format!("secret,id=pass,file={}", volume.key.display());
        Program::named("qemu-io")
            .args(["--object", &secret, "-c", write, "-c", "flush", "--image-opts", &image(&volume.path)])
            .ok();
        let out = directory.path("out.bin");
        volume.decrypt(&out);
        let ours = fs::read(&out).expect("our plaintext");
        let mut expected = read;
        expected[512..1536].fill(0xa5);
        assert!(ours == expected, "what qemu wrote is read differently");
    });
}

fn qemu_reads(directory: &Path, volume: &VolumeFile) -> Vec<u8> {
    let out = directory.join("qemu-out.bin");
    qemu_img("convert", &volume.key)
        .args(["--image-opts", "-O", "raw"])
        .arg(image(&volume.path))
        .arg(&out)
        .ok();
    fs::read(&out).expect("qemu's plaintext")
}
