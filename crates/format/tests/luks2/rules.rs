//! Each rule of the metadata, broken alone, gives exactly its own error.

use atrest_cipher::CipherSpec;
use atrest_format::luks2::{HeaderError, Metadata, Place, Requirement, Section, SegmentKind};
use serde_json::{Value, json};

use crate::sample::{JSON_SIZE, area, metadata, parse, spoilt};

fn keyslot(id: u32, field: &'static str) -> Place {
    Section::Keyslots.member(id).at(field)
}

fn segment(field: &'static str) -> Place {
    Section::Segments.member(0).at(field)
}

fn digest(field: &'static str) -> Place {
    Section::Digests.member(0).at(field)
}

fn config(field: &'static str) -> Place {
    Section::Config.itself().at(field)
}

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().expect("an object").shift_remove(key);
}

#[test]
fn the_sample_itself_passes() {
    let metadata = parse(&metadata()).expect("passes");
    assert_eq!(metadata.keyslots().len(), 3);
    assert_eq!(
        (metadata.keyslots_start(), metadata.keyslots_end(), metadata.data_offset()),
        (32768, 16777216, 16777216)
    );
    assert!(metadata.digest_of_keyslot(2).expect("unbound").segments.is_empty());
    assert_eq!(metadata.free_area(258_048), Some(806_912));
}

#[test]
fn every_mandatory_field_is_missed() {
    for section in ["keyslots", "tokens", "segments", "digests", "config"] {
        let error = spoilt(|m| remove(m, section));
        assert!(
            matches!(error, HeaderError::Missing(place) if place.field == section),
            "{section}: {error:?}"
        );
    }
    type Case = (&'static str, fn(&mut Value) -> &mut Value, &'static [&'static str]);
    let cases: [Case; 8] = [
        ("", |m| &mut m["keyslots"]["0"], &["type", "key_size", "area", "af", "kdf"]),
        ("area.", |m| &mut m["keyslots"]["0"]["area"], &["type", "offset", "size", "encryption", "key_size"]),
        ("af.", |m| &mut m["keyslots"]["0"]["af"], &["type", "stripes", "hash"]),
        ("kdf.", |m| &mut m["keyslots"]["0"]["kdf"], &["type", "hash", "iterations", "salt"]),
        ("kdf.", |m| &mut m["keyslots"]["1"]["kdf"], &["type", "time", "memory", "cpus", "salt"]),
        (
            "",
            |m| &mut m["segments"]["0"],
            &["type", "offset", "size", "iv_tweak", "encryption", "sector_size"],
        ),
        (
            "",
            |m| &mut m["digests"]["0"],
            &["type", "keyslots", "segments", "hash", "iterations", "salt", "digest"],
        ),
        ("", |m| &mut m["config"], &["json_size", "keyslots_size"]),
    ];
    for (prefix, object, fields) in cases {
        for field in fields {
            let path = format!("{prefix}{field}");
            match spoilt(|m| remove(object(m), field)) {
                HeaderError::Missing(place) => assert_eq!(place.field, path),
                other => panic!("{path}: {other:?}"),
            }
            // And each has a type of its own.
            match spoilt(|m| object(m)[*field] = json!({"no": []})) {
                HeaderError::WrongType(place) | HeaderError::Missing(place) => {
                    assert!(place.field.starts_with(&path), "{path}: {place}");
                }
                other => panic!("{path}: {other:?}"),
            }
        }
    }
    for field in ["type", "keyslots"] {
        let place = Section::Tokens.member(0).at(if field == "type" { "type" } else { "keyslots" });
        assert_eq!(spoilt(|m| remove(&mut m["tokens"]["0"], field)), HeaderError::Missing(place));
    }
}

#[test]
fn numbers_have_their_form_and_their_bounds() {
    let not_a_number = |place| HeaderError::NotANumber(place);
    for text in ["", "-1", "0x10", " 1", "1 ", "+1", "18446744073709551616", "1e3"] {
        assert_eq!(
            spoilt(|m| m["segments"]["0"]["iv_tweak"] = json!(text)),
            not_a_number(segment("iv_tweak")),
            "{text}"
        );
    }
    assert_eq!(
        spoilt(|m| m["segments"]["0"]["iv_tweak"] = json!(5)),
        HeaderError::WrongType(segment("iv_tweak"))
    );
    let key_size = keyslot(0, "key_size");
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["key_size"] = json!(-1)), not_a_number(key_size));
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["key_size"] = json!(1_u64 << 32)), not_a_number(key_size));
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["key_size"] = json!(64.0)), HeaderError::WrongType(key_size));
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["key_size"] = json!("64")), HeaderError::WrongType(key_size));
    let bounds = |place, value| HeaderError::OutOfBounds { place, value };
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["priority"] = json!(3)), bounds(keyslot(0, "priority"), 3));
    assert_eq!(
        spoilt(|m| m["keyslots"]["0"]["af"]["stripes"] = json!(3999)),
        bounds(keyslot(0, "af.stripes"), 3999)
    );
    assert_eq!(
        spoilt(|m| m["keyslots"]["0"]["kdf"]["iterations"] = json!(0)),
        bounds(keyslot(0, "kdf.iterations"), 0)
    );
    assert_eq!(spoilt(|m| m["keyslots"]["1"]["kdf"]["time"] = json!(0)), bounds(keyslot(1, "kdf.time"), 0));
    assert_eq!(spoilt(|m| m["keyslots"]["1"]["kdf"]["cpus"] = json!(0)), bounds(keyslot(1, "kdf.cpus"), 0));
    assert_eq!(
        spoilt(|m| m["keyslots"]["1"]["kdf"]["memory"] = json!(31)),
        bounds(keyslot(1, "kdf.memory"), 31)
    );
    let memory = (4 << 20) + 1;
    assert_eq!(
        spoilt(|m| m["keyslots"]["1"]["kdf"]["memory"] = json!(memory)),
        bounds(keyslot(1, "kdf.memory"), memory)
    );
    assert_eq!(
        spoilt(|m| m["keyslots"]["0"]["area"]["key_size"] = json!(0)),
        bounds(keyslot(0, "area.key_size"), 0)
    );
    assert_eq!(spoilt(|m| m["digests"]["0"]["iterations"] = json!(0)), bounds(digest("iterations"), 0));
    for sector in [0, 256, 513, 1536, 8192] {
        assert_eq!(
            spoilt(|m| m["segments"]["0"]["sector_size"] = json!(sector)),
            bounds(segment("sector_size"), sector)
        );
    }
    assert_eq!(spoilt(|m| m["segments"]["0"]["size"] = json!("0")), bounds(segment("size"), 0));
}

