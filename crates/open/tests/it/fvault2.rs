//! FileVault 2 volumes that libgcrypt has encrypted. cryptsetup judges their headers.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use atrest_device::BlockDevice;
use atrest_engine::Disk;
use atrest_format::fvault2::{BlockError, ContextError};
use atrest_open::{Error, Format, Key, OneKey, Options, Refused};
use atrest_secret::Passphrase;
use atrest_testkit::fvault2::FileVault;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};
use atrest_volume::fvault2::{FileVaultError, LockedFileVault};
use atrest_volume::{UnlockError, VolumeKey};

const PLAIN: usize = 16 * 4096;
const DEFECTS: Campaign = Campaign::new("headers of FileVault with one defect", 300, 3000);

struct Place {
    directory: Scratch,
    plain: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let directory = Scratch::new();
        let plain = Random::new(21).bytes(PLAIN);
        fs::write(directory.path("plain"), &plain).expect("a file");
        Self { directory, plain }
    }

    fn path(&self) -> PathBuf {
        self.directory.path("volume")
    }

    fn make(&self, volume: &FileVault) {
        volume.make(&self.path(), &self.directory.path("plain"));
    }

    fn open(&self, key: Key, format: &Format) -> Result<Disk, UnlockError> {
        let mut options = Options::default();
        options.write = true;
        match atrest_open::open(&self.path(), format, &mut OneKey::new(key), &options) {
            Ok(disk) => Ok(disk),
            Err(Error::Unlock(Refused::Attempt(error))) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    fn shown(&self, password: &str) -> Vec<u8> {
        all_of(&self.open(key(password), &Format::ByHeader).expect(password))
    }

    fn refused(&self, password: &str) -> FileVaultError {
        match self.open(key(password), &Format::FileVault) {
            Err(UnlockError::FileVault(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn key(password: &str) -> Key {
    Key::Passphrase(Passphrase::copy_from(password.as_bytes()))
}

fn all_of(disk: &Disk) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(disk.size()).expect("short")];
    disk.read_at(0, &mut bytes).expect("reads");
    bytes
}

#[test]
fn each_password_opens_what_libgcrypt_encrypted_and_cryptsetup_says_the_same() {
    let place = Place::new();
    let passwords = vec!["correct horse", "ABCD-EFGH-IJKL-MNOP-QRST-UVWX"];
    place.make(&FileVault { passwords: passwords.clone(), ..FileVault::default() });
    for password in passwords {
        assert!(place.shown(password) == place.plain, "{password}");
    }
    assert_eq!(place.refused("incorrect horse"), FileVaultError::NotOpened { users: 2 });
    // cryptsetup knows the first user alone.
    fs::write(place.directory.path("secret"), "correct horse").expect("a file");
    let test = ["open", "--type=fvault2", "--test-passphrase", "--key-file"];
    Program::named("cryptsetup").args(test).arg(place.directory.path("secret")).arg(place.path()).ok();
    let held = atrest_open::Held::open(&place.path(), None, false).expect("a file");
    let locked = LockedFileVault::read(held.header()).expect("metadata");
    let opened = locked.unlock(&Passphrase::copy_from(b"correct horse"), None).expect("opens");
    drop(held);
    let hex: String = opened.expose().iter().map(|byte| format!("{byte:02x} ")).collect();
    let dump = ["fvault2Dump", "-q", "--dump-volume-key", "--key-file"];
    let told = Program::named("cryptsetup").args(dump).arg(place.directory.path("secret")).arg(place.path());
    let told = told.ok().text();
    assert!(told.contains(&hex) && told.contains("offset:\t262144 [bytes]"), "{told}");
    let by_key = place.open(Key::Volume(VolumeKey::copy_from(opened.expose())), &Format::FileVault);
    let by_key = by_key.expect("its key");
    assert!(all_of(&by_key) == place.plain);
    // No file system shows that it is the right one.
    assert!(by_key.is_read_only());
    drop(by_key);
    let mut plain = place.plain.clone();
    plain[1024..1028].copy_from_slice(b"H+\0\x04");
    fs::write(place.directory.path("plain"), &plain).expect("a file");
    place.make(&FileVault::default());
    let by_key = place.open(Key::Volume(VolumeKey::copy_from(opened.expose())), &Format::FileVault);
    assert!(!by_key.expect("its key").is_read_only());
    let short = place.open(Key::Volume(VolumeKey::copy_from(&[1; 16])), &Format::FileVault);
    assert_eq!(short.expect_err("short"), FileVaultError::KeyLen { has: 16 }.into());
}

#[test]
fn a_volume_in_several_pieces_is_put_together_and_written() {
    let place = Place::new();
    let extents = vec![(10, 6, 100, 0), (0, 4, 80, 0), (4, 6, 64, 0)];
    place.make(&FileVault { extents, referred: true, status: "", ..FileVault::default() });
    let before = fs::read(place.path()).expect("the volume");
    let disk = place.open(key("correct horse"), &Format::ByHeader).expect("opens");
    assert!(all_of(&disk) == place.plain);
    let mut expected = place.plain.clone();
    let data = Random::new(5).bytes(9000);
    disk.write_at(3 * 4096 + 100, &data).expect("writes");
    expected[3 * 4096 + 100..][..9000].copy_from_slice(&data);
    disk.flush().expect("flushes");
    drop(disk);
    assert!(place.shown("correct horse") == expected);
    let after = fs::read(place.path()).expect("the volume");
    assert!(before[..64 * 4096] == after[..64 * 4096]);
}

#[test]
fn what_can_not_be_opened_is_refused_by_its_reason() {
    let place = Place::new();
    let refused = |volume: FileVault| {
        place.make(&volume);
        place.refused("correct horse")
    };
    let of = || FileVault::default();
    let converting = refused(FileVault { status: "Converting", ..of() });
    assert_eq!(converting, FileVaultError::Conversion("Converting".into()));
    let packed = refused(FileVault { packed: 7, ..of() });
    assert_eq!(packed, FileVaultError::Block(BlockError::Context(ContextError::Compressed)));
    for extents in [
        vec![(0, 16, 64, 1)],
        vec![(0, 8, 64, 0)],
        vec![(0, 8, 64, 0), (9, 8, 80, 0)],
        vec![(0, 16, 120, 0)],
        // Over metadata, and twice over the same place.
        vec![(0, 16, 30, 0)],
        vec![(0, 8, 64, 0), (8, 8, 70, 0)],
        vec![],
    ] {
        assert_eq!(refused(FileVault { extents, ..of() }), FileVaultError::Extents);
    }
    assert_eq!(refused(FileVault { second: true, ..of() }), FileVaultError::Several("logical volume"));
    let none = refused(FileVault { passwords: vec![], ..of() });
    assert!(matches!(none, FileVaultError::Block(BlockError::Context(ContextError::Value(_)))), "{none:?}");
}

#[test]
fn keys_in_a_file_of_the_recovery_partition_open_the_volume() {
    let place = Place::new();
    let file = place.directory.path("EncryptedRoot.plist.wipekey");
    let with = |password: &str, file: &Path| {
        let mut options = Options::default();
        options.header = Some(file);
        match atrest_open::open(&place.path(), &Format::FileVault, &mut OneKey::new(key(password)), &options)
        {
            Ok(disk) => Ok(disk),
            Err(Error::Unlock(Refused::Attempt(UnlockError::FileVault(error)))) => Err(error),
            Err(other) => panic!("{other}"),
        }
    };
    // Of whole blocks, and with one that is none at its end.
    for packed in [16, 17] {
        place.make(&FileVault { wipekey: Some(file.clone()), packed, ..FileVault::default() });
        assert_eq!(place.refused("correct horse"), FileVaultError::Missing("keys"));
        assert!(all_of(&with("correct horse", &file).expect("its keys")) == place.plain, "{packed}");
        assert_eq!(with("wrong", &file).expect_err("wrong"), FileVaultError::NotOpened { users: 1 });
        // libfvde decrypts the same file to the same list.
        let header = fs::read(place.path()).expect("the volume");
        let metadata_key: String = header[176..192].iter().map(|byte| format!("{byte:02x}")).collect();
        let told = Program::named("fvdewipekey").arg(&file).arg(metadata_key).ok().text();
        assert!(told.contains("PassphraseWrappedKEKStruct"), "{told}");
    }
    for damaged in [&b"short"[..], &[0; 4096]] {
        let other = place.directory.path("other");
        fs::write(&other, damaged).expect("a file");
        assert_eq!(with("correct horse", &other).expect_err("no keys"), FileVaultError::KeyFile);
    }
}

#[test]
fn three_hundred_headers_with_one_defect_show_the_same_or_are_refused_and_stay() {
    let place = Place::new();
    place.make(&FileVault::default());
    let sound = fs::read(place.path()).expect("the volume");
    let (same, refusals) = (Cell::new(0), Cell::new(0));
    DEFECTS.run(|_, random| {
        let mut bytes = sound.clone();
        // The header, the label with what is behind it, and the first blocks of the encrypted metadata, whose checksums are right.
        let (start, len) = *random.pick(&[(0, 512), (4096, 8192 + 40), (8 * 4096, 5 * 8192)]);
        let at = start + random.index(len);
        bytes[at] ^= 1 << random.below(8);
        if start < 8 * 4096 && random.below(2) == 0 {
            with_checksum(&mut bytes[start..][..if start == 0 { 512 } else { 8192 }]);
        }
        fs::write(place.path(), &bytes).expect("writes");
        match place.open(key("correct horse"), &Format::FileVault) {
            Ok(disk) => {
                assert!(all_of(&disk) == place.plain);
                same.set(same.get() + 1);
            }
            Err(_) => refusals.set(refusals.get() + 1),
        }
        assert!(fs::read(place.path()).expect("the volume") == bytes, "something was written");
    });
    let (same, refusals) = (same.get(), refusals.get());
    assert!(!Campaign::is_sample() || (same > 10 && refusals > 30), "{same} {refusals}");
}

/// Puts the CRC-32C in front right.
fn with_checksum(bytes: &mut [u8]) {
    let mut crc = !0_u32;
    for byte in &bytes[8..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}
