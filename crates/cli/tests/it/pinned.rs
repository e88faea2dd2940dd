//! Pinned headers in commands, with Debian's cryptsetup as the other program that changes them.

use atrest_testkit::cryptsetup::cryptsetup;

use crate::common::{CHEAP, Ran, Scratch};

fn run(scratch: &Scratch, line: &str) -> Ran {
    let words: Vec<&str> = line.split_whitespace().collect();
    scratch.atrest(&words)
}

fn theirs(scratch: &Scratch, line: &str) {
    cryptsetup(line).current_dir(scratch.as_path()).ok();
}

#[test]
fn what_cryptsetup_changes_is_refused_until_it_is_accepted() {
    let scratch = Scratch::with_volume();
    let told = run(&scratch, "header pin vol --key-file key --policy policy --json").ok().json();
    let id = told["key"].as_str().expect("an identifier").to_string();
    let info = run(&scratch, "info vol --unlock --key-file key --json").ok().json();
    assert_eq!(info["key_id"], id.as_str());
    let decrypt = |more: &str| run(&scratch, &format!("decrypt vol - --key-file key {more}"));
    decrypt("").ok();
    decrypt("--policy policy").ok();
    decrypt(&format!("--expect-key {id}")).ok();
    decrypt(&format!("--expect-key {}", "0".repeat(32))).fails(2, "another volume is in its place");
    theirs(&scratch, "open --test-passphrase --key-file key vol");
    let before = scratch.read("vol");
    theirs(&scratch, "config --label other vol");
    decrypt("").fails(2, "the header is not as it was pinned: (header).label is now \"other\"");
    run(&scratch, "key test vol --key-file key").fails(2, "(header).label");
    run(&scratch, "header pin vol --key-file key").fails(2, "--accept");
    let changed = scratch.read("vol");
    scratch.file("new", "new");
    let add = format!("key add vol --key-file key --new-key-file new {}", CHEAP.join(" "));
    run(&scratch, &add).fails(2, "(header).label");
    assert!(scratch.read("vol") == changed, "nothing is written");
    run(&scratch, "header pin vol --key-file key --accept").fails(1, "(header).label is now");
    run(&scratch, "header pin vol --key-file key --accept --yes --policy policy").ok();
    decrypt("--policy policy").ok();
    // An older pinned header is one of this volume; the policy has seen a newer one.
    scratch.file("vol", before);
    decrypt("").ok();
    decrypt("--policy policy").fails(2, "the header is an older one of this volume");
}

