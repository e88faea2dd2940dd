//! Volumes that a security key opens, with a key in software: enrolled by systemd 252 with libfido2, which Debian has, and by us.

use std::time::{Duration, Instant};

use atrest_testkit::oracle::Outcome;
use atrest_testkit::{Campaign, SecurityKeyKind, SoftKey};

use crate::common::{Ran, Scratch};

fn with_pin() -> SecurityKeyKind {
    SecurityKeyKind { pin: Some("1234"), ..SecurityKeyKind::default() }
}

fn atrest(scratch: &Scratch, key: &SoftKey, line: &str) -> Ran {
    let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(line);
    program.env("ATREST_FIDO2", key.place()).without_terminal().run().into()
}

/// Has systemd enrol the key on `vol`. It asks for a PIN at a terminal alone: this key has none.
fn enrol(scratch: &Scratch, key: &SoftKey) {
    let passphrase = String::from_utf8(scratch.read("key")).expect("text");
    let program = scratch.program("systemd-cryptenroll").arg("--fido2-device=auto").arg("vol");
    key.seen_by(program).env("PASSWORD", passphrase).limit(Duration::from_secs(60)).ok();
}

/// What cryptsetup says, which has systemd's library open a token. The library asks libfido2.
fn opened_by_systemd(scratch: &Scratch, key: &SoftKey, token: u32) -> Outcome {
    let line = format!("open --test-passphrase --verbose --token-only --token-id {token} vol");
    key.seen_by(scratch.program("cryptsetup")).words(&line).stdin("1234").limit(Duration::from_secs(60)).run()
}

#[test]
fn what_systemd_enrolled_opens_by_its_key_and_its_pin() {
    let mut key = SoftKey::new(&SecurityKeyKind::default());
    let scratch = Scratch::with_volume();
    scratch.file("pin", "1234");
    scratch.file("wrong", "4321");
    enrol(&scratch, &key);
    // The same key gets a PIN.
    key.replugged(&with_pin());
    atrest(&scratch, &key, "key add vol --key-file key --fido2 --pin-file pin").ok();
    let test =
        |key: &SoftKey, more: &str| atrest(&scratch, key, &format!("key test vol --token-only {more}"));
    let said = test(&key, "--token-id 0").ok().stderr;
    assert!(said.contains("touch the security key of token 0"), "{said}");
    test(&key, "--token-id 1 --token-pin-file pin").ok();
    atrest(&scratch, &key, "decrypt vol plain --token-id 0").ok();
    test(&key, "--token-id 1").fails(2, "token 1 (systemd-fido2): it needs a PIN");
    test(&key, "--token-id 1 --token-pin-file wrong").fails(2, "token 1 (systemd-fido2): the PIN is wrong");
    let list = atrest(&scratch, &key, "key list vol").ok().stdout;
    for words in ["a security key (FIDO2), its PIN and a touch\n", "a security key (FIDO2), a touch\n"] {
        assert!(list.contains(words), "{words}: {list}");
    }
    // The kernel's device carries the same reports, with a number in front.
    let line = "key test vol --token-only --token-id 1 --token-pin-file pin";
    let by_device =
        scratch.program(env!("CARGO_BIN_EXE_atrest")).words(line).env("ATREST_FIDO2", SoftKey::DEVICE);
    Ran::from(key.seen_by(by_device).without_terminal().run()).ok();
    test(&SoftKey::new(&with_pin()), "--token-id 1 --token-pin-file pin")
        .fails(2, "token 1 (systemd-fido2): it is not for the security key that is plugged in");
    key.replugged(&SecurityKeyKind { protocols: vec![1], ..with_pin() });
    test(&key, "--token-id 1 --token-pin-file pin").ok();
    let place = key.place();
    drop(key);
    let none = scratch.program(env!("CARGO_BIN_EXE_atrest")).words("key test vol --token-only --token-id 1");
    Ran::from(none.env("ATREST_FIDO2", place).without_terminal().run())
        .fails(2, "there is no security key at");
}

