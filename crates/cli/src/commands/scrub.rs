//! `atrest scrub`.

use atrest_device::{BlockDevice, Cause, DeviceError};
use atrest_engine::Disk;
use serde_json::{Value, json};

use super::unlock::{Use, unlock};
use crate::args::scrub::ScrubArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;

/// Data units that are named. More are counted only: a volume of which nothing can be read must not fill the memory.
const NAMED: usize = 10_000;

pub fn scrub(args: &ScrubArgs, output: &Output) -> Result<u8, Failure> {
    let wanted = Use { threads: args.threads, ..Use::default() };
    let disk = unlock(&args.path, &args.unlock, wanted, output)?.disk;
    scrub_disk(&disk, output)
}

/// Reads all of an open volume, and lists what fails.
pub fn scrub_disk(disk: &Disk, output: &Output) -> Result<u8, Failure> {
    // A sealed volume has tags for blocks of its own.
    let unit = disk.data_unit().max(disk.media_block());
    let size = disk.size();
    let bar = progress::bytes_bar(size, output);
    let mut named = Vec::new();
    let count = atrest_engine::scrub(disk, unit, &mut |done| bar.set_position(done), &mut |number, error| {
        if named.len() < NAMED {
            named.push((number, error));
        }
    });
    bar.finish_and_clear();
    let units: Vec<Value> = named.iter().map(|(number, error)| row(*number, unit, error)).collect();
    let data = json!({ "bytes": size, "data_unit": unit, "failed": count, "units": units });
    let mut text = String::new();
    for (number, error) in &named {
        text.push_str(&format!("data unit {number} at byte {}: {}\n", number * unit as u64, error.cause));
    }
    if count > named.len() as u64 {
        text.push_str(&format!("… and {} more\n", count - named.len() as u64));
    }
    text.push_str(&format!(
        "{} data units of {unit} bytes were read, {count} failed\n",
        size.div_ceil(unit as u64)
    ));
    output.report(&data, &text)?;
    match count {
        0 => Ok(0),
        _ => Ok(Failure::silent(Code::Device as u8).code()),
    }
}

fn row(number: u64, unit: usize, error: &DeviceError) -> Value {
    let kind = if matches!(error.cause, Cause::Tag { .. }) { "tag" } else { "read" };
    json!({ "unit": number, "offset": number * unit as u64, "kind": kind, "error": error.cause.to_string() })
}
