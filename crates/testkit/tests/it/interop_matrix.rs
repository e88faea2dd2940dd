//! Debian's cryptsetup and we, on each other's volumes: cipher × version × sector size × KDF, with the metadata sizes of
//! LUKS2 spread over the cells. Ciphers that cryptsetup can't use without device-mapper are in `kernel/volumes.rs`.

use std::fs;
use std::path::Path;

use atrest_testkit::atrest::{VolumeFile, atrest, write_key};
use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};
use atrest_testkit::{Campaign, Scratch};

const CIPHERS: &[(&str, u32)] = &[
    ("aes-xts-plain64", 256),
    ("aes-xts-plain64", 512),
    ("aes-xts-plain", 512),
    ("aes-xts-essiv:sha256", 512),
    ("aes-cbc-essiv:sha256", 128),
    ("aes-cbc-essiv:sha256", 192),
    ("aes-cbc-essiv:sha256", 256),
    ("aes-cbc-plain64", 256),
    ("aes-cbc-plain64", 128),
    ("aes-cbc-plain", 256),
    ("aes-cbc-plain64be", 256),
    ("aes-cbc-benbi", 256),
    ("camellia-cbc-plain64", 256),
];
const LUKS1_HASHES: &[&str] = &["sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160", "whirlpool"];
const LUKS2_HASHES: &[&str] = &[
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha3-256",
    "sha3-512",
    "ripemd160",
    "whirlpool",
    "blake2b-512",
    "blake2s-256",
];
const SECTOR_SIZES: &[u32] = &[512, 1024, 2048, 4096];
const METADATA_SIZES: &[&str] = &["16k", "32k", "64k", "128k", "256k", "512k", "1024k", "2048k", "4096k"];
const KEYSLOTS_SIZES: &[&str] = &["1m", "2m", "4m", "8m"];

/// How both programs are told to format one cell. They understand the same options.
#[derive(Clone, Debug)]
struct Cell {
    version: u8,
    cipher: &'static str,
    key_bits: u32,
    sector: u32,
    metadata: &'static str,
    kdf: String,
    options: String,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for &(cipher, key_bits) in CIPHERS {
        for hash in LUKS1_HASHES {
            let kdf = format!("--hash {hash} --pbkdf-force-iterations 1000");
            let options = format!("--type luks1 --cipher {cipher} --key-size {key_bits} {kdf}");
            cells.push(Cell { version: 1, cipher, key_bits, sector: 512, metadata: "", kdf, options });
        }
        let pbkdf2 = LUKS2_HASHES
            .iter()
            .map(|hash| format!("--hash {hash} --pbkdf pbkdf2 --pbkdf-force-iterations 1000"));
        let argon2 = ["argon2i", "argon2id"].map(|kind| {
            format!("--pbkdf {kind} --pbkdf-memory 64 --pbkdf-parallel 1 --pbkdf-force-iterations 4")
        });
        for kdf in pbkdf2.chain(argon2) {
            for &sector in SECTOR_SIZES {
                let metadata = METADATA_SIZES[cells.len() % METADATA_SIZES.len()];
                let keyslots = KEYSLOTS_SIZES[cells.len() % KEYSLOTS_SIZES.len()];
                let options = format!(
                    "--type luks2 --cipher {cipher} --key-size {key_bits} --sector-size {sector} {kdf} \
                     --luks2-metadata-size {metadata} --luks2-keyslots-size {keyslots}"
                );
                cells.push(Cell {
                    version: 2,
                    cipher,
                    key_bits,
                    sector,
                    metadata,
                    kdf: kdf.clone(),
                    options,
                });
            }
        }
    }
    cells
}

#[test]
fn cryptsetup_works_on_volumes_that_we_formatted() {
    Campaign::matrix("ours for cryptsetup", 12).over(&cells(), |cell| {
        let directory = Scratch::new();
        let volume = VolumeFile::format(directory.as_path(), "ours.img", "32M", &cell.options);
        check_dump(cell, &volume);
        exercise(directory.as_path(), cell, &volume);
    });
}