#[test]
fn multiples_are_enforced() {
    let misaligned = |place, value, multiple| HeaderError::Misaligned { place, value, multiple };
    assert_eq!(
        spoilt(|m| m["segments"]["0"]["offset"] = json!("16777217")),
        misaligned(segment("offset"), 16_777_217, 512)
    );
    assert_eq!(spoilt(|m| m["segments"]["0"]["size"] = json!("513")), misaligned(segment("size"), 513, 512));
    assert_eq!(spoilt(|m| m["segments"]["0"]["size"] = json!("512")), misaligned(segment("size"), 512, 4096));
    assert_eq!(
        spoilt(|m| m["config"]["keyslots_size"] = json!("16744447")),
        misaligned(config("keyslots_size"), 16_744_447, 4096)
    );
    assert_eq!(
        spoilt(|m| m["keyslots"]["2"]["area"]["offset"] = json!("549376")),
        misaligned(keyslot(2, "area.offset"), 549_376, 4096)
    );
}

#[test]
fn sizes_agree_with_the_binary_header_and_the_data() {
    assert_eq!(
        spoilt(|m| m["config"]["json_size"] = json!("28672")),
        HeaderError::JsonSize { claims: 28672, must: 12288 }
    );
    assert_eq!(
        spoilt(|m| m["config"]["keyslots_size"] = json!("134221824")),
        HeaderError::OutOfBounds { place: config("keyslots_size"), value: 134_221_824 }
    );
    assert_eq!(
        spoilt(|m| m["segments"]["0"]["offset"] = json!("16773120")),
        HeaderError::KeyslotsReachData { end: 16_777_216, data: 16_773_120 }
    );
    // One that says that it lies in a file has no data behind it.
    let mut in_file = metadata();
    in_file["segments"]["0"]["offset"] = json!("16773120");
    in_file["tokens"]["9"] = json!({ "type": "atrest-luks1-in-front", "keyslots": [] });
    parse(&in_file).expect("a header in a file");
    in_file["tokens"]["9"]["type"] = json!("atrest-luks1-in-back");
    assert!(matches!(parse(&in_file), Err(HeaderError::KeyslotsReachData { .. })), "no such token");
    // A detached header has its data at 0.
    let mut detached = metadata();
    detached["segments"]["0"]["offset"] = json!("0");
    parse(&detached).expect("passes");
}

