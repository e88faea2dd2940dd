//! TrueCrypt and VeraCrypt volumes that libgcrypt has encrypted, opened in every way that they can be.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use atrest_device::BlockDevice;
use atrest_kdf::tcrypt::{Family, KeyFiles, TcryptKdfError};
use atrest_kdf::{KdfError, WorkLimit};
use atrest_open::{Error, Format, Key, OneKey, Options, Refused};
use atrest_secret::Passphrase;
use atrest_testkit::tcrypt::{CHAINS, Defect, Tcrypt};
use atrest_testkit::{Campaign, Random, Scratch};
use atrest_volume::UnlockError;
use atrest_volume::tcrypt::{LockedTcrypt, TcryptError, TcryptOptions};

const SIZE: usize = 262_144 + PLAIN;
const PLAIN: usize = 12 * 512;

const DEFECTS: Campaign = Campaign::new("headers of TrueCrypt with one defect", 300, 3000);

/// A directory with a plaintext in it.
struct Place {
    directory: Scratch,
    plain: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let directory = Scratch::new();
        let mut plain = vec![0; PLAIN];
        Random::new(20).fill(&mut plain);
        fs::write(directory.path("plain"), &plain).expect("a file");
        Self { directory, plain }
    }

    fn make(&self, volume: &Tcrypt) -> PathBuf {
        let path = self.directory.path("volume");
        volume.make(&path, SIZE, &self.directory.path("plain"));
        path
    }

    /// Opens the volume, for writing if it is to be written.
    fn open(&self, password: &[u8], options: &TcryptOptions, write: bool) -> Result<Vec<u8>, UnlockError> {
        let format = Format::Tcrypt { options: options.clone(), progress: None };
        let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(password)));
        let mut how = Options::default();
        how.write = write;
        let disk = match atrest_open::open(&self.directory.path("volume"), &format, &mut keys, &how) {
            Ok(disk) => disk,
            Err(Error::Unlock(Refused::Attempt(error))) => return Err(error),
            Err(other) => panic!("{other}"),
        };
        if write {
            let changed: Vec<u8> = self.plain.iter().map(|byte| !byte).collect();
            disk.write_at(0, &changed).expect("writes");
            disk.flush().expect("flushes");
        }
        let mut plain = vec![0; usize::try_from(disk.size()).expect("short")];
        disk.read_at(0, &mut plain).expect("reads");
        Ok(plain)
    }
}

impl Place {
    /// Writes the plaintext once more; the bytes of the volume then.
    fn rewritten(&self, options: &TcryptOptions) -> Vec<u8> {
        let format = Format::Tcrypt { options: options.clone(), progress: None };
        let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(b"correct horse")));
        let mut how = Options::default();
        how.write = true;
        let path = self.directory.path("volume");
        let disk = atrest_open::open(&path, &format, &mut keys, &how).expect("opens");
        disk.write_at(0, &self.plain).expect("writes");
        disk.flush().expect("flushes");
        drop(disk);
        fs::read(path).expect("reads")
    }
}

fn narrowed(hash: &str, cipher: &str) -> TcryptOptions {
    TcryptOptions { hash: Some(hash.into()), cipher: Some(cipher.into()), ..TcryptOptions::default() }
}

#[test]
fn each_cascade_and_derivation_opens_what_libgcrypt_encrypted() {
    let place = Place::new();
    for chain in CHAINS {
        place.make(&Tcrypt { chain, ..Tcrypt::default() });
        let opened = place.open(b"correct horse", &narrowed("sha512", ""), false);
        assert_eq!(opened.as_ref(), Ok(&place.plain), "{chain}");
    }
    for (hash, iterations) in [("ripemd160", 2000), ("whirlpool", 1000)] {
        place.make(&Tcrypt { hash, iterations, ..Tcrypt::default() });
        assert_eq!(
            place.open(b"correct horse", &narrowed(hash, "aes"), false).as_ref(),
            Ok(&place.plain),
            "{hash}"
        );
    }
    // With a PIM of 1 the derivations are short.
    for hash in ["sha512", "sha256", "ripemd160", "whirlpool", "stribog512", "blake2s-256"] {
        place.make(&Tcrypt { magic: "VERA", hash, iterations: 16_000, ..Tcrypt::default() });
        let options = TcryptOptions { pim: Some(1), ..narrowed(hash, "aes") };
        assert_eq!(place.open(b"correct horse", &options, false).as_ref(), Ok(&place.plain), "{hash}");
    }
}

