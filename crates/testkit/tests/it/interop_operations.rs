//! Operations on whole headers, and what a header carries besides keyslots: backups, erasing, tokens, labels, priorities,
//! unbound keyslots, detached headers, key files. Each is done by one program and judged by the other.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::Scratch;
use atrest_testkit::atrest::{FAST_ARGON2ID, FAST_PBKDF2, VolumeFile, atrest, write_key};
use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};

fn directory() -> Scratch {
    Scratch::new()
}

/// Both versions of LUKS, each formatted by us.
fn each_version(test: impl Fn(&Path, &VolumeFile)) {
    for options in [format!("--type luks1 {FAST_PBKDF2}"), format!("--type luks2 {FAST_ARGON2ID}")] {
        let directory = directory();
        let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", &options);
        test(directory.as_path(), &volume);
    }
}

fn theirs(volume: &VolumeFile) -> Cryptsetup {
    Cryptsetup::new(&volume.path, &volume.key)
}

#[test]
fn a_backup_by_cryptsetup_is_restored_by_us_and_the_reverse() {
    each_version(|directory, volume| {
        let [by_them, by_us] = ["by-them", "by-us"].map(|name| directory.join(name));
        cryptsetup("luksHeaderBackup --header-backup-file").arg(&by_them).arg(&volume.path).ok();
        atrest("header backup").arg(&volume.path).arg(&by_us).ok();
        assert!(
            fs::read(&by_them).expect("their backup") == fs::read(&by_us).expect("our backup"),
            "the two backups of one header differ"
        );
        for (name, ours_restores) in [("lost-1", true), ("lost-2", false)] {
            let lost = write_key(directory, name, name.as_bytes());
            volume.program("key add", FAST_PBKDF2).arg("--new-key-file").arg(&lost).ok();
            assert!(volume.opens_with(&lost));
            if ours_restores {
                atrest("header restore --yes").arg(&volume.path).arg(&by_them).ok();
            } else {
                cryptsetup("luksHeaderRestore --header-backup-file").arg(&by_us).arg(&volume.path).ok();
            }
            assert!(!volume.opens_with(&lost) && volume.opens_with(&volume.key), "after the restore");
            theirs(volume).assert_opens();
            Cryptsetup::new(&volume.path, &lost).assert_refuses();
        }
    });
}

#[test]
fn what_one_program_erased_the_other_cannot_open() {
    each_version(|directory, volume| {
        let copy = VolumeFile { path: directory.join("copy.img"), key: volume.key.clone() };
        fs::copy(&volume.path, &copy.path).expect("copy the volume");
        atrest("erase --yes").arg(&volume.path).ok();
        theirs(volume).test("").expect_code(1); // cryptsetup: no usable keyslot
        cryptsetup("luksErase").arg(&copy.path).ok();
        let refused = copy.run("key test", "");
        assert!(!refused.is_ok(), "an erased volume opens");
        assert!(!refused.messages().contains("panicked"), "{}", refused.messages());
    });
}

#[test]
fn tokens_survive_every_operation_of_ours() {
    let directory = directory();
    let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", FAST_PBKDF2);
    let token = r#"{"type":"example-of-a-test","keyslots":["0"],"number":18446744073709551615,"nested":{"b":[1,2.50,null],"a":"\u00e4\/"}}"#;
    cryptsetup("token import --token-id 3").arg(&volume.path).stdin(token).ok();
    cryptsetup("token add --token-id 5 --key-description atrest:test").arg(&volume.path).ok();
    let before = theirs(&volume).json()["tokens"].clone();
    assert_eq!(before.as_object().map(serde_json::Map::len), Some(2));

    let new = write_key(directory.as_path(), "new", b"new");
    volume.program("key add", FAST_PBKDF2).arg("--new-key-file").arg(&new).ok();
    assert_eq!(theirs(&volume).json()["tokens"], before, "after key add");
    volume
        .program("key change", FAST_PBKDF2)
        .arg("--new-key-file")
        .arg(&new)
        .arg("--key-slot")
        .arg("0")
        .run();
    let exported = cryptsetup("token export --token-id 3").arg(&volume.path).ok().json();
    assert_eq!(exported["number"], serde_json::json!(18_446_744_073_709_551_615u64));
    assert_eq!(exported["nested"], before["3"]["nested"]);
    atrest("header set --label after").arg(&volume.path).ok();
    let after = theirs(&volume).json()["tokens"].clone();
    for id in ["3", "5"] {
        assert_eq!(after[id]["type"], before[id]["type"], "token {id}");
    }
    // Ours reads what theirs wrote, and theirs what ours wrote.
    let ours: serde_json::Value = atrest("token export").arg(&volume.path).arg("3").ok().json();
    assert_eq!(ours["nested"], before["3"]["nested"]);
}