#[test]
fn members_are_numbered_in_decimal_and_limited() {
    for (section, key, limit) in [
        (Section::Keyslots, "keyslots", 32),
        (Section::Tokens, "tokens", 32),
        (Section::Segments, "segments", 32),
        (Section::Digests, "digests", 8),
    ] {
        for name in ["", "x", "00", "01", "-1", "+1", "1 ", "0x1", "4294967296", &limit.to_string()] {
            let member = metadata()[key]["0"].clone();
            assert_eq!(
                spoilt(|m| m[key][name] = member),
                HeaderError::BadId { section, limit },
                "{key} {name}"
            );
        }
    }
}

#[test]
fn references_resolve_once() {
    let unknown = |place| HeaderError::UnknownReference { place };
    let token = Section::Tokens.member(0).at("keyslots");
    assert_eq!(spoilt(|m| m["tokens"]["0"]["keyslots"] = json!(["3"])), unknown(token));
    assert_eq!(spoilt(|m| m["tokens"]["0"]["keyslots"] = json!(["x"])), unknown(token));
    assert_eq!(
        spoilt(|m| m["digests"]["0"]["keyslots"] = json!(["0", "1", "3"])),
        unknown(digest("keyslots"))
    );
    assert_eq!(spoilt(|m| m["digests"]["0"]["segments"] = json!(["0", "1"])), unknown(digest("segments")));
    let twice = |place| HeaderError::DuplicateReference { place };
    assert_eq!(spoilt(|m| m["digests"]["0"]["keyslots"] = json!(["0", "0"])), twice(digest("keyslots")));
    assert_eq!(
        spoilt(|m| m["digests"]["0"]["keyslots"] = json!(["0"])),
        HeaderError::KeyslotDigests { keyslot: 1, count: 0 }
    );
    assert_eq!(
        spoilt(|m| m["digests"]["1"]["keyslots"] = json!(["2", "1"])),
        HeaderError::KeyslotDigests { keyslot: 1, count: 2 }
    );
    assert_eq!(
        spoilt(|m| m["digests"]["0"]["segments"] = json!([])),
        HeaderError::SegmentWithoutDigest { segment: 0 }
    );
}

#[test]
fn keyslot_areas_lie_inside_the_keyslots_area_without_overlap() {
    let out = |offset, size| HeaderError::AreaOutOfBounds { keyslot: 2, offset, size };
    let area = |m: &mut Value, offset: u64, size: u64| {
        m["keyslots"]["2"]["area"]["offset"] = json!(offset.to_string());
        m["keyslots"]["2"]["area"]["size"] = json!(size.to_string());
    };
    assert_eq!(spoilt(|m| area(m, 28672, 258_048)), out(28672, 258_048));
    assert_eq!(spoilt(|m| area(m, 16_523_264, 258_048)), out(16_523_264, 258_048));
    assert_eq!(spoilt(|m| area(m, 548_864, 0)), out(548_864, 0));
    assert_eq!(spoilt(|m| area(m, u64::MAX - 4095, 258_048)), out(u64::MAX - 4095, 258_048));
    assert_eq!(spoilt(|m| area(m, 290_816, 258_048)), HeaderError::AreaOverlap { a: 1, b: 2 });
    assert_eq!(spoilt(|m| area(m, 544_768, 258_048)), HeaderError::AreaOverlap { a: 1, b: 2 });
    assert_eq!(
        spoilt(|m| area(m, 548_864, 253_952)),
        HeaderError::AreaTooSmall { keyslot: 2, has: 253_952, needs: 256_000 }
    );
    // A key so long that one stripe is a block: every stripe has to have its own.
    let of_stripes = |stripes: u64| {
        let mut m = metadata();
        m["keyslots"]["2"]["key_size"] = json!(4096);
        m["config"]["keyslots_size"] = json!("33521664");
        m["segments"]["0"]["offset"] = json!("33554432");
        area(&mut m, 548_864, 4096 * stripes);
        m
    };
    parse(&of_stripes(4000)).expect("4000 stripes of 4096 bytes");
    assert_eq!(
        parse(&of_stripes(3999)).expect_err("a stripe is missing"),
        HeaderError::AreaTooSmall { keyslot: 2, has: 4096 * 3999, needs: 4096 * 4000 }
    );
}

