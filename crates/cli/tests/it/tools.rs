//! The tools beside volumes: benchmarks, completions, manual pages.

use std::fs;
use std::path::Path;

use crate::common::Scratch;

#[test]
fn bench_has_a_row_for_every_size_of_the_cipher_that_is_asked_for() {
    let scratch = Scratch::new();
    let rows =
        scratch.atrest(&["bench", "--json", "--cipher", "aes-xts-plain64", "--key-size", "256"]).ok().json();
    let rows = rows["cipher"].as_array().expect("rows");
    for data_unit in [512, 4096] {
        for memory in ["cache", "memory"] {
            let row = rows.iter().find(|row| row["data_unit"] == data_unit && row["memory"] == memory);
            let row = row.unwrap_or_else(|| panic!("no row for {data_unit} bytes in {memory}"));
            assert_eq!(row["key_bits"], 256);
            assert!(row["encrypt_bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{row}");
        }
    }
    let text = scratch.atrest(&["bench", "--cipher", "aes-cbc-plain64"]).ok().stdout;
    assert!(text.lines().any(|line| line.starts_with("aes-cbc-plain64") && line.contains(" 256 ")), "{text}");
    scratch.atrest(&["bench", "--cipher", "aes-xts-plain64", "--key-size", "40"]).fails(1, "key");
    scratch.atrest(&["bench", "--cipher", "nothing-xts"]).fails(1, "nothing-xts");
}

#[test]
fn bench_prints_the_published_tables_with_their_figures_beside_ours() {
    let scratch = Scratch::new();
    let table = scratch.atrest(&["bench", "--table", "esp32", "--json"]).ok().json();
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!((table["table"].as_str(), rows.len()), (Some("esp32"), 41));
    let fastest =
        rows.iter().find(|row| row["source_milliseconds"] == 2357.0).expect("the article's fastest");
    assert_eq!((&fastest["multiplication"], &fastest["sector_blocks"]), (&"[u32; 4]".into(), &64.into()));
    assert!(rows.iter().all(|row| row["milliseconds"].as_f64().is_some_and(|ms| ms > 0.1)), "{table}");
    let text = scratch.atrest(&["bench", "--table", "adiantum"]).ok().stdout;
    for (cipher, unit, cycles) in [("Adiantum-XChaCha12-AES", "4096", "10.6"), ("AES-256-XTS", "512", "60.1")]
    {
        let line = |line: &str| [cipher, unit, cycles].iter().all(|word| line.contains(word));
        assert!(text.lines().any(line), "{text}");
    }
    scratch.atrest(&["bench", "--table", "esp32", "--kdf-only"]).fails(1, "--kdf-only");
}

/// docs/FIRMWARE.md shows the table. `ATREST_BLESS=1` writes it anew.
fn hold_against_the_guide(table: &str) {
    const BEGIN: &str = "```text\nCortex-M4, for a KiB";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FIRMWARE.md");
    let page = fs::read_to_string(&path).expect("the guide");
    let (before, rest) = page.split_once(BEGIN).expect("the table");
    let (_, after) = rest.split_once("\n```\n").expect("its end");
    let expected = format!("{before}```text\n{table}\n```\n{after}");
    if std::env::var_os("ATREST_BLESS").is_some() {
        fs::write(&path, expected).expect("the guide can be written");
    } else {
        assert!(
            page == expected,
            "docs/FIRMWARE.md has other figures than: {table}\n`make bench-embedded` writes them"
        );
    }
}

#[test]
fn bench_computes_what_encryption_costs_a_battery_from_inputs_that_can_be_given() {
    let scratch = Scratch::new();
    let table = scratch.atrest(&["bench", "--table", "energy", "--json"]).ok().json();
    assert_eq!((table["table"].as_str(), table["rows"].as_array().map(Vec::len)), (Some("energy"), Some(10)));
    let input = |table: &serde_json::Value, name: &str| {
        let inputs = table["inputs"].as_array().expect("inputs").iter();
        inputs.clone().find(|input| input["name"] == name).cloned().expect("an input")
    };
    assert_eq!(input(&table, "mcu_ua_per_mhz")["value"], 79.0);
    assert!(
        input(&table, "mcu_ua_per_mhz")["source"].as_str().is_some_and(|source| source.contains("DS12469"))
    );
    assert!(table["formula"].as_str().is_some_and(|formula| formula.contains("volts")));

    let words = ["bench", "--table", "energy", "--mcu-ua-per-mhz", "158", "--years", "20"];
    let dearer = scratch.atrest(&[&words[..], &["--json"]].concat()).ok().json();
    assert_eq!(
        (&input(&dearer, "mcu_ua_per_mhz")["source"], &input(&dearer, "years")["value"]),
        (&"given".into(), &20.0.into())
    );
    // Twice the current of what computes is twice its energy, and what a row has more than none is of computing alone.
    let of = |table: &serde_json::Value, mode: &str, what: &str| {
        let rows = table["rows"].as_array().expect("rows").iter();
        rows.clone().find(|row| row["mode"] == mode).and_then(|row| row[what].as_f64()).expect("a figure")
    };
    let more = |table| of(table, "AES-256-XTS", "write_joules") - of(table, "not encrypted", "write_joules");
    assert!((more(&dearer) / more(&table) - 2.0).abs() < 1e-6);
    let erases = |table| of(table, "sealed, Ascon-AEAD128", "erases_per_block");
    assert!((erases(&dearer) / erases(&table) - 2.0).abs() < 1e-9);

    let text = scratch.atrest(&words).ok().stdout;
    let line = |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(line(&["sealed, AES-128-CCM"]) && line(&["--mcu-ua-per-mhz", "158", "given"]), "{text}");
    assert!(line(&["erases a block = days"]), "{text}");
    let text = scratch.atrest(&["bench", "--table", "energy"]).ok().stdout;
    hold_against_the_guide(text.split("\n\n").next().expect("a table"));
    scratch.atrest(&["bench", "--table", "energy", "--volts", "0"]).fails(1, "--volts");
    scratch.atrest(&["bench", "--table", "energy", "--tiles-mib", "32"]).fails(1, "--tiles-mib");
    scratch.atrest(&["bench", "--table", "esp32", "--volts", "3"]).fails(1, "--table energy");
    scratch.atrest(&["bench", "--volts", "3"]).fails(1, "--table");
}

#[test]
fn bench_io_measures_a_directory_and_asks_before_a_device_is_overwritten() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("place")).expect("a directory");
    let words = ["bench", "io", "place", "--table", "zynq", "--largest", "10M", "--time", "1"];
    let table = scratch.atrest(&[&words[..], &["--json", "--svg", "a.svg"]].concat()).ok().json();
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0]["source_write_mib_per_second"]["plain"], 12.66);
    for row in rows {
        for (what, speed) in row.as_object().expect("an object").iter().filter(|(_, value)| value.is_object())
        {
            assert!(speed["encrypted"].as_f64().is_some_and(|speed| speed > 0.0), "{what}: {row}");
        }
    }
    assert!(fs::read_to_string(scratch.path("a.svg")).expect("a chart").ends_with("</svg>\n"));
    assert_eq!(fs::read_dir(scratch.path("place")).expect("a directory").count(), 0, "a file is left");
    // The chart is not written over, a device not without a question, and a place that is too small not at all.
    scratch.atrest(&[&words[..], &["--svg", "a.svg"]].concat()).fails(5, "a.svg");
    fs::write(scratch.path("device"), vec![7; 20 << 20]).expect("a file");
    let device = ["bench", "io", "device", "--table", "zynq"];
    scratch.atrest(&device).fails(1, "overwritten");
    scratch.atrest(&[&device[..], &["--yes"]].concat()).fails(4, "there is room for");
    let kept = fs::read(scratch.path("device")).expect("a file");
    assert!(kept.iter().all(|byte| *byte == 7), "it was written");
    scratch.atrest(&["bench", "io", "place", "--table", "zynq", "--largest", "9M"]).fails(1, "10M");
    scratch.atrest(&["bench", "--kdf-only", "io", "place", "--table", "zynq"]).fails(1, "io");
}