#[test]
fn changes_by_us_renew_the_pin_and_other_programs_pass_it_over() {
    let scratch = Scratch::with_volume();
    run(&scratch, "header pin vol --key-file key --policy policy").ok();
    let decrypt = |more: &str| run(&scratch, &format!("decrypt vol - --key-file key {more}"));
    scratch.file("new", "new");
    run(&scratch, &format!("key add vol --key-file key --new-key-file new {}", CHEAP.join(" "))).ok();
    decrypt("").ok();
    theirs(&scratch, "open --test-passphrase --key-file new vol");
    let label = "header set vol --label name";
    scratch.file("wrong", "wrong");
    run(&scratch, &format!("{label} --key-file wrong")).fails(2, "wrong passphrase");
    run(&scratch, &format!("{label} --key-file key")).ok();
    run(&scratch, "key priority vol 1 prefer --key-file key").ok();
    scratch.file("token", r#"{"type":"some","keyslots":[]}"#);
    run(&scratch, "token import vol token --key-file key").ok();
    run(&scratch, "token remove vol 1 --key-file key").ok();
    run(&scratch, "key remove vol --key-file new").ok();
    decrypt("--policy policy").ok();
    run(&scratch, "reencrypt vol --key-file key").fails(2, "the header is pinned");
    let tokens = run(&scratch, "token list vol --json").ok().json();
    assert_eq!(tokens[0]["kind"], "atrest-pin");
    run(&scratch, "token remove vol 0").ok();
    decrypt("").ok();
    decrypt("--policy policy").fails(2, "the header is not pinned, and the policy asks for that");
    scratch.file("policy", "{}");
    decrypt("--policy policy").fails(1, "it is no header policy");
}

/// An attacker who can replace the volume needs no key for what has none.
#[test]
fn what_is_expected_of_a_volume_is_expected_behind_every_door() {
    let scratch = Scratch::with_volume();
    let told = run(&scratch, "header pin vol --key-file key --policy policy --json").ok().json();
    let id = told["key"].as_str().expect("an identifier").to_string();
    scratch.file("bare", vec![0; 4 << 20]);
    scratch.tool("mke2fs", &["-q", "-t", "ext4", "bare"]).ok();
    run(&scratch, "ls bare /").ok();
    std::fs::create_dir(scratch.path("directory")).expect("make a directory");
    run(&scratch, "image --type flash --size 1M --key-file key directory flash --kdf pbkdf2").ok();
    run(&scratch, "ls flash / --key-file key").ok();
    for door in ["ls bare /", "ls flash / --key-file key", "ls directory / --key-file key"] {
        for expected in ["--policy policy".to_owned(), format!("--expect-key {id}")] {
            let refused = run(&scratch, &format!("{door} {expected}"));
            assert_ne!(refused.code, 0, "{door} {expected}");
        }
    }
    run(&scratch, &format!("open vol --nbd --reencrypt --key-file key --expect-key {id}"))
        .fails(1, "--expect-key");
}

#[test]
fn key_test_expects_what_open_expects_and_an_empty_policy_is_told() {
    let scratch = Scratch::with_volume();
    let told = run(&scratch, "header pin vol --key-file key --policy policy --json").ok().json();
    let id = told["key"].as_str().expect("an identifier").to_string();
    let test = |more: &str| run(&scratch, &format!("key test vol --key-file key {more}"));
    test(&format!("--policy policy --expect-key {id}")).ok();
    let other = "0".repeat(32);
    test(&format!("--expect-key {other}")).fails(2, &id);
    run(&scratch, "key export vol vk --key-file key --yes").ok();
    run(&scratch, "key test vol --volume-key-file vk --policy policy").ok();
    run(&scratch, &format!("key test vol --volume-key-file vk --expect-key {other}")).fails(2, &id);
    // A keyslot more than the policy has seen, and the pin taken away: refused before a passphrase is asked for.
    run(&scratch, "token remove vol 0").ok();
    run(&scratch, "key test vol --policy policy --key-file nowhere").fails(2, "the header is not pinned");
    scratch.file("empty", "\n");
    test("--policy empty").fails(1, "the header policy is empty");
    run(&scratch, "format --type luks1 --size 8M --key-file key --pbkdf-force-iterations 1000 old").ok();
    run(&scratch, &format!("key test old --key-file key --expect-key {id}")).fails(2, "LUKS2");
}

#[test]
fn a_passphrase_and_a_pin_do_not_both_come_from_standard_input() {
    let scratch = Scratch::with_volume();
    for command in ["key test vol", "decrypt vol plain", "key add vol --recovery"] {
        let line = format!("{command} --key-file - --token-pin-file -");
        run(&scratch, &line).fails(1, "can't both come from standard input");
    }
}

#[test]
fn keyslots_of_a_pinned_header_are_wiped_by_a_passphrase_that_is_read_once() {
    let scratch = Scratch::with_volume();
    for new in ["second", "third"] {
        scratch.file(new, new);
        let add = format!("key add vol --key-file key --new-key-file {new} {}", CHEAP.join(" "));
        run(&scratch, &add).ok();
    }
    run(&scratch, "header pin vol --key-file key").ok();
    let key = scratch.read("key");
    scratch.atrest_with_input(&["key", "kill", "vol", "1", "--key-file", "-"], &key).ok();
    run(&scratch, "decrypt vol - --key-file key").ok();
    run(&scratch, "key remove vol --kind passphrase --yes").ok();
}

/// Headers are written before the store is. A cut between leaves a store that is one header behind.
#[test]
fn an_older_pinned_header_is_refused_by_the_trusted_store() {
    let scratch = Scratch::with_volume();
    let pin = "header pin vol --key-file key --store store";
    let decrypt = |more: &str| run(&scratch, &format!("decrypt vol - --key-file key {more}"));
    run(&scratch, pin).ok();
    let (first, first_store) = (scratch.read("vol"), scratch.read("store"));
    decrypt("--store store").ok();
    assert!(scratch.read("store") == first_store, "nothing is newer");
    run(&scratch, pin).ok();
    let (second, second_store) = (scratch.read("vol"), scratch.read("store"));
    assert!(second_store != first_store, "the store is told of each pin");
    decrypt("--store store").ok();

    scratch.file("vol", first.clone());
    decrypt("").ok();
    let told = decrypt("--store store")
        .fails(2, "the header is an older one of this volume: it was pinned as number 1");
    // Not as if a change of the owner's were to be accepted.
    assert!(told.stderr.contains("somebody may have put an older header back"), "{}", told.stderr);
    run(&scratch, pin).fails(2, "the header is an older one of this volume");
    assert!(scratch.read("vol") == first && scratch.read("store") == second_store, "nothing is written");

    // Cut after the header: the next opening tells the store, and from then on the older header is refused.
    scratch.file("store", first_store.clone());
    decrypt("--store store").ok();
    scratch.file("vol", second.clone());
    decrypt("--store store").ok();
    assert!(scratch.read("store") == second_store, "the store is told");
    scratch.file("vol", first.clone());
    decrypt("--store store").fails(2, "the header is an older one");

    // Two changes with the same number: the one that was cut off, and the one that was made in its place.
    run(&scratch, "header set vol --label other --key-file key").ok();
    decrypt("--store store").fails(2, "both were pinned as number 2");
    decrypt("").ok();

    // Whoever has put an old header back says so; it is newer than everything then.
    run(&scratch, &format!("{pin} --accept --yes")).ok();
    decrypt("--store store").ok();
    scratch.file("vol", second);
    decrypt("--store store").fails(2, "the header is an older one");
}

#[test]
fn a_trusted_store_is_of_one_pinned_volume() {
    let scratch = Scratch::with_volume();
    run(&scratch, "header pin vol --key-file key --store store").ok();
    let vol = scratch.read("vol");
    let format = format!("format --yes other --size 20M --key-file key {}", CHEAP.join(" "));
    run(&scratch, &format).ok();
    run(&scratch, "decrypt other - --key-file key --store store").fails(2, "the header is not pinned");
    let store = scratch.read("store");
    let told = run(&scratch, "header pin other --key-file key --store store");
    let told = told.fails(2, "another volume is in its place");
    assert!(told.stderr.contains("if it was re-encrypted, make a new store"), "{}", told.stderr);
    run(&scratch, "header pin other --key-file key").ok();
    run(&scratch, "decrypt other - --key-file key --store store").fails(2, "both were pinned as number 1");
    run(&scratch, "header pin other --key-file key").ok();
    run(&scratch, "decrypt other - --key-file key --store store").fails(2, "another volume is in its place");
    assert!(scratch.read("store") == store, "another volume changes nothing");
    // Another program's change leaves no pin that counts, and the store is not told.
    theirs(&scratch, "token remove --token-id 0 vol");
    run(&scratch, "decrypt vol - --key-file key --store store").fails(2, "the header is not pinned");
    scratch.file("vol", vol);
    let mut other = store.clone();
    other[0] ^= 1;
    scratch.file("store", other);
    run(&scratch, "decrypt vol - --key-file key --store store")
        .fails(4, "no trusted store of a pinned header");
    run(&scratch, "header pin vol --key-file key --store store")
        .fails(4, "no trusted store of a pinned header");
    scratch.file("store", &store[..40]);
    run(&scratch, "decrypt vol - --key-file key --store store").fails(4, "it has 40 bytes");
    run(&scratch, "decrypt vol - --key-file key --store nowhere").fails(4, "no such trusted store");
    run(&scratch, "key add vol --key-file key --store store --new-key-file key").fails(4, "it has 40 bytes");
    run(&scratch, "key list vol --store store").fails(1, "--store");
    run(&scratch, "format --type luks1 --size 8M --key-file key --pbkdf-force-iterations 1000 old").ok();
    run(&scratch, "key priority old 0 prefer --store store").fails(1, "the header is not pinned");
}
