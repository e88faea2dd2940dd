//! `atrest bench --table`.

use std::fmt::Write as _;

use atrest_measure::{
    self as measure, ADIANTUM_SOURCE, AdiantumRow, BenchOptions, ESP32_SOURCE, Esp32Key, Esp32Mode, Esp32Row,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::bench_energy;
use crate::args::tools::{EnergyArgs, Table};
use crate::failure::Failure;
use crate::output::Output;

pub fn print(
    table: Table,
    energy: &EnergyArgs,
    options: &BenchOptions,
    output: &Output,
    waiting: &ProgressBar,
) -> Result<(), Failure> {
    if !matches!(table, Table::Energy) {
        bench_energy::refuse_inputs(energy)?;
    }
    let mut rows = Vec::new();
    let (name, source, text) = match table {
        Table::Adiantum => {
            let mut text = format!(
                "{:<25} {:>9} {:>9} {:>9} {:>11}\n",
                "cipher, encryption", "data unit", "ns/byte", "cycles/B", "source's c/B"
            );
            measure::adiantum(options, &mut |row| rows.extend(adiantum(&row, &mut text)))?;
            ("adiantum", ADIANTUM_SOURCE, text)
        }
        Table::Energy => {
            waiting.finish_and_clear();
            return bench_energy::print(energy, output);
        }
        Table::Esp32 => {
            let mut text = format!(
                "AES-128, 100 times 128 KiB\n{:<5} {:<17} {:>13} {:>4} {:>9} {:>11}\n",
                "mode", "multiplication", "sector blocks", "keys", "ms", "source's ms"
            );
            measure::esp32(options, &mut |row| rows.push(esp32(&row, &mut text)))?;
            ("esp32", ESP32_SOURCE, text)
        }
    };
    let text = format!("{text}\nSource: {source}\n");
    waiting.finish_and_clear();
    output.report(&json!({ "table": name, "source": source, "rows": rows }), &text)
}

fn adiantum(row: &AdiantumRow, text: &mut String) -> [Value; 2] {
    row.speeds.map(|speed| {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(
            text,
            "{:<25} {:>9} {:>9.3} {:>9.2} {:>11.1}   {}",
            row.name, speed.data_unit, speed.nanoseconds, speed.cycles, speed.source_cycles, row.backend
        );
        json!({
            "name": row.name,
            "cipher": row.cipher.to_string(),
            "key_bits": row.key_bits,
            "backend": row.backend,
            "data_unit": speed.data_unit,
            "nanoseconds_per_byte": speed.nanoseconds,
            "cycles_per_byte": speed.cycles,
            "source_cycles_per_byte": speed.source_cycles,
        })
    })
}

fn esp32(row: &Esp32Row, text: &mut String) -> Value {
    let keys = row.keys.map(|keys| match keys {
        Esp32Key::One => 1,
        Esp32Key::Two => 2,
    });
    let (mode, multiplication) = match (row.mode, row.keys) {
        (Esp32Mode::Xts(way), _) => ("XTS", way.name()),
        (Esp32Mode::Ours, Some(Esp32Key::One)) => ("XEX", "atrest, aes-xex1"),
        (Esp32Mode::Ours, _) => ("XTS", "atrest, aes-xts"),
        _ => ("ECB", "-"),
    };
    let number = |number: Option<usize>| number.map_or("-".into(), |number| number.to_string());
    let source = row.source_milliseconds.map_or("-".into(), |source| format!("{source:.0}"));
    let _ = writeln!(
        text,
        "{mode:<5} {multiplication:<17} {:>13} {:>4} {:>9.2} {source:>11}",
        number(row.sector_blocks),
        number(keys),
        row.milliseconds,
    );
    json!({
        "mode": mode,
        "multiplication": multiplication,
        "sector_blocks": row.sector_blocks,
        "keys": keys,
        "milliseconds": row.milliseconds,
        "source_milliseconds": row.source_milliseconds,
    })
}
