//! `benchmark`, in cryptsetup's form, with our measurements.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use atrest_kdf::{Argon2Kind, Hash};
use atrest_measure::{self as measure, BenchOptions, CIPHERS, CipherRow, KdfCost, KdfRow, Memory};

use super::words::Request;
use crate::commands::options;
use crate::failure::Failure;

pub fn benchmark(request: &Request) -> Result<u8, Failure> {
    say("# Tests are approximate using memory only (no storage IO).\n")?;
    let options = BenchOptions::default();
    if let Some(name) = request.text("hash") {
        let name = name.to_string_lossy();
        let hash = Hash::named(&name).map_err(|error| Failure::parameters(format!("{name}: {error}")))?;
        say(&derivation(&measure::pbkdf2(hash, &options)?))?;
        // As cryptsetup: a hash without a cipher is all that is measured.
        if !request.has("cipher") {
            return Ok(0);
        }
    }
    let mut written = Ok(());
    let ciphers: Vec<(String, usize)> = match request.text("cipher") {
        Some(name) => {
            let bits = request.number("key-size").filter(|bits| *bits > 0).unwrap_or(USUAL_BITS);
            let bits = usize::try_from(bits).map_err(|_| Failure::parameters("--key-size is too large"))?;
            vec![(name.to_string_lossy().into_owned(), bits)]
        }
        None => {
            measure::kdfs(&options, &mut |row| {
                if written.is_ok() {
                    written = say(&derivation(&row));
                }
            })?;
            CIPHERS.iter().map(|(name, bits)| (String::from(*name), *bits)).collect()
        }
    };
    written?;
    say("#     Algorithm |       Key |      Encryption |      Decryption\n")?;
    for (name, bits) in ciphers {
        let spec = options::cipher(&with_iv(&name))?;
        let mut fastest: Option<CipherRow> = None;
        measure::cipher(&spec, bits, &options, &mut |row| {
            let better = fastest.as_ref().is_none_or(|best| row.decrypt > best.decrypt);
            // One thread, as cryptsetup measures.
            if row.threads == 1 && matches!(row.memory, Memory::Main(_)) && better {
                fastest = Some(row);
            }
        })?;
        if let Some(row) = fastest {
            say(&cipher(&name, &row))?;
        }
    }
    Ok(0)
}

/// Bits of a key of which nothing is said.
const USUAL_BITS: u64 = 256;

fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// cryptsetup's names for this have no IV.
fn with_iv(name: &str) -> String {
    match name.matches('-').count() {
        0 => format!("{name}-cbc-plain64"),
        1 if name.ends_with("-lrw") => format!("{name}-benbi"),
        1 => format!("{name}-plain64"),
        _ => String::from(name),
    }
}

fn cipher(name: &str, row: &CipherRow) -> String {
    const MIB: f64 = 1_048_576.0;
    // Without the IV, which says nothing about the speed.
    let short: Vec<&str> = name.splitn(3, '-').take(2).collect();
    format!(
        "{:>15}  {:>9}b  {:>10.1} MiB/s  {:>10.1} MiB/s\n",
        short.join("-"),
        row.key_bits,
        row.encrypt / MIB,
        row.decrypt / MIB
    )
}

fn derivation(row: &KdfRow) -> String {
    let mut text = String::new();
    match row.cost {
        KdfCost::Pbkdf2 { hash, .. } => {
            let rate = row.iterations_per_second().unwrap_or(0.0);
            // Writing to a String can't fail, here and below.
            let _ = writeln!(
                text,
                "PBKDF2-{:<9} {rate:>7.0} iterations per second for {}-bit key",
                hash.name(),
                row.key_bits
            );
        }
        KdfCost::Argon2(cost) => {
            let name = match cost.kind {
                Argon2Kind::I => "argon2i",
                Argon2Kind::Id => "argon2id",
            };
            let _ = writeln!(
                text,
                "{name:<10} {:>5} iterations, {:>5} memory, {:>1} parallel threads (CPUs) for {}-bit key (took {} ms)",
                cost.time,
                cost.memory_kib,
                cost.lanes,
                row.key_bits,
                row.elapsed.as_millis()
            );
        }
        // cryptsetup knows no other.
        _ => {}
    }
    text
}
