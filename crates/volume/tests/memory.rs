//! What unlocking leaves in this process's memory: keys and expanded keys nowhere but in locked pages.
//!
//! A test program of its own, because it reads all its memory and other tests would leave their keys there.

use std::time::Duration;

use atrest_cipher::{BackendChoice, DataUnitIndex};
use atrest_secret::{OsRandom, Random, SecretBytes};
use atrest_testkit::FaultDevice;
use atrest_testkit::memory::{PIECE, found_outside, pieces, round_keys};
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use atrest_volume::{
    Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions, UnlockOptions, Volume,
    VolumeKey,
};

fn keyslot(kind: PbkdfKind) -> KeyslotOptions {
    let argon2 = kind != PbkdfKind::Pbkdf2;
    KeyslotOptions {
        pbkdf: PbkdfOptions {
            kind: Some(kind),
            time: Duration::from_millis(1),
            memory_kib: argon2.then_some(64),
            lanes: argon2.then_some(2),
            forced_iterations: Some(if argon2 { 4 } else { 1000 }),
            ..PbkdfOptions::default()
        },
        ..KeyslotOptions::default()
    }
}

fn options(key: &VolumeKey, kind: PbkdfKind) -> FormatOptions {
    FormatOptions {
        cipher: Some("aes-xts-plain64".parse().expect("a cipher")),
        key_len: Some(key.len()),
        volume_key: Some(VolumeKey::copy_from(key.expose())),
        keyslot: keyslot(kind),
        ..FormatOptions::default()
    }
}

/// Unlocks, uses the mapper, and looks for the key and the round keys.
fn check(name: &str, key: &VolumeKey, unlock: impl FnOnce(&Passphrase) -> Volume) {
    let passphrase = Passphrase::copy_from(b"correct horse battery staple");
    let volume = unlock(&passphrase);
    let mapper = volume.segments()[0].protection.mapper().expect("one cipher");
    let mut needles = pieces(key.expose());
    // The portable backend keeps every bit as a byte, which does not look random; what does in such a mapper is padding, with
    // bytes that were on the stack before, a salt perhaps.
    if mapper.backend_name() != "portable" {
        // The key is looked for in full, of the many round keys some.
        needles.extend(round_keys::<atrest_cipher::Mapper>(mapper).into_iter().take(24));
        assert!(needles.len() > key.len() / PIECE, "{name}: no round keys");
    }
    let found = found_outside(&needles);
    assert!(found.is_empty(), "{name}: unlocking left keys at {found:x?}");
    mapper.decrypt(DataUnitIndex(0), &mut [0; 64 << 10]).expect("whole units");
}

#[test]
fn keys_are_in_locked_memory_only() {
    // The search itself finds what is there.
    let mut there = vec![0; 64];
    OsRandom.fill(&mut there).expect("random");
    let at = there.as_ptr() as u64;
    let needles = [SecretBytes::copy_from(&there[7..7 + PIECE])];
    assert!(found_outside(&needles).contains(&(at + 7)), "the search finds nothing");

    for backend in [None, Some(BackendChoice::portable())] {
        let unlock = UnlockOptions { backend, ..UnlockOptions::default() };
        let key = || VolumeKey::generate(64, &mut OsRandom).expect("random");

        let (key1, device) = (key(), FaultDevice::zeroed(4 << 20));
        check("LUKS1", &key1, |passphrase| {
            let both = Devices::together(&device);
            luks1::format(both, passphrase, &options(&key1, PbkdfKind::Pbkdf2)).expect("formats");
            Luks1::read(&device).expect("a header").unlock(both, passphrase, &unlock).expect("unlocks")
        });

        for kind in [PbkdfKind::Pbkdf2, PbkdfKind::Argon2id] {
            let (key2, device) = (key(), FaultDevice::zeroed(20 << 20));
            check("LUKS2", &key2, |passphrase| {
                let both = Devices::together(&device);
                luks2::format(both, passphrase, &options(&key2, kind)).expect("formats");
                Luks2::read(&device).expect("a header").unlock(both, passphrase, &unlock).expect("unlocks")
            });
        }

        let (key3, device) = (key(), FaultDevice::zeroed(1 << 20));
        check("plain", &key3, |_| {
            let options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
            plain::open(&device, &options, PlainKey::KeyFile(key3.expose()), &unlock).expect("opens")
        });
    }
}