#[test]
fn tools_print_what_they_are_asked_for() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(scratch.atrest(&["completions", shell]).ok().stdout.contains("volume-key-file"));
    }
    scratch.bash("$ATREST completions bash > c && bash -n c").ok();
    assert!(scratch.atrest(&["man"]).ok().stdout.contains(".TH atrest 1"));
    scratch.atrest(&["man", "new/man"]).ok();
    assert!(scratch.path("new/man/atrest-key-add.1").exists());
    // The newest heading of the changelog: "## [0.2.0] – 2026-11-28".
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md");
    let changelog = fs::read_to_string(changelog).expect("the changelog");
    let heading = changelog.lines().find(|line| line.starts_with("## [")).expect("a version");
    let (version, day) = heading[4..].split_once("] – ").expect("a version and its day");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    for (page, rest) in [("atrest-key-add.1", "User commands"), ("atrest-luks.5", "File formats")] {
        let text = fs::read_to_string(scratch.path("new/man").join(page)).expect("a page");
        let heading = text.lines().next().expect("a heading");
        assert!(heading.contains(&format!(" \"{day}\" \"atrest")) && heading.contains(rest), "{heading}");
    }
    // Once more over what is there.
    scratch.atrest(&["man", "new/man"]).ok();
    scratch.file("file", b"");
    scratch.atrest(&["man", "file"]).fails(5, "file");
    scratch.atrest(&["man", "file/below"]).fails(4, "file/below");
}
