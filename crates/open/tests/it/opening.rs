//! What cryptsetup made opens with its passphrase, its key file and its volume key, and with nothing else; what is in
//! the way, in use or no volume is told before anybody is asked for a key.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_device::BlockDevice as _;
use atrest_engine::Disk;
use atrest_engine::contents::Contents;
use atrest_open::{Error, Format, Held, Key, KeySource, NoOtherKey, OneKey, Options, Refused};
use atrest_probe::FilesystemKind;
use atrest_secret::Passphrase;
use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};
use atrest_testkit::{Random, Scratch};
use atrest_volume::plain::PlainOptions;
use atrest_volume::{OpenError, UnlockError, VolumeFormat, VolumeKey};

const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";

fn passphrase(text: &str) -> Key {
    Key::Passphrase(Passphrase::copy_from(text.as_bytes()))
}

fn opened(path: &Path, key: Key, options: &Options<'_>) -> Result<Disk, Error<NoOtherKey>> {
    atrest_open::open(path, &Format::ByHeader, &mut OneKey::new(key), options)
}

/// A volume that cryptsetup made.
fn volume(scratch: &Scratch, options: &str) -> PathBuf {
    let path = scratch.file("volume", vec![0; 20 << 20]);
    Cryptsetup::new(&path, &scratch.file("key", "correct horse")).format(&format!("{CHEAP} {options}"));
    path
}

#[test]
fn each_kind_of_key_opens_what_cryptsetup_made() {
    for (options, format) in [("--type luks1", VolumeFormat::Luks1), ("--type luks2", VolumeFormat::Luks2)] {
        let scratch = Scratch::new();
        let path = volume(&scratch, options);
        let uuid = cryptsetup("luksUUID").arg(&path).ok();
        let key_path = scratch.path("volume-key");
        cryptsetup("luksDump --dump-master-key --master-key-file")
            .arg(&key_path)
            .words("--key-file")
            .arg(scratch.path("key"))
            .arg(&path)
            .ok();
        let volume_key = Key::Volume(VolumeKey::copy_from(&fs::read(&key_path).expect("a key")));
        let file = Key::File(Passphrase::copy_from(&fs::read(scratch.path("key")).expect("a key")));
        for key in [passphrase("correct horse"), file, volume_key] {
            let disk = opened(&path, key, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(disk.uuid(), Some(String::from_utf8_lossy(&uuid.stdout).trim()));
            assert!(disk.is_read_only(), "nobody asked for writing");
        }
        let held = Held::open(&path, None, false).expect("free");
        assert_eq!(held.locked(&Format::ByHeader).expect("a header").format(), format);
        let wrong = opened(&path, passphrase("wrong"), &Options::default()).expect_err("wrong");
        assert!(matches!(wrong, Error::Unlock(Refused::Attempt(UnlockError::WrongPassphrase))), "{wrong}");
        let wrong = Key::Volume(VolumeKey::copy_from(&[7; 64]));
        let wrong = opened(&path, wrong, &Options::default()).expect_err("wrong");
        assert!(matches!(wrong, Error::Unlock(Refused::Attempt(UnlockError::WrongVolumeKey))), "{wrong}");
    }
}

#[test]
fn a_detached_header_is_used_and_kept_from_being_replaced() {
    let scratch = Scratch::new();
    let header = scratch.path("header");
    let path = volume(&scratch, &format!("--type luks2 --header {}", header.display()));
    let mut options = Options::default();
    assert!(matches!(
        opened(&path, passphrase("correct horse"), &options),
        Err(Error::Open(OpenError::NotLuks))
    ));
    (options.header, options.write) = (Some(header.as_path()), true);
    let disk = opened(&path, passphrase("correct horse"), &options).expect("opens");
    assert_eq!(disk.size(), 20 << 20);
    disk.write_at(512, &[7; 512]).expect("written");
    // Formatting would take the lock that the disk holds.
    let taken = Held::open(&header, None, true).expect_err("in use");
    assert!(taken.path == header && taken.error.is_busy(), "{taken}");
    drop(disk);
    Held::open(&header, None, true).expect("free again");
}

#[test]
fn a_volume_that_is_written_is_nobody_else_s() {
    let scratch = Scratch::new();
    let path = volume(&scratch, "--type luks1");
    let mut options = Options::default();
    let reader = opened(&path, passphrase("correct horse"), &options).expect("opens");
    let other = opened(&path, passphrase("correct horse"), &options).expect("readers share it");
    options.write = true;
    // In use comes before any question.
    let refused = atrest_open::open(&path, &Format::ByHeader, &mut Untouched, &options).expect_err("in use");
    assert!(matches!(refused, Error::Held(held) if held.error.is_busy()));
    drop((reader, other));
    opened(&path, passphrase("correct horse"), &options).expect("free again");
}

/// Fails if it is asked.
struct Untouched;

impl KeySource for Untouched {
    type Key = Key;
    type Error = NoOtherKey;

    fn next_key(&mut self) -> Result<Option<Key>, NoOtherKey> {
        panic!("nobody was to be asked");
    }

    fn wrong(&mut self, _: &dyn std::fmt::Display) {}
}

#[test]
fn nobody_is_asked_for_the_key_of_what_no_key_opens() {
    let scratch = Scratch::new();
    let path = scratch.file("noise", Random::new(1).bytes(1 << 20));
    let open = |format: &Format| atrest_open::open(&path, format, &mut Untouched, &Options::default());
    assert!(matches!(open(&Format::ByHeader), Err(Error::Open(OpenError::NotLuks))));
    let mut options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
    options.offset = 4096;
    let behind = open(&Format::Plain { options, hash: None }).expect_err("behind the end");
    assert!(matches!(behind, Error::Unlock(Refused::Attempt(UnlockError::Plain(_)))), "{behind}");
}

#[test]
fn what_a_plain_volume_would_be_written_over_is_named() {
    let scratch = Scratch::new();
    let mut image = vec![0; 1 << 20];
    image[..4].copy_from_slice(b"XFSB");
    let path = scratch.file("xfs", image);
    let held = Held::open(&path, None, false).expect("free");
    let options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
    let locked = held.locked(&Format::Plain { options, hash: None }).expect("no header is needed");
    assert_eq!(locked.in_the_way(), Ok(Some(Contents::Filesystem(FilesystemKind::Xfs))));
    // A passphrase without a hash makes no key, least of all a key of its own bytes.
    let no_hash = locked.try_key(&passphrase("secret"), &Default::default()).expect_err("no hash");
    assert_eq!(no_hash.to_string(), "a passphrase needs a hash that makes a key out of it");
    let path = volume(&scratch, "--type luks1");
    let held = Held::open(&path, None, false).expect("free");
    assert_eq!(held.locked(&Format::ByHeader).expect("a header").in_the_way(), Ok(None));
}
