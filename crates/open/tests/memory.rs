//! After a token of each kind has opened a keyslot, neither the keyslot's passphrase nor what it was made of lies in memory outside of secrets' own
//! pages. A program of its own. Each test looks for secrets that no other test has.

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, digest};
use atrest_open::token::shares::{NewFactor, make, replace};
use atrest_open::token::{Enrolled, Nobody, Person, Question, Token, clevis, fido2, pkcs11, tpm2};
use atrest_secret::{Passphrase, SecretBytes, with_wiped_stack};
use atrest_testkit::memory::{found_outside, pieces};
use atrest_testkit::{SecurityKeyKind, SoftCards, SoftKey, Swtpm, Tang, again};
use atrest_volume::{TokenInfo, VolumeKey};
use base64ct::{Base64, Encoding};

/// Types a passphrase for each factor, which differs by the number alone.
struct Typist;

impl Person for Typist {
    fn touch(&mut self) {}

    fn answer(&mut self, question: &Question) -> Option<Passphrase> {
        Some(typed(question.factor))
    }
}

fn typed(number: u8) -> Passphrase {
    let mut text = SecretBytes::copy_from(b"a long passphrase of a factor, number ?");
    if let Some(last) = text.last_mut() {
        *last = number;
    }
    Passphrase::new(text)
}

fn factor(number: u8) -> NewFactor {
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: 1, memory_kib: 32, lanes: 1 };
    NewFactor::passphrase(&typed(number), &cost).expect("it is derived")
}

#[test]
fn neither_the_passphrase_of_the_keyslot_nor_those_of_factors_are_left_in_memory() {
    let key = VolumeKey::copy_from(&[7; 64]);
    let made = make(2, vec![factor(1), factor(2), factor(3)], &key).expect("it is made");
    let replaced = replace(&made.token(1), 2, factor(2), &key).expect("it is replaced");
    for enrolled in [&made, &replaced] {
        let opened = token("atrest-shares", enrolled.token(1)).key_by(None, &mut Typist).expect("it opens");
        assert!(opened.passphrase == enrolled.passphrase);
        assert!(found_outside(&pieces(opened.passphrase.expose())).is_empty(), "the keyslot's");
        // The end, which holds the number.
        let text = typed(1);
        assert!(found_outside(&pieces(&text.expose()[text.expose().len() - 16..])).is_empty(), "a factor's");
    }
    let held = Vec::from(&made.passphrase.expose()[..16]);
    assert_eq!(found_outside(&pieces(&held)).len(), 1, "the search finds what is there");
    drop(held);
}

fn token(kind: &str, text: String) -> Token {
    let info = TokenInfo { id: 0, kind: kind.into(), keyslots: vec![1], key_description: None };
    Token { info, text }
}

/// Looks for a secret, and finds it where it is.
fn is_nowhere(what: &str, secret: &[u8]) {
    assert!(found_outside(&pieces(secret)).is_empty(), "{what}");
    let held = Vec::from(&secret[..16]);
    assert_eq!(found_outside(&pieces(&held)).len(), 1, "{what}: the search finds what is there");
    drop(held);
}

/// Opens what was enrolled, and looks for the keyslot's passphrase and for the secret that it is the text of.
fn opens_and_forgets(kind: &str, enrolled: &Enrolled, pin: Option<&Passphrase>) {
    let opened = token(kind, enrolled.token(1)).key_by(pin, &mut Nobody).expect("it opens");
    assert!(opened.passphrase == enrolled.passphrase, "{kind}");
    let text = opened.passphrase.expose();
    is_nowhere(&format!("{kind}: the passphrase"), text);
    let mut secret = SecretBytes::zeroed(text.len());
    let len = with_wiped_stack(|| Base64::decode(text, &mut secret[..]).expect("a text").len());
    is_nowhere(&format!("{kind}: the secret"), &secret[..len]);
}

/// SHA-256 of a PIN.
fn hash_of(pin: &Passphrase) -> SecretBytes {
    let mut hash = SecretBytes::zeroed(32);
    with_wiped_stack(|| digest(Hash::Sha256, &[pin.expose()], &mut hash));
    hash
}

#[test]
fn a_tpm_leaves_neither_what_it_unsealed_nor_its_pin() {
    if std::env::var_os("ATREST_TPM").is_none() {
        let tpm = Swtpm::new();
        tpm.extend(7);
        again::program().env("ATREST_TPM", tpm.place()).ok().expect_one_passed();
        return;
    }
    let pin = Passphrase::copy_from(b"a PIN of a TPM that is long enough to be found");
    for for_old_systemd in [false, true] {
        for pin in [None, Some(&pin)] {
            let enrolment = tpm2::Enrolment { mask: 1 << 7, pin, for_old_systemd };
            let enrolled = tpm2::enrol(&enrolment).expect("it is sealed");
            opens_and_forgets("systemd-tpm2", &enrolled, pin);
        }
    }
    is_nowhere("the PIN", pin.expose());
    // What systemd before 253 shows the TPM.
    is_nowhere("the hash of the PIN", &hash_of(&pin));
}

#[test]
fn a_server_and_a_tpm_leave_no_passphrase_of_clevis() {
    if std::env::var_os("ATREST_TPM").is_none() {
        let tpm = Swtpm::new();
        again::program().env("ATREST_TPM", tpm.place()).ok().expect_one_passed();
        return;
    }
    let tang = Tang::new();
    let advertised = || clevis::advertised(&tang.url).expect("its keys");
    let alone = clevis::bind(&tang.url, &advertised()).expect("it is bound");
    let pins = [clevis::Pin::Tang(tang.url.clone(), Box::new(advertised())), clevis::Pin::Tpm2(0)];
    let shared = clevis::bind_threshold(2, &pins).expect("it is bound");
    for bound in [&alone, &shared] {
        let opened = token("clevis", bound.token(1)).key_by(None, &mut Nobody).expect("it opens");
        assert!(opened.passphrase == bound.passphrase);
        is_nowhere("the passphrase", opened.passphrase.expose());
    }
}

#[test]
fn a_security_key_leaves_neither_its_secret_nor_its_pin() {
    const PIN: &str = "a PIN of a key that is long enough to be found";
    if std::env::var_os("ATREST_FIDO2").is_none() {
        let key = SoftKey::new(&SecurityKeyKind { pin: Some(PIN), ..SecurityKeyKind::default() });
        again::program().env("ATREST_FIDO2", key.place()).ok().expect_one_passed();
        return;
    }
    let pin = Passphrase::copy_from(PIN.as_bytes());
    let enrolled = fido2::enrol("volume", Some(&pin), &mut || {}).expect("it is made");
    opens_and_forgets("systemd-fido2", &enrolled, Some(&pin));
    is_nowhere("the PIN", pin.expose());
    is_nowhere("the hash of the PIN", &hash_of(&pin)[..16]);
}

#[test]
fn a_smart_card_leaves_no_secret() {
    if std::env::var_os("ATREST_PKCS11_MODULE").is_none() {
        let cards = SoftCards::new();
        cards.plug_in("work");
        cards.put_key("work", "disk", "01");
        let again = cards.seen_by(again::program()).env("ATREST_PKCS11_MODULE", cards.module());
        again.ok().expect_one_passed();
        return;
    }
    let pin = Passphrase::copy_from(b"1234");
    let enrolled = pkcs11::enrol("auto", Some(&pin)).expect("it is made");
    opens_and_forgets("systemd-pkcs11", &enrolled, Some(&pin));
}