#[test]
fn label_subsystem_and_uuid_are_seen_by_both() {
    let directory = directory();
    let uuid = "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11";
    let options = format!("{FAST_PBKDF2} --label backups --subsystem nas --uuid {uuid}");
    let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", &options);
    let dump = theirs(&volume).dump();
    for expected in ["backups", "nas", uuid] {
        assert!(dump.contains(expected), "no {expected} in\n{dump}");
    }
    cryptsetup("config --label archive --subsystem tape").arg(&volume.path).ok();
    let info = atrest("info").arg(&volume.path).ok().text();
    assert!(info.contains("archive") && info.contains("tape"), "{info}");
    atrest("header set --uuid 00000000-1111-2222-3333-444444444444").arg(&volume.path).ok();
    let reported = cryptsetup("luksUUID").arg(&volume.path).ok().text();
    assert_eq!(reported.trim(), "00000000-1111-2222-3333-444444444444");
}

#[test]
fn priorities_and_unbound_keyslots_mean_the_same_to_both() {
    let directory = directory();
    let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", FAST_PBKDF2);
    let second = write_key(directory.as_path(), "second", b"second");
    let unbound = write_key(directory.as_path(), "unbound", b"unbound");
    volume.program("key add", FAST_PBKDF2).words("--new-key-slot 4 --new-key-file").arg(&second).ok();
    atrest("key priority").arg(&volume.path).words("4 ignore").ok();
    assert_eq!(theirs(&volume).json()["keyslots"]["4"]["priority"], 0);
    assert!(!volume.opens_with(&second), "an ignored keyslot is tried only when it is named");
    Cryptsetup::new(&volume.path, &second).test("").expect_code(2);
    Cryptsetup::new(&volume.path, &second).test("--key-slot 4").expect_code(0);
    atrest("key test --key-slot 4 --key-file").arg(&second).arg(&volume.path).ok();
    cryptsetup("config --key-slot 4 --priority prefer").arg(&volume.path).ok();
    assert!(volume.opens_with(&second), "a keyslot that cryptsetup prefers");

    atrest("key add --unbound --key-size 256 --new-key-slot 7")
        .words(FAST_PBKDF2)
        .arg("--new-key-file")
        .arg(&unbound)
        .arg(&volume.path)
        .ok();
    let json = theirs(&volume).json();
    assert_eq!(json["keyslots"]["7"]["key_size"], 32);
    assert!(theirs(&volume).dump().contains("unbound"));
    cryptsetup("luksAddKey --unbound --key-size 512 --key-slot 8")
        .words(FAST_PBKDF2)
        .arg(&volume.path)
        .arg(&second)
        .ok();
    let info = atrest("info").arg(&volume.path).ok().text();
    assert!(info.to_lowercase().contains("unbound"), "{info}");
    // An unbound keyslot opens itself and never the data.
    cryptsetup("open --test-passphrase --unbound --key-slot 7 --key-file")
        .arg(&unbound)
        .arg(&volume.path)
        .ok();
    let refused = atrest("decrypt --key-slot 7 --key-file")
        .arg(&unbound)
        .arg(&volume.path)
        .arg(directory.path("out"))
        .run();
    assert!(!refused.is_ok(), "an unbound key decrypted the data");
}