/// Volumes of TrueCrypt before 4.1, and of 4.1 to 4.3a with ciphers of eight bytes. Their data begins behind the header, and ends where the device
/// does.
#[test]
fn each_chain_of_cbc_and_each_short_cipher_in_lrw_opens_what_libgcrypt_encrypted() {
    let chains = [
        "aes",
        "serpent",
        "twofish",
        "cast5",
        "des3_ede",
        "blowfish_le",
        "twofish-aes",
        "serpent-twofish-aes",
        "aes-serpent",
        "aes-twofish-serpent",
        "serpent-twofish",
        "blowfish_le-aes",
        "serpent-blowfish_le-aes",
    ];
    let cbc = chains.map(|chain| ("cbc", chain));
    let lrw = ["cast5", "des3_ede", "blowfish_le"].map(|chain| ("lrw", chain));
    let place = Place::new();
    for (mode, chain) in [&cbc[..], &lrw].concat() {
        let volume =
            Tcrypt { mode, hash: "sha1", iterations: 2000, chain, place: "old", ..Tcrypt::default() };
        let path = place.directory.path("volume");
        let _ = fs::remove_file(&path);
        volume.make(&path, 512 + PLAIN, &place.directory.path("plain"));
        let opened = place.open(b"correct horse", &narrowed("sha1", ""), false);
        assert_eq!(opened.as_ref(), Ok(&place.plain), "{chain} in {mode}");
        // What is written is what libgcrypt would have: the same bytes under the same keys.
        let before = fs::read(&path).expect("reads");
        let turned = place.open(b"correct horse", &narrowed("sha1", ""), true).expect("opens");
        assert!(turned.iter().zip(&place.plain).all(|(new, old)| *new == !old), "{chain} in {mode}");
        assert_ne!(fs::read(&path).expect("reads"), before, "{chain} in {mode}");
        let disk_again = place.rewritten(&narrowed("sha1", ""));
        assert_eq!(disk_again, before, "{chain} in {mode}");
    }
}

#[test]
fn nothing_has_to_be_said_of_a_volume_but_what_its_password_is_made_of() {
    let place = Place::new();
    place.make(&Tcrypt {
        magic: "VERA",
        iterations: 16_000,
        chain: "aes-twofish-serpent",
        ..Tcrypt::default()
    });
    let options = TcryptOptions { pim: Some(1), ..TcryptOptions::default() };
    assert_eq!(place.open(b"correct horse", &options, false).as_ref(), Ok(&place.plain));
    let refused = place.open(b"incorrect horse", &options, false);
    assert_eq!(refused, Err(TcryptError::NotOpened { tried: 6 }.into()));
    // Another PIM is another key.
    let other = TcryptOptions { pim: Some(2), ..narrowed("sha512", "") };
    assert_eq!(place.open(b"correct horse", &other, false), Err(TcryptError::NotOpened { tried: 1 }.into()));
    let family = TcryptOptions { family: Some(Family::TrueCrypt), ..TcryptOptions::default() };
    assert_eq!(place.open(b"correct horse", &family, false), Err(TcryptError::NotOpened { tried: 4 }.into()));
}

