//! What ciphers and flash layers cost on a Cortex-M4 and an RV32IMC, counted in QEMU and held against `firmware/figures.tsv`: more
//! than 3 % worse fails. `make bench-embedded` takes what it counts for the new figures, and writes docs/EMBEDDED.md.
//!
//! The counts are exact (`-icount`), so they hang on the pinned toolchain and the locked dependencies alone.

mod aeads;
mod ciphers;
mod figures;
mod key_value;
mod openings;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use atrest_testkit::firmware::{Build, boards, is_blessed, is_of_this_run};
use atrest_testkit::oracle::workspace;
use figures::{BUILDS, Figures};

/// How much worse a figure may be than the committed one, in percent.
const TOLERANCE: u64 = 3;

#[test]
fn nothing_has_become_more_than_three_percent_dearer() {
    let mut counted = Figures::default();
    for board in boards() {
        for build in BUILDS {
            let directory = board.build(build, &programs());
            ciphers::count(board, build.name(), &directory, &mut counted);
            aeads::count(board, build.name(), &directory, &mut counted);
            key_value::count(board, build.name(), &directory, &mut counted);
            openings::count(board, build.name(), &directory, &mut counted);
            openings::check(&counted, board, build.name());
        }
    }
    let path = |name: &str| workspace().join(name);
    let read = |name: &str| fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if is_blessed() {
        fs::write(path("firmware/figures.tsv"), counted.tsv()).expect("the figures can be written");
        fs::write(path("docs/EMBEDDED.md"), document(&counted)).expect("the tables can be written");
        let costs = with_rows(&read("docs/SEALED-FLASH.md"), &aeads::costs(&counted));
        fs::write(path("docs/SEALED-FLASH.md"), costs).expect("the table can be written");
        return;
    }
    let expected = Figures::parse(&read("firmware/figures.tsv"));
    let keys = |figures: &Figures| {
        figures.0.keys().filter(|key| is_of_this_run(&key.0)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&counted), keys(&expected), "`make bench-embedded` writes the figures anew");
    let mut worse = String::new();
    for (key, is) in &counted.0 {
        let was = expected.0[key];
        let change = format!("{} {} {} {}: {was} before, {is} now", key.0, key.1, key.2, key.3);
        if is * 100 > was * (100 + TOLERANCE) {
            writeln!(worse, "{change}").expect("a String");
        }
        if is * (100 + TOLERANCE) < was * 100 {
            println!("{change}: better");
        }
    }
    assert!(worse.is_empty(), "dearer than firmware/figures.tsv says:\n{worse}");
    assert_eq!(document(&expected), read("docs/EMBEDDED.md"));
    let costs = read("docs/SEALED-FLASH.md");
    for row in aeads::costs(&expected) {
        assert!(costs.lines().any(|line| line == row), "not in docs/SEALED-FLASH.md: {row}");
    }
}

/// What is counted, and a program that does nothing.
fn programs() -> Vec<&'static str> {
    ["nothing", key_value::PROGRAM]
        .into_iter()
        .chain(ciphers::programs())
        .chain(aeads::programs())
        .chain(openings::programs())
        .collect()
}

/// docs/EMBEDDED.md.
fn document(figures: &Figures) -> String {
    ciphers::document(figures)
        + &aeads::document(figures)
        + &openings::document(figures)
        + &key_value::document(figures)
}

/// A text with rows of a table in place of those that begin with the same cell.
fn with_rows(text: &str, rows: &[String]) -> String {
    let cell = |row: &str| row.split('|').nth(1).map(str::to_owned);
    let line = |line: &str| {
        let row = rows.iter().find(|row| line.starts_with('|') && cell(row) == cell(line));
        row.map_or(line, String::as_str).to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

/// Transfers of 16 bytes to 4 KiB, against the cipher alone over the same bytes.
#[test]
fn crypt_flash_costs_at_most_ten_percent_more_than_its_cipher() {
    for board in boards() {
        let output = board.count(&board.build(Build::Speed, &["crypt_flash"]).join("crypt_flash"));
        let figures: BTreeMap<(&str, u64), u64> = output
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.trim().split(',').collect();
                let [what, len, figure] = fields[..] else { panic!("{line}") };
                ((what, len.parse().expect("a length")), figure.parse().expect("instructions"))
            })
            .collect();
        assert_eq!(figures.len(), 16, "an incomplete report:\n{output}");
        for ((what, len), cipher) in &figures {
            let layer = match *what {
                "encrypt" => figures[&("prog", *len)],
                "decrypt" => figures[&("read", *len)],
                _ => continue,
            };
            println!("{}: {what} {len} bytes, {cipher} instructions, through CryptFlash {layer}", board.name);
            assert!(layer * 100 <= cipher * 110, "{what} of {len} bytes: {layer} instead of {cipher}");
        }
    }
}
