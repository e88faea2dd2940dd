//! The executable model of the design, `tests/model.py`: random histories of it, and designs that are broken on purpose.

use std::path::Path;
use std::process::Command;

use atrest_testkit::Campaign;

fn model(arguments: &[&str]) -> (bool, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model.py");
    let output =
        Command::new("python3").arg(program).args(arguments).output().expect("scripts/setup installs Python");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn no_history_of_the_model_reads_what_was_not_written_or_loses_a_flush() {
    // 100 volumes a case.
    Campaign::new("sealed volume, model", 3, 10_000).run(|seed, _| {
        let (fine, said) = model(&["--runs", "100", "--seed", &seed.to_string()]);
        assert!(fine && said.contains("violations 0"), "{said}");
    });
}

/// What was added to the model finds what it is there for. `model.py --flaws` tries all the others, too.
#[test]
fn a_design_that_is_broken_on_purpose_is_caught() {
    // Each with a seed by which few volumes are enough.
    for (flaw, seed) in [
        ("no-anchor", "1"),
        ("rekey-header-first", "1"),
        ("rekey-writes-first", "1"),
        ("rekey-forgets-key", "1"),
        ("clone-not-held", "6"),
        ("partial-zeros", "1"),
        ("partial-stale", "1"),
        ("journal-begin-forgets", "1"),
        ("journal-lone-begin", "6"),
        ("journal-not-in-root", "1"),
        ("journal-mark-ahead", "2"),
        ("journal-mark-by-number", "1"),
        ("journal-dropped-early", "2"),
        ("journal-not-synced", "1"),
        ("journal-older-unchecked", "1"),
        ("journal-chain-unchecked", "1"),
        ("journal-no-takeover", "1"),
        ("journal-no-salt", "1"),
        ("journal-new-identifier", "1"),
        ("journal-anchors-unstored", "1"),
        ("journal-bulk-unordered", "1"),
        ("journal-bulk-unanchored", "1"),
        ("journal-closed-late", "1"),
        ("journal-not-wiped", "1"),
        ("journal-rekey", "1"),
        ("journal-record-cut", "2"),
    ] {
        let (fine, said) = model(&["--runs", "260", "--seed", seed, "--flaw", flaw]);
        assert!(!fine, "{flaw} is not caught: {said}");
    }
}
