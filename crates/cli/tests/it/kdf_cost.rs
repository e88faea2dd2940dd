//! `atrest kdf cost`: the table and its JSON say the same, and what the model behind them says.

use crate::common::Scratch;
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn text_and_json_name_the_same_settings_and_what_follows_from_the_model() {
    let scratch = Scratch::new();
    let text = scratch.atrest(&["kdf", "cost"]).ok();
    assert_eq!(text.stderr, "");
    let json = scratch.atrest(&["kdf", "cost", "--json"]).ok().json();
    let settings = json["settings"].as_array().expect("settings");
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!(lines.len(), settings.len() + 1, "a head and a line each:\n{}", text.stdout);
    for column in ["key of 32 bytes", "memory KiB", "here ms", "Cortex-M4", "RV32IMC", "RTX 4090", "bound by"]
    {
        assert!(lines[0].contains(column), "{column} is missing in: {}", lines[0]);
    }
    let rate = number(&json["sha256_per_core_second"]);
    assert!((1e4..1e9).contains(&rate), "{rate} compressions a second");
    for (line, setting) in lines[1..].iter().zip(settings) {
        let (kdf, memory) = (setting["kdf"].as_str().expect("a name"), number(&setting["memory"]));
        assert!(line.starts_with(kdf), "{line}: {setting}");
        assert!(number(&setting["seconds"]) > 0.0 && number(&setting["guess"]["cpu_core_seconds"]) > 0.0);
        let columns: Vec<&str> = line.split_whitespace().rev().take(7).collect();
        let [bound, gpu, _cpu, rv32, m4, _here, kib] = columns[..] else { panic!("{line}") };
        assert_eq!(setting["guess"]["gpu_bound"], bound);
        assert_eq!(number(&setting["guess"]["gpu_per_second"]).round(), gpu.parse::<f64>().expect("a rate"));
        assert_eq!((memory / 1024.0).floor(), kib.parse::<f64>().expect("KiB"));
        for (chip, column) in [("Cortex-M4", m4), ("RV32IMC", rv32)] {
            match setting["instructions"][chip].as_f64() {
                Some(count) => assert_eq!(column, format!("{:.1}", count / 1e6), "{line}"),
                None => assert_eq!(column, "-", "{line}"),
            }
        }
    }
    // docs/KDF.md's rows for a chip: Catena-BRG in 128 KiB, PBKDF2 beside it.
    let row = |kdf: &str, field: &str, value: u64| {
        let found = settings.iter().find(|row| row["kdf"] == kdf && row[field] == value);
        found.unwrap_or_else(|| panic!("no {kdf} with {field} {value}"))
    };
    let catena = row("catena", "garlic", 12);
    assert_eq!(
        (&catena["graph"], &catena["lambda"], &catena["memory"]),
        (&"brg".into(), &2.into(), &131_072.into())
    );
    let pbkdf2 = row("pbkdf2", "iterations", 13_000);
    assert_eq!((&pbkdf2["hash"], &pbkdf2["memory"]), (&"sha256".into(), &0.into()));
    for row in [catena, pbkdf2] {
        assert_eq!(row["guess"]["gpu_bound"], "compute", "{row}");
    }
    let table = include_str!("../../../../docs/KDF.md");
    let published = |start: &str| {
        let line = table.lines().find(|line| line.starts_with(start)).expect("a row of docs/KDF.md");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[3].to_owned(), cells[4].replace(',', ""))
    };
    for (row, start) in [(catena, "| Catena-BRG, garlic 12, depth 2 "), (pbkdf2, "| PBKDF2-SHA256, 13,000 ")]
    {
        let (chips, guesses) = published(start);
        let millions = |chip: &str| format!("{:.1}", number(&row["instructions"][chip]) / 1e6);
        assert_eq!(chips, format!("{} ({})", millions("Cortex-M4"), millions("RV32IMC")));
        assert_eq!(guesses, format!("{:.0}", number(&row["guess"]["gpu_per_second"])));
    }
    scratch.atrest(&["kdf", "cost", "--garlic", "3"]).fails(1, "--garlic");
}
