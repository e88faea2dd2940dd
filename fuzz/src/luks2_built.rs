//! LUKS2 metadata put together by the rules: it is accepted, and with one rule broken it is not.

use arbitrary::{Result, Unstructured};
use atrest_format::luks2::Metadata;
use serde_json::{Map, Value, json};

use crate::luks::luks2_volume;

/// Bytes of a header copy, and of the area of each size of key in whole sectors of 4096.
const HEADER: u64 = 16384;
const SALT: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Keyslots, segments, digests and tokens, all right but for one thing at most.
pub fn luks2_built(data: &[u8]) {
    // Where the input ends the rest is as small as can be.
    let _ = built(&mut Unstructured::new(data));
}

fn built(u: &mut Unstructured<'_>) -> Result<()> {
    let mut metadata = metadata(u)?;
    let text = metadata.to_string();
    let parsed = parse(&text);
    assert!(parsed.is_ok(), "{:?} of {text}", parsed.err());
    if u.ratio(1, 16)? {
        luks2_volume(text.as_bytes());
    }
    if let Some(what) = break_one(&mut metadata, u)? {
        assert!(parse(&metadata.to_string()).is_err(), "{what} is accepted: {metadata}");
    }
    Ok(())
}

fn parse(text: &str) -> core::result::Result<Metadata, atrest_format::luks2::HeaderError> {
    let mut area = text.as_bytes().to_vec();
    area.resize(HEADER as usize - 4096, 0);
    Metadata::parse(&area)
}

/// Metadata by all rules.
fn metadata(u: &mut Unstructured<'_>) -> Result<Value> {
    let key_len = *u.choose(&[32_u64, 64])?;
    let count = u.int_in_range(1..=3)?;
    let (mut keyslots, mut bound, mut unbound) = (Map::new(), Vec::new(), Vec::new());
    let mut end = 2 * HEADER;
    for number in 0..count {
        let id = (number * 9).to_string();
        // The first opens the volume; others may hold a key of their own.
        let own = number > 0 && u.ratio(1, 3)?;
        let len = if own { *u.choose(&[16_u64, 32, 40])? } else { key_len };
        let size = (len * 4000).next_multiple_of(4096);
        let kdf = match u.int_in_range(0..=2)? {
            0 => json!({"type": "pbkdf2", "hash": "sha256", "iterations": 1000, "salt": SALT}),
            1 => json!({"type": "argon2id", "time": 4, "memory": 32, "cpus": 1, "salt": SALT}),
            _ => json!({"type": "argon2i", "time": 4, "memory": 32, "cpus": 2, "salt": SALT}),
        };
        let gap = 4096 * u.int_in_range(0..=2)?;
        let mut keyslot = json!({
            "type": "luks2",
            "key_size": len,
            "af": {"type": "luks1", "stripes": 4000, "hash": *u.choose(&["sha256", "sha512", "sha1"])?},
            "area": {
                "type": "raw", "offset": (end + gap).to_string(), "size": size.to_string(),
                "encryption": "aes-xts-plain64", "key_size": *u.choose(&[32, 64])?,
            },
            "kdf": kdf,
        });
        if u.arbitrary()? {
            keyslot["priority"] = u.int_in_range(0..=2)?.into();
        }
        end += gap + size;
        keyslots.insert(id.clone(), keyslot);
        if own { unbound.push(id) } else { bound.push(id) }
    }
    let keyslots_size = end - 2 * HEADER + 4096 * u.int_in_range(0..=4)?;
    let digest = |keyslots: &[String], segments: Vec<String>| {
        json!({
            "type": "pbkdf2", "keyslots": keyslots, "segments": segments, "hash": "sha256",
            "iterations": 1000, "salt": SALT, "digest": SALT,
        })
    };
    let mut digests = Map::new();
    let (segments, ids) = segments(2 * HEADER + keyslots_size, u)?;
    digests.insert("0".into(), digest(&bound, ids));
    for (id, keyslot) in (1..).zip(&unbound) {
        digests.insert(format!("{id}"), digest(core::slice::from_ref(keyslot), Vec::new()));
    }
    let mut tokens = Map::new();
    if u.arbitrary()? {
        tokens.insert("2".into(), json!({"type": "fuzz", "keyslots": bound, "more": [1.5, null]}));
    }
    let mut config =
        json!({"json_size": (HEADER - 4096).to_string(), "keyslots_size": keyslots_size.to_string()});
    if u.arbitrary()? {
        config["flags"] = json!(["allow-discards", "same-cpu-crypt"]);
    }
    Ok(json!({
        "keyslots": keyslots, "tokens": tokens, "segments": segments, "digests": digests, "config": config,
    }))
}

