//! The last number that is accepted, and the first that is not, of everything that the metadata says.

use atrest_format::luks2::{
    HEADER_SIZES, HeaderError, MAX_BYTES, Metadata, Place, Section, SegmentKind, area_size,
};
use serde_json::{Value, json};

use crate::sample::{metadata, parse, spoilt};

fn passes(change: impl FnOnce(&mut Value)) -> Metadata {
    let mut metadata = metadata();
    change(&mut metadata);
    parse(&metadata).expect("passes")
}

fn out(place: Place, value: u64) -> HeaderError {
    HeaderError::OutOfBounds { place, value }
}

fn keyslot(id: u32, field: &'static str) -> Place {
    Section::Keyslots.member(id).at(field)
}

/// A field, where it is, the values that pass, and those that do not.
type Field = (&'static str, fn(&mut Value) -> &mut Value, Place, &'static [u64], &'static [u64]);

#[test]
fn numbers_pass_up_to_their_bounds() {
    let segment = Section::Segments.member(0);
    let digest = Section::Digests.member(0);
    let fields: [Field; 9] = [
        ("lanes", |m| &mut m["keyslots"]["1"]["kdf"]["cpus"], keyslot(1, "kdf.cpus"), &[1, 64], &[0, 65]),
        (
            "passes",
            |m| &mut m["keyslots"]["1"]["kdf"]["time"],
            keyslot(1, "kdf.time"),
            &[1, 0xffff_ffff],
            &[0],
        ),
        (
            "memory",
            |m| &mut m["keyslots"]["1"]["kdf"]["memory"],
            keyslot(1, "kdf.memory"),
            &[32, 4 << 20],
            &[31, (4 << 20) + 1],
        ),
        (
            "iterations",
            |m| &mut m["keyslots"]["0"]["kdf"]["iterations"],
            keyslot(0, "kdf.iterations"),
            &[1, 0xffff_ffff],
            &[0],
        ),
        (
            "iterations of a digest",
            |m| &mut m["digests"]["0"]["iterations"],
            digest.at("iterations"),
            &[1, 0xffff_ffff],
            &[0],
        ),
        (
            "stripes",
            |m| &mut m["keyslots"]["0"]["af"]["stripes"],
            keyslot(0, "af.stripes"),
            &[4000],
            &[3999, 4001],
        ),
        ("priority", |m| &mut m["keyslots"]["0"]["priority"], keyslot(0, "priority"), &[0, 1, 2], &[3]),
        (
            "data units",
            |m| &mut m["segments"]["0"]["sector_size"],
            segment.at("sector_size"),
            &[512, 1024, 2048, 4096],
            &[256, 511, 513, 3072, 8192],
        ),
        (
            "key of an area",
            |m| {
                m["keyslots"]["0"]["area"]["encryption"] = json!("of-tomorrow");
                &mut m["keyslots"]["0"]["area"]["key_size"]
            },
            keyslot(0, "area.key_size"),
            &[1, 512],
            &[0, 513],
        ),
    ];
    for (what, field, place, good, bad) in fields {
        for value in good {
            passes(|m| *field(m) = json!(value));
        }
        for value in bad {
            assert_eq!(spoilt(|m| *field(m) = json!(value)), out(place, *value), "{what}");
        }
    }
}

#[test]
fn digests_have_20_to_64_bytes_and_salts_32() {
    // Without padding: multiples of 3 bytes, and with it.
    let base64 = |len: usize| {
        let digits = "A".repeat(len.div_ceil(3) * 4);
        let padding = (3 - len % 3) % 3;
        format!("{}{}", &digits[padding..], "=".repeat(padding))
    };
    for (len, good) in [(19, false), (20, true), (32, true), (64, true), (65, false)] {
        let mut m = metadata();
        m["digests"]["0"]["digest"] = json!(base64(len));
        assert_eq!(parse(&m).is_ok(), good, "{len}");
    }
    for len in [31, 33] {
        let refused = spoilt(|m| m["keyslots"]["0"]["kdf"]["salt"] = json!(base64(len)));
        assert_eq!(refused, HeaderError::Base64(keyslot(0, "kdf.salt")), "{len}");
    }
}

#[test]
fn areas_may_fill_the_keyslots_area_from_its_first_byte_to_its_last() {
    let area = |m: &mut Value, offset: u64, size: u64| {
        m["keyslots"]["2"]["area"]["offset"] = json!(offset.to_string());
        m["keyslots"]["2"]["area"]["size"] = json!(size.to_string());
    };
    let end = 16_777_216;
    assert_eq!(passes(|m| area(m, end - 258_048, 258_048)).keyslots()[2].area.end(), end);
    let refused = spoilt(|m| area(m, end - 258_048, 258_049));
    assert_eq!(refused, HeaderError::AreaOutOfBounds { keyslot: 2, offset: end - 258_048, size: 258_049 });
    // The second keyslot behind the first, byte by byte; the gap between them is unused.
    passes(|m| area(m, 806_912 - 258_048, 258_048));
    assert_eq!(
        spoilt(|m| area(m, 32_768 - 4096, 4096)),
        HeaderError::AreaOutOfBounds { keyslot: 2, offset: 28_672, size: 4096 }
    );
    // The padding of the last stripe belongs to the key: 64 · 4000 bytes are 500 sectors, 65 · 4000 are 508.
    passes(|m| area(m, 548_864, 256_000));
    let short = spoilt(|m| area(m, 548_864, 255_999));
    assert_eq!(short, HeaderError::AreaTooSmall { keyslot: 2, has: 255_999, needs: 256_000 });
    let odd = |size: u64| {
        let mut m = metadata();
        m["keyslots"]["2"]["key_size"] = json!(65);
        area(&mut m, 548_864, size);
        parse(&m).map(drop)
    };
    assert_eq!(odd(260_096), Ok(()));
    assert_eq!(odd(260_095), Err(HeaderError::AreaTooSmall { keyslot: 2, has: 260_095, needs: 260_096 }));
    assert_eq!([1, 32, 64, 65].map(area_size), [4096, 131_072, 258_048, 262_144]);
}

#[test]
fn the_keyslots_area_ends_with_the_data_or_before_it_and_has_128_mib_at_most() {
    let sized = |size: u64, data: u64| {
        let mut m = metadata();
        m["config"]["keyslots_size"] = json!(size.to_string());
        m["segments"]["0"]["offset"] = json!(data.to_string());
        parse(&m).map(|m| m.keyslots_end())
    };
    let most = 128 << 20;
    assert_eq!(sized(most, 32_768 + most), Ok(32_768 + most));
    assert_eq!(sized(most, 0), Ok(32_768 + most), "a detached header");
    let place = Section::Config.itself().at("keyslots_size");
    assert_eq!(sized(most + 4096, 0), Err(out(place, most + 4096)));
    let early = 32_768 + most - 512;
    assert_eq!(sized(most, early), Err(HeaderError::KeyslotsReachData { end: 32_768 + most, data: early }));
    assert_eq!(sized(most, 512), Err(HeaderError::KeyslotsReachData { end: 32_768 + most, data: 512 }));
}

#[test]
fn a_json_area_has_one_of_nine_sizes() {
    let of_size = |size: u64, claims: u64| {
        let mut m = metadata();
        let start = 2 * (size + 4096);
        m["config"]["json_size"] = json!(claims.to_string());
        m["config"]["keyslots_size"] = json!("1048576");
        for (slot, at) in [("0", 0), ("1", 258_048), ("2", 2 * 258_048)] {
            m["keyslots"][slot]["area"]["offset"] = json!((start + at).to_string());
        }
        m["segments"]["0"]["offset"] = json!((start + 1_048_576).to_string());
        let mut text = m.to_string().into_bytes();
        text.resize(size as usize, 0);
        Metadata::parse(&text).map(|m| m.keyslots_start())
    };
    for size in HEADER_SIZES {
        assert_eq!(of_size(size - 4096, size - 4096), Ok(2 * size));
        let other = HeaderError::JsonSize { claims: size, must: size - 4096 };
        assert_eq!(of_size(size - 4096, size), Err(other));
    }
    for size in [0x4000, 0x6000, 0x80_0000 - 4096] {
        assert_eq!(of_size(size, size), Err(HeaderError::JsonSize { claims: size, must: size }));
    }
}

#[test]
fn segments_lie_one_behind_the_other_without_a_shared_byte() {
    let row = |segments: &[(u64, &str)]| {
        let mut m = metadata();
        let like = m["segments"]["0"].take();
        m["segments"] = json!({});
        for (id, (offset, size)) in segments.iter().enumerate() {
            let mut segment = like.clone();
            segment["offset"] = json!(offset.to_string());
            segment["size"] = json!(size);
            m["segments"][id.to_string()] = segment;
        }
        let ids: Vec<String> = (0..segments.len()).map(|id| id.to_string()).collect();
        m["digests"]["0"]["segments"] = json!(ids);
        parse(&m).map(|m| m.data_offset())
    };
    const DATA: u64 = 16_777_216;
    assert_eq!(row(&[(DATA, "4096"), (DATA + 4096, "4096"), (DATA + 8192, "dynamic")]), Ok(DATA));
    // In any order on the media.
    assert_eq!(row(&[(DATA + 8192, "4096"), (DATA, "4096"), (DATA + 12_288, "4096")]), Ok(DATA));
    let overlap = |a, b| Err(HeaderError::SegmentOverlap { a, b });
    assert_eq!(row(&[(DATA, "8192"), (DATA + 4096, "4096")]), overlap(0, 1));
    assert_eq!(row(&[(DATA + 4096, "4096"), (DATA, "8192")]), overlap(0, 1));
    assert_eq!(row(&[(DATA, "4096"), (DATA, "4096")]), overlap(0, 1));
    assert_eq!(row(&[(DATA + 8192, "4096"), (DATA, "dynamic")]), overlap(0, 1));
    assert_eq!(row(&[(DATA, "4096"), (DATA + 4096, "8192"), (DATA + 8192, "4096")]), overlap(1, 2));
    let after = |segment| Err(HeaderError::SegmentAfterDynamic { segment });
    assert_eq!(row(&[(DATA, "dynamic"), (DATA + 4096, "4096")]), after(0));
    assert_eq!(row(&[(DATA, "4096"), (DATA + 8192, "dynamic"), (DATA + 4096, "4096")]), after(1));
    assert_eq!(row(&[(MAX_BYTES, "dynamic")]), Ok(MAX_BYTES));
}

#[test]
fn a_segment_of_dm_crypt_names_its_cipher() {
    let mut m = metadata();
    m["segments"]["0"]["encryption"] = json!("");
    assert!(matches!(parse(&m), Err(HeaderError::Missing(_))));
}

#[test]
fn a_backup_may_come_before_no_active_segment_and_counts_for_no_offset() {
    let with = |number: &str, flags: Value| {
        let mut m = metadata();
        m["segments"][number] = json!({"type": "linear", "offset": "0", "size": "4096", "flags": flags});
        parse(&m)
    };
    let backup = with("1", json!(["backup-final"])).expect("behind the active one");
    assert_eq!(backup.data_offset(), 16_777_216);
    assert_eq!(backup.segments()[1].kind, SegmentKind::Linear);
    assert!(backup.segments()[1].is_backup() && backup.segments()[1].has_flag("backup-final"));
    // Its number could be that of a segment.
    assert_eq!(with("2", json!(["x", "backup-previous"])).expect_err("a gap"), HeaderError::SegmentNumbers);
    let mut m = metadata();
    for number in ["2", "3"] {
        m["segments"][number] =
            json!({"type": "linear", "offset": "0", "size": "4096", "flags": ["backup-x"]});
    }
    assert!(parse(&m).is_ok(), "with two of them, 2 could");
    assert_eq!(with("7", json!(["in-reencryption"])).expect_err("a gap"), HeaderError::SegmentNumbers);
    let active = with("1", json!(["in-backup-x"])).expect_err("not a backup");
    assert_eq!(active, HeaderError::SegmentAfterDynamic { segment: 0 });
    // Behind a backup nothing is active.
    let mut m = metadata();
    m["segments"]["1"] = json!({"type": "linear", "offset": "0", "size": "4096", "flags": ["backup-x"]});
    m["segments"]["2"] = json!({"type": "linear", "offset": "0", "size": "4096"});
    assert_eq!(parse(&m).expect_err("refused"), HeaderError::SegmentNumbers);
}

#[test]
fn objects_and_lists_have_1024_members_at_most() {
    let token = |value: Value| {
        let mut m = metadata();
        m["tokens"]["0"]["extra"] = value;
        let mut text = m.to_string().into_bytes();
        text.resize(28_672, 0);
        match Metadata::parse(&text) {
            // The size of the area is another rule's, and the last one.
            Err(HeaderError::JsonSize { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => panic!("a JSON area of another size"),
        }
    };
    let list = |count: usize| json!(vec![0; count]);
    let object = |count: usize| Value::Object((0..count).map(|n| (n.to_string(), json!(0))).collect());
    assert_eq!([token(list(1024)), token(object(1024))], [Ok(()), Ok(())]);
    assert_eq!(token(list(1025)), Err(HeaderError::JsonMembers));
    assert_eq!(token(object(1025)), Err(HeaderError::JsonMembers));
    // Values of every form are carried.
    let forms = json!([null, true, -1, 1.5, "x", {"a": []}, 18_446_744_073_709_551_615_u64]);
    assert_eq!(token(forms), Ok(()));
}

#[test]
fn a_fault_in_the_text_is_told_by_its_place_on_whichever_line() {
    let offset = |text: &str| match Metadata::parse(&crate::sample::area(text)) {
        Err(HeaderError::JsonSyntax { offset }) => offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(offset("{x"), 1);
    assert_eq!(offset("{\n  \"a\": x"), 9);
    assert_eq!(offset("{\n\n\"a\":\n1,}"), 10);
    let nested = metadata().to_string();
    let token = |text: &str| parse(&metadata()).expect("passes").with_token(1, text).expect_err("refused");
    assert_eq!(token("{\n x"), HeaderError::JsonSyntax { offset: 3 });
    assert!(nested.len() < 12_288);
}

#[test]
fn hashes_of_a_reencryption_are_of_sectors_and_shifts_of_what_a_medium_can_hold() {
    let with = |area: Value| {
        let mut m = metadata();
        let mut whole = json!({"offset": "806912", "size": "4096"});
        whole.as_object_mut().expect("an object").extend(area.as_object().expect("an object").clone());
        m["keyslots"]["3"] = json!({"type": "reencrypt", "key_size": 1, "mode": "encrypt", "direction": "backward", "area": whole});
        m["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]});
        parse(&m).map(drop)
    };
    let hashed = |size: u64| with(json!({"type": "checksum", "hash": "sha256", "sector_size": size}));
    assert_eq!([512, 1024, 4096, 1 << 31].map(hashed), [const { Ok(()) }; 4]);
    for size in [0, 1, 256, 511, 513, 1536] {
        assert_eq!(hashed(size), Err(out(keyslot(3, "area.sector_size"), size)));
    }
    let moved = |kind: &str, size: u64| {
        with(json!({"type": kind, "hash": "sha256", "sector_size": 512, "shift_size": size.to_string()}))
    };
    for kind in ["datashift", "datashift-journal", "datashift-checksum"] {
        assert_eq!([512, MAX_BYTES].map(|size| moved(kind, size)), [const { Ok(()) }; 2]);
        for size in [0, MAX_BYTES + 512, u64::MAX - 511] {
            assert_eq!(moved(kind, size), Err(out(keyslot(3, "area.shift_size"), size)), "{kind}");
        }
        let place = keyslot(3, "area.shift_size");
        assert_eq!(moved(kind, 513), Err(HeaderError::Misaligned { place, value: 513, multiple: 512 }));
    }
    assert_eq!(with(json!({"type": "of tomorrow"})), Ok(()));
}
