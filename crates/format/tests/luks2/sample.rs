//! A header as cryptsetup writes it, with one of everything, to be spoiled one field at a time.

use atrest_format::luks2::{HeaderError, Metadata};
use serde_json::{Value, json};

/// Bytes in the JSON area of a 16 KiB header copy.
pub const JSON_SIZE: usize = 12288;

const SALT: &str = "U8IDNbkwnEd7tJrSEV3kyM0lwv5Znccf11z22UICt7k=";

/// Two bound keyslots, an unbound one, a token, a segment, two digests.
pub fn metadata() -> Value {
    let keyslot = |offset: u64, kdf: Value| {
        json!({
            "type": "luks2", "key_size": 64,
            "af": {"type": "luks1", "stripes": 4000, "hash": "sha256"},
            "area": {"type": "raw", "offset": offset.to_string(), "size": "258048",
                     "encryption": "aes-xts-plain64", "key_size": 64},
            "kdf": kdf,
        })
    };
    let digest = |keyslots: Value, segments: Value| {
        json!({"type": "pbkdf2", "keyslots": keyslots, "segments": segments, "hash": "sha256",
               "iterations": 1000, "salt": SALT, "digest": SALT})
    };
    json!({
        "keyslots": {
            "0": keyslot(32768, json!({"type": "pbkdf2", "hash": "sha256", "iterations": 1000, "salt": SALT})),
            "1": keyslot(290816,
                json!({"type": "argon2id", "time": 4, "memory": 65536, "cpus": 4, "salt": SALT})),
            "2": keyslot(548864, json!({"type": "argon2i", "time": 4, "memory": 32, "cpus": 1, "salt": SALT})),
        },
        "tokens": {"0": {"type": "acme", "keyslots": ["1"], "extra": [1, 2]}},
        "segments": {"0": {"type": "crypt", "offset": "16777216", "size": "dynamic", "iv_tweak": "0",
                           "encryption": "aes-xts-plain64", "sector_size": 4096}},
        "digests": {"0": digest(json!(["0", "1"]), json!(["0"])), "1": digest(json!(["2"]), json!([]))},
        "config": {"json_size": "12288", "keyslots_size": "16744448"},
    })
}

/// A JSON area with this text.
pub fn area(text: &str) -> Vec<u8> {
    let mut area = text.as_bytes().to_vec();
    area.resize(JSON_SIZE, 0);
    area
}

pub fn parse(metadata: &Value) -> Result<Metadata, HeaderError> {
    Metadata::parse(&area(&metadata.to_string()))
}

/// What one change to the sample leads to.
pub fn spoilt(change: impl FnOnce(&mut Value)) -> HeaderError {
    let mut metadata = metadata();
    change(&mut metadata);
    parse(&metadata).expect_err("the defect is noticed")
}