#[test]
fn detached_headers_of_both_are_opened_by_both() {
    for version in ["luks1", "luks2"] {
        let directory = directory();
        let key = write_key(directory.as_path(), "key", b"correct horse");
        let [data, ours, theirs] =
            ["data.img", "ours.header", "theirs.header"].map(|name| directory.path(name));
        fs::File::create(&data).and_then(|file| file.set_len(8 << 20)).expect("make an image");
        let options = format!("--type {version} {FAST_PBKDF2}");
        atrest("format --yes --key-file")
            .arg(&key)
            .words(&options)
            .arg("--header")
            .arg(&ours)
            .arg(&data)
            .ok();
        cryptsetup("open --test-passphrase --key-file").arg(&key).arg("--header").arg(&ours).arg(&data).ok();
        fs::File::create(&theirs).and_then(|file| file.set_len(16 << 20)).expect("make an image");
        cryptsetup("luksFormat").words(&options).arg("--header").arg(&theirs).arg(&data).arg(&key).ok();
        atrest("key test --key-file").arg(&key).arg("--header").arg(&theirs).arg(&data).ok();
        // The data starts where the header says: at 0, so that all 8 MiB are plaintext.
        for header in [&ours, &theirs] {
            let out = directory.path("out");
            atrest("decrypt --key-file").arg(&key).arg("--header").arg(header).arg(&data).arg(&out).ok();
            assert_eq!(fs::metadata(&out).expect("the plaintext").len(), 8 << 20);
            fs::remove_file(&out).expect("remove the plaintext");
        }
    }
}

#[test]
fn key_files_with_offset_and_size_and_standard_input_are_read_alike() {
    let directory = directory();
    let file = write_key(directory.as_path(), "long", b"0123456789 the passphrase\n and a tail");
    let part = write_key(directory.as_path(), "part", b"the passphrase\n");
    let volume = directory.path("volume.img");
    atrest("format --yes --size 32M --keyfile-offset 11 --keyfile-size 15 --key-file")
        .arg(&file)
        .words(FAST_PBKDF2)
        .arg(&volume)
        .ok();
    Cryptsetup::new(&volume, &part).assert_opens();
    Cryptsetup::new(&volume, &file).test("--keyfile-offset 11 --keyfile-size 15").expect_code(0);
    // A key file keeps its newline, a passphrase from a descriptor or a prompt does not.
    cryptsetup("open --test-passphrase --key-file=-").arg(&volume).stdin("the passphrase\n").ok();
    atrest("key test --key-file -").arg(&volume).stdin("the passphrase\n").ok();
    atrest("key test --passphrase-fd 0").arg(&volume).stdin("the passphrase\n").run().expect_code(2);
    let typed = directory.path("typed.img");
    atrest("format --yes --size 32M --passphrase-fd 0").words(FAST_PBKDF2).arg(&typed).stdin("typed\n").ok();
    cryptsetup("open --test-passphrase").arg(&typed).stdin("typed\n").ok();
}

#[test]
fn a_volume_key_file_opens_what_no_passphrase_does() {
    each_version(|directory, volume| {
        let key = directory.join("volume-key");
        fs::write(&key, theirs(volume).volume_key(directory)).expect("write the volume key");
        atrest("key test --volume-key-file").arg(&key).arg(&volume.path).ok();
        let new = write_key(directory, "new", b"new");
        atrest("key add --volume-key-file")
            .arg(&key)
            .words(FAST_PBKDF2)
            .arg("--new-key-file")
            .arg(&new)
            .arg(&volume.path)
            .ok();
        Cryptsetup::new(&volume.path, &new).assert_opens();
        let mut wrong = fs::read(&key).expect("the volume key");
        wrong[0] ^= 1;
        let wrong = write_key(directory, "wrong", &wrong);
        atrest("key test --volume-key-file").arg(&wrong).arg(&volume.path).run().expect_code(2);
    });
}

