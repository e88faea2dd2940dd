//! Changes to the metadata keep everything that they do not mean, in place and to the byte.

use atrest_format::luks2::{HeaderError, Metadata, Priority, Requirement};
use serde_json::json;

use crate::sample::{area, metadata, parse};

#[test]
fn a_token_and_unknown_members_survive_every_change_as_they_were_spelt() {
    let token = "{\"type\": \"acme\" ,\"keyslots\":[ \"1\" ],\"n\":1.50,\"big\":123456789012345678901234567890,\"s\":\"\\u00e9\\/\"}";
    let text = metadata()
        .to_string()
        .replacen("{\"type\":\"acme\",\"keyslots\":[\"1\"],\"extra\":[1,2]}", token, 1)
        .replacen("\"config\":{", "\"vendor\": {\"x\" : 1e2} ,\"config\":{\"z\":[ ],", 1);
    let before = Metadata::parse(&area(&text)).expect("passes");
    let keyslot = before.keyslot(2).expect("exists").clone();
    let after = before
        .with_priority(0, Priority::Prefer)
        .and_then(|m| m.without_keyslot(2))
        .and_then(|m| m.with_unbound_keyslot(&keyslot, &before.digests()[1].clone()))
        .and_then(|m| m.with_token(7, "{\"type\":\"x\",\"keyslots\":[]}"))
        .and_then(|m| m.without_token(7))
        .and_then(|m| m.with_priority(0, Priority::Normal))
        .expect("all pass");
    assert_eq!(after.token_text(0).as_deref(), Some(token));
    assert!(
        after.to_json().contains("\"vendor\":{\"x\" : 1e2},\"config\":{\"z\":[ ],"),
        "{}",
        after.to_json()
    );
    // Taken out and put back in last place, everything is as it was.
    assert_eq!(after.to_json(), before.to_json());
}

#[test]
fn removing_a_keyslot_removes_every_reference_to_it() {
    let sample = parse(&metadata()).expect("passes");
    let without = sample.without_keyslot(1).expect("passes");
    assert_eq!(without.digests()[0].keyslots, [0]);
    assert!(without.tokens()[0].keyslots.is_empty());
    assert_eq!(without.digests().len(), 2);
    let without = sample.without_keyslot(2).expect("passes");
    assert_eq!(without.digests().len(), 1, "the unbound key's digest is of no use without it");
    let none = sample.without_keyslots(&[0, 1, 2]).expect("passes");
    assert_eq!((none.keyslots().len(), none.digests().len()), (0, 1));
    assert_eq!(none.digests()[0].segments, [0]);
}

#[test]
fn replacing_a_keyslot_takes_its_references_along() {
    let sample = parse(&metadata()).expect("passes");
    let mut new = sample.keyslot(1).expect("exists").clone();
    new.id = 5;
    let replaced = sample.with_keyslot_replaced(1, &new).expect("passes");
    assert_eq!(replaced.keyslots().iter().map(|k| k.id).collect::<Vec<_>>(), [0, 2, 5]);
    assert_eq!(replaced.digests()[0].keyslots, [0, 5]);
    assert_eq!(replaced.tokens()[0].keyslots, [5]);
}

#[test]
fn changes_that_break_a_rule_are_refused() {
    let sample = parse(&metadata()).expect("passes");
    let mut overlapping = sample.keyslot(0).expect("exists").clone();
    overlapping.id = 4;
    assert_eq!(
        sample.with_keyslot(&overlapping, 0).expect_err("refused"),
        HeaderError::AreaOverlap { a: 0, b: 4 }
    );
    let refused =
        sample.with_token(1, "{\"type\":\"x\",\"keyslots\":[],\"keyslots\":[]}").expect_err("refused");
    assert_eq!(refused, HeaderError::JsonDuplicate);
    assert!(matches!(sample.with_token(1, "{").expect_err("refused"), HeaderError::JsonSyntax { .. }));
    assert!(sample.with_token(32, "{\"type\":\"x\",\"keyslots\":[]}").is_err());
}

#[test]
fn free_areas_are_the_first_gaps_that_are_long_enough() {
    let sample = parse(&metadata()).expect("passes");
    let without = sample.without_keyslot(1).expect("passes");
    assert_eq!(without.free_area(258_048), Some(290_816));
    assert_eq!(without.free_area(258_049), Some(806_912));
    assert_eq!(without.free_area(16_744_448), None);
    assert_eq!(without.free_area(u64::MAX), None);
    let mut small = metadata();
    small["config"]["keyslots_size"] = json!("778240");
    assert_eq!(parse(&small).expect("passes").free_area(4096), Some(806_912));
    small["config"]["keyslots_size"] = json!("774144");
    assert_eq!(parse(&small).expect("passes").free_area(4096), None);
}

