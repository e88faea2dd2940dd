//! `atrest bench`: a screen of what matters, or with `--all` a line for everything.

use std::fmt::Write as _;
use std::io::{self, Write};

use atrest_cipher::CipherSpec;
use atrest_kdf::{Argon2Kind, Hash};
use atrest_measure::{
    self as measure, BenchError, BenchOptions, CIPHERS, CipherRow, KdfCost, KdfRow, Memory, USUAL_CIPHERS,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{bench_io, bench_screen, bench_table, options};
use crate::args::tools::{BenchArgs, BenchCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;

pub fn bench(args: &BenchArgs, output: &Output) -> Result<(), Failure> {
    if let Some(BenchCommand::Io(io)) = &args.command {
        return bench_io::run(io, output);
    }
    if let Some(table) = args.table {
        let waiting = progress::spinner("measuring", output);
        let printed = bench_table::print(table, &args.energy, &BenchOptions::default(), output, &waiting);
        waiting.finish_and_clear();
        return printed;
    }
    if !args.all && args.cipher.is_none() && !args.kdf_only {
        return screen(output);
    }
    let options = BenchOptions::default();
    let mut report = Report::new(output);
    if args.cipher.is_none() {
        report.say("One key derivation at a time, with memory and processors of this machine\n");
        report.wait(format!("measuring key derivations, {} of them", Hash::ALL.len() + 5));
        measure::kdfs(&options, &mut |row| report.kdf(&row))?;
    }
    if !args.kdf_only {
        let asked = match &args.cipher {
            Some(name) => {
                let spec = options::cipher(name)?;
                // intended: the null cipher has no key.
                let longest = spec.key_lens().iter().max().copied().unwrap_or(0);
                vec![(spec, options::key_len(args.key_size).unwrap_or(longest) * 8)]
            }
            None => specs(&CIPHERS)?,
        };
        report.say(&format!(
            "\n{:<30} {:>4} {:>5} {:>6} {:>5} {:>9} {:>9}\n",
            "cipher, MiB/s", "bits", "unit", "where", "cores", "encrypt", "decrypt"
        ));
        let count = asked.len();
        for (number, (spec, bits)) in asked.into_iter().enumerate() {
            report.wait(format!("measuring {spec}, {} of {count}", number + 1));
            measure::cipher(&spec, bits, &options, &mut |row| report.cipher(&row))?;
        }
    }
    report.end()
}

/// What volumes use, on one screen.
fn screen(output: &Output) -> Result<(), Failure> {
    let options = BenchOptions::usual();
    let mut report = Report { prints: false, ..Report::new(output) };
    let (mut ciphers, mut kdfs) = (Vec::new(), Vec::new());
    let asked = specs(&USUAL_CIPHERS)?;
    let steps = asked.len() + 1;
    for (number, (spec, bits)) in asked.into_iter().enumerate() {
        report.wait(format!("measuring {spec}, {} of {steps}", number + 1));
        measure::cipher(&spec, bits, &options, &mut |row| {
            report.cipher(&row);
            ciphers.push(row);
        })?;
    }
    report.wait(format!("measuring key derivations, {steps} of {steps}"));
    measure::usual_kdfs(&options, &mut |row| {
        report.kdf(&row);
        kdfs.push(row);
    })?;
    report.prints = true;
    report.say(&bench_screen::text(&ciphers, &kdfs, &bench_screen::Screen::of_stdout()));
    report.end()
}

/// The ciphers of a table.
fn specs(table: &[(&str, usize)]) -> Result<Vec<(CipherSpec, usize)>, Failure> {
    table.iter().map(|(name, bits)| Ok((options::cipher(name)?, *bits))).collect()
}

/// Prints rows as they come; as JSON all at once at the end.
struct Report<'a> {
    output: &'a Output,
    kdf: Vec<Value>,
    cipher: Vec<Value>,
    failed: Option<io::Error>,
    waiting: ProgressBar,
    /// Whether rows are printed as they come.
    prints: bool,
}

impl<'a> Report<'a> {
    fn new(output: &'a Output) -> Self {
        let waiting = progress::spinner("measuring", output);
        Self { output, kdf: Vec::new(), cipher: Vec::new(), failed: None, waiting, prints: true }
    }

    /// Says on a terminal what is being done.
    fn wait(&self, what: String) {
        self.waiting.set_message(what);
    }

    fn say(&mut self, text: &str) {
        if self.prints && !self.output.is_json() && self.failed.is_none() {
            self.failed = self.waiting.suspend(|| {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush()).err()
            });
        }
    }

    fn kdf(&mut self, row: &KdfRow) {
        let seconds = row.elapsed.as_secs_f64();
        let mut text = String::new();
        let value = match row.cost {
            KdfCost::Pbkdf2 { hash, iterations } => {
                let rate = row.iterations_per_second().unwrap_or(0.0);
                // Writing to a String can't fail, here and below.
                let _ = write!(text, "{:<31} {rate:>14.0} iterations/s", format!("pbkdf2-{}", hash.name()));
                json!({ "kdf": "pbkdf2", "hash": hash.name(), "iterations": iterations, "iterations_per_second": rate })
            }
            KdfCost::Argon2(cost) => {
                let name = match cost.kind {
                    Argon2Kind::I => "argon2i",
                    Argon2Kind::Id => "argon2id",
                };
                let (time, memory, lanes) = (cost.time, cost.memory_kib, cost.lanes);
                let _ = write!(text, "{name:<26} {time} passes, {memory} KiB, {lanes} lanes: {seconds:.3} s");
                json!({ "kdf": name, "passes": time, "memory_kib": memory, "lanes": lanes })
            }
            KdfCost::Scrypt(cost) => {
                let _ = write!(
                    text,
                    "{:<31} N 2^{}, r {}, p {}: {seconds:.3} s",
                    "scrypt", cost.log_n, cost.r, cost.p
                );
                json!({ "kdf": "scrypt", "log_n": cost.log_n, "r": cost.r, "p": cost.p })
            }
            _ => return,
        };
        let mut value = value;
        if let Some(object) = value.as_object_mut() {
            object.insert("seconds".into(), seconds.into());
            object.insert("key_bits".into(), row.key_bits.into());
        }
        self.kdf.push(value);
        self.say(&format!("{text}\n"));
    }

    fn cipher(&mut self, row: &CipherRow) {
        let (place, bytes) = match row.memory {
            Memory::Cache(bytes) => ("cache", bytes),
            Memory::Main(bytes) => ("memory", bytes),
        };
        const MIB: f64 = 1_048_576.0;
        self.say(&format!(
            "{:<30} {:>4} {:>5} {place:>6} {:>5} {:>9.0} {:>9.0}  {}{}\n",
            row.cipher.to_string(),
            row.key_bits,
            row.data_unit,
            row.threads,
            row.encrypt / MIB,
            row.decrypt / MIB,
            row.backend,
            if row.constant_time { "" } else { ", timing leaks" },
        ));
        self.cipher.push(json!({
            "cipher": row.cipher.to_string(),
            "key_bits": row.key_bits,
            "data_unit": row.data_unit,
            "memory": place,
            "buffer": bytes,
            "threads": row.threads,
            "backend": row.backend,
            "constant_time": row.constant_time,
            "encrypt_bytes_per_second": row.encrypt,
            "decrypt_bytes_per_second": row.decrypt,
        }));
    }

    fn end(self) -> Result<(), Failure> {
        self.waiting.finish_and_clear();
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        match self.output.is_json() {
            true => self.output.report(&json!({ "kdf": self.kdf, "cipher": self.cipher }), ""),
            false => Ok(()),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Kdf(error) => Self::new(crate::failure::Code::Memory, error),
            BenchError::Place(kind) => io::Error::from(kind).into(),
            BenchError::Device(error) => error.into(),
            BenchError::Space { .. } => Self::new(crate::failure::Code::Device, error)
                .hint("choose another place, or leave out large sizes with --largest"),
            error => Self::parameters(error),
        }
    }
}