#[test]
fn key_files_hidden_volumes_and_backups_are_what_their_options_say() {
    let place = Place::new();
    let files: Vec<PathBuf> = ["one", "other"].map(|name| place.directory.path(name)).into();
    let mut mixed = KeyFiles::default();
    for (file, bytes) in files.iter().zip([&b"a key file"[..], &[0x5a; 5000]]) {
        fs::write(file, bytes).expect("a file");
        mixed.add(bytes);
    }
    for password in [&b""[..], b"short", &[b'x'; 100]] {
        let volume = Tcrypt {
            magic: "VERA",
            iterations: 16_000,
            password: password.into(),
            key_files: files.clone(),
            ..Tcrypt::default()
        };
        place.make(&volume);
        let options = TcryptOptions { pim: Some(1), key_files: mixed.clone(), ..narrowed("sha512", "aes") };
        assert_eq!(place.open(password, &options, false).as_ref(), Ok(&place.plain), "{password:?}");
        let without = TcryptOptions { key_files: KeyFiles::default(), ..options };
        assert!(place.open(password, &without, false).is_err());
    }
    // The outer volume is there, too, and stays.
    place.make(&Tcrypt { place: "hidden", password: b"hidden horse".to_vec(), ..Tcrypt::default() });
    let hidden = TcryptOptions { hidden: true, ..narrowed("sha512", "") };
    assert_eq!(place.open(b"hidden horse", &hidden, false).as_ref(), Ok(&place.plain));
    assert!(place.open(b"hidden horse", &narrowed("sha512", ""), false).is_err());
    place.make(&Tcrypt { place: "backup", ..Tcrypt::default() });
    let backup = TcryptOptions { backup: true, ..narrowed("sha512", "") };
    assert_eq!(place.open(b"correct horse", &backup, false).as_ref(), Ok(&place.plain));
}

/// The header is in front of the partitions, and data units are counted from the beginning of the drive.
#[test]
fn an_encrypted_system_opens_on_its_drive_and_on_a_partition_of_it() {
    const START: usize = 65_536;
    let place = Place::new();
    let drive =
        place.make(&Tcrypt { magic: "VERA", iterations: 16_000, place: "system", ..Tcrypt::default() });
    let options = TcryptOptions { pim: Some(1), system: true, ..narrowed("sha512", "aes") };
    assert_eq!(place.open(b"correct horse", &options, false).as_ref(), Ok(&place.plain));

    let partition = place.directory.path("partition");
    let open = |start: Option<u64>, write: bool| {
        let options = TcryptOptions { partition: start, ..options.clone() };
        let format = Format::Tcrypt { options, progress: None };
        let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(b"correct horse")));
        let mut how = Options::default();
        how.header = Some(&drive);
        how.write = write;
        let disk = match atrest_open::open(&partition, &format, &mut keys, &how) {
            Ok(disk) => disk,
            Err(Error::Unlock(Refused::Attempt(error))) => return Err(error.to_string()),
            Err(other) => panic!("{other}"),
        };
        let mut plain = vec![0; usize::try_from(disk.size()).expect("short")];
        disk.read_at(0, &mut plain).expect("reads");
        if write {
            disk.write_at(512, &plain[..512]).expect("writes");
            disk.flush().expect("flushes");
        }
        Ok(plain)
    };
    let whole = fs::read(&drive).expect("reads");
    let encrypted = &whole[START..][..PLAIN];
    // As long as the system: it is all of it, wherever it was cut out.
    fs::write(&partition, encrypted).expect("a file");
    assert_eq!(open(None, false).as_ref(), Ok(&place.plain));
    assert_eq!(open(Some(START as u64), false).as_ref(), Ok(&place.plain));
    // What is written is what the drive's own volume has there: its second unit now has the first one's data.
    open(None, true).expect("opens");
    let mut written = whole.clone();
    written[START..][..PLAIN].copy_from_slice(&fs::read(&partition).expect("reads"));
    fs::write(&drive, written).expect("a file");
    let seen = place.open(b"correct horse", &options, false).expect("opens");
    assert_eq!((&seen[512..1024], &seen[1024..]), (&place.plain[..512], &place.plain[1024..]));
    fs::write(&drive, &whole).expect("a file");

    // One of several partitions of a system that is the whole drive.
    fs::write(&partition, &encrypted[1024..4096]).expect("a file");
    assert_eq!(open(Some(START as u64 + 1024), false).as_deref(), Ok(&place.plain[1024..4096]));
    let outside = |start: Option<u64>| open(start, false).expect_err("refused");
    // Without its place it is taken for the drive, which it is too short for.
    let whole_drive = "by its header the volume has 6144 bytes from byte 65536 on, but the device has 3072";
    assert_eq!(outside(None), whole_drive);
    for start in [START as u64 - 512, (START + PLAIN - 2560) as u64, START as u64 + 1, u64::MAX - 511, 0] {
        let said = outside(Some(start));
        assert!(said.ends_with(&format!("of 3072 bytes from byte {start} on is no part of it")), "{said}");
    }
}

