//! Keyslots and headers, each step seen from cryptsetup as well.

use std::fs;

use crate::common::{CHEAP, Ran, Scratch};

/// `key add` with `--key-file key` for the new passphrase in `new`.
fn add(scratch: &Scratch, new: &str, more: &[&str]) -> Ran {
    let mut args = vec!["key", "add", "--json", "--key-file", "key", "--new-key-file", new, "vol"];
    args.extend(CHEAP);
    args.extend(more);
    scratch.atrest(&args)
}

fn test(scratch: &Scratch, key: &str) -> Ran {
    scratch.atrest(&["key", "test", "--json", "--key-file", key, "vol"])
}

/// atrest and cryptsetup agree on whether `key` opens the volume.
#[track_caller]
fn opens(scratch: &Scratch, key: &str, expected: bool) {
    let ours = test(scratch, key);
    let theirs = scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", key, "vol"]);
    if expected {
        ours.ok();
        theirs.ok();
        return;
    }
    let slots = scratch.atrest(&["key", "list", "--json", "vol"]).ok().json();
    let none_left = slots.as_array().is_some_and(|slots| slots.is_empty());
    let code = if none_left { 1 } else { 2 };
    ours.fails(code, if none_left { "no keyslot that could be tried" } else { "wrong passphrase" });
    // It says 1 also where unbound keyslots alone are left.
    assert!(theirs.code == 1 || theirs.code == code, "cryptsetup: {} {}", theirs.code, theirs.stderr);
}

#[test]
fn passphrases_are_added_changed_and_removed() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("second", "second");
        scratch.file("third", "third");
        assert_eq!(add(&scratch, "second", &[]).ok().json()["keyslot"], 1);
        assert_eq!(add(&scratch, "third", &["--new-key-slot", "5"]).ok().json()["keyslot"], 5);
        for key in ["key", "second", "third"] {
            opens(&scratch, key, true);
        }
        assert_eq!(test(&scratch, "third").json()["keyslot"], 5);
        add(&scratch, "third", &["--new-key-slot", "5"]).fails(1, "keyslot 5 is in use");
        add(&scratch, "third", &["--new-key-slot", "99"]).fails(1, "99");

        scratch.file("new", "new");
        let change = ["key", "change", "--json", "--key-file", "second", "--new-key-file", "new", "vol"];
        let changed = scratch.atrest(&[&change[..], &CHEAP].concat()).ok().json()["keyslot"].to_string();
        // LUKS1 has one header: the new passphrase takes a free keyslot, so that the old one is there until it works.
        assert_eq!(changed, if kind == "luks1" { "2" } else { "1" });
        opens(&scratch, "new", true);
        opens(&scratch, "second", false);

        let slots = scratch.atrest(&["key", "list", "--json", "vol"]).ok().json();
        assert_eq!(slots.as_array().expect("a list").len(), 3, "{slots}");
        assert!(scratch.atrest(&["key", "list", "vol"]).ok().stdout.contains("1000 iterations"));

        scratch.atrest(&["key", "remove", "--key-file", "third", "vol"]).ok();
        opens(&scratch, "third", false);
        scratch.atrest(&["key", "kill", "--key-file", "new", "vol", &changed]).fails(1, "itself");
        scratch.atrest(&["key", "kill", "--key-file", "third", "vol", &changed]).fails(2, "wrong passphrase");
        opens(&scratch, "new", true);
        scratch.atrest(&["key", "kill", "--key-file", "key", "vol", &changed]).ok();
        opens(&scratch, "new", false);
        scratch.atrest(&["key", "kill", "--yes", "vol", &changed]).fails(1, "holds no key");
        scratch.atrest(&["key", "remove", "--yes", "--key-file", "key", "vol"]).ok();
        opens(&scratch, "key", false);
    }
}

