//! TrueCrypt volumes of tcplay, opened here; and headers that are written here, opened by tcplay. What the data is libgcrypt says.

use std::fs;

use atrest_device::BlockDevice;
use atrest_engine::{Access, FileDevice};
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::{Family, KeyFiles};
use atrest_open::{Format, Key, OneKey, Options};
use atrest_secret::{OsRandom, Passphrase};
use atrest_testkit::tcplay::Tcplay;
use atrest_testkit::tcrypt::Tcrypt;
use atrest_testkit::{Campaign, Random, Scratch};
use atrest_volume::tcrypt::{LockedTcrypt, NewPassword, TcryptOptions};

const SIZE: usize = 1 << 20;

/// All chains of tcplay, in its words and in ours.
const CHAINS: [(&str, &str); 8] = [
    ("AES-256-XTS", "aes"),
    ("TWOFISH-256-XTS", "twofish"),
    ("SERPENT-256-XTS", "serpent"),
    ("AES-256-XTS,TWOFISH-256-XTS,SERPENT-256-XTS", "aes-twofish-serpent"),
    ("SERPENT-256-XTS,TWOFISH-256-XTS,AES-256-XTS", "serpent-twofish-aes"),
    ("TWOFISH-256-XTS,AES-256-XTS", "twofish-aes"),
    ("AES-256-XTS,SERPENT-256-XTS", "aes-serpent"),
    ("SERPENT-256-XTS,TWOFISH-256-XTS", "serpent-twofish"),
];
/// All its hashes, with their iterations.
const HASHES: [(&str, Hash, u32); 3] = [
    ("RIPEMD160", Hash::Ripemd160, 2000),
    ("SHA512", Hash::Sha512, 1000),
    ("whirlpool", Hash::Whirlpool, 1000),
];

#[test]
fn each_cascade_and_hash_of_tcplay_opens_here_and_what_is_changed_here_opens_there() {
    let mut cases = Vec::new();
    for chain in CHAINS {
        for hash in 0..HASHES.len() {
            cases.push((chain, HASHES[hash], HASHES[(hash + 1) % HASHES.len()]));
        }
    }
    let chosen = Campaign::matrix("volumes of tcplay", 1).chosen(&cases);
    for (chain, hash, other) in &chosen {
        both_ways(*chain, *hash, *other);
    }
    println!("tcplay: {} volumes open here, and there with the password that was set here", chosen.len());
}

/// A volume with this cascade and hash, whose password is changed here to another one with the other hash.
fn both_ways((theirs, chain): (&str, &'static str), made: (&str, Hash, u32), changed: (&str, Hash, u32)) {
    let scratch = Scratch::new();
    let path = scratch.path("volume");
    fs::write(&path, Random::new(7).bytes(SIZE)).expect("a file");
    let tcplay = Tcplay::attach(&path);
    tcplay.make("correct horse", made.0, theirs);
    let judge = |password: &str, (_, hash, iterations): (&str, Hash, u32), place| {
        let password = password.as_bytes().to_vec();
        Tcrypt { hash: hash.name(), iterations, chain, password, place, ..Tcrypt::default() }.read(&path)
    };

    // Nothing is narrowed but the program: the header says the rest.
    let options = TcryptOptions { family: Some(Family::TrueCrypt), ..TcryptOptions::default() };
    let format = Format::Tcrypt { options: options.clone(), progress: None };
    let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(b"correct horse")));
    let mut how = Options::default();
    how.write = true;
    let disk = atrest_open::open(&path, &format, &mut keys, &how).expect(theirs);
    let mut plain = vec![0; usize::try_from(disk.size()).expect("short")];
    disk.read_at(0, &mut plain).expect("reads");
    assert_eq!(plain.len(), SIZE - 262_144);
    assert!(judge("correct horse", made, "normal").plain == plain, "{theirs} {}", made.0);
    Random::new(8).fill(&mut plain);
    disk.write_at(0, &plain).expect("writes");
    disk.flush().expect("flushes");
    drop(disk);

    let device = FileDevice::open(&path, Access::ReadWrite).expect("opens");
    let locked = LockedTcrypt::read(&device, &options).expect("a place for a header");
    let opened =
        atrest_open::try_tcrypt(&locked, &Passphrase::copy_from(b"correct horse"), None).expect(theirs);
    assert_eq!(opened.chain().name(), chain);
    let (passphrase, key_files) = (Passphrase::copy_from(b"battery staple"), KeyFiles::default());
    let new = NewPassword { passphrase: &passphrase, key_files: &key_files, pim: None, hash: changed.1 };
    opened.change_password(&device, &new, &mut OsRandom).expect("changes");
    drop(device);
    for (words, place) in [("", "normal"), ("--use-backup", "backup")] {
        let told = tcplay.info("battery staple", words).expect(theirs);
        let line = |name: &str| {
            let found = told.lines().find_map(|line| line.strip_prefix(name));
            found.map(|value| value.trim().to_owned())
        };
        assert_eq!(line("PBKDF2 PRF:").as_deref(), Some(changed.0), "{told}");
        assert_eq!(line("Cipher:").as_deref(), Some(theirs), "{told}");
        assert_eq!(line("Volume size:"), Some(format!("{} sectors", plain.len() / 512)), "{told}");
        assert!(tcplay.info("correct horse", words).is_none());
        assert!(judge("battery staple", changed, place).plain == plain, "{theirs} {}", made.0);
    }
}
