//! Both directions with Debian's cryptsetup: what one formats or changes, the other opens.

use std::path::Path;

use atrest_testkit::Scratch;
use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatOptions, KeyslotOptions, PbkdfKind, Priority, RestoreOptions,
    UnlockError, UnlockOptions,
};

use crate::luks2::support::*;

/// Without a kernel's help cryptsetup opens AES only.
const AES: &[(&str, usize)] = &[
    ("aes-xts-plain64", 64),
    ("aes-xts-plain64", 32),
    ("aes-xts-plain", 64),
    ("aes-cbc-essiv:sha256", 32),
    ("aes-cbc-plain64", 16),
];

/// Other ciphers for the data, with keyslot areas in AES.
const OTHERS: &[(&str, usize)] = &[
    ("serpent-xts-plain64", 64),
    ("twofish-xts-plain64", 32),
    ("camellia-cbc-essiv:sha256", 32),
    ("aes-lrw-benbi", 48),
    ("aes-xts-plain64", 48),
];

/// Formats a file of ours and hands it to cryptsetup.
fn ours(directory: &Path, options: &FormatOptions) -> Cryptsetup {
    let device = atrest_testkit::FaultDevice::zeroed(DEVICE_SIZE.max(20 << 20));
    luks2::format(Devices::together(&device), &passphrase("one"), options).expect("formats");
    Cryptsetup::new(&save(&device, directory, "ours.img"), &key_file(directory, "one"))
}

fn theirs(directory: &Path, options: &str) -> std::path::PathBuf {
    let path = directory.join("theirs.img");
    std::fs::write(&path, vec![0; 20 << 20]).expect("a file");
    Cryptsetup::new(&path, &key_file(directory, "one")).format(&format!("--type luks2 {options}"));
    path
}

fn assert_we_open(path: &Path, text: &str, key: &[u8]) {
    let device = load(path);
    let luks = Luks2::read(&device).expect("reads");
    let (_, ours) = luks.volume_key(&device, &passphrase(text), None).expect("opens");
    assert_eq!(ours.expose(), key);
    luks.unlock(Devices::together(&device), &passphrase(text), &UnlockOptions::default()).expect("unlocks");
}

#[test]
fn cryptsetup_opens_every_cipher_that_we_format_and_finds_the_same_volume_key() {
    for (cipher, key_len) in AES.iter().chain(OTHERS) {
        let directory = Scratch::new();
        let mut options = FormatOptions { cipher: Some(spec(cipher)), key_len: Some(*key_len), ..small() };
        let own_area = AES.contains(&(cipher, *key_len));
        if !own_area {
            options.keyslot.area_cipher = Some(spec("aes-xts-plain64"));
        }
        let volume = ours(directory.as_path(), &options);
        volume.assert_opens();
        let key = volume.volume_key(directory.as_path());
        assert_we_open(&directory.path("ours.img"), "one", &key);
        let json = volume.json();
        assert_eq!(json["segments"]["0"]["encryption"], *cipher);
        assert_eq!(
            json["keyslots"]["0"]["area"]["encryption"],
            if own_area { *cipher } else { "aes-xts-plain64" }
        );
    }
}

#[test]
fn we_open_every_cipher_that_cryptsetup_formats() {
    for (cipher, key_len) in AES {
        let directory = Scratch::new();
        let bits = key_len * 8;
        let path = theirs(
            directory.as_path(),
            &format!("--cipher {cipher} --key-size {bits} --pbkdf pbkdf2 --pbkdf-force-iterations 1000"),
        );
        let volume = Cryptsetup::new(&path, &key_file(directory.as_path(), "one"));
        assert_we_open(&path, "one", &volume.volume_key(directory.as_path()));
    }
}

