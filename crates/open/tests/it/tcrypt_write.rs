//! VeraCrypt volumes that are made and whose passwords are changed here, read by libgcrypt, and their headers by cryptsetup.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use atrest_device::{BlockDevice, Cause, DeviceError, Media};
use atrest_engine::{Access, Disk, DiskOptions, FileDevice};
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::{Family, KeyFiles};
use atrest_open::{Format, Key, OneKey, Options};
use atrest_secret::{OsRandom, Passphrase};
use atrest_testkit::fault::FaultDevice;
use atrest_testkit::oracle::Program;
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::tcrypt::Tcrypt;
use atrest_testkit::{Random, Scratch};
use atrest_volume::UnlockOptions;
use atrest_volume::tcrypt::{
    LockedTcrypt, NewPassword, NewTcrypt, Opened, TcryptError, TcryptOptions, TcryptWriteError, chain_named,
    create,
};

/// The smallest volume.
const SIZE: usize = 299_008;
const DATA: usize = SIZE - 262_144;
/// With it derivations are short.
const PIM: Option<u32> = Some(1);
const ITERATIONS: u32 = 16_000;

fn passphrase(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

fn with<'a>(passphrase: &'a Passphrase, key_files: &'a KeyFiles, hash: Hash) -> NewPassword<'a> {
    NewPassword { passphrase, key_files, pim: PIM, hash }
}

/// Only VeraCrypt's derivation with that hash.
fn narrowed(hash: Hash) -> TcryptOptions {
    let hash = Some(hash.name().into());
    TcryptOptions { pim: PIM, hash, family: Some(Family::VeraCrypt), ..TcryptOptions::default() }
}

/// Makes a volume in memory.
fn created(size: usize, chain: &str, hash: Hash, hidden: Option<u64>) -> FaultDevice {
    let device = FaultDevice::zeroed(size);
    let (outer, inner, none) = (passphrase("outer"), passphrase("inner"), KeyFiles::default());
    let new = NewTcrypt {
        chain: chain_named(chain).expect(chain),
        password: with(&outer, &none, hash),
        hidden: hidden.map(|size| (with(&inner, &none, hash), size)),
    };
    let mut done = 0;
    create(&device, &new, &mut OsRandom, Some(&mut |bytes| done = bytes)).expect("makes it");
    assert_eq!(done, (size - 262_144) as u64);
    device
}

fn open(device: &dyn Media, password: &str, options: &TcryptOptions) -> Option<Opened> {
    let locked = LockedTcrypt::read(device, options).expect("a place for a header");
    atrest_open::try_tcrypt(&locked, &passphrase(password), None).ok()
}

/// Fills the volume in a file, and returns its plaintext.
fn filled(path: &Path, password: &str, options: &TcryptOptions) -> Vec<u8> {
    let format = Format::Tcrypt { options: options.clone(), progress: None };
    let mut keys = OneKey::new(Key::Passphrase(passphrase(password)));
    let mut how = Options::default();
    how.write = true;
    let disk = atrest_open::open(path, &format, &mut keys, &how).expect("opens");
    let mut plain = vec![0; usize::try_from(disk.size()).expect("short")];
    Random::new(23).fill(&mut plain);
    disk.write_at(0, &plain).expect("writes");
    disk.flush().expect("flushes");
    plain
}

#[test]
fn each_cascade_and_hash_of_a_new_volume_is_read_by_libgcrypt() {
    let scratch = Scratch::new();
    let path = scratch.path("volume");
    let chains = [
        "aes",
        "serpent",
        "twofish",
        "camellia",
        "AES(Twofish)",
        "AES(Twofish(Serpent))",
        "Serpent(AES)",
        "Serpent(Twofish(AES))",
        "Twofish(Serpent)",
        "Camellia(Serpent)",
    ];
    let hashes = [Hash::Sha256, Hash::Blake2s256, Hash::Whirlpool, Hash::Streebog512];
    let all = chains.map(|chain| (chain, Hash::Sha512)).into_iter().chain(hashes.map(|hash| ("aes", hash)));
    for (chain, hash) in all {
        fs::write(&path, created(SIZE, chain, hash, None).image()).expect("a file");
        let plain = filled(&path, "outer", &narrowed(hash));
        let name = chain_named(chain).expect(chain).name();
        for place in ["normal", "backup"] {
            let judge = Tcrypt {
                magic: "VERA",
                hash: hash.name(),
                iterations: ITERATIONS,
                chain: Box::leak(name.clone().into_boxed_str()),
                password: b"outer".to_vec(),
                place,
                ..Tcrypt::default()
            };
            let read = judge.read(&path);
            let data = DATA as u64;
            assert_eq!(read.fields, [5, 0x010b, 0, data, 131_072, data, 0, 512], "{chain} {hash} {place}");
            assert!(read.plain == plain, "{chain} {hash} {place}");
        }
    }
    // Of other ciphers and hashes cryptsetup asks the kernel, or has them not.
    for hash in [Hash::Sha512, Hash::Sha256, Hash::Whirlpool] {
        fs::write(&path, created(SIZE, "aes", hash, None).image()).expect("a file");
        for backup in ["", "--tcrypt-backup"] {
            let words =
                format!("open --type tcrypt --test-passphrase --veracrypt-pim 1 -c aes -h {hash} {backup}");
            Program::named("cryptsetup").words(&words).arg(&path).stdin("outer").ok();
        }
    }
}

#[test]
fn a_hidden_volume_lies_at_the_end_of_the_outer_one_under_keys_of_its_own() {
    let scratch = Scratch::new();
    let path = scratch.path("volume");
    let (size, inner) = (SIZE + 100 * 512, 40_960_u64);
    let device = created(size, "serpent-twofish-aes", Hash::Sha512, Some(inner));
    fs::write(&path, device.image()).expect("a file");
    let hidden = TcryptOptions { hidden: true, ..narrowed(Hash::Sha512) };
    let plain = filled(&path, "inner", &hidden);
    let judge = |password: &str, place| {
        let password = password.as_bytes().to_vec();
        let volume = Tcrypt {
            magic: "VERA",
            iterations: ITERATIONS,
            chain: "serpent-twofish-aes",
            password,
            place,
            ..Tcrypt::default()
        };
        volume.read(&path)
    };
    let start = size as u64 - 131_072 - inner;
    for place in ["hidden", "hidden-backup"] {
        let read = judge("inner", place);
        assert_eq!(read.fields, [5, 0x010b, inner, inner, start, inner, 0, 512], "{place}");
        assert!(read.plain == plain, "{place}");
    }
    let outer = judge("outer", "normal");
    assert_eq!(outer.fields[3..5], [size as u64 - 262_144, 131_072]);
    assert!(!outer.plain.ends_with(&plain));
    // Neither opens the other, and no salt is there twice.
    assert!(open(&device, "outer", &hidden).is_none());
    assert!(open(&device, "inner", &narrowed(Hash::Sha512)).is_none());
    let image = device.image();
    let mut salts = [0, 65_536, size - 131_072, size - 65_536].map(|at| image[at..at + 64].to_vec());
    salts.sort();
    assert!(salts.windows(2).all(|two| two[0] != two[1]));
    // Nothing in the whole file is other than noise: no run of zeros is left of the device as it was.
    assert!(image.windows(16).all(|window| window != [0; 16]));
}

#[test]
fn a_write_into_a_protected_hidden_volume_ends_all_writing() {
    let (size, hash, inner) = (SIZE + 100 * 512, Hash::Sha512, 36_864);
    let device = Arc::new(created(size, "aes", hash, Some(inner)));
    let outer = open(&*device, "outer", &narrowed(hash)).expect("opens");
    let hidden = TcryptOptions { hidden: true, ..narrowed(hash) };
    let hidden = open(&*device, "inner", &hidden).expect("opens");
    let unlock = UnlockOptions::default();
    let disk = || {
        let volume = outer.volume_protecting(&hidden, size as u64, &unlock).expect("inside");
        Disk::new(device.clone(), volume, DiskOptions::default()).expect("fits")
    };
    let (first, end) = (size as u64 - 262_144 - inner, size as u64 - 262_144);
    let noise = device.image();
    let refused = |write: &dyn Fn(&Disk) -> Result<(), DeviceError>| {
        let disk = disk();
        disk.write_at(first - 512, &[7; 512]).expect("in front of it");
        disk.write_at(first - 3, &[8; 3]).expect("in front of it");
        disk.flush().expect("flushes");
        let before = device.image();
        let read_only =
            |result: Result<(), DeviceError>| result.expect_err("refused").cause == Cause::Protected;
        assert!(read_only(write(&disk)));
        // From now on nothing is written, anywhere, and everything is read.
        assert!(read_only(disk.write_at(0, &[9; 512])) && read_only(disk.write_zeroes(0, 512)));
        assert_eq!(device.image(), before);
        disk.flush().expect("flushes");
        let mut written = [0; 512];
        disk.read_at(first - 512, &mut written).expect("reads");
        assert!(written[..509] == [7; 509] && written[509..] == [8; 3]);
    };
    refused(&|disk| disk.write_at(first, &[1; 512]));
    refused(&|disk| disk.write_at(first - 512, &[1; 513]));
    refused(&|disk| disk.write_at(0, &vec![1; end as usize]));
    refused(&|disk| disk.write_consuming(end - 1, &mut [1]));
    refused(&|disk| disk.write_zeroes(first + 700, 5));
    refused(&|disk| disk.discard(end - 512, 512));
    let at = size - 131_072 - inner as usize;
    assert_eq!(device.image()[at..], noise[at..]);
    // With other bytes protected, or none, it is another disk.
    let unprotected = outer.volume(size as u64, &unlock).expect("fits");
    let unprotected = Disk::new(device.clone(), unprotected, DiskOptions::default()).expect("fits");
    assert_ne!(disk().likeness(), unprotected.likeness());
    // A hidden volume protects nothing, and one that is none is not protected.
    for (one, other) in [(&hidden, &outer), (&outer, &outer), (&hidden, &hidden)] {
        let error = one.volume_protecting(other, size as u64, &unlock).expect_err("refused");
        assert_eq!(error, TcryptError::NotInside.into());
    }
}

#[test]
fn what_can_be_no_volume_is_refused_and_nothing_is_written() {
    let (good, empty, none) = (passphrase("a password"), passphrase(""), KeyFiles::default());
    let refused = |size: usize, password: &Passphrase, hash, hidden: Option<u64>| {
        let device = FaultDevice::zeroed(size);
        let new = NewTcrypt {
            chain: chain_named("aes").expect("known"),
            password: with(password, &none, hash),
            hidden: hidden.map(|size| (with(&good, &none, hash), size)),
        };
        let error = create(&device, &new, &mut OsRandom, None).expect_err("refused");
        assert!(device.recording().events().is_empty());
        error
    };
    let sha = Hash::Sha512;
    let too_small = TcryptWriteError::TooSmall { has: 298_496, needs: SIZE as u64 };
    assert_eq!(refused(SIZE - 512, &good, sha, None), too_small);
    let sectors = TcryptWriteError::Sectors { size: SIZE as u64 + 1, sector: 512 };
    assert_eq!(refused(SIZE + 1, &good, sha, None), sectors);
    assert_eq!(refused(SIZE, &empty, sha, None), TcryptWriteError::Empty);
    let hash = |hash| TcryptWriteError::Hash { family: Family::VeraCrypt, hash };
    assert_eq!(refused(SIZE, &good, Hash::Ripemd160, None), hash(Hash::Ripemd160));
    assert_eq!(refused(SIZE, &good, Hash::Sha1, None), hash(Hash::Sha1));
    for size in [0, 36_864 - 512, 36_864 + 1, 51_200 + 512, u64::MAX] {
        let expected = TcryptWriteError::Hidden { size, least: 36_864, most: 51_200, sector: 512 };
        assert_eq!(refused(SIZE + 51_200, &good, sha, Some(size)), expected);
    }
    let long = refused(SIZE, &passphrase(&"x".repeat(129)), sha, None);
    assert_eq!(long.to_string(), "the password has 129 bytes, but at most 128 can be used");
    assert!(["rot13", "", "twofish-rot13", "AES(", "cast5"].iter().all(|name| chain_named(name).is_none()));
}

#[test]
fn a_changed_password_survives_power_loss_at_any_moment() {
    let device = created(SIZE, "aes-twofish-serpent", Hash::Sha512, None);
    let (old, new) = (narrowed(Hash::Sha512), narrowed(Hash::Sha256));
    let opened = open(&device, "outer", &old).expect("opens");
    device.forget();
    let (password, none) = (passphrase("changed"), KeyFiles::default());
    opened.change_password(&device, &with(&password, &none, Hash::Sha256), &mut OsRandom).expect("changes");
    let keys = opened.header().to_bytes();
    let backup = |options: &TcryptOptions| TcryptOptions { backup: true, ..options.clone() };
    let which = |device: &FaultDevice| {
        let found = [
            open(device, "outer", &old),
            open(device, "changed", &new),
            open(device, "outer", &backup(&old)),
            open(device, "changed", &backup(&new)),
        ];
        found.map(|opened| opened.is_some_and(|opened| *opened.header().to_bytes() == *keys))
    };
    let limits = Limits { tearing: Tearing::Inside, tears: 2, ..Limits::default() };
    let mut seen = std::collections::BTreeSet::new();
    let states = device.recording().for_each_power_loss(&limits, |aftermath| {
        let found = which(&FaultDevice::new(aftermath.image));
        // The header at the beginning opens, or else its copy does.
        assert!(found.contains(&true), "{}", aftermath.power_loss);
        seen.insert(found);
    });
    assert!(states > 4, "{states}");
    assert_eq!(which(&device), [false, true, false, true]);
    assert!(seen.contains(&[true, false, true, false]) && seen.contains(&[true, false, false, true]));
    // Nothing but the two headers was touched.
    let recording = device.recording();
    let before = recording.state(&atrest_testkit::power_loss::PowerLoss {
        epoch: 0,
        arrived: vec![false],
        torn: None,
    });
    let after = device.image();
    let changed = before.iter().zip(&after).enumerate().filter(|(_, (before, after))| before != after);
    let places = [0..512, SIZE - 131_072..SIZE - 131_072 + 512];
    assert!(changed.into_iter().all(|(at, _)| places.iter().any(|place| place.contains(&at))));
}

#[test]
fn the_only_header_that_is_left_survives_power_loss_at_any_moment() {
    let (hash, none) = (Hash::Sha512, KeyFiles::default());
    let old = narrowed(hash);
    let copy = TcryptOptions { backup: true, ..old.clone() };
    for (from, damaged) in [(&old, SIZE as u64 - 131_072), (&copy, 0)] {
        let device = created(SIZE, "aes", hash, None);
        device.write_at(damaged, &[0; 512]).expect("writes");
        let opened = open(&device, "outer", from).expect("opens");
        device.forget();
        opened.restore(&device, (&passphrase("outer"), &none), &mut OsRandom).expect("restores");
        let limits = Limits { tearing: Tearing::Inside, tears: 2, ..Limits::default() };
        let states = device.recording().for_each_power_loss(&limits, |aftermath| {
            let device = FaultDevice::new(aftermath.image);
            let opens = [&old, &copy].iter().any(|options| open(&device, "outer", options).is_some());
            assert!(opens, "{}", aftermath.power_loss);
        });
        assert!(states > 4, "{states}");
    }
}

#[test]
fn the_copy_that_a_grown_device_has_from_before_opens_with_the_new_password_alone() {
    let (old, new) = (narrowed(Hash::Sha512), narrowed(Hash::Sha256));
    let (password, none) = (passphrase("changed"), KeyFiles::default());
    for grown in [512, 131_072, 1 << 20] {
        let mut image = created(SIZE, "aes", Hash::Sha512, None).image();
        image.resize(SIZE + grown, 0);
        let device = FaultDevice::new(image);
        let opened = open(&device, "outer", &old).expect("opens");
        opened
            .change_password(&device, &with(&password, &none, Hash::Sha256), &mut OsRandom)
            .expect("changes");
        let image = device.image();
        for size in [SIZE, SIZE + grown] {
            let device = FaultDevice::new(image[..size].to_vec());
            for backup in [false, true] {
                let at = |options: &TcryptOptions| TcryptOptions { backup, ..options.clone() };
                assert!(open(&device, "outer", &at(&old)).is_none(), "{grown} {size} {backup}");
                assert!(open(&device, "changed", &at(&new)).is_some(), "{grown} {size} {backup}");
            }
        }
    }
}

#[test]
fn no_header_is_written_over_data() {
    let (hash, none) = (Hash::Sha512, KeyFiles::default());
    // In the shorter one what would be hit is the place of a hidden volume's header.
    for size in [SIZE, SIZE + 131_072] {
        let image = created(size, "aes", hash, None).image();
        // As much is missing as the group of copies has, or less: the data is all there.
        for missing in [131_072, 131_072 - 512, 512, 0] {
            let device = FaultDevice::new(image[..size - missing].to_vec());
            let opened = open(&device, "outer", &narrowed(hash)).expect("opens");
            let copy = (size - missing - 131_072) as u64;
            let expected = if missing == 0 { Ok(()) } else { Err(TcryptWriteError::Truncated { copy }) };
            let restored = opened.restore(&device, (&passphrase("outer"), &none), &mut OsRandom);
            assert_eq!(restored, expected, "{size} {missing}");
            assert_eq!(device.recording().events().is_empty(), missing != 0);
        }
    }
}

#[test]
fn a_header_comes_back_out_of_its_copy_or_a_backup() {
    let (size, hash) = (SIZE + 51_200, Hash::Sha512);
    let device = created(size, "camellia", hash, Some(36_864));
    let keys = open(&device, "outer", &narrowed(hash)).expect("opens").header().to_bytes();
    let image = device.image();
    // The first 128 KiB are what VeraCrypt saves.
    let saved = FaultDevice::new(image[..131_072].to_vec());
    device.write_at(0, &[0; 131_072]).expect("writes");
    let none = KeyFiles::default();
    for (source, backup) in [(&device, true), (&saved, false)] {
        for (password, hidden) in [("outer", false), ("inner", true)] {
            let from = TcryptOptions { backup, hidden, ..narrowed(hash) };
            let opened = open(source, password, &from).expect("opens");
            opened.restore(&device, (&passphrase(password), &none), &mut OsRandom).expect("restores");
            for backup in [false, true] {
                assert!(
                    open(&device, password, &TcryptOptions { backup, hidden, ..narrowed(hash) }).is_some()
                );
            }
        }
        assert_eq!(*open(&device, "outer", &narrowed(hash)).expect("opens").header().to_bytes(), *keys);
        device.write_at(0, &[0; 131_072]).expect("writes");
        device.write_at(size as u64 - 131_072, &[0; 131_072]).expect("writes");
    }
    // Onto a device that its volume does not fit, nothing is written.
    let smaller = FaultDevice::zeroed(size - 131_072 - 512);
    let opened = open(&saved, "outer", &narrowed(hash)).expect("opens");
    let error = opened.restore(&smaller, (&passphrase("outer"), &none), &mut OsRandom).expect_err("refused");
    assert!(error.to_string().starts_with("by its header the volume has"), "{error}");
    assert!(smaller.recording().events().is_empty());
}

#[test]
fn headers_without_a_copy_are_not_changed() {
    let scratch = Scratch::new();
    let path = scratch.path("volume");
    fs::write(scratch.path("plain"), [7; 4096]).expect("a file");
    Tcrypt { place: "old", ..Tcrypt::default() }.make(&path, 4608, &scratch.path("plain"));
    let device = FileDevice::open(&path, Access::ReadWriteExclusive).expect("opens");
    let options = TcryptOptions {
        hash: Some("sha512".into()),
        family: Some(Family::TrueCrypt),
        ..TcryptOptions::default()
    };
    let opened = open(&device, "correct horse", &options).expect("opens");
    let (password, none) = (passphrase("changed"), KeyFiles::default());
    let new = NewPassword { pim: None, ..with(&password, &none, Hash::Sha512) };
    assert_eq!(opened.change_password(&device, &new, &mut OsRandom), Err(TcryptWriteError::NoCopy));
}