/// One to three segments behind one another, and their numbers.
fn segments(start: u64, u: &mut Unstructured<'_>) -> Result<(Map<String, Value>, Vec<String>)> {
    let count = u.int_in_range(1..=3)?;
    let (mut segments, mut ids, mut offset) = (Map::new(), Vec::new(), start.next_multiple_of(1 << 20));
    for number in 0..count {
        let size = 4096 * u.int_in_range(1..=1000_u64)?;
        let last = number + 1 == count && u.arbitrary()?;
        let size_text = if last { "dynamic".to_owned() } else { size.to_string() };
        let segment = json!({
            "type": "crypt", "offset": offset.to_string(), "size": size_text, "iv_tweak": "0",
            "encryption": "aes-xts-plain64", "sector_size": *u.choose(&[512, 1024, 2048, 4096])?,
        });
        segments.insert(number.to_string(), segment);
        ids.push(number.to_string());
        offset += size;
    }
    Ok((segments, ids))
}

/// Breaks one rule, and says which.
fn break_one(metadata: &mut Value, u: &mut Unstructured<'_>) -> Result<Option<&'static str>> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let text = |number: u64| Value::from(number.to_string());
    let keyslots: Vec<String> = names(&metadata["keyslots"]);
    let segments: Vec<String> = names(&metadata["segments"]);
    let slot = u.choose(&keyslots)?.clone();
    let segment = u.choose(&segments)?.clone();
    let end = number(&metadata["config"]["keyslots_size"]).expect("it is set") + 2 * HEADER;
    let area = &mut metadata["keyslots"][&slot]["area"];
    let (offset, size) = (number(&area["offset"]).expect("set"), number(&area["size"]).expect("set"));
    let what = match u.int_in_range(0..=29)? {
        0 => {
            area["offset"] = text(HEADER);
            "an area in the header"
        }
        1 => {
            area["offset"] = text(offset + 512);
            "an area that is not aligned"
        }
        2 => {
            area["offset"] = text(end - size + 4096);
            "an area behind the keyslots"
        }
        3 => {
            area["offset"] = text(u64::MAX - size + 1);
            "an area whose end does not fit"
        }
        4 => {
            let needs = metadata["keyslots"][&slot]["key_size"].as_u64().expect("set") * 4000;
            metadata["keyslots"][&slot]["area"]["size"] = text(needs.next_multiple_of(512) - 512);
            "an area one sector too small"
        }
        5 => {
            area["size"] = text(0);
            "an area of nothing"
        }
        6 => {
            area["encryption"] = (*u.choose(&["cipher_null-ecb", "capi:ecb(cipher_null)"])?).into();
            "an area without encryption"
        }
        7 => {
            area["key_size"] = (*u.choose(&[0, 7, 48 + 1, 1 << 20])?).into();
            "an area's key of a wrong length"
        }
        8 => {
            metadata["keyslots"][&slot]["key_size"] = 0.into();
            "no key"
        }
        9 => {
            metadata["keyslots"][&slot]["af"]["stripes"] = (*u.choose(&[0, 1, 3999, 4001])?).into();
            "another number of stripes"
        }
        10 if keyslots.len() > 1 => {
            let other = keyslots.iter().find(|other| **other != slot).expect("there are two");
            let place = metadata["keyslots"][other]["area"]["offset"].clone();
            metadata["keyslots"][&slot]["area"]["offset"] = place;
            "two areas in one place"
        }
        11 => {
            drop(metadata["keyslots"].as_object_mut().and_then(|all| all.remove(&slot)));
            "a digest of a keyslot that is not there"
        }
        12 => {
            metadata["digests"]["0"]["segments"] = json!(segments.iter().skip(1).collect::<Vec<_>>());
            "a segment without a digest"
        }
        13 => {
            let mut more = segments.clone();
            more.push("7".into());
            metadata["digests"]["0"]["segments"] = json!(more);
            "a digest of a segment that is not there"
        }
        14 => {
            metadata["digests"]["9"] = metadata["digests"]["0"].clone();
            "two digests of one keyslot"
        }
        15 => {
            let place = &mut metadata["segments"][&segment];
            place["offset"] = text(number(&place["offset"]).expect("set") + 1);
            "a segment that begins inside a sector"
        }
        16 => {
            metadata["segments"][&segment]["offset"] = text(2 * HEADER);
            "data in the keyslots"
        }
        17 => {
            metadata["segments"][&segment]["sector_size"] =
                (*u.choose(&[0, 256, 513, 8192, 1 << 20])?).into();
            "data units of a wrong size"
        }
        18 => {
            metadata["segments"][&segment]["encryption"] = "cipher_null-ecb".into();
            "data without encryption"
        }
        19 => {
            metadata["segments"][&segment]["size"] = (*u.choose(&["0", "-1", "x", "", "1"])?).into();
            "a segment of a wrong size"
        }
        20 if segments.len() > 1 => {
            metadata["segments"]["0"]["size"] = "dynamic".into();
            "a segment behind one without an end"
        }
        21 if segments.len() > 1 => {
            let first = metadata["segments"]["0"]["offset"].clone();
            metadata["segments"]["1"]["offset"] = first;
            "segments on one another"
        }
        22 => {
            let moved = metadata["segments"][&segment].clone();
            drop(metadata["segments"].as_object_mut().and_then(|all| all.remove(&segment)));
            metadata["segments"]["5"] = moved;
            "segments with a gap in their numbers"
        }
        23 => {
            metadata["config"]["json_size"] = (*u.choose(&["16384", "28672", "0", "12287"])?).into();
            "another size of the JSON area"
        }
        24 => {
            metadata["config"]["keyslots_size"] = text(end - 2 * HEADER + 512);
            "keyslots whose size is not aligned"
        }
        25 => {
            metadata["config"]["keyslots_size"] = text((128 << 20) + 4096);
            "keyslots without a bound"
        }
        26 => {
            metadata["keyslots"][&slot]["kdf"]["salt"] = (*u.choose(&["", "A", "====", "A A="])?).into();
            "a salt that is none"
        }
        27 => {
            metadata["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]});
            "a re-encryption without a keyslot"
        }
        28 => {
            let place = *u.choose(&["keyslots", "segments", "digests", "config", "tokens"])?;
            drop(metadata.as_object_mut().and_then(|all| all.remove(place)));
            "metadata with a part missing"
        }
        _ => return missing(metadata, &slot, &segment, u),
    };
    Ok(Some(what))
}

/// Takes out something that has to be there.
fn missing(
    metadata: &mut Value,
    slot: &str,
    segment: &str,
    u: &mut Unstructured<'_>,
) -> Result<Option<&'static str>> {
    let (part, field) = *u.choose(&[
        ("keyslots", "type"),
        ("keyslots", "key_size"),
        ("keyslots", "af"),
        ("keyslots", "area"),
        ("keyslots", "kdf"),
        ("segments", "type"),
        ("segments", "offset"),
        ("segments", "size"),
        ("segments", "iv_tweak"),
        ("segments", "encryption"),
        ("segments", "sector_size"),
        ("digests", "type"),
        ("digests", "keyslots"),
        ("digests", "segments"),
        ("digests", "hash"),
        ("digests", "iterations"),
        ("digests", "salt"),
        ("digests", "digest"),
    ])?;
    let id = match part {
        "keyslots" => slot,
        "segments" => segment,
        _ => "0",
    };
    drop(metadata[part][id].as_object_mut().and_then(|all| all.remove(field)));
    Ok(Some("an item with a field missing"))
}

fn names(value: &Value) -> Vec<String> {
    value.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
}