#[test]
fn both_agree_on_every_key_derivation_and_sector_size() {
    for (name, kind) in
        [("argon2id", PbkdfKind::Argon2id), ("argon2i", PbkdfKind::Argon2i), ("pbkdf2", PbkdfKind::Pbkdf2)]
    {
        for sector in [512, 1024, 2048, 4096] {
            let directory = Scratch::new();
            let pbkdf = if name == "pbkdf2" { cheap() } else { cheap_argon2(kind) };
            let keyslot = KeyslotOptions { pbkdf, ..KeyslotOptions::default() };
            ours(directory.as_path(), &FormatOptions { data_unit: Some(sector), keyslot, ..small() })
                .assert_opens();
            let cost = match name {
                "pbkdf2" => "--pbkdf-force-iterations 1000",
                _ => "--pbkdf-force-iterations 4 --pbkdf-memory 64 --pbkdf-parallel 2",
            };
            let path = theirs(directory.as_path(), &format!("--pbkdf {name} {cost} --sector-size {sector}"));
            let key =
                Cryptsetup::new(&path, &key_file(directory.as_path(), "one")).volume_key(directory.as_path());
            assert_we_open(&path, "one", &key);
        }
    }
}

#[test]
fn both_agree_on_every_hash() {
    for hash in
        ["sha1", "sha224", "sha256", "sha384", "sha512", "sha3-256", "ripemd160", "whirlpool", "blake2b-512"]
    {
        let directory = Scratch::new();
        let known = atrest_kdf::Hash::from_name(hash).expect("a hash");
        ours(directory.as_path(), &FormatOptions { hash: Some(known), ..small() }).assert_opens();
        let path = theirs(
            directory.as_path(),
            &format!("--hash {hash} --pbkdf pbkdf2 --pbkdf-force-iterations 1000"),
        );
        let key =
            Cryptsetup::new(&path, &key_file(directory.as_path(), "one")).volume_key(directory.as_path());
        assert_we_open(&path, "one", &key);
    }
}

#[test]
fn both_agree_on_every_metadata_and_keyslots_size() {
    for (metadata, keyslots) in
        [("16k", 0x4000), ("32k", 0x8000), ("64k", 0x1_0000), ("128k", 0x2_0000), ("256k", 0x4_0000)]
            .into_iter()
            .chain([("512k", 0x8_0000), ("1m", 0x10_0000), ("2m", 0x20_0000), ("4m", 0x40_0000)])
            .map(|size| (size, "1032192"))
    {
        let (name, bytes) = metadata;
        let directory = Scratch::new();
        let options = FormatOptions {
            metadata_size: Some(bytes),
            keyslots_size: Some(keyslots.parse().expect("a number")),
            ..small()
        };
        let volume = ours(directory.as_path(), &options);
        volume.assert_opens();
        let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
        let path = theirs(
            directory.as_path(),
            &format!("{cheap} --luks2-metadata-size {name} --luks2-keyslots-size {keyslots}"),
        );
        let key =
            Cryptsetup::new(&path, &key_file(directory.as_path(), "one")).volume_key(directory.as_path());
        assert_we_open(&path, "one", &key);
        // The layouts are the same, to the byte.
        let json = Cryptsetup::new(&path, Path::new("unused")).json();
        assert_eq!(volume.json()["segments"]["0"]["offset"], json["segments"]["0"]["offset"], "{name}");
        assert_eq!(volume.json()["config"], json["config"], "{name}");
    }
}

#[test]
fn a_default_volume_differs_from_cryptsetups_in_random_fields_only() {
    let directory = Scratch::new();
    let keyslot = keyslot();
    let volume = ours(directory.as_path(), &FormatOptions { keyslot, ..FormatOptions::default() });
    let path = theirs(directory.as_path(), "--pbkdf pbkdf2 --pbkdf-force-iterations 1000");
    let mut ours = volume.json();
    let mut theirs = Cryptsetup::new(&path, Path::new("unused")).json();
    for json in [&mut ours, &mut theirs] {
        json["keyslots"]["0"]["kdf"]["salt"].take();
        json["digests"]["0"]["salt"].take();
        json["digests"]["0"]["digest"].take();
    }
    assert_eq!(ours.to_string(), theirs.to_string());
    let raw = |path: &Path| {
        let area = &std::fs::read(path).expect("read")[4096..16384];
        let text =
            String::from_utf8(area.split(|byte| *byte == 0).next().expect("text").to_vec()).expect("UTF-8");
        // Names in their order, without values that are random.
        text.split('"').filter(|word| !word.ends_with('=')).collect::<Vec<_>>().join("\"")
    };
    assert_eq!(raw(&directory.path("ours.img")), raw(&path));
}