#[test]
fn what_is_written_is_there_and_only_there() {
    let place = Place::new();
    let path = place.make(&Tcrypt { chain: "serpent-twofish-aes", ..Tcrypt::default() });
    let before = fs::read(&path).expect("reads");
    let written = place.open(b"correct horse", &narrowed("sha512", ""), true).expect("opens");
    assert!(written.iter().zip(&place.plain).all(|(new, old)| *new == !old));
    assert_eq!(place.open(b"correct horse", &narrowed("sha512", ""), false), Ok(written));
    let after = fs::read(&path).expect("reads");
    assert_eq!(before[..131_072], after[..131_072]);
    assert_eq!(before[131_072 + PLAIN..], after[131_072 + PLAIN..]);
    assert_ne!(before, after);
}

#[test]
fn what_can_not_be_opened_is_refused_by_its_reason() {
    let place = Place::new();
    let sha512 = narrowed("sha512", "aes");
    let refused = |change: (usize, Vec<u8>)| {
        place.make(&Tcrypt { change: vec![change], ..Tcrypt::default() });
        place.open(b"correct horse", &sha512, false).expect_err("refused").to_string()
    };
    assert_eq!(refused((4, vec![0, 9])), "the password is right, but the header has the unknown version 9");
    assert!(refused((44, vec![0xff; 8])).starts_with("by its header the volume has 6144 bytes"));
    assert_eq!(refused((52, vec![0; 8])), "only 0 of the volume's 6144 bytes are encrypted so far");
    assert_eq!(refused((60, vec![0, 0, 0, 1])), "the volume is an encrypted system");
    let error =
        |password: &[u8], options: &TcryptOptions| place.open(password, options, false).expect_err("refused");
    assert_eq!(error(b"x", &narrowed("md5", "")), TcryptError::NothingToTry.into());
    assert_eq!(error(b"x", &narrowed("", "rot13")), TcryptError::NothingToTry.into());
    assert_eq!(error(b"x", &narrowed("argon2", "")), TcryptError::Argon2.into());
    let long = TcryptError::Kdf(TcryptKdfError::TooLong { len: 129, most: 128 });
    assert_eq!(error(&[b'x'; 129], &TcryptOptions { pim: Some(1), ..sha512.clone() }), long.into());
    let pim = TcryptOptions { pim: Some(u32::MAX), ..sha512.clone() };
    assert_eq!(error(b"x", &pim), TcryptError::Kdf(TcryptKdfError::Pim { pim: u32::MAX }).into());
    fs::write(place.directory.path("volume"), [7; 511]).expect("a file");
    assert_eq!(error(b"x", &sha512), TcryptError::TooSmall { has: 511 }.into());
}

#[test]
fn a_pim_that_would_take_for_ever_is_refused_before_it_is_spent() {
    let place = Place::new();
    place.make(&Tcrypt::default());
    let options = TcryptOptions { pim: Some(2_147_468), ..narrowed("sha512", "") };
    let limit = WorkLimit { time: core::time::Duration::from_secs(2), ..WorkLimit::default() };
    let device =
        atrest_engine::FileDevice::open(place.directory.path("volume"), atrest_engine::Access::ReadOnly)
            .expect("opens");
    let locked = LockedTcrypt::read(&device, &options).expect("a place for a header");
    let passphrase = Passphrase::copy_from(b"correct horse");
    let refused = limit.during(|| atrest_open::try_tcrypt(&locked, &passphrase, None)).expect_err("too much");
    assert!(matches!(refused, UnlockError::Kdf(KdfError::TooMuchWork { limit: 2, .. })), "{refused}");
}