#[test]
fn null_ciphers_and_wrong_key_lengths_are_refused() {
    for cipher in [
        "cipher_null-ecb",
        "cipher_null",
        "null-ecb",
        "capi:ecb(cipher_null)",
        "capi:ecb(cipher_null)-plain64",
    ] {
        let refused = spoilt(|m| m["keyslots"]["0"]["area"]["encryption"] = json!(cipher));
        assert_eq!(refused, HeaderError::NullCipher(keyslot(0, "area.encryption")), "{cipher}");
        let refused = spoilt(|m| m["segments"]["0"]["encryption"] = json!(cipher));
        assert_eq!(refused, HeaderError::NullCipher(segment("encryption")), "{cipher}");
    }
    // The kernel may take spellings that our parser does not.
    for cipher in [
        "cipher_null-cbc-from:tomorrow",
        "capi:authenc(hmac(sha256),ecb(cipher_null))-random",
        "capi:ecb(null)-x",
    ] {
        assert!(cipher.parse::<CipherSpec>().is_err(), "{cipher}");
        let refused = spoilt(|m| m["keyslots"]["0"]["area"]["encryption"] = json!(cipher));
        assert_eq!(refused, HeaderError::NullCipher(keyslot(0, "area.encryption")), "{cipher}");
        let refused = spoilt(|m| m["segments"]["0"]["encryption"] = json!(cipher));
        assert_eq!(refused, HeaderError::NullCipher(segment("encryption")), "{cipher}");
    }
    let length = |place, bytes| HeaderError::KeyLength { place, bytes };
    assert_eq!(
        spoilt(|m| m["keyslots"]["0"]["area"]["key_size"] = json!(63)),
        length(keyslot(0, "area.key_size"), 63)
    );
    assert_eq!(spoilt(|m| m["keyslots"]["1"]["key_size"] = json!(1)), length(keyslot(1, "key_size"), 1));
    assert_eq!(
        spoilt(|m| m["keyslots"]["2"]["key_size"] = json!(0)),
        HeaderError::OutOfBounds { place: keyslot(2, "key_size"), value: 0 }
    );
    // An unbound key has the length that it has.
    let mut unbound = metadata();
    unbound["keyslots"]["2"]["key_size"] = json!(5);
    parse(&unbound).expect("passes");
}

#[test]
fn salts_and_digests_are_base64_of_their_length() {
    for text in [
        "",
        "AAAA",
        "U8IDNbkwnEd7tJrSEV3kyM0lwv5Znccf11z22UICt7k",
        "*8IDNbkwnEd7tJrSEV3kyM0lwv5Znccf11z22UICt7k=",
    ] {
        let salt = spoilt(|m| m["keyslots"]["0"]["kdf"]["salt"] = json!(text));
        assert_eq!(salt, HeaderError::Base64(keyslot(0, "kdf.salt")), "{text}");
        assert_eq!(
            spoilt(|m| m["digests"]["0"]["digest"] = json!(text)),
            HeaderError::Base64(digest("digest")),
            "{text}"
        );
    }
}

