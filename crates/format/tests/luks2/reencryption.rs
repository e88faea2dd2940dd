//! A re-encryption in the metadata: complete or refused by name, and every byte that its digest binds.

use atrest_format::luks2::{
    Checksums, HeaderError, Metadata, ReencryptDirection, ReencryptMode, Reencryption, ReencryptionFault,
    Requirement, Resilience, Segment, SegmentKind, SegmentSize, Shift,
};
use serde_json::{Value, json};

use crate::sample::{metadata, parse};

const DATA: u64 = 16_777_216;

fn crypt(offset: u64, tweak: u64, size: Value, flags: Value) -> Value {
    json!({"type": "crypt", "offset": offset.to_string(), "size": size, "iv_tweak": tweak.to_string(),
           "encryption": "aes-xts-plain64", "sector_size": 4096, "flags": flags})
}

/// As cryptsetup 2.6.1 writes it: a zone is done, one is hot, one is left. The new key has digest 2, and keyslot 4 holds it.
fn reencrypting() -> Value {
    let mut m = metadata();
    let digest = |m: &Value, keyslots: Value, segments: Value| {
        let mut digest = m["digests"]["0"].clone();
        (digest["keyslots"], digest["segments"]) = (keyslots, segments);
        digest
    };
    m["keyslots"]["4"] = m["keyslots"]["0"].clone();
    m["keyslots"]["4"]["area"]["offset"] = json!("806912");
    m["keyslots"]["3"] = json!({
        "type": "reencrypt", "key_size": 1, "mode": "reencrypt", "direction": "forward",
        "area": {"type": "checksum", "offset": "1064960", "size": "8192", "hash": "sha256", "sector_size": 512},
    });
    m["segments"] = json!({
        "0": crypt(DATA, 0, json!("4096"), json!([])),
        "1": crypt(DATA + 4096, 8, json!("8192"), json!(["in-reencryption"])),
        "2": crypt(DATA + 12_288, 24, json!("dynamic"), json!([])),
        "3": crypt(DATA, 0, json!("dynamic"), json!(["backup-previous"])),
        "4": crypt(DATA, 0, json!("dynamic"), json!(["backup-final"])),
    });
    m["digests"]["0"] = digest(&m, json!(["0", "1"]), json!(["1", "2", "3"]));
    m["digests"]["2"] = digest(&m, json!(["4"]), json!(["0", "1", "4"]));
    m["digests"]["3"] = digest(&m, json!(["3"]), json!([]));
    m["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]});
    m
}

fn state(change: impl FnOnce(&mut Value)) -> Result<Reencryption, ReencryptionFault> {
    let mut m = reencrypting();
    change(&mut m);
    parse(&m).expect("within the rules").reencryption()
}

#[test]
fn a_reencryption_is_read_with_everything_by_which_it_goes_on() {
    let found = state(|_| {}).expect("complete");
    assert_eq!((found.keyslot, found.version), (3, 2));
    assert_eq!((found.mode, found.direction), (ReencryptMode::Reencrypt, ReencryptDirection::Forward));
    assert_eq!((found.area_offset, found.area_size), (1_064_960, 8192));
    let checksums = Checksums { hash: "sha256".into(), sector_size: 512 };
    assert_eq!(found.resilience.checksums(), Some(&checksums));
    assert_eq!((found.resilience.name(), found.resilience.shift()), ("checksum", None));
    assert_eq!(found.active.iter().map(|segment| segment.id).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((found.hot, found.first_digests.as_slice()), (Some(1), &[2][..]));
    assert_eq!((found.previous.id, found.last.id, &found.moved), (3, 4, &None));
    assert_eq!((found.digest_previous, found.digest_last), (Some(0), Some(2)));
    let parsed = parse(&reencrypting()).expect("within the rules");
    assert_eq!(parsed.reencryption_digest(&found).map(|digest| digest.id), Some(3));
    assert_eq!(state(|m| m["segments"]["1"]["flags"] = json!([])).map(|state| state.hot), Ok(None));
}

#[test]
fn what_is_incomplete_is_refused_by_name() {
    use ReencryptionFault::{Area, Digests, None, Offline, Segments, Unverifiable};
    let refused = |change: fn(&mut Value)| state(change).expect_err("refused");
    let required = |names: Value| {
        state(|m| {
            m["config"]["requirements"]["mandatory"] = names;
        })
        .map(|state| state.version)
    };
    assert_eq!(required(json!(["online-reencrypt-v2", "of-tomorrow"])), Ok(2));
    assert_eq!(required(json!(["online-reencrypt-v3"])), Ok(3));
    assert_eq!(required(json!(["online-reencrypt"])), Err(Unverifiable), "cryptsetup before 2.4.3");
    assert_eq!(required(json!(["online-reencrypt-v2", "offline-reencrypt"])), Err(Offline));
    assert_eq!(required(json!(["online-reencrypt-v2", "online-reencrypt-v3x"])), Ok(2));
    let mut long = reencrypting();
    long["keyslots"]["3"]["key_size"] = json!(16);
    assert!(matches!(parse(&long), Err(HeaderError::OutOfBounds { value: 16, .. })), "it holds no key");
    // A version of tomorrow can be read, and is none that is known; two versions are a contradiction.
    assert_eq!(required(json!(["online-reencrypt-v999"])), Err(None));
    for two in ["online-reencrypt", "online-reencrypt-v3", "online-reencrypt-v999"] {
        let mut both = reencrypting();
        both["config"]["requirements"]["mandatory"] = json!(["online-reencrypt-v2", two]);
        assert_eq!(parse(&both).map(drop), Err(HeaderError::ReencryptionState), "{two}");
    }
    let mut none = metadata();
    none["config"]["requirements"] = json!({"mandatory": ["of-tomorrow"]});
    assert_eq!(parse(&none).expect("passes").reencryption(), Err(None));

    assert_eq!(refused(|m| m["digests"]["3"]["keyslots"] = json!([])), Unverifiable);
    let unverified = |change: fn(&mut Value)| {
        let mut m = reencrypting();
        change(&mut m);
        let found = parse(&m).expect("within the rules").unverified_reencryption();
        found.map(|state| (state.version, state.keyslot))
    };
    assert_eq!(unverified(|_| {}), Err(None), "it has one");
    assert_eq!(unverified(|m| m["digests"]["3"]["keyslots"] = json!([])), Ok((2, 3)));
    assert_eq!(
        unverified(|m| m["config"]["requirements"]["mandatory"] = json!(["online-reencrypt"])),
        Ok((2, 3))
    );
    assert_eq!(refused(|m| m["keyslots"]["3"]["area"]["type"] = json!("of-tomorrow")), Area);
    assert_eq!(refused(|m| m["segments"]["0"]["flags"] = json!(["in-reencryption"])), Segments, "two hot");
    assert_eq!(refused(|m| m["segments"]["3"]["flags"] = json!(["backup-final"])), Segments);
    assert_eq!(refused(|m| m["segments"]["4"]["flags"] = json!(["backup-previous"])), Segments);
    assert_eq!(refused(|m| m["segments"]["3"]["flags"] = json!(["backup-x"])), Segments);
    assert_eq!(refused(|m| m["segments"]["4"]["flags"] = json!(["backup-x"])), Segments);
    let moved = |m: &mut Value, ids: &[&str]| {
        for id in ids {
            m["segments"][*id] =
                json!({"type": "linear", "offset": "0", "size": "4096", "flags": ["backup-moved-segment"]});
        }
    };
    assert_eq!(state(|m| moved(m, &["5"])).map(|state| state.moved.map(|moved| moved.id)), Ok(Some(5)));
    assert_eq!(state(|m| moved(m, &["5", "6"])), Err(Segments));

    // Keys: by mode, and of every active segment.
    assert_eq!(refused(|m| m["digests"]["1"]["segments"] = json!(["1"])), Digests, "a third key");
    assert_eq!(refused(|m| m["keyslots"]["3"]["mode"] = json!("encrypt")), Digests);
    assert_eq!(refused(|m| m["keyslots"]["3"]["mode"] = json!("decrypt")), Digests);
    let plain = |m: &mut Value, backup: &str, digest: &str, others: Value| {
        m["segments"][backup]["type"] = json!("linear");
        m["digests"][digest]["segments"] = others;
    };
    let encrypting = |m: &mut Value, mode: &str| {
        plain(m, "3", "0", json!(["2"]));
        m["keyslots"]["3"]["mode"] = json!(mode);
    };
    assert_eq!(state(|m| encrypting(m, "reencrypt")), Err(Digests));
    let active_plain = |m: &mut Value| {
        encrypting(m, "encrypt");
        m["segments"]["2"]["type"] = json!("linear");
        m["digests"]["0"]["segments"] = json!([]);
    };
    assert_eq!(state(active_plain).map(|s| (s.digest_previous, s.digest_last)), Ok((Option::None, Some(2))));
    let decrypting = |m: &mut Value| {
        plain(m, "4", "2", json!([]));
        m["segments"]["0"]["type"] = json!("linear");
        m["keyslots"]["3"]["mode"] = json!("decrypt");
    };
    assert_eq!(state(decrypting).map(|s| (s.digest_previous, s.digest_last)), Ok((Some(0), Option::None)));
    // Each with the keys of another mode.
    for keys in ["reencrypt", "encrypt", "decrypt"] {
        for mode in ["reencrypt", "encrypt", "decrypt"] {
            let found = state(|m| {
                match keys {
                    "encrypt" => active_plain(m),
                    "decrypt" => decrypting(m),
                    _ => {}
                }
                m["keyslots"]["3"]["mode"] = json!(mode);
            });
            let expected = if mode == keys { Ok(mode) } else { Err(Digests) };
            assert_eq!(found.map(|state| state.mode.name()), expected, "{mode} with the keys of {keys}");
        }
    }
}

#[test]
fn names_and_what_they_stand_for_are_the_formats() {
    let checksums = || Checksums { hash: "sha1".into(), sector_size: 4096 };
    let all = [
        (Resilience::None, "none", false, None),
        (Resilience::Journal, "journal", false, None),
        (Resilience::Checksum(checksums()), "checksum", true, None),
        (Resilience::DataShift(Shift(512)), "datashift", false, Some(512)),
        (Resilience::DataShiftJournal(Shift(1024)), "datashift-journal", false, Some(1024)),
        (Resilience::DataShiftChecksum(checksums(), Shift(1536)), "datashift-checksum", true, Some(1536)),
    ];
    for (resilience, name, hashed, shift) in all {
        assert_eq!((resilience.name(), resilience.shift()), (name, shift));
        assert_eq!(resilience.checksums().is_some(), hashed, "{name}");
        let read = state(|m| {
            m["keyslots"]["3"]["area"] = json!({"type": name, "offset": "1064960", "size": "8192",
                "hash": "sha1", "sector_size": 4096, "shift_size": shift.unwrap_or(512).to_string()});
        });
        assert_eq!(read.map(|state| state.resilience), Ok(resilience));
    }
    use Requirement as R;
    let required: Vec<R> = ["offline-reencrypt", "inline-hw-tags", "opal", "opal-v2", "online-reencrypt-v4"]
        .into_iter()
        .map(|name| {
            let mut m = metadata();
            m["config"]["requirements"] = json!({"mandatory": [name]});
            let one = parse(&m).expect("passes").config().requirements[0].clone();
            assert_eq!(one.name(), name);
            one
        })
        .collect();
    let expected = [
        R::OfflineReencrypt,
        R::InlineHwTags,
        R::Opal("opal".into()),
        R::Opal("opal-v2".into()),
        R::Unknown("online-reencrypt-v4".into()),
    ];
    assert_eq!(required, expected);
    assert_eq!(expected.map(|r| r.is_reencryption()), [true, false, false, false, false]);
    assert!(R::OnlineReencrypt("online-reencrypt-v2".into()).is_reencryption());
}

/// LUKS2 specification, section 3.7 and `reencrypt_assembly_verification_data` of cryptsetup 2.6.1, written down by hand.
#[test]
fn the_digest_binds_protection_place_and_every_backup_segment() {
    let mut whole = state(|m| {
        m["keyslots"]["3"]["area"] = json!({"type": "datashift-checksum", "offset": "1064960", "size": "8192",
            "hash": "sha256", "sector_size": 512, "shift_size": "1048576"});
    })
    .expect("complete");
    let number = |number: u64| number.to_be_bytes().to_vec();
    let moved = Segment {
        id: 5,
        offset: 7 << 20,
        size: SegmentSize::Fixed(1 << 20),
        flags: vec!["backup-moved-segment".into()],
        kind: SegmentKind::Linear,
    };
    let mut expected: Vec<u8> = b"reencryptforwarddatashift-checksum".to_vec();
    expected.extend([number(1_064_960), number(8192)].concat());
    expected.extend(b"sha256");
    expected.extend(512_u32.to_be_bytes());
    expected.extend(number(1 << 20));
    for _ in 0..2 {
        expected.extend(b"crypt");
        expected.extend(number(DATA));
        expected.extend(b"dynamic");
        expected.extend(number(0));
        expected.extend(b"aes-xts-plain64");
        expected.extend(4096_u32.to_be_bytes());
    }
    assert_eq!(whole.verified_metadata(), Ok(expected.clone()));
    whole.moved = Some(moved);
    expected.extend(b"linear");
    expected.extend([number(7 << 20), number(1 << 20)].concat());
    assert_eq!(whole.verified_metadata(), Ok(expected));
    assert_eq!(whole.verification_prefix(), *b"v2");
    assert_eq!(Reencryption { version: 3, ..whole.clone() }.verification_prefix(), *b"v3");

    let of_hash = |len: usize| {
        let checksums = Checksums { hash: "x".repeat(len), sector_size: 512 };
        Reencryption { resilience: Resilience::Checksum(checksums), ..whole.clone() }.verified_metadata()
    };
    assert!(of_hash(64).is_ok());
    assert_eq!(of_hash(65), Err(ReencryptionFault::TextLength));
    whole.last.kind = SegmentKind::Unknown("of-tomorrow".into());
    assert_eq!(whole.verified_metadata(), Err(ReencryptionFault::Segments));
}

/// Everything that is read is written back the same, member by member.
#[test]
fn what_is_read_is_what_is_written() {
    let all = [
        json!({"type": "none"}),
        json!({"type": "journal"}),
        json!({"type": "checksum", "hash": "sha256", "sector_size": 512}),
        json!({"type": "datashift", "shift_size": "512"}),
        json!({"type": "datashift-journal", "shift_size": "512"}),
        json!({"type": "datashift-checksum", "hash": "sha256", "sector_size": 512, "shift_size": "512"}),
        json!({"type": "of-tomorrow"}),
    ];
    for area in all {
        let mut m = reencrypting();
        let place = m["keyslots"]["3"]["area"].as_object_mut().expect("an object");
        place.clear();
        place.extend([("offset".into(), json!("1064960")), ("size".into(), json!("8192"))]);
        place.extend(area.as_object().expect("an object").clone());
        for (id, priority) in [("0", 0), ("1", 2)] {
            m["keyslots"][id]["priority"] = json!(priority);
        }
        m["keyslots"]["2"] = json!({"type": "of-tomorrow", "key_size": 9,
            "area": {"type": "x", "offset": "548864", "size": "4096"}});
        m["keyslots"]["4"]["kdf"] = json!({"type": "of-tomorrow"});
        m["segments"]["5"] =
            json!({"type": "of-tomorrow", "offset": "0", "size": "512", "flags": ["backup-x"]});
        m["segments"]["6"] = json!({"type": "crypt", "offset": "16777728", "size": "4096", "iv_tweak": "7",
            "encryption": "aes-xts-plain64", "sector_size": 512, "flags": ["backup-y"],
            "integrity": {"type": "hmac(sha256)", "journal_encryption": "a", "journal_integrity": "b"}});
        m["digests"]["0"]["segments"] = json!(["1", "2", "3", "6"]);
        m["digests"]["1"] = json!({"type": "of-tomorrow", "keyslots": ["2"], "segments": []});
        m["config"]["flags"] = json!(["allow-discards"]);
        m["tokens"] = json!({});
        let read = parse(&m).expect("passes");
        let made = Metadata::create(read.keyslots(), read.segments(), read.digests(), read.config());
        let made: Value = serde_json::from_str(&made.expect("passes").to_json()).expect("JSON");
        // Segments without flags have no such member.
        for segment in m["segments"].as_object_mut().expect("an object").values_mut() {
            if segment["flags"] == json!([]) {
                segment.as_object_mut().expect("an object").remove("flags");
            }
        }
        assert_eq!(made, m, "{area}");
    }
}
