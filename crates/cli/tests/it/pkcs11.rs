//! Volumes that a smart card opens, with cards of SoftHSM: enrolled by systemd 252, which Debian has, and by us.

use std::time::Duration;

use atrest_testkit::SoftCards;
use atrest_testkit::oracle::{Outcome, Program};

use crate::common::{Ran, Scratch};

fn atrest(scratch: &Scratch, cards: &SoftCards, line: &str) -> Ran {
    cards.seen_by(scratch.program(env!("CARGO_BIN_EXE_atrest"))).words(line).without_terminal().run().into()
}

/// Has systemd enrol the key of a card on `vol`.
fn enrol(scratch: &Scratch, cards: &SoftCards, uri: &str) {
    let passphrase = String::from_utf8(scratch.read("key")).expect("text");
    let program = cards.seen_by(scratch.program("systemd-cryptenroll"));
    let program = program.arg(format!("--pkcs11-token-uri={uri}")).arg("vol").env("PASSWORD", passphrase);
    program.env("PIN", "1234").limit(Duration::from_secs(60)).ok();
}

/// What cryptsetup says, which has systemd's library open a token.
fn opened_by_systemd(scratch: &Scratch, cards: &SoftCards, token: u32) -> Outcome {
    let line = format!("open --test-passphrase --verbose --token-only --token-id {token} vol");
    let program = cards.seen_by(scratch.program("cryptsetup")).words(&line);
    program.stdin("1234").limit(Duration::from_secs(60)).run()
}

fn with_card() -> (Scratch, SoftCards) {
    let (scratch, cards) = (Scratch::with_volume(), SoftCards::new());
    cards.plug_in("work");
    cards.put_key("work", "disk", "01");
    scratch.file("pin", "1234");
    scratch.file("wrong", "4321");
    (scratch, cards)
}

#[test]
fn what_systemd_enrolled_opens_by_the_card_and_its_pin() {
    let (scratch, cards) = with_card();
    enrol(&scratch, &cards, "pkcs11:token=work;object=disk");
    let test = |cards: &SoftCards, more: &str| {
        atrest(&scratch, cards, &format!("key test vol --token-only --token-id 0 {more}"))
    };
    test(&cards, "--token-pin-file pin").ok();
    atrest(&scratch, &cards, "decrypt vol plain --token-id 0 --token-pin-file pin").ok();
    test(&cards, "").fails(2, "token 0 (systemd-pkcs11): it needs a PIN");
    test(&cards, "--token-pin-file wrong").fails(2, "token 0 (systemd-pkcs11): the PIN is wrong");
    let list = atrest(&scratch, &cards, "key list vol").ok().stdout;
    assert!(list.contains("the smart card \"work\" and its PIN"), "{list}");
    // The library may be named instead of found.
    let named = cards.seen_by(scratch.program(env!("CARGO_BIN_EXE_atrest")));
    let named = named.words("key test vol --token-only --token-pin-file pin");
    Ran::from(named.env("ATREST_PKCS11_MODULE", cards.module()).without_terminal().run()).ok();
    let missing = cards.seen_by(scratch.program(env!("CARGO_BIN_EXE_atrest")));
    let missing = missing.words("key test vol --token-only --token-pin-file pin");
    Ran::from(missing.env("ATREST_PKCS11_MODULE", "/nowhere/module.so").without_terminal().run())
        .fails(2, "the library for smart cards, /nowhere/module.so, can't be loaded");
    // Another card of the same name, and none.
    let others = SoftCards::new();
    test(&others, "--token-pin-file pin").fails(2, "the smart card is not plugged in");
    others.plug_in("work");
    test(&others, "--token-pin-file pin").fails(2, "the smart card has no such RSA key");
    others.put_key("work", "disk", "01");
    test(&others, "--token-pin-file pin").fails(2, "token 0 (systemd-pkcs11): ");
    cards.plug_in("work");
    test(&cards, "--token-pin-file pin").fails(2, "2 smart cards are plugged in that may be meant");
}