#[test]
fn segments_are_numbered_without_gaps_and_do_not_overlap() {
    let with = |changes: &dyn Fn(&mut Value)| {
        let mut m = metadata();
        m["segments"]["1"] = m["segments"]["0"].clone();
        m["segments"]["0"]["size"] = json!("1048576");
        m["segments"]["1"]["offset"] = json!("17825792");
        m["digests"]["0"]["segments"] = json!(["0", "1"]);
        changes(&mut m);
        parse(&m)
    };
    with(&|_| {}).expect("two segments in a row pass");
    let refused = |changes: &dyn Fn(&mut Value)| with(changes).expect_err("refused");
    assert_eq!(
        refused(&|m| m["segments"]["0"]["size"] = json!("dynamic")),
        HeaderError::SegmentAfterDynamic { segment: 0 }
    );
    assert_eq!(
        refused(&|m| m["segments"]["1"]["offset"] = json!("17821696")),
        HeaderError::SegmentOverlap { a: 0, b: 1 }
    );
    assert_eq!(
        refused(&|m| m["segments"]["0"]["size"] = json!("18446744073709547520")),
        HeaderError::SegmentOverlap { a: 0, b: 0 }
    );
    assert_eq!(
        refused(&|m| {
            m["segments"]["2"] = m["segments"]["1"].take();
            remove(&mut m["segments"], "1");
            m["digests"]["0"]["segments"] = json!(["0", "2"]);
        }),
        HeaderError::SegmentNumbers
    );
    assert_eq!(
        refused(&|m| m["segments"]["0"]["flags"] = json!(["backup-final"])),
        HeaderError::SegmentNumbers
    );
    assert_eq!(
        refused(&|m| m["segments"]["0"]["flags"] = json!([1])),
        HeaderError::WrongType(segment("flags"))
    );
    let none = spoilt(|m| {
        m["segments"] = json!({});
        m["digests"]["0"]["segments"] = json!([]);
    });
    assert_eq!(none, HeaderError::SegmentNumbers);
    // Behind the segments of the volume, backup segments may say what they like.
    with(&|m| m["segments"]["1"]["flags"] = json!(["backup-previous"])).expect("passes");
}

#[test]
fn types_that_must_be_known_are() {
    let unknown = |place| HeaderError::UnknownValue(place);
    assert_eq!(spoilt(|m| m["keyslots"]["0"]["af"]["type"] = json!("luks9")), unknown(keyslot(0, "af.type")));
    assert_eq!(
        spoilt(|m| m["keyslots"]["0"]["area"]["type"] = json!("none")),
        unknown(keyslot(0, "area.type"))
    );
    // Others may come with later versions, and are kept.
    for change in [
        |m: &mut Value| m["keyslots"]["2"]["type"] = json!("later"),
        |m: &mut Value| m["keyslots"]["2"]["kdf"] = json!({"type": "later"}),
        |m: &mut Value| m["digests"]["1"]["type"] = json!("later"),
        |m: &mut Value| m["config"]["later"] = json!({"a": 1}),
        |m: &mut Value| m["config"]["flags"] = json!(["allow-discards", "later"]),
        |m: &mut Value| m["config"]["requirements"] = json!({"mandatory": ["later"]}),
        |m: &mut Value| m["later"] = json!([]),
    ] {
        let mut metadata = metadata();
        change(&mut metadata);
        let parsed = parse(&metadata).expect("passes");
        assert_eq!(parsed.to_json(), metadata.to_string());
    }
}

#[test]
fn integrity_is_described_completely() {
    let integrity =
        json!({"type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none"});
    let mut with = metadata();
    with["segments"]["0"]["integrity"] = integrity.clone();
    parse(&with).expect("passes");
    for field in ["type", "journal_encryption", "journal_integrity"] {
        let error = spoilt(|m| {
            m["segments"]["0"]["integrity"] = integrity.clone();
            remove(&mut m["segments"]["0"]["integrity"], field);
        });
        assert!(matches!(error, HeaderError::Missing(place) if place.field.ends_with(field)), "{error:?}");
    }
}