#[test]
fn the_volume_key_opens_what_it_was_exported_from() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.atrest(&["key", "export", "--yes", "--key-file", "key", "vol", "vk"]).ok();
        assert_eq!(scratch.mode("vk"), 0o600);
        scratch
            .atrest(&["key", "export", "--yes", "--key-file", "key", "vol", "vk"])
            .fails(5, "exists already");
        let dump = ["luksDump", "--dump-volume-key", "--volume-key-file", "theirs", "--batch-mode"];
        scratch.tool("cryptsetup", &[&dump[..], &["--key-file", "key", "vol"]].concat()).ok();
        assert_eq!(fs::read(scratch.path("vk")).ok(), fs::read(scratch.path("theirs")).ok());
        scratch.atrest(&["key", "test", "--volume-key-file", "vk", "vol"]).ok();
        // A forgotten passphrase: the volume key adds a new one.
        scratch.file("fresh", "fresh");
        let add = ["key", "add", "--volume-key-file", "vk", "--new-key-file", "fresh", "vol"];
        scratch.atrest(&[&add[..], &CHEAP].concat()).ok();
        opens(&scratch, "fresh", true);
        // A volume made from it has the same key.
        let format = [
            "format",
            "--size",
            "20M",
            "--type",
            kind,
            "--volume-key-file",
            "vk",
            "--key-file",
            "key",
            "twin",
        ];
        scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
        scratch.atrest(&["key", "test", "--volume-key-file", "vk", "twin"]).ok();
    }
}

#[test]
fn a_header_comes_back_from_its_backup() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.atrest(&["header", "backup", "vol", "ours"]).ok();
        assert_eq!(scratch.mode("ours"), 0o600);
        scratch.atrest(&["header", "backup", "vol", "ours"]).fails(5, "exists already");
        scratch.tool("cryptsetup", &["luksHeaderBackup", "vol", "--header-backup-file", "theirs"]).ok();
        assert!(
            fs::read(scratch.path("ours")).ok() == fs::read(scratch.path("theirs")).ok(),
            "{kind} backups differ"
        );
        scratch.atrest(&["erase", "--yes", "vol"]).ok();
        opens(&scratch, "key", false);
        scratch.atrest(&["header", "restore", "vol", "ours"]).fails(1, "--yes");
        scratch.atrest(&["header", "restore", "--yes", "vol", "ours"]).ok();
        opens(&scratch, "key", true);
        scratch.file("rubbish", vec![9; 4096]);
        scratch.atrest(&["header", "restore", "--yes", "vol", "rubbish"]).fails(4, "rubbish");
        opens(&scratch, "key", true);
    }
}

#[test]
fn an_unbound_key_opens_no_data() {
    let scratch = Scratch::with_volume();
    scratch.file("other", "other");
    assert_eq!(add(&scratch, "other", &["--unbound", "--key-size", "256"]).ok().json()["keyslot"], 1);
    assert_eq!(test(&scratch, "other").ok().json()["keyslot"], 1);
    scratch
        .atrest(&["decrypt", "--key-file", "other", "vol", "plain"])
        .fails(2, "wrong passphrase: no keyslot opens with it");
    assert!(scratch.tool("cryptsetup", &["luksDump", "vol"]).ok().stdout.contains("unbound"));
    // It does not count as a way in.
    scratch.atrest(&["key", "remove", "--key-file", "key", "vol"]).fails(1, "last passphrase");
    // Named, it gives the key that it holds.
    scratch.file("own key", [5; 32]);
    scratch.file("third", "third");
    let add = ["key", "add", "--unbound", "--volume-key-file", "own key", "--new-key-file", "third", "vol"];
    scratch.atrest(&[&add[..], &["--new-key-slot", "9"], &CHEAP].concat()).ok();
    scratch.atrest(&["key", "export", "--yes", "-S", "9", "--key-file", "third", "vol", "vk9"]).ok();
    assert_eq!(fs::read(scratch.path("vk9")).expect("the key"), [5; 32]);
    scratch
        .atrest(&["key", "export", "--yes", "--key-file", "third", "vol", "vk"])
        .fails(2, "wrong passphrase");
}

#[test]
fn a_detached_header_leaves_the_data_alone() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.bash("truncate -s 8M data").ok();
    let format = ["format", "--header", "head", "--key-file", "key", "data"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    assert_eq!(scratch.mode("head"), 0o600);
    scratch.atrest(&["info", "data"]).fails(4, "--header");
    scratch.atrest(&["info", "--header", "head", "data"]).ok();
    scratch
        .tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "--header", "head", "data"])
        .ok();
    scratch.atrest(&["decrypt", "--header", "head", "--key-file", "key", "data", "plain"]).ok();
    assert_eq!(fs::metadata(scratch.path("plain")).expect("the plaintext").len(), 8 << 20);
}