#[test]
fn what_we_enrol_opens_here_and_by_systemd() {
    let (scratch, cards) = with_card();
    let add = |line: &str| atrest(&scratch, &cards, &format!("key add vol --key-file key {line}"));
    let before = scratch.read("vol");
    add("--pkcs11 pkcs11:token=work --pin-file wrong").fails(4, "no keyslot is made: the PIN is wrong");
    add("--pkcs11 pkcs11:token=play --pin-file pin")
        .fails(4, "no keyslot is made: the smart card is not plugged in");
    add("--pkcs11 pkcs11:token=work;object=other --pin-file pin")
        .fails(4, "the smart card has no such RSA key");
    add("--pkcs11 work --pin-file pin").fails(4, "is no URI of a smart card");
    add("--pkcs11 pkcs11:token=work?module-path=/tmp/evil.so")
        .fails(4, "has \"module-path\", which is not used here");
    add("--pkcs11 auto").fails(1, "--pin-file");
    add("--tang http://127.0.0.1:1 --pin-file pin").fails(1, "--pin-file goes with");
    assert!(scratch.read("vol") == before, "nothing is written");
    for uri in ["auto", "pkcs11:token=work", "pkcs11:token=work;object=disk", "pkcs11:id=%01"] {
        add(&format!("--pkcs11 {uri} --pin-file pin")).ok();
    }
    for token in 0..4_u32 {
        let line = format!("key test vol --token-only --token-id {token} --token-pin-file pin");
        atrest(&scratch, &cards, &line).ok();
        let opened = opened_by_systemd(&scratch, &cards, token);
        let said = opened.messages() + &opened.text();
        assert!(
            opened.is_ok() && said.contains(&format!("Key slot {} unlocked", token + 1)),
            "{token}: {said}"
        );
    }
    // One more key, and it must be said which.
    cards.put_key("work", "second", "02");
    add("--pkcs11 pkcs11:token=work --pin-file pin").fails(4, "the smart card has 2 keys that may be meant");
    add("--pkcs11 pkcs11:token=work;object=second --pin-file pin").ok();
    let wiped = atrest(&scratch, &cards, "key remove vol --kind pkcs11 --key-file key --json").ok().json();
    assert_eq!(wiped["keyslots"], serde_json::json!([1, 2, 3, 4, 5]));
}

#[test]
fn a_card_is_one_of_several_factors_and_takes_the_place_of_another() {
    let (scratch, cards) = with_card();
    scratch.file("one", "one");
    scratch.file("two", "two");
    let cheap = "--pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1";
    let factors = "--any 2 pkcs11=pkcs11:token=work;object=disk passphrase=one passphrase=two";
    atrest(&scratch, &cards, &format!("key add vol --key-file key --pin-file pin {cheap} {factors}")).ok();
    let test =
        |cards: &SoftCards, more: &str| atrest(&scratch, cards, &format!("key test vol --token-only {more}"));
    test(&cards, "--factor-file 1=pin --factor-file 3=two").ok();
    let none = SoftCards::new();
    test(&none, "--factor-file 2=one --factor-file 3=two").ok();
    test(&none, "--factor-file 1=pin --factor-file 3=two").fails(
        2,
        "factor 1 (the smart card \"work\" and its PIN): the smart card is not plugged in; factor 2 (a passphrase): nobody has typed it",
    );
    cards.plug_in("spare");
    cards.put_key("spare", "disk", "01");
    let line = "key replace vol 2 pkcs11=pkcs11:token=spare --pin-file pin --key-file key";
    atrest(&scratch, &cards, line).ok();
    test(&cards, "--factor-file 1=pin --factor-file 2=pin").ok();
    let again = line.replace("vol 2", "vol 3");
    atrest(&scratch, &cards, &again).fails(4, "it would be the same thing as factor 2");
}