#[test]
fn a_sealed_volume_is_one_segment_with_its_requirement() {
    let sealed = |m: &mut Value| {
        m["segments"]["0"] = json!({
            "type": "atrest-sealed", "offset": "0", "size": "dynamic", "format": "AAECAwQFBgcICQoLDA0ODw=="
        });
        m["config"]["requirements"] = json!({"mandatory": ["atrest-sealed"]});
    };
    let mut good = metadata();
    sealed(&mut good);
    let parsed = parse(&good).expect("passes");
    assert_eq!(parsed.config().requirements, [Requirement::Sealed]);
    let format = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    assert_eq!(parsed.segments()[0].kind, SegmentKind::Sealed { format });
    let refused = |change: &dyn Fn(&mut Value)| {
        spoilt(|m| {
            sealed(m);
            change(m);
        })
    };
    assert_eq!(refused(&|m| remove(&mut m["config"], "requirements")), HeaderError::Sealed);
    assert_eq!(refused(&|m| m["segments"]["0"] = metadata()["segments"]["0"].clone()), HeaderError::Sealed);
    // Two of them, and one beside data.
    let second = |m: &mut Value, segment: Value| {
        m["segments"]["0"]["size"] = json!("4096");
        m["segments"]["1"] = segment;
        m["digests"]["0"]["segments"] = json!(["0", "1"]);
    };
    let behind = |mut segment: Value| {
        segment["offset"] = json!("16777216");
        segment
    };
    assert_eq!(refused(&|m| second(m, behind(good["segments"]["0"].clone()))), HeaderError::Sealed);
    assert_eq!(refused(&|m| second(m, behind(metadata()["segments"]["0"].clone()))), HeaderError::Sealed);
    assert_eq!(
        refused(&|m| remove(&mut m["segments"]["0"], "format")),
        HeaderError::Missing(segment("format"))
    );
    for bad in [
        "",
        "AAECAwQFBgcICQoLDA0O",
        "AAECAwQFBgcICQoLDA0ODxA=",
        "AAECAwQFBgcICQoLDA0ODw",
        "!AECAwQFBgcICQoLDA0ODw==",
    ] {
        let error = refused(&|m| m["segments"]["0"]["format"] = json!(bad));
        assert_eq!(error, HeaderError::Base64(segment("format")), "{bad}");
    }
    assert_eq!(
        refused(&|m| m["digests"]["0"]["segments"] = json!([])),
        HeaderError::SegmentWithoutDigest { segment: 0 }
    );
}

