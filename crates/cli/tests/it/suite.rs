//! cryptsetup's own tests against this program: those that need no kernel, and one of the short ones that do. `make test-full` runs all
//! of them.

use std::path::Path;

use atrest_testkit::campaign::rotation;

use crate::common::Scratch;

/// What the script says of these tests.
fn suite(tests: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cryptsetup-suite");
    let words = [&["--program", env!("CARGO_BIN_EXE_atrest")], tests].concat();
    let told = Scratch::new().program(script).args(words).run();
    let text = told.text();
    assert_eq!(told.code, Some(0), "{text}{}", told.messages());
    text
}

/// Tests that take no more than half a minute in an emulated kernel, with what is said of them. They take turns, by the commit.
const SHORT: [&str; 2] = [
    "discards-test: 17 checks, 15 passed, 0 failed, 2 not applicable",
    "keyring-compat-test: 70 checks, 68 passed, 0 failed, 2 not applicable",
];

#[test]
fn one_of_the_tests_of_cryptsetup_holds_in_a_real_kernel() {
    let expected = SHORT[(rotation() % SHORT.len() as u64) as usize];
    let (name, _) = expected.split_once(':').expect("a name");
    let text = suite(&[name]);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_tests_of_cryptsetup_that_need_no_kernel_hold() {
    let text = suite(&["compat-args-test", "luks2-validation-test"]);
    // A number that falls means that checks are not found any more.
    assert!(text.contains("compat-args-test: 154 checks, 154 passed, 0 failed, 0 not applicable"), "{text}");
    assert!(
        text.contains("luks2-validation-test: 83 checks, 82 passed, 0 failed, 1 not applicable"),
        "{text}"
    );
}