#[test]
fn a_dead_keyslot_does_not_turn_a_typing_error_into_damage() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("second", "second");
        scratch.file("wrong", "wrong");
        add(&scratch, "second", &[]).ok();
        let info = scratch.atrest(&["info", "--json", "vol"]).ok().json();
        let area = info["keyslots"][0]["area"]["offset"].as_u64().expect("an offset") as usize;
        let mut bytes = fs::read(scratch.path("vol")).expect("the volume");
        bytes[area..area + 65536].fill(0);
        scratch.file("vol", &bytes);
        test(&scratch, "second").ok();
        test(&scratch, "wrong").fails(2, "keyslot 0 is damaged");
        // With the intact one gone it is damage and nothing else.
        scratch.atrest(&["key", "remove", "--key-file", "second", "vol"]).ok();
        test(&scratch, "wrong").fails(4, "keyslot 0 is damaged");
    }
}

#[test]
fn a_full_luks1_header_changes_a_passphrase_in_place_if_asked_to() {
    let scratch = Scratch::with_volume_of("luks1");
    for slot in 1..8 {
        scratch.file(format!("key{slot}"), format!("passphrase {slot}"));
        add(&scratch, &format!("key{slot}"), &[]).ok();
    }
    scratch.file("new", "new");
    let mut change = vec!["key", "change", "--json", "--key-file", "key3", "--new-key-file", "new", "vol"];
    change.extend(CHEAP);
    scratch.atrest(&change).fails(1, "all keyslots are in use");
    change.extend(["--new-key-slot", "3"]);
    assert_eq!(scratch.atrest(&change).ok().json()["keyslot"], 3);
    opens(&scratch, "new", true);
    opens(&scratch, "key3", false);
}

#[test]
fn only_somebody_with_the_passphrase_is_asked_about_the_last_one() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("other", "not it");
        scratch.atrest(&["key", "remove", "--key-file", "other", "vol"]).fails(2, "wrong passphrase");
        scratch.atrest(&["key", "remove", "--key-file", "key", "vol"]).fails(1, "last passphrase");
        // There is no terminal to ask for a passphrase on, and no need to.
        scratch.atrest(&["key", "kill", "vol", "7"]).fails(1, "keyslot 7");
        opens(&scratch, "key", true);
        scratch.atrest(&["key", "remove", "--yes", "--key-file", "key", "vol"]).ok();
        opens(&scratch, "key", false);
    }
}

#[test]
fn an_unbound_passphrase_does_not_vouch_for_the_removal_of_another() {
    let scratch = Scratch::with_volume();
    for name in ["second", "unbound"] {
        scratch.file(name, name);
    }
    add(&scratch, "second", &[]).ok();
    add(&scratch, "unbound", &["--unbound", "--key-size", "256"]).ok();
    scratch.atrest(&["key", "kill", "--key-file", "unbound", "vol", "0"]).fails(1, "opens no data");
    opens(&scratch, "key", true);
    scratch.atrest(&["key", "kill", "--key-file", "second", "vol", "0"]).ok();
    opens(&scratch, "key", false);
}

#[test]
fn a_given_volume_key_says_how_long_it_is() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::new();
        scratch.file("key", "key");
        scratch.file("vk", (0..32).collect::<Vec<u8>>());
        let mut args = vec!["format", "--size", "20M", "--type", kind, "--volume-key-file", "vk"];
        args.extend(["--key-file", "key", "vol"]);
        args.extend(CHEAP);
        scratch.atrest(&args).ok();
        opens(&scratch, "key", true);
    }
}

/// A keyslot whose cost was changed keeps its passphrase: cryptsetup opens it as before, and sees the new cost.
#[test]
fn a_passphrase_is_kept_at_another_cost() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        let cost = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "4321"];
        let change = ["key", "change", "--keep-passphrase", "--key-file", "key", "vol"];
        scratch.atrest(&[&change[..], &cost].concat()).ok();
        opens(&scratch, "key", true);
        let dump = scratch.tool("cryptsetup", &["luksDump", "vol"]).ok().stdout;
        let listed =
            dump.lines().filter(|line| line.contains("Iterations:") && line.contains("4321")).count();
        assert_eq!(listed, 1, "{dump}");
        let slots = scratch.atrest(&["key", "list", "--json", "vol"]).ok().json();
        assert_eq!(slots.as_array().map(Vec::len), Some(1), "{slots}");
    }
}
