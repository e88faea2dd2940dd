use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

use super::*;
use crate::token::Nobody;
use atrest_volume::VolumeKey;

/// Types what it knows, by factor; the answers of one factor one after the other.
struct Typist(Vec<(u8, &'static str)>);

impl Person for Typist {
    fn touch(&mut self) {}

    fn answer(&mut self, question: &Question) -> Option<Passphrase> {
        let at = self.0.iter().position(|(factor, _)| *factor == question.factor)?;
        Some(Passphrase::copy_from(self.0.remove(at).1.as_bytes()))
    }
}

const COST: Argon2Cost = Argon2Cost { kind: Argon2Kind::Id, time: 1, memory_kib: 32, lanes: 1 };

fn factor(typed: &str) -> NewFactor {
    NewFactor::passphrase(&Passphrase::copy_from(typed.as_bytes()), &COST).expect("it is derived")
}

fn key() -> VolumeKey {
    VolumeKey::copy_from(&[7; 64])
}

/// Two of the passphrases `one`, `two`, `three`, and the passphrase of the keyslot.
fn two_of_three() -> (Value, Passphrase) {
    let made = make(2, vec![factor("one"), factor("two"), factor("three")], &key()).expect("it is made");
    (serde_json::from_str(&made.token(1)).expect("JSON"), made.passphrase)
}

fn opened(token: &Value, typed: &[(u8, &'static str)]) -> Result<Passphrase, TokenError> {
    passphrase(&token.to_string(), Help { pin: None, person: &mut Typist(typed.to_vec()) })
}

fn why(token: &Value, typed: &[(u8, &'static str)]) -> String {
    opened(token, typed).expect_err("too few").to_string()
}

#[test]
fn any_two_of_three_open_and_one_does_not() {
    let (token, expected) = two_of_three();
    for typed in [[(1, "one"), (2, "two")], [(1, "one"), (3, "three")], [(2, "two"), (3, "three")]] {
        assert!(opened(&token, &typed) == Ok(Passphrase::copy_from(expected.expose())), "{typed:?}");
    }
    assert_eq!(
        why(&token, &[(2, "two")]),
        "2 of its factors must be there, 1 are, and 1 more must come: factor 1 (a passphrase): nobody has typed it; \
         factor 3 (a passphrase): nobody has typed it"
    );
    assert!(passphrase(&token.to_string(), Help { pin: None, person: &mut Nobody }).is_err());
    assert_eq!(factors(&token.to_string()).expect("factors").len(), 3);
    assert_eq!(
        needs(&token.to_string()),
        "2 of these factors: (1 a passphrase; 2 a passphrase; 3 a passphrase)"
    );
}

#[test]
fn a_wrong_passphrase_is_named_and_asked_for_again() {
    let (token, _) = two_of_three();
    assert!(opened(&token, &[(1, "wrong"), (1, "one"), (2, "wrong"), (2, "wrong"), (2, "two")]).is_ok());
    let said = why(&token, &[(1, "one"), (2, "three"), (2, "one"), (2, "two "), (2, "two")]);
    assert!(said.contains("factor 2 (a passphrase): the passphrase is wrong;"), "{said}");
}

/// The token with another text in a field of a factor.
fn changed(token: &Value, factor: usize, field: &str, value: impl Into<Value>) -> Value {
    let mut token = token.clone();
    token["factors"][factor][field] = value.into();
    token
}

const CHANGED: &str = "its share or the list of factors was changed";

#[test]
fn a_share_that_is_not_the_one_that_was_made_is_named() {
    let (token, _) = two_of_three();
    let (other, _) = two_of_three();
    let mut share = Base64::decode_vec(token["factors"][1]["share"].as_str().expect("text")).expect("base64");
    share[0] ^= 1;
    let flipped = changed(&token, 1, "share", Base64::encode_string(&share));
    let mut moved = token.clone();
    for field in ["share", "ephemeral"] {
        moved["factors"][1][field] = token["factors"][2][field].clone();
    }
    // One that was made for this factor by whoever knows its public key, for another value.
    let text = token.to_string();
    let mut set = Set::parse(&text).expect("a set");
    let list = set.list().expect("a list");
    sealed::seal(&mut set, &list, 2, &atrest_secret::SecretArray::new([9; 32])).expect("it is sealed");
    let forged = set.fields().expect("a token");
    for token in [flipped, moved, forged] {
        let said = why(&token, &[(1, "one"), (2, "two")]);
        assert!(
            said.contains(&format!("1 are, and 1 more must come: factor 2 (a passphrase): {CHANGED}")),
            "{said}"
        );
        assert!(opened(&token, &[(1, "one"), (3, "three")]).is_ok(), "the others open");
    }
    // A factor of another set, with all that belongs to it: the list is another.
    let mut mixed = token.clone();
    mixed["factors"][1] = other["factors"][1].clone();
    assert_eq!(why(&mixed, &[(1, "one"), (2, "two"), (3, "three")]).matches(CHANGED).count(), 3);
    // Fewer are said to be needed.
    let mut weaker = token.clone();
    weaker["threshold"] = 1.into();
    assert!(why(&weaker, &[(1, "one"), (2, "two"), (3, "three")]).contains(CHANGED));
}

#[test]
fn a_factor_is_replaced_without_the_secrets_of_the_others_and_the_old_one_is_of_no_use() {
    let (token, before) = two_of_three();
    let made = replace(&token.to_string(), 2, factor("new"), &key()).expect("it is replaced");
    assert!(made.passphrase != before);
    let new: Value = serde_json::from_str(&made.token(2)).expect("JSON");
    for typed in [[(1, "one"), (2, "new")], [(2, "new"), (3, "three")], [(1, "one"), (3, "three")]] {
        assert!(opened(&new, &typed) == Ok(Passphrase::copy_from(made.passphrase.expose())), "{typed:?}");
    }
    assert!(
        why(&new, &[(1, "one"), (2, "two")]).contains("factor 2 (a passphrase): the passphrase is wrong")
    );
    // Neither is its old share, which is on another polynomial.
    let old = changed(&new, 1, "share", token["factors"][1]["share"].clone());
    assert!(opened(&old, &[(1, "one"), (2, "new")]).is_err());
    let whole = {
        let mut whole = new.clone();
        whole["factors"][1] = token["factors"][1].clone();
        whole
    };
    assert!(opened(&whole, &[(1, "one"), (2, "two")]).is_err());
    let again = replace(&made.token(2), 3, factor("newer"), &key()).expect("it is replaced");
    let again: Value = serde_json::from_str(&again.token(2)).expect("JSON");
    assert!(opened(&again, &[(2, "new"), (3, "newer")]).is_ok());
}

#[test]
fn nobody_gets_a_new_share_whose_key_was_not_listed_by_whoever_knew_the_volume_key() {
    let (token, _) = two_of_three();
    let (other, _) = two_of_three();
    let replaced = |token: &Value, number, key: &VolumeKey| {
        replace(&token.to_string(), number, factor("new"), key).err()
    };
    let not = Some(TokenError::NotAuthentic);
    assert_eq!(replaced(&token, 2, &VolumeKey::copy_from(&[8; 64])), not);
    for field in ["key", "salt", "commitment", "how"] {
        let changed = changed(&token, 0, field, other["factors"][0][field].clone());
        assert_eq!(replaced(&changed, 2, &key()), not, "{field}");
    }
    assert_eq!(replaced(&changed(&token, 0, "number", 9), 2, &key()), not);
    for (field, value) in
        [("threshold", json!(1)), ("set", other["set"].clone()), ("mac", other["mac"].clone())]
    {
        let mut changed = token.clone();
        changed[field] = value;
        assert_eq!(replaced(&changed, 2, &key()), not, "{field}");
    }
    assert_eq!(replaced(&token, 4, &key()), Some(TokenError::NoFactor { number: 4 }));
    // The members may come in another order: cryptsetup writes the text anew.
    let mut reordered = token.clone();
    let how = token["factors"][0]["how"].as_object().expect("an object").clone();
    reordered["factors"][0]["how"] = Value::Object(how.into_iter().rev().collect());
    assert_eq!(replaced(&reordered, 2, &key()), None);
}

#[test]
fn what_is_not_understood_is_refused_and_never_guessed() {
    let (token, _) = two_of_three();
    let bad = Some(TokenError::Malformed);
    let parsed = |token: &Value| Set::parse(&token.to_string()).err();
    assert_eq!(parsed(&token), None);
    for (field, value) in [
        ("threshold", json!(0)),
        ("threshold", json!(4)),
        ("threshold", json!("2")),
        ("set", json!("")),
        ("mac", json!("AA==")),
        ("factors", json!([])),
        ("factors", json!({})),
    ] {
        let mut changed = token.clone();
        changed[field] = value.clone();
        assert_eq!(parsed(&changed), bad, "{field}: {value}");
    }
    for (field, value) in [
        ("number", json!(0)),
        ("number", json!(2)),
        ("number", json!(256)),
        ("how", json!("passphrase")),
        ("salt", json!("AA==")),
        ("key", json!(Base64::encode_string(&[4; 65]))),
        ("key", json!(Base64::encode_string(&[0]))),
        ("ephemeral", json!(Base64::encode_string(&[0; 65]))),
        ("share", json!("")),
        ("commitment", json!(1)),
    ] {
        assert_eq!(parsed(&changed(&token, 0, field, value.clone())), bad, "{field}: {value}");
    }
    let unknown = |name: &str| Some(TokenError::UnknownField { name: name.into() });
    let mut version = token.clone();
    version["version"] = 2.into();
    assert_eq!(parsed(&version), unknown("version"));
    version = token.clone();
    version["also"] = 1.into();
    assert_eq!(parsed(&version), unknown("also"));
    assert_eq!(parsed(&changed(&token, 1, "also", 1)), unknown("also"));
    let mut many = token.clone();
    let more = |number: u8| changed(&token, 0, "number", number)["factors"][0].clone();
    many["factors"] = (1..=16).map(more).collect();
    assert_eq!(parsed(&many), None);
    many["factors"] = (1..=17).map(more).collect();
    assert_eq!(parsed(&many), bad);
    assert_eq!(Set::parse(&" ".repeat((256 << 10) + 1)).err(), bad);
    assert!(make(0, vec![factor("a")], &key()).is_err());
    assert!(make(2, vec![factor("a")], &key()).is_err());
    // A threshold within one, another derivation, a type that nobody knows.
    for (how, says) in [
        (json!({ "type": KIND_NAME }), "its type can't be used here"),
        (json!({ "type": "future" }), "its type can't be used here"),
        (json!({}), "its type can't be used here"),
    ] {
        let said = why(&changed(&token, 0, "how", how), &[(1, "one")]);
        assert!(said.contains(says), "{said}");
    }
    let mut kdf = token.clone();
    kdf["factors"][0]["how"]["kdf"] = "scrypt".into();
    assert!(why(&kdf, &[(1, "one")]).contains("its field kdf asks for something that can't be done here"));
    for (field, value) in
        [("time", json!(null)), ("memory", json!(-1)), ("lanes", json!("1")), ("salt", json!("AAAA"))]
    {
        let mut changed = token.clone();
        changed["factors"][0]["how"][field] = value;
        assert!(why(&changed, &[(1, "one")]).contains("it does not have the fields of its type"), "{field}");
    }
}

#[test]
fn a_recovery_key_is_a_factor_in_whatever_way_it_is_typed() {
    let recovery = recovery::generate().expect("random");
    let text: &'static str = String::from_utf8(recovery.expose().to_vec()).expect("text").leak();
    let made = make(1, vec![NewFactor::recovery(&recovery)], &key()).expect("it is made");
    let token: Value = serde_json::from_str(&made.token(1)).expect("JSON");
    for typed in [text, text.to_uppercase().leak(), text.replace('-', "").leak()] {
        assert!(opened(&token, &[(1, typed)]).is_ok(), "{typed}");
    }
    assert!(why(&token, &[(1, "wrong")]).contains("the passphrase is wrong"));
}
