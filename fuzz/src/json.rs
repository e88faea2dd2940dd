//! Changes to JSON that keep it JSON, with an eye to what LUKS2 metadata holds.

use serde_json::Value;

use crate::random::Random;

/// A changed copy of a JSON text; none if it is no JSON.
pub fn mutate_json(text: &[u8], seed: u64) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    let mut random = Random(seed);
    for _ in 0..1 + random.below(3) {
        let mut places = Vec::new();
        collect(&value, &mut Vec::new(), &mut places);
        let place = &places[random.below(places.len())];
        let donor = &places[random.below(places.len())];
        let donor = find(&mut value, donor).cloned()?;
        let node = find(&mut value, place)?;
        change(node, donor, &mut random);
    }
    serde_json::to_vec(&value).ok()
}

type Path = Vec<Step>;

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn collect(value: &Value, here: &mut Path, places: &mut Vec<Path>) {
    places.push(here.clone());
    let mut visit = |step: Step, value: &Value| {
        here.push(step);
        collect(value, here, places);
        here.pop();
    };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| visit(Step::Key(key.clone()), value))
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| visit(Step::Index(i), value)),
        _ => {}
    }
}

fn find<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

fn change(node: &mut Value, donor: Value, random: &mut Random) {
    const WORDS: &[&str] = &[
        "0",
        "1",
        "31",
        "32",
        "7",
        "8",
        "-1",
        "4096",
        "16384",
        "32768",
        "16777216",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "dynamic",
        "luks2",
        "atrest-sealed",
        "AAECAwQFBgcICQoLDA0ODw==",
        "raw",
        "aes-xts-plain64",
        "cipher_null-ecb",
        "aes",
        "sha256",
        "sha999",
        "pbkdf2",
        "argon2i",
        "argon2id",
        "luks1",
        "crypt",
        "linear",
        "allow-discards",
        "requirements",
        "mandatory",
        "online-reencrypt",
        "offline-reencrypt",
        "reencrypt",
        "backup-previous",
        "backup-final",
        "backup-moved-segment",
        "in-reencryption",
        "online-reencrypt-v2",
        "datashift-journal",
        "datashift-checksum",
        "",
        "AAAA",
        "luks2-keyring",
        "none",
        "journal",
        "datashift",
        "checksum",
    ];
    let word = WORDS[random.below(WORDS.len())];
    match (random.below(6), node) {
        (0, node) => *node = donor,
        (1, node) => *node = Value::from(word),
        (2, node) => *node = Value::from(random.next() >> random.below(64)),
        (3, Value::Object(members)) => {
            let key = members.keys().nth(random.below(members.len())).cloned();
            drop(key.and_then(|key| members.remove(&key)));
        }
        (_, Value::Object(members)) => drop(members.insert(word.to_owned(), donor)),
        (3, Value::Array(items)) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
        (_, Value::Array(items)) => items.push(donor),
        (_, Value::Number(number)) => {
            let near = number.as_i64().unwrap_or(0).wrapping_add([1, -1, 512, -4096][random.below(4)]);
            *number = near.into();
        }
        (_, Value::String(text)) => match text.parse::<u64>() {
            Ok(number) => {
                *text = number.wrapping_add([1, 4096, u64::MAX, 1 << 40][random.below(4)]).to_string()
            }
            Err(_) => {
                let at = random.below(text.len() + 1);
                if text.is_char_boundary(at) {
                    text.truncate(at);
                }
            }
        },
        (_, node) => *node = Value::Null,
    }
}