#[test]
fn we_work_on_volumes_that_cryptsetup_formatted() {
    Campaign::matrix("cryptsetup's for us", 12).over(&cells(), |cell| {
        let directory = Scratch::new();
        let key = write_key(directory.as_path(), "key", b"correct horse");
        let volume = VolumeFile { path: directory.path("theirs.img"), key };
        fs::File::create(&volume.path).and_then(|file| file.set_len(32 << 20)).expect("make an image");
        Cryptsetup::new(&volume.path, &volume.key).format(&cell.options);
        check_info(cell, &volume);
        exercise(directory.as_path(), cell, &volume);
    });
}

fn check_dump(cell: &Cell, volume: &VolumeFile) {
    let theirs = Cryptsetup::new(&volume.path, &volume.key);
    if cell.version == 2 {
        let segment = &theirs.json()["segments"]["0"];
        assert_eq!(segment["encryption"], cell.cipher, "{cell:?}");
        assert_eq!(segment["sector_size"], cell.sector, "{cell:?}");
        let bytes = cell.metadata.trim_end_matches('k').parse::<u64>().expect("kilobytes") * 1024;
        let dump = theirs.dump();
        assert!(
            dump.lines().any(|line| line.starts_with("Metadata area:") && line.contains(&bytes.to_string())),
            "{dump}"
        );
    } else {
        let dump = theirs.dump();
        let (name, mode) = cell.cipher.split_once('-').expect("a cipher and a mode");
        let field = |label: &str| {
            let line = dump
                .lines()
                .find(|line| line.starts_with(label))
                .unwrap_or_else(|| panic!("no {label} in\n{dump}"));
            line.split_once(':').map_or("", |(_, value)| value.trim()).to_string()
        };
        assert_eq!((field("Cipher name"), field("Cipher mode")), (name.to_string(), mode.to_string()));
        assert_eq!(field("MK bits"), cell.key_bits.to_string());
    }
}

fn check_info(cell: &Cell, volume: &VolumeFile) {
    let info = atrest("info").arg(&volume.path).ok().text();
    assert!(info.contains(cell.cipher), "atrest info does not name {}:\n{info}", cell.cipher);
    let json = atrest("info --json").arg(&volume.path).ok();
    json.json();
    assert!(json.text().contains(cell.cipher), "atrest info --json does not name {}", cell.cipher);
}

/// Every keyslot operation by one program, judged by the other.
fn exercise(directory: &Path, cell: &Cell, volume: &VolumeFile) {
    let [second, third, fourth] = ["second", "third", "fourth"]
        .map(|name| write_key(directory, name, format!("the {name} one").as_bytes()));
    let theirs = |key: &Path| Cryptsetup::new(&volume.path, key);
    let fast = &cell.kdf;

    theirs(&volume.key).assert_opens();
    assert!(volume.opens_with(&volume.key));
    let exported = directory.join("volume-key-of-atrest");
    atrest("key export --yes --key-file").arg(&volume.key).arg(&volume.path).arg(&exported).ok();
    let key = fs::read(&exported).expect("atrest wrote the volume key");
    assert_eq!(key.len() * 8, cell.key_bits as usize);
    assert!(key == theirs(&volume.key).volume_key(directory), "the volume keys differ");

    theirs(&volume.key).add_key(&second, fast);
    assert!(volume.opens_with(&second), "a passphrase that cryptsetup added");
    volume.program("key add", fast).arg("--new-key-file").arg(&third).ok();
    theirs(&third).assert_opens();

    cryptsetup("luksKillSlot").arg(&volume.path).arg("1").ok();
    assert!(!volume.opens_with(&second), "a keyslot that cryptsetup killed");
    atrest("key remove --yes --key-file").arg(&third).arg(&volume.path).ok();
    theirs(&third).assert_refuses();

    cryptsetup("luksChangeKey --key-file").arg(&volume.key).words(fast).arg(&volume.path).arg(&fourth).ok();
    assert!(
        volume.opens_with(&fourth) && !volume.opens_with(&volume.key),
        "a passphrase that cryptsetup changed"
    );
    atrest("key change --key-file")
        .arg(&fourth)
        .arg("--new-key-file")
        .arg(&volume.key)
        .words(fast)
        .arg(&volume.path)
        .ok();
    theirs(&volume.key).assert_opens();
    theirs(&fourth).assert_refuses();
    theirs(&volume.key).dump();
}