/// A token as systemd writes it, for a secret that OpenSSL has brought to the card's key.
fn with_token(scratch: &Scratch, cards: &SoftCards, secret: &[u8], sent: &[u8], more: &str) -> u64 {
    let passphrase = base64(secret);
    scratch.file("secret", &passphrase);
    let add = "key add vol --key-file key --new-key-file secret --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --json";
    let slot = atrest(scratch, cards, add).ok().json()["keyslot"].as_u64().expect("a number");
    let key = base64(sent);
    let text = format!(
        r#"{{"type":"systemd-pkcs11","keyslots":["{slot}"],"pkcs11-uri":"pkcs11:token=work","pkcs11-key":"{key}"{more}}}"#
    );
    scratch.file("token", text);
    atrest(scratch, cards, "token import vol token --json").ok().json()["token"].as_u64().expect("a number")
}

fn base64(bytes: &[u8]) -> String {
    Program::named("openssl").words("base64 -A").stdin(bytes).ok().text().trim().into()
}

fn openssl(scratch: &Scratch, line: &str) {
    scratch.program("openssl").words(line).ok();
}

/// As systemd makes them from 261 on. SoftHSM has OAEP with SHA-1 alone.
#[test]
fn a_secret_that_was_padded_by_oaep_opens() {
    let (scratch, cards) = with_card();
    scratch.file("clear", [7; 128]);
    scratch.file("certificate.der", cards.certificate());
    openssl(&scratch, "x509 -inform DER -pubkey -noout -out public -in certificate.der");
    openssl(
        &scratch,
        "pkeyutl -encrypt -pubin -inkey public -pkeyopt rsa_padding_mode:oaep -in clear -out sent",
    );
    let sent = scratch.read("sent");
    let more = r#","pkcs11-padding":"oaep-sha1""#;
    let token = with_token(&scratch, &cards, &[7; 128], &sent, more);
    let test = |token: u64| {
        let line = format!("key test vol --token-only --token-id {token} --token-pin-file pin");
        atrest(&scratch, &cards, &line)
    };
    test(token).ok();
    let mut changed = sent.clone();
    changed[200] ^= 1;
    let token = with_token(&scratch, &cards, &[8; 128], &changed, more);
    test(token).fails(2, "the smart card has another key than the one that was enrolled");
    // Read as another padding it is nothing.
    let token = with_token(&scratch, &cards, &[9; 128], &sent, "");
    test(token).fails(2, "the smart card has another key than the one that was enrolled");
}

/// As systemd makes them from 256 on.
#[test]
fn a_point_that_a_card_agrees_with_opens() {
    let (scratch, cards) = with_card();
    let public = cards.make_curve_key("work", "curve", "05");
    scratch.file("public.der", std::fs::read(public).expect("a key"));
    openssl(&scratch, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out ours");
    openssl(&scratch, "pkey -in ours -pubout -outform DER -out ours.der");
    openssl(&scratch, "pkey -pubin -inform DER -in public.der -out public");
    openssl(&scratch, "pkeyutl -derive -inkey ours -peerkey public -out agreed");
    // The point is the end of SubjectPublicKeyInfo.
    let point = scratch.read("ours.der");
    let point = &point[point.len() - 65..];
    let token = with_token(&scratch, &cards, &scratch.read("agreed"), point, "");
    let line = format!("key test vol --token-only --token-id {token} --token-pin-file pin");
    atrest(&scratch, &cards, &line).ok();
    // A point off the curve.
    let mut beside = point.to_vec();
    beside[64] ^= 1;
    let token = with_token(&scratch, &cards, b"other", &beside, "");
    let line = format!("key test vol --token-only --token-id {token} --token-pin-file pin");
    let said = atrest(&scratch, &cards, &line).fails(2, "token").stderr;
    assert!(said.contains("smart card"), "{said}");
}