#[test]
fn what_we_enrol_opens_here_and_by_systemd() {
    let pinned = SoftKey::new(&with_pin());
    let plain = SoftKey::new(&SecurityKeyKind { protocols: vec![1], ..SecurityKeyKind::default() });
    let scratch = Scratch::with_volume();
    scratch.file("pin", "1234");
    let add = |key: &SoftKey, line: &str| {
        atrest(&scratch, key, &format!("key add vol --key-file key --fido2 {line}"))
    };
    let before = scratch.read("vol");
    add(&pinned, "").fails(4, "no keyslot is made: the security key does nothing without its PIN");
    add(&plain, "--pin-file pin").fails(4, "no keyslot is made: the security key has no PIN");
    add(&pinned, "--pin-file key").fails(4, "no keyslot is made: ");
    assert!(scratch.read("vol") == before, "nothing is written");
    let said = add(&pinned, "--pin-file pin").ok();
    assert_eq!(said.stderr.matches("touch the security key").count(), 2, "{}", said.stderr);
    add(&plain, "").ok();
    let test =
        |key: &SoftKey, line: &str| atrest(&scratch, key, &format!("key test vol --token-only {line}"));
    test(&pinned, "--token-id 0 --token-pin-file pin").ok();
    test(&plain, "--token-id 1").ok();
    test(&plain, "--token-id 0 --token-pin-file pin").fails(2, "it is not for the security key");
    for (token, key) in [(0, &pinned), (1, &plain)] {
        let opened = opened_by_systemd(&scratch, key, token);
        let said = opened.messages() + &opened.text();
        assert!(
            opened.is_ok() && said.contains(&format!("Key slot {} unlocked", token + 1)),
            "{token}: {said}"
        );
    }
    assert!(!opened_by_systemd(&scratch, &plain, 0).is_ok());
}

#[test]
fn nothing_is_asked_of_a_key_before_the_volume_opens_by_what_there_is() {
    let key = SoftKey::new(&SecurityKeyKind::default());
    let scratch = Scratch::with_volume();
    scratch.file("wrong", "wrong");
    let refused = atrest(&scratch, &key, "key add vol --key-file wrong --fido2");
    let said = refused.fails(2, "wrong passphrase: no keyslot opens with it").stderr;
    assert!(!said.contains("touch"), "{said}");
    let both = atrest(&scratch, &key, "key add vol --key-file - --fido2 --pin-file -");
    both.fails(1, "can't both come from standard input");
}

#[test]
fn a_key_that_lies_opens_nothing() {
    let mut key = SoftKey::new(&SecurityKeyKind::default());
    let scratch = Scratch::with_volume();
    atrest(&scratch, &key, "key add vol --key-file key --fido2").ok();
    let vol = scratch.read("vol");
    for (fault, message) in [
        ("garbage", "the security key's answer makes no sense"),
        ("gone", "the security key can't be reached"),
        ("flag flipped", "no keyslot of it opens with its passphrase"),
        ("silent", "the security key does not answer in time"),
        ("nothing", "the security key's answer makes no sense"),
        ("trailing", "the security key's answer makes no sense"),
        ("oversized", "the security key's answer makes no sense"),
        ("off the curve", "the security key's answer makes no sense"),
        ("another party", "the security key's answer makes no sense"),
        ("short secret", "the security key's answer makes no sense"),
        ("no secrets", "the security key can't keep secrets (hmac-secret)"),
        ("endless reports", "the security key's answer makes no sense"),
        ("endless talk", "the security key does not answer in time"),
        ("for ever alive", "the security key does not answer in time"),
    ] {
        // It gets a minute, which `make test` does not have.
        if fault == "for ever alive" && !Campaign::is_full() {
            continue;
        }
        key.replugged(&SecurityKeyKind { fault: Some(fault), ..SecurityKeyKind::default() });
        let begun = Instant::now();
        let told = atrest(&scratch, &key, "key test vol --token-only").fails(2, message);
        println!("{fault}: {}", told.stderr.trim_end());
        assert!(begun.elapsed() < Duration::from_secs(90), "{fault}: {:?}", begun.elapsed());
        // It keeps nobody from a passphrase.
        atrest(&scratch, &key, "key test vol --key-file key").ok();
    }
    assert!(scratch.read("vol") == vol, "nothing is written");
    key.replugged(&SecurityKeyKind::default());
    atrest(&scratch, &key, "key test vol --token-only").ok();
}

#[test]
fn a_token_of_248_leaves_the_conditions_to_the_key() {
    let key = SoftKey::new(&SecurityKeyKind::default());
    let scratch = Scratch::with_volume();
    atrest(&scratch, &key, "key add vol --key-file key --fido2").ok();
    let token = atrest(&scratch, &key, "token export vol 0").ok().stdout;
    let mut token: serde_json::Value = serde_json::from_str(&token).expect("JSON");
    let fields = token.as_object_mut().expect("an object");
    fields.retain(|name, _| !name.ends_with("-required"));
    scratch.file("token", token.to_string());
    atrest(&scratch, &key, "token import vol token --token-id 0 --token-replace").ok();
    atrest(&scratch, &key, "key test vol --token-only").ok();
}