#[test]
fn keys_go_back_and_forth() {
    let directory = Scratch::new();
    let volume = ours(directory.as_path(), &small());
    let path = directory.path("ours.img");
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    // Theirs to ours.
    volume.add_key(&key_file(directory.as_path(), "two"), cheap);
    let device = load(&path);
    assert_eq!((opens(&device, "one"), opens(&device, "two")), (Some(0), Some(1)));
    // Ours to theirs: add, change, remove, priority, label, unbound.
    let mut luks = Luks2::read(&device).expect("reads");
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("three"), &in_slot(7))
        .expect("adds");
    luks.change_key(&device, &passphrase("two"), None, &passphrase("deux"), &keyslot()).expect("changes");
    luks.set_priority(&device, 7, Priority::Prefer).expect("sets");
    luks.set_label(&device, Some("my label"), Some("my subsystem")).expect("sets");
    luks.set_uuid(&device, "01234567-89ab-cdef-0123-456789abcdef").expect("sets");
    let unbound = atrest_volume::VolumeKey::copy_from(&[7; 32]);
    let slot = luks.add_unbound_key(&device, &unbound, &passphrase("unbound"), &keyslot()).expect("adds");
    luks.remove_key(&device, &one, false).expect("removes");
    save(&device, directory.as_path(), "ours.img");
    for (text, opens) in [("one", false), ("two", false), ("deux", true), ("three", true)] {
        let volume = Cryptsetup::new(&path, &key_file(directory.as_path(), text));
        if opens { volume.assert_opens() } else { volume.assert_refuses() }
    }
    let theirs = Cryptsetup::new(&path, &key_file(directory.as_path(), "unbound"));
    theirs.test(&format!("--key-slot {slot}")).expect_code(0);
    let dump = theirs.dump();
    for line in
        ["Label:         \tmy label", "Subsystem:     \tmy subsystem", "01234567-89ab-cdef-0123-456789abcdef"]
    {
        assert!(dump.contains(line), "{dump}");
    }
    assert!(dump.contains("Priority:   preferred"), "{dump}");
    assert!(dump.contains(": luks2 (unbound)"), "{dump}");
    // And back: cryptsetup removes, we agree.
    cryptsetup("luksKillSlot").arg(&path).arg("7").ok();
    assert_eq!(opens(&load(&path), "three"), None);
}

#[test]
fn a_prefer_slot_is_tried_first_and_an_ignored_one_only_by_number_in_both() {
    let (device, mut luks) = volume();
    let same = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&same, None), &same, &keyslot()).expect("adds");
    assert_eq!(opens(&device, "one"), Some(0));
    luks.set_priority(&device, 1, Priority::Prefer).expect("sets");
    assert_eq!(opens(&device, "one"), Some(1));
    luks.set_priority(&device, 1, Priority::Ignore).expect("sets");
    luks.kill_slot(&device, 0, true).expect("removes");
    assert_eq!(opens(&device, "one"), None);
    let by_number = UnlockOptions { slot: Some(1), ..UnlockOptions::default() };
    luks.unlock(Devices::together(&device), &same, &by_number).expect("opens by number");
    let directory = Scratch::new();
    let path = save(&device, directory.as_path(), "ignored.img");
    let theirs = Cryptsetup::new(&path, &key_file(directory.as_path(), "one"));
    assert!(!theirs.test("").is_ok());
    theirs.test("--key-slot 1").expect_code(0);
}

