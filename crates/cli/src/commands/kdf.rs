//! `atrest kdf cost`.

use std::fmt::Write as _;

use atrest_kdf::CatenaGraph;
use atrest_measure::BenchError;
use atrest_measure::cost::{CHIPS, Here, RTX_4090, SETTINGS, Setting, seconds};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::progress;

pub fn cost(output: &Output) -> Result<(), Failure> {
    let waiting = progress::spinner("measuring", output);
    let here = Here::measure().map_err(BenchError::Kdf)?;
    let [m4, rv32] = CHIPS;
    let mut text = format!(
        "{:<32} {:>10} {:>9} {:>14} {:>14} {:>12} {:>14} {}\n",
        "key of 32 bytes",
        "memory KiB",
        "here ms",
        format!("{} M ins", m4.name),
        format!("{} M ins", rv32.name),
        "guess CPU ms",
        format!("{} /s", RTX_4090.name),
        "bound by"
    );
    let mut rows = Vec::new();
    for setting in SETTINGS {
        let took = seconds(&setting).map_err(BenchError::Kdf)?;
        let guess = here.guess(&setting, took);
        let (rate, bound) = setting.guesses(&RTX_4090);
        let millions = |instructions: Option<u64>| {
            instructions.map_or_else(|| "-".into(), |count| format!("{:.1}", count as f64 / 1e6))
        };
        let chips = [m4, rv32].map(|chip| setting.instructions(&chip));
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{:<32} {:>10} {:>9.2} {:>14} {:>14} {:>12.3} {:>14.0} {}",
            name(&setting),
            setting.memory() >> 10,
            took * 1e3,
            millions(chips[0]),
            millions(chips[1]),
            guess * 1e3,
            rate,
            bound.name()
        );
        let mut row = described(&setting);
        row["memory"] = setting.memory().into();
        row["seconds"] = took.into();
        row["instructions"] = json!({ m4.name: chips[0], rv32.name: chips[1] });
        row["guess"] = json!({
            "cpu_core_seconds": guess,
            "gpu": RTX_4090.name,
            "gpu_per_second": rate,
            "gpu_bound": bound.name(),
            "gpu_side_by_side": setting.side_by_side(&RTX_4090),
        });
        rows.push(row);
    }
    waiting.finish_and_clear();
    output.report(&json!({ "sha256_per_core_second": here.sha256, "settings": rows }), &text)
}

fn name(setting: &Setting) -> String {
    match setting {
        Setting::Pbkdf2 { iterations } => format!("pbkdf2-sha256, {iterations} times"),
        Setting::Catena(cost) => {
            format!("{}-sha256, garlic {}, depth {}", cost.graph.name(), cost.garlic, cost.lambda)
        }
        Setting::Argon2id { memory_kib, time } => {
            format!("argon2id, {} MiB, {time} passes", memory_kib >> 10)
        }
        Setting::Scrypt { log_n, r } => format!("scrypt, N 2^{log_n}, r {r}"),
        _ => String::from("other"),
    }
}

fn described(setting: &Setting) -> Value {
    match setting {
        Setting::Pbkdf2 { iterations } => {
            json!({ "kdf": "pbkdf2", "hash": "sha256", "iterations": iterations })
        }
        Setting::Catena(cost) => json!({
            "kdf": "catena",
            "graph": match cost.graph { CatenaGraph::BitReversal => "brg", CatenaGraph::DoubleButterfly => "dbg" },
            "hash": "sha256",
            "garlic": cost.garlic,
            "lambda": cost.lambda,
        }),
        Setting::Argon2id { memory_kib, time } => {
            json!({ "kdf": "argon2id", "memory_kib": memory_kib, "time": time, "lanes": 1 })
        }
        Setting::Scrypt { log_n, r } => json!({ "kdf": "scrypt", "log_n": log_n, "r": r, "p": 1 }),
        _ => json!({ "kdf": "other" }),
    }
}
