//! After several factors have opened a token, neither its keyslot's passphrase nor what a factor's passphrase was derived to lies in memory outside of
//! secrets' own pages. A program of its own: other tests in the same process leave their keys there.

use atrest_kdf::{Argon2Cost, Argon2Kind};
use atrest_open::token::shares::{NewFactor, make, replace};
use atrest_open::token::{Person, Question, Token};
use atrest_secret::{Passphrase, SecretBytes};
use atrest_testkit::memory::{found_outside, pieces};
use atrest_volume::{TokenInfo, VolumeKey};

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
        let info =
            TokenInfo { id: 0, kind: "atrest-shares".into(), keyslots: vec![1], key_description: None };
        let token = Token { info, text: enrolled.token(1) };
        let opened = token.key_by(None, &mut Typist).expect("it opens");
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