#[test]
fn a_reencryption_is_recognised_and_complete() {
    let reencrypting = |m: &mut Value, resilience: Value| {
        let mut area = json!({"offset": "806912", "size": "4096"});
        area.as_object_mut().expect("an object").extend(resilience.as_object().expect("an object").clone());
        m["keyslots"]["3"] = json!({"type": "reencrypt", "key_size": 1, "mode": "reencrypt", "direction": "forward", "area": area});
        m["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]});
    };
    let checksum = json!({"type": "checksum", "hash": "sha256", "sector_size": 512});
    let mut good = metadata();
    reencrypting(&mut good, checksum.clone());
    let parsed = parse(&good).expect("passes");
    assert_eq!(parsed.config().requirements, [Requirement::OnlineReencrypt("online-reencrypt-v2".into())]);
    let refused = |resilience: &Value, change: &dyn Fn(&mut Value)| {
        spoilt(|m| {
            reencrypting(m, resilience.clone());
            change(m);
        })
    };
    let place = |field| keyslot(3, field);
    assert_eq!(
        refused(&checksum, &|m| remove(&mut m["config"], "requirements")),
        HeaderError::ReencryptionState
    );
    assert_eq!(refused(&checksum, &|m| remove(&mut m["keyslots"], "3")), HeaderError::ReencryptionState);
    assert_eq!(
        refused(&checksum, &|m| {
            m["keyslots"]["4"] = m["keyslots"]["3"].clone();
            m["keyslots"]["4"]["area"]["offset"] = json!("811008");
        }),
        HeaderError::ReencryptionState
    );
    assert_eq!(
        refused(&checksum, &|m| m["keyslots"]["3"]["mode"] = json!("x")),
        HeaderError::UnknownValue(place("mode"))
    );
    assert_eq!(
        refused(&checksum, &|m| m["keyslots"]["3"]["direction"] = json!("x")),
        HeaderError::UnknownValue(place("direction"))
    );
    assert_eq!(
        refused(&json!({"type": "checksum", "hash": "sha256", "sector_size": 513}), &|_| {}),
        HeaderError::OutOfBounds { place: place("area.sector_size"), value: 513 }
    );
    assert_eq!(
        refused(&json!({"type": "datashift", "shift_size": "0"}), &|_| {}),
        HeaderError::OutOfBounds { place: place("area.shift_size"), value: 0 }
    );
    assert_eq!(
        refused(&json!({"type": "datashift", "shift_size": "100"}), &|_| {}),
        HeaderError::Misaligned { place: place("area.shift_size"), value: 100, multiple: 512 }
    );
}

#[test]
fn the_json_text_itself_is_strict() {
    let text = metadata().to_string();
    let refused = |area: &[u8]| Metadata::parse(area).expect_err("refused");
    assert_eq!(refused(&area(&format!(" {text}"))), HeaderError::JsonStart);
    assert_eq!(refused(&area("[]")), HeaderError::JsonStart);
    assert_eq!(refused(&[]), HeaderError::JsonStart);
    let len = text.len() as u64;
    assert_eq!(refused(&area(&format!("{text} "))), HeaderError::JsonTrailingBytes { offset: len });
    assert_eq!(refused(&area(&format!("{text}x"))), HeaderError::JsonSyntax { offset: len });
    assert_eq!(refused(&area(&format!("{text}\0\0x"))), HeaderError::JsonTrailingBytes { offset: len + 2 });
    assert_eq!(refused(text.as_bytes()), HeaderError::JsonUnterminated);
    let cut = &text[..text.len() - 1];
    assert!(matches!(refused(&area(cut)), HeaderError::JsonSyntax { .. }));
    let mut latin = area(&text);
    latin[20] = 0xE9;
    assert_eq!(refused(&latin), HeaderError::JsonSyntax { offset: 20 });
    let twice = text.replacen("\"tokens\":", "\"tokens\":{},\"tokens\":", 1);
    assert_eq!(refused(&area(&twice)), HeaderError::JsonDuplicate);
    let inner = text.replacen("\"extra\":", "\"extra\":1,\"extra\":", 1);
    assert_eq!(refused(&area(&inner)), HeaderError::JsonDuplicate);
    let deep = |levels: usize| {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        text.replacen("[1,2]", &nested, 1)
    };
    Metadata::parse(&area(&deep(29))).expect("32 levels in all pass");
    assert_eq!(refused(&area(&deep(30))), HeaderError::JsonDepth);
    let wide = text.replacen("[1,2]", &format!("[{}0]", "0,".repeat(1024)), 1);
    assert_eq!(refused(&area(&wide)), HeaderError::JsonMembers);
    assert_eq!(area(&text).len(), JSON_SIZE);
}

/// What is computed from offsets and sizes has to fit in 64 bits, also for segments that only remember a state.
#[test]
fn no_offset_or_size_is_beyond_every_medium() {
    const MOST: u64 = atrest_format::luks2::MAX_BYTES;
    let backup = |m: &mut Value, offset: u64, size: &str| {
        m["segments"]["1"] =
            json!({"type": "linear", "offset": offset.to_string(), "size": size, "flags": ["backup-final"]});
    };
    let of_backup = |field| Section::Segments.member(1).at(field);
    for value in [MOST + 512, 1 << 63, u64::MAX - 511] {
        let text = value.to_string();
        let refused = |place| HeaderError::OutOfBounds { place, value };
        assert_eq!(spoilt(|m| backup(m, value, "dynamic")), refused(of_backup("offset")));
        assert_eq!(spoilt(|m| backup(m, value, "512")), refused(of_backup("offset")));
        assert_eq!(spoilt(|m| backup(m, 0, &text)), refused(of_backup("size")));
        assert_eq!(spoilt(|m| m["segments"]["0"]["offset"] = json!(text)), refused(segment("offset")));
    }
    let size = MOST + 4096;
    assert_eq!(
        spoilt(|m| m["segments"]["0"]["size"] = json!(size.to_string())),
        HeaderError::OutOfBounds { place: segment("size"), value: size }
    );
    let mut largest = metadata();
    backup(&mut largest, MOST, &MOST.to_string());
    let largest = parse(&largest).expect("passes");
    assert_eq!(largest.segments().last().map(|segment| segment.offset), Some(MOST));
}