#[test]
fn all_keyslots_can_be_filled_and_one_more_is_refused() {
    for (version, slots) in [("luks1", 8), ("luks2", 32)] {
        let directory = directory();
        // Eight of these keyslot areas take 2 MiB with a 512-bit key; 32 of them fit into 5 MiB with a 256-bit key.
        let size = if version == "luks2" { "--key-size 256 --luks2-keyslots-size 8m" } else { "" };
        let volume = VolumeFile::format(
            directory.as_path(),
            "volume.img",
            "32M",
            &format!("--type {version} {FAST_PBKDF2} {size}"),
        );
        let keys: Vec<PathBuf> = (1..=slots)
            .map(|slot| {
                write_key(directory.as_path(), &format!("key{slot}"), format!("key {slot}").as_bytes())
            })
            .collect();
        for (slot, key) in keys.iter().enumerate().take(slots - 1) {
            if slot % 2 == 0 {
                volume.program("key add", FAST_PBKDF2).arg("--new-key-file").arg(key).ok();
            } else {
                theirs(&volume).add_key(key, FAST_PBKDF2);
            }
        }
        for key in keys.iter().take(slots - 1).step_by(5) {
            assert!(volume.opens_with(key));
            Cryptsetup::new(&volume.path, key).assert_opens();
        }
        let before = fs::read(&volume.path).expect("the volume");
        let refused =
            volume.program("key add", FAST_PBKDF2).arg("--new-key-file").arg(&keys[slots - 1]).run();
        assert!(!refused.is_ok(), "keyslot {} of {slots} was added", slots + 1);
        assert!(
            fs::read(&volume.path).expect("the volume") == before,
            "a refused key add wrote to the volume"
        );
    }
}

#[test]
fn conversion_between_versions_by_cryptsetup_leaves_volumes_that_we_open() {
    let directory = directory();
    let volume =
        VolumeFile::format(directory.as_path(), "volume.img", "32M", &format!("--type luks1 {FAST_PBKDF2}"));
    cryptsetup("convert --type luks2").arg(&volume.path).ok();
    assert!(volume.opens_with(&volume.key), "converted to LUKS2");
    volume
        .program("key add", FAST_PBKDF2)
        .arg("--new-key-file")
        .arg(write_key(directory.as_path(), "new", b"new"))
        .ok();
    theirs(&volume).assert_opens();
    cryptsetup("convert --type luks1").arg(&volume.path).ok();
    assert!(volume.opens_with(&volume.key), "converted back to LUKS1");
}

#[test]
fn a_damaged_copy_of_the_header_is_mended_by_repair_only() {
    for copy in [0u64, 16384] {
        let directory = directory();
        let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", FAST_PBKDF2);
        let mut bytes = fs::read(&volume.path).expect("the volume");
        bytes[copy as usize + 4100] ^= 0x20;
        fs::write(&volume.path, &bytes).expect("damage one copy");
        assert!(volume.opens_with(&volume.key), "the other copy is good");
        assert!(fs::read(&volume.path).expect("the volume") == bytes, "reading repaired the header");
        atrest("repair --yes").arg(&volume.path).ok();
        let repaired = fs::read(&volume.path).expect("the volume");
        assert!(repaired != bytes, "repair changed nothing");
        theirs(&volume).assert_opens();
        let area = |start: usize| &repaired[start + 4096..start + 16384];
        assert!(area(0) == area(16384), "the two JSON areas differ after the repair");
    }
}

#[test]
fn a_wrong_passphrase_and_a_file_that_is_no_volume_are_different_answers() {
    each_version(|directory, volume| {
        let wrong = write_key(directory, "wrong", b"wrong");
        assert!(!volume.opens_with(&wrong));
        Cryptsetup::new(&volume.path, &wrong).assert_refuses();
        let zeros = directory.join("zeros.img");
        fs::write(&zeros, vec![0; 1 << 20]).expect("write zeros");
        atrest("key test --key-file").arg(&volume.key).arg(&zeros).run().expect_code(4);
        atrest("key test --key-file").arg(&volume.key).arg(directory.join("absent.img")).run().expect_code(4);
        atrest("key nonsense").arg(&volume.path).run().expect_code(1);
        let before = fs::read(&volume.path).expect("the volume");
        // With a size it makes new files only; without one nobody can be asked whether to overwrite.
        atrest("format --yes --size 32M --key-file").arg(&volume.key).arg(&volume.path).run().expect_code(5);
        atrest("format --key-file").arg(&volume.key).arg(&volume.path).run().expect_code(1);
        assert!(
            fs::read(&volume.path).expect("the volume") == before,
            "a refused format wrote to the volume"
        );
    });
}
