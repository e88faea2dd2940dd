//! What `scripts/kernel-oracle` says when it cannot work: one sentence, exit status 125, and nothing downloaded.

use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Outcome, Program, tool, workspace};

fn oracle(arguments: &[&str]) -> Outcome {
    let cache = Scratch::new();
    let outcome = Program::at(tool("python3"))
        .arg(workspace().join("scripts/kernel-oracle"))
        .arg("--cache")
        .arg(cache.path("cache"))
        .args(arguments)
        .stdin("true\n")
        .run();
    assert!(!cache.path("cache").exists(), "something was prepared for nothing");
    outcome
}

#[test]
fn a_missing_emulator_names_scripts_setup() {
    let outcome = oracle(&["--qemu", "no-such-emulator", "-"]).expect_code(125);
    let messages = outcome.messages();
    assert!(messages.contains("no-such-emulator is not installed; run scripts/setup"), "{messages}");
    assert_eq!(messages.lines().count(), 1, "{messages}");
}

#[test]
fn a_missing_script_or_share_is_named() {
    assert!(
        oracle(&["/nonexistent/script"])
            .expect_code(125)
            .messages()
            .contains("no such script: /nonexistent/script")
    );
    let share = oracle(&["--share", "/nonexistent/share", "-"]).expect_code(125);
    assert!(share.messages().contains("no such directory: /nonexistent/share"));
}
