//! `atrest bench --table energy`.

use std::fmt::Write as _;

use atrest_measure::{self as measure, ENERGY_FORMULA, EnergyInputs, EnergyRow};
use serde_json::{Value, json};

use crate::args::tools::EnergyArgs;
use crate::failure::Failure;
use crate::output::Output;

/// The inputs that were given, in place of the defaults, and whether any was.
macro_rules! inputs {
    ($args:expr, $($name:ident)*) => {{
        let defaults = EnergyInputs::default();
        // intended: what is not given is as the data sheets have it.
        let inputs = EnergyInputs { $($name: $args.$name.unwrap_or(defaults.$name),)* };
        (inputs, [$($args.$name.is_some()),*].contains(&true))
    }};
}

fn inputs(args: &EnergyArgs) -> (EnergyInputs, bool) {
    inputs!(
        args, mcu_ua_per_mhz mcu_mhz cycles_per_instruction volts read_ma program_ma page_bytes page_ms sector_ms bus_mb_per_s
        read_us chip_mib tiles_mib messages_mib_per_day message_bytes anchors_per_day years
    )
}

/// Other tables have no inputs.
pub fn refuse_inputs(args: &EnergyArgs) -> Result<(), Failure> {
    match inputs(args).1 {
        true => Err(Failure::parameters("inputs are for --table energy alone")),
        false => Ok(()),
    }
}

pub fn print(args: &EnergyArgs, output: &Output) -> Result<(), Failure> {
    let (inputs, _) = inputs(args);
    let rows = measure::energy(&inputs)?;
    let listed = inputs.listed();
    let mut text = format!(
        "{:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>9}\n{:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>9}\n",
        "Cortex-M4, for a KiB",
        "write",
        "write",
        "read",
        "read",
        "message",
        "erases",
        "erases",
        "opening",
        "",
        "ms",
        "mJ",
        "ms",
        "mJ",
        "mJ",
        "a block",
        "a page",
        "s",
    );
    for row in &rows {
        line(row, &mut text);
    }
    // Writing to a String can't fail, here and below.
    let _ = writeln!(text, "\n{ENERGY_FORMULA}\n");
    for input in &listed {
        let name = input.name.replace('_', "-");
        let _ = writeln!(text, "--{name:<24} {:>8} {:<7} {}", input.value, input.unit, input.source);
    }
    let inputs: Vec<_> = listed
        .iter()
        .map(|input| json!({ "name": input.name, "value": input.value, "unit": input.unit, "source": input.source }))
        .collect();
    let rows: Vec<_> = rows.iter().map(value).collect();
    output.report(
        &json!({ "table": "energy", "inputs": inputs, "formula": ENERGY_FORMULA, "rows": rows }),
        &text,
    )
}

fn line(row: &EnergyRow, text: &mut String) {
    let page = row.erases_per_store_page.map_or("-".into(), |erases| format!("{erases:.0}"));
    let _ = writeln!(
        text,
        "{:<26} {:>8.3} {:>8.4} {:>8.3} {:>8.4} {:>8.4} {:>7.0} {page:>7} {:>9.4}",
        row.mode,
        row.write_seconds * 1e3,
        row.write_joules * 1e3,
        row.read_seconds * 1e3,
        row.read_joules * 1e3,
        row.message_joules * 1e3,
        row.erases_per_block,
        row.opening_seconds,
    );
}

fn value(row: &EnergyRow) -> Value {
    json!({
        "mode": row.mode,
        "sealed": row.sealed,
        "write_seconds": row.write_seconds,
        "write_joules": row.write_joules,
        "read_seconds": row.read_seconds,
        "read_joules": row.read_joules,
        "message_joules": row.message_joules,
        "erases_per_block": row.erases_per_block,
        "erases_per_store_page": row.erases_per_store_page,
        "opening_seconds": row.opening_seconds,
    })
}
