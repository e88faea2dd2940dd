//! Changes to the metadata keep everything that they do not mean, in place and to the byte.

use atrest_format::luks2::{HeaderError, Metadata, Priority};
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
