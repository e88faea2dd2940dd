//! cryptsetup's own tests against this program: those that need no kernel. `make test-full` runs all of them.

use std::path::Path;

use crate::common::Scratch;

#[test]
fn the_tests_of_cryptsetup_that_need_no_kernel_hold() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cryptsetup-suite");
    let scratch = Scratch::new();
    let words = ["--program", env!("CARGO_BIN_EXE_atrest"), "compat-args-test", "luks2-validation-test"];
    let told = scratch.program(script).args(words).run();
    let text = told.text();
    assert_eq!(told.code, Some(0), "{text}{}", told.messages());
    // A number that falls means that checks are not found any more.
    assert!(text.contains("compat-args-test: 154 checks, 154 passed, 0 failed, 0 not applicable"), "{text}");
    assert!(
        text.contains("luks2-validation-test: 83 checks, 82 passed, 0 failed, 1 not applicable"),
        "{text}"
    );
}