#[test]
fn the_largest_gap_is_found_wherever_it_lies_and_none_where_there_is_none() {
    let sample = parse(&metadata()).expect("passes");
    assert_eq!(sample.largest_free_area(), Some((806_912, 16_777_216 - 806_912)));
    let sized = |size: u64, slots: &[u32]| {
        let mut m = metadata();
        m["config"]["keyslots_size"] = json!(size.to_string());
        parse(&m).expect("passes").without_keyslots(slots).expect("passes").largest_free_area()
    };
    const FULL: u64 = 3 * 258_048;
    assert_eq!(sized(FULL, &[]), None, "all is used");
    assert_eq!(sized(FULL + 4096, &[]), Some((32_768 + FULL, 4096)));
    assert_eq!(sized(FULL + 4096, &[1]), Some((290_816, 258_048)));
    assert_eq!(sized(FULL, &[0, 2]), Some((32_768, 258_048)), "the first one of two");
    assert_eq!(sized(FULL + 4096, &[0, 2]), Some((548_864, 258_048 + 4096)));
    assert_eq!(sized(FULL, &[0, 1, 2]), Some((32_768, FULL)));
    // An area that ends inside a block: what is left of the block is nobody's.
    let mut m = metadata();
    m["keyslots"]["0"]["area"]["size"] = json!("256000");
    m["config"]["keyslots_size"] = json!(FULL.to_string());
    assert_eq!(parse(&m).expect("passes").largest_free_area(), None);
    assert_eq!(parse(&m).expect("passes").free_area(1), None);
}

#[test]
fn free_numbers_are_the_first_ones_until_there_is_none() {
    let sample = parse(&metadata()).expect("passes");
    assert_eq!(
        (sample.free_keyslot(), sample.free_token(), sample.free_digest()),
        (Some(3), Some(1), Some(2))
    );
    let mut m = metadata();
    for id in 0..32 {
        m["tokens"][id.to_string()] = json!({"type": "x", "keyslots": []});
        if id >= 3 {
            m["keyslots"][id.to_string()] = json!({"type": "x", "key_size": 1,
                "area": {"type": "x", "offset": (806_912 + 4096 * id).to_string(), "size": "4096"}});
        }
        if (2..8).contains(&id) {
            m["digests"][id.to_string()] = json!({"type": "x", "keyslots": [], "segments": []});
        }
    }
    let full = parse(&m).expect("passes");
    assert_eq!((full.free_keyslot(), full.free_token(), full.free_digest()), (None, None, None));
    assert_eq!(full.without_keyslot(31).expect("passes").free_keyslot(), Some(31));
    assert_eq!(full.without_token(31).expect("passes").free_token(), Some(31));
    assert_eq!(full.without_token(0).expect("passes").free_token(), Some(0));
}

#[test]
fn priorities_are_written_as_cryptsetup_writes_them() {
    let sample = parse(&metadata()).expect("passes");
    for (priority, text) in [(Priority::Ignore, "\"priority\":0"), (Priority::Prefer, "\"priority\":2")] {
        let changed = sample.with_priority(1, priority).expect("passes");
        assert_eq!(changed.keyslot(1).map(|keyslot| keyslot.priority), Some(priority));
        assert_eq!(changed.to_json().matches(text).count(), 1);
        assert_eq!(changed.with_priority(1, Priority::Normal).expect("passes").to_json(), sample.to_json());
    }
}

#[test]
fn a_composition_changes_what_it_names_and_nothing_else() {
    let sample = parse(&metadata()).expect("passes");
    let text = sample.to_json();
    let finish = |composition: atrest_format::luks2::Composition| composition.finish().expect("passes");
    // Tokens of a keyslot also open the new one, once; tokens of others do not.
    let also = finish(sample.compose().tokens_also(1, 2).tokens_also(1, 2));
    assert_eq!(also.tokens()[0].keyslots, [1, 2]);
    assert_eq!(finish(sample.compose().tokens_also(0, 2)).to_json(), text);
    // Without a keyslot nothing refers to it.
    let without = finish(sample.compose().without_keyslot(1));
    assert_eq!(
        (without.digests()[0].keyslots.as_slice(), without.tokens()[0].keyslots.as_slice()),
        (&[0][..], &[][..])
    );
    assert!(without.keyslot(1).is_none());
    // A digest that keyslots need can't go alone.
    assert!(sample.compose().without_digest(1).finish().is_err());
    let unbound = finish(sample.compose().without_keyslot(2).without_digest(1));
    assert_eq!((unbound.keyslots().len(), unbound.digests().len()), (2, 1));
    let back = finish(unbound.compose().keyslot(&sample.keyslots()[2]).digest(&sample.digests()[1]));
    assert_eq!(back.to_json(), text);
    // Segments belong to the digests that are named, and to no others.
    let segments = sample.segments();
    let rebound = finish(sample.compose().segments(segments, &[(1, vec![0])]));
    assert_eq!(rebound.digests().iter().map(|d| d.segments.clone()).collect::<Vec<_>>(), [vec![], vec![0]]);
    assert!(sample.compose().segments(segments, &[]).finish().is_err(), "a segment without a key");
    let required = finish(sample.compose().requirements(&[Requirement::Unknown("x".into())]));
    assert_eq!(required.config().requirements, [Requirement::Unknown("x".into())]);
    assert_eq!(finish(required.compose().requirements(&[])).to_json(), text);
}

#[test]
fn a_keyslot_is_added_with_the_digest_of_its_key_alone() {
    let sample = parse(&metadata()).expect("passes");
    let mut new = sample.keyslot(0).expect("exists").clone();
    (new.id, new.area.offset) = (7, 806_912);
    let added = sample.with_keyslot(&new, 0).expect("passes");
    assert_eq!(
        added.digests().iter().map(|d| d.keyslots.clone()).collect::<Vec<_>>(),
        [vec![0, 1, 7], vec![2]]
    );
    assert_eq!(added.keyslot(7), Some(&new));
    assert!(sample.with_keyslot(&new, 5).is_err(), "a key that nobody knows");
    assert_eq!(added.without_keyslot(7).expect("passes").to_json(), sample.to_json());
}