#[test]
fn header_backups_are_interchangeable() {
    let directory = Scratch::new();
    let volume = ours(directory.as_path(), &small());
    let path = directory.path("ours.img");
    let theirs = directory.path("theirs.backup");
    cryptsetup("luksHeaderBackup").arg(&path).arg("--header-backup-file").arg(&theirs).ok();
    let device = load(&path);
    let backup = luks2::header_backup(&device).expect("backs up");
    assert_eq!(backup, std::fs::read(&theirs).expect("read"));
    // We destroy and restore theirs.
    let mut luks = Luks2::read(&device).expect("reads");
    luks.erase(&device).expect("erases");
    assert_eq!(opens(&device, "one"), None);
    let backup = std::fs::read(&theirs).expect("read");
    luks2::header_restore(&device, &backup, RestoreOptions::default()).expect("restores");
    assert_eq!(opens(&device, "one"), Some(0));
    save(&device, directory.as_path(), "ours.img");
    volume.assert_opens();
    // They destroy and restore ours.
    let ours = directory.path("ours.backup");
    std::fs::write(&ours, luks2::header_backup(&device).expect("backs up")).expect("write");
    cryptsetup("luksErase").arg(&path).ok();
    volume.test("").expect_code(1);
    cryptsetup("luksHeaderRestore").arg(&path).arg("--header-backup-file").arg(&ours).ok();
    volume.assert_opens();
    assert_eq!(opens(&load(&path), "one"), Some(0));
}

#[test]
fn a_detached_header_works_in_both() {
    let directory = Scratch::new();
    let header = atrest_testkit::FaultDevice::zeroed(DEVICE_SIZE);
    let data = atrest_testkit::FaultDevice::zeroed(1 << 20);
    let devices = Devices::detached(&header, &data);
    let luks = luks2::format(devices, &passphrase("one"), &small()).expect("formats");
    let volume = luks.unlock(devices, &passphrase("one"), &UnlockOptions::default()).expect("unlocks");
    assert_eq!((volume.size(), volume.segments()[0].media_offset), (1 << 20, 0));
    assert_eq!(data.counts(), (0, 0), "the data device is left alone");
    let header = save(&header, directory.as_path(), "header.img");
    let data = save(&data, directory.as_path(), "data.img");
    let key = key_file(directory.as_path(), "one");
    let test =
        || cryptsetup("open --test-passphrase --header").arg(&header).arg("--key-file").arg(&key).arg(&data);
    test().ok();
    std::fs::remove_file(&header).expect("remove");
    cryptsetup("luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --header")
        .arg(&header)
        .arg(&data)
        .arg(&key)
        .ok();
    let (header, data) = (load(&header), load(&data));
    let luks = Luks2::read(&header).expect("reads");
    let devices = Devices::detached(&header, &data);
    let volume = luks.unlock(devices, &passphrase("one"), &UnlockOptions::default()).expect("unlocks");
    assert_eq!(volume.size(), 1 << 20);
}

