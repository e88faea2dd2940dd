//! The check of constant time sees what it has to, where it is, and does not take a test that never ran for one without leaks.

use std::hint::black_box;

use atrest_testkit::valgrind::{is_public, leaks, leaks_of, make_secret};

#[inline(never)]
fn planted_branch(secret: &[u8; 32]) -> u8 {
    if black_box(secret[0]) == 7 { black_box(1) } else { 2 }
}

#[inline(never)]
fn planted_table(secret: &[u8; 32]) -> u8 {
    black_box(&[0_u8; 256])[usize::from(secret[1])]
}

fn use_secrets(role: &str) {
    let mut secret = [7; 32];
    make_secret(&mut secret);
    let sum = secret.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
    assert!(is_public(sum == 7 * 32));
    if role == "leaky" {
        black_box((planted_branch(&secret), planted_table(&secret)));
    }
}

#[test]
fn a_branch_and_an_index_are_seen_where_they_are() {
    if let Some(leaks) = leaks("leaky", use_secrets) {
        leaks.assert_only_in(&["planted_branch", "planted_table"]);
    }
}

#[test]
fn nothing_is_seen_where_nothing_is() {
    if let Some(leaks) = leaks("sound", use_secrets) {
        leaks.assert_only_in(&[]);
    }
}

#[test]
#[should_panic(expected = "leaks in other places")]
fn a_leak_that_was_not_expected_is_told() {
    // Where this runs under valgrind it has to end well.
    match leaks("leaky", use_secrets) {
        Some(leaks) => leaks.assert_only_in(&["planted_branch"]),
        None => panic!("leaks in other places: here they are"),
    }
}

#[test]
#[should_panic(expected = "ok. 0 passed")]
fn a_test_that_does_not_exist_does_not_count_as_one_without_leaks() {
    leaks_of("valgrind::no_test_has_this_name", "none", |_| {});
}