/// How many derivations are to come is said before the first, also to a caller who then does not want them.
#[test]
fn the_number_of_derivations_is_told_before_one_is_made() {
    static TOLD: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    let told = |left, all| TOLD.lock().expect("one thread").push((left, all));
    let place = Place::new();
    let path = place.make(&Tcrypt::default());
    let device = atrest_engine::FileDevice::open(path, atrest_engine::Access::ReadOnly).expect("opens");
    let locked = LockedTcrypt::read(&device, &TcryptOptions::default()).expect("a place for a header");
    let passphrase = Passphrase::copy_from(b"incorrect horse");
    let given_up = WorkLimit { cancel: Some(Arc::new(AtomicBool::new(true))), ..WorkLimit::default() };
    let result = given_up.during(|| atrest_open::try_tcrypt(&locked, &passphrase, Some(told)));
    assert!(matches!(result, Err(UnlockError::Kdf(KdfError::Cancelled))), "{result:?}");
    assert_eq!(TOLD.lock().expect("one thread").first(), Some(&(10, 10)));
    TOLD.lock().expect("one thread").clear();
    // All of them, when somebody waits: each is taken off when it is done.
    let options = TcryptOptions { pim: Some(1), ..TcryptOptions::default() };
    let locked = LockedTcrypt::read(&device, &options).expect("a place for a header");
    atrest_open::try_tcrypt(&locked, &passphrase, Some(told)).expect_err("a wrong password");
    let all: Vec<(usize, usize)> = (0..=6).rev().map(|left| (left, 6)).collect();
    assert_eq!(*TOLD.lock().expect("one thread"), all);
    assert_eq!(locked.trials().len(), 6);
}

#[test]
fn three_hundred_headers_with_one_defect_show_the_same_or_are_refused_and_stay() {
    // In the decrypted header: the version, the first byte of data, and the keys. With others of them it is another volume, which the
    // checksums confirm.
    const ELSEWHERE: [core::ops::Range<usize>; 3] = [4..6, 44..52, 192..448];
    let place = Place::new();
    let (path, headers) = (place.directory.path("volume"), place.directory.path("headers"));
    let defect = |seed: u64| {
        let mut random = Random::new(seed);
        let decrypted = random.below(3) > 0;
        // Most of a header is keys and zeros: half of the defects are in its fields.
        let len = if decrypted { *random.pick(&[68, 448]) } else { 512 };
        let at = random.index(len);
        // A checksum that is put right has no defect.
        let decrypted = decrypted && ![8..12, 188..192].iter().any(|range| range.contains(&at));
        Defect { at, bit: random.below(8), decrypted }
    };
    let seeds: Vec<u64> = DEFECTS.seeds().collect();
    let defects: Vec<Defect> = seeds.iter().map(|seed| defect(*seed)).collect();
    Tcrypt::default().make_with_defects(&path, SIZE, &place.directory.path("plain"), &defects, &headers);
    let sound = fs::read(&path).expect("the volume");
    let stored = fs::read(&headers).expect("the headers");
    let (mut same, mut refusals, mut others) = (0, 0, 0);
    for ((defect, header), seed) in defects.iter().zip(stored.chunks(512)).zip(&seeds) {
        let mut bytes = sound.clone();
        bytes[..512].copy_from_slice(header);
        assert!(bytes != sound, "case {seed} has no defect");
        fs::write(&path, &bytes).expect("writes");
        let options = TcryptOptions { family: Some(Family::TrueCrypt), ..narrowed("sha512", "") };
        let format = Format::Tcrypt { options, progress: None };
        let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(b"correct horse")));
        let mut how = Options::default();
        how.write = true;
        match atrest_open::open(&path, &format, &mut keys, &how) {
            Ok(disk) => {
                let mut shown = vec![0; usize::try_from(disk.size()).expect("short")];
                disk.read_at(0, &mut shown).expect("reads");
                assert!(defect.decrypted, "case {seed}: {defect:?} opens");
                match shown == place.plain {
                    true => same += 1,
                    false => {
                        let elsewhere = ELSEWHERE.iter().any(|range| range.contains(&defect.at));
                        assert!(elsewhere, "case {seed}: {defect:?} shows something else");
                        others += 1;
                    }
                }
            }
            Err(Error::Unlock(Refused::Attempt(error))) => {
                let none = UnlockError::from(TcryptError::NotOpened { tried: 1 });
                assert!(defect.decrypted || error == none, "case {seed}: {defect:?}: {error}");
                refusals += 1;
            }
            Err(other) => panic!("case {seed}: {other}"),
        }
        assert!(fs::read(&path).expect("the volume") == bytes, "case {seed}: something was written");
    }
    println!(
        "{} headers: {same} show the same, {others} another place or key, {refusals} refused",
        defects.len()
    );
    assert!(!Campaign::is_sample() || (same > 10 && refusals > 100), "{same} {refusals}");
}