#[test]
fn tokens_are_kept_byte_for_byte_through_changes_of_both() {
    let directory = Scratch::new();
    let (device, mut luks) = volume();
    let text = "{\"type\":\"acme\", \"keyslots\": [\"0\"],\"pi\":3.1400, \"big\":123456789012345678901234567890,\"s\":\"\\u00e9\\/\"}";
    assert_eq!(luks.import_token(&device, None, text).expect("imports"), 0);
    luks.import_token(&device, Some(5), "{\"type\":\"other\",\"keyslots\":[]}").expect("imports");
    luks.add_key(&device, Credential::Passphrase(&passphrase("one"), None), &passphrase("two"), &keyslot())
        .expect("adds");
    luks.kill_slot(&device, 1, false).expect("removes");
    assert_eq!(Luks2::read(&device).expect("reads").token(0).as_deref(), Some(text));
    let path = save(&device, directory.as_path(), "tokens.img");
    let json = cryptsetup("token export --token-id 5").arg(&path).ok().json();
    assert_eq!(json["type"], "other");
    cryptsetup("token remove --token-id 5").arg(&path).ok();
    let token = directory.path("token.json");
    std::fs::write(&token, "{\"type\":\"third\",\"keyslots\":[\"0\"],\"x\":{\"y\":[1,2]}}").expect("write");
    cryptsetup("token import --token-id 3 --json-file").arg(&token).arg(&path).ok();
    let luks = Luks2::read(&load(&path)).expect("reads");
    assert_eq!(
        luks.token(3).as_deref(),
        Some("{\"type\":\"third\",\"keyslots\":[\"0\"],\"x\":{\"y\":[1,2]}}")
    );
    assert_eq!(luks.tokens().iter().map(|token| token.id).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn cryptsetup_repairs_and_reads_what_we_repaired() {
    let directory = Scratch::new();
    for damaged in [0_usize, 0x4000] {
        let (device, mut luks) = volume();
        atrest_device::BlockDevice::write_at(&device, damaged as u64 + 5000, b"damage").expect("writes");
        luks.repair(&device).expect("repairs");
        let path = save(&device, directory.as_path(), "repaired.img");
        let before = std::fs::read(&path).expect("read");
        Cryptsetup::new(&path, &key_file(directory.as_path(), "one")).assert_opens();
        assert_eq!(before, std::fs::read(&path).expect("read"), "cryptsetup had nothing to repair");
    }
}

#[test]
fn an_interrupted_reencryption_is_described_but_neither_unlocked_nor_changed() {
    let directory = Scratch::new();
    let key = key_file(directory.as_path(), "one");
    let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let changing = theirs(directory.as_path(), cost);
    let encrypting = directory.path("encrypting.header");
    let plain = directory.path("plain.img");
    std::fs::write(&plain, vec![0; 1 << 20]).expect("a file");
    let start = || cryptsetup("reencrypt --init-only").words(cost).arg("--key-file").arg(&key);
    start().arg(&changing).ok();
    start().arg("--encrypt").arg("--header").arg(&encrypting).arg(&plain).ok();
    for path in [changing, encrypting.clone()] {
        let device = load(&path);
        let mut luks = Luks2::read(&device).expect("reads");
        let info = luks.info();
        assert_eq!(info.requirements, ["online-reencrypt-v2"]);
        assert!(info.keyslots.iter().any(|keyslot| keyslot.kind == "reencrypt"));
        let one = passphrase("one");
        let unlocked = luks.unlock(Devices::together(&device), &one, &UnlockOptions::default());
        match path == encrypting {
            // Its data is elsewhere.
            true => drop(unlocked.expect_err("refused")),
            false => drop(unlocked.expect("as it is at present")),
        }
        let changed = luks.add_key(&device, Credential::Passphrase(&one, None), &one, &keyslot());
        assert_eq!(changed, Err(ChangeError::Unlock(UnlockError::ReencryptionInProgress)));
        assert_eq!(luks.erase(&device), Err(ChangeError::Unlock(UnlockError::ReencryptionInProgress)));
        assert_eq!(device.counts(), (0, 0));
    }
}

#[test]
fn wrong_passphrases_are_told_from_missing_keyslots() {
    let (device, luks) = volume();
    let devices = Devices::together(&device);
    let unlock = |text: &str, slot| {
        luks.unlock(devices, &passphrase(text), &UnlockOptions { slot, ..UnlockOptions::default() })
    };
    assert_eq!(unlock("wrong", None).expect_err("refused"), UnlockError::WrongPassphrase);
    assert_eq!(unlock("one", Some(3)).expect_err("refused"), UnlockError::NoSuchKeyslot { slot: 3 });
}

#[test]
fn a_label_in_no_encoding_of_ours_is_opened_and_kept() {
    use std::os::unix::ffi::OsStrExt;
    let directory = Scratch::new();
    let path = theirs(directory.as_path(), "--pbkdf pbkdf2 --pbkdf-force-iterations 1000");
    let label = std::ffi::OsStr::from_bytes(b"l\xff");
    cryptsetup("config --label").arg(label).arg(&path).ok();
    let device = load(&path);
    let mut luks = Luks2::read(&device).expect("reads");
    assert_eq!(luks.label(), "l\\xff");
    luks.volume_key(&device, &passphrase("one"), None).expect("opens");
    luks.set_label(&device, None, Some("kept")).expect("sets");
    for copy in [0, 0x4000] {
        assert_eq!(device.image()[copy + 24..copy + 27], *b"l\xff\0");
    }
}
