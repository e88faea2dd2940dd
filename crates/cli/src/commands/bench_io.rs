//! `atrest bench io`.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use atrest_measure::io::{self as bench, Forgot, IoOptions, IoRow, Pair, Place, zynq};
use serde_json::{Value, json};

use super::bench_lg;
use crate::args::tools::{BenchIoArgs, IoTable};
use crate::failure::Failure;
use crate::output::{Output, path_text};
use crate::progress;

const HEAD: &str = "                                here                             published\n                              plain encrypted overhead        plain encrypted overhead\n";

pub fn run(args: &BenchIoArgs, output: &Output) -> Result<(), Failure> {
    match args.table {
        IoTable::Zynq => {}
        IoTable::Lg => return bench_lg::run(args, output),
    }
    let mut options = IoOptions::up_to(args.largest);
    options.time = Duration::from_secs(args.time);
    if options.sizes.is_empty() {
        return Err(Failure::parameters("--largest leaves nothing to measure: the smallest size is 10M"));
    }
    let place = match args.place.is_dir() {
        true => Place::Directory(args.place.clone()),
        false => Place::Device(args.place.clone()),
    };
    if matches!(place, Place::Device(_)) {
        output.confirm(&format!("the data of {} is overwritten", args.place.display()))?;
    }
    // Made before anything is measured: a name that can't be used is told now.
    let svg = match &args.svg {
        Some(path) => Some(File::create_new(path).map_err(|error| Failure::from(error).at(path))?),
        None => None,
    };
    let mut table = Table { output, rows: Vec::new(), failed: None };
    table.say(&format!("AES-XTS, 256 bits, data units of 512 bytes\n{HEAD}"));
    let waiting = progress::spinner("measuring", output);
    let measured = bench::measure(&place, &options, &mut |row| waiting.suspend(|| table.add(row)));
    waiting.finish_and_clear();
    let forgot = measured.map_err(|error| Failure::from(error).at(&args.place))?;
    if let Some(mut file) = svg {
        file.write_all(bench::chart(&table.rows).as_bytes())?;
    }
    table.end(args, forgot)
}

/// Prints rows as they come; as JSON all at once at the end.
struct Table<'a> {
    output: &'a Output,
    rows: Vec<IoRow>,
    failed: Option<io::Error>,
}

impl Table<'_> {
    fn say(&mut self, text: &str) {
        if !self.output.is_json() && self.failed.is_none() {
            self.failed = io::stdout().write_all(text.as_bytes()).err();
        }
    }

    fn add(&mut self, row: IoRow) {
        match row {
            IoRow::Sequential { size, write, read } => {
                let source = zynq::row(size);
                let mib = size >> 20;
                self.say(&line(&format!("write {mib} MiB, MiB/s"), write, source.map(|source| source.0)));
                self.say(&line(&format!("read  {mib} MiB, MiB/s"), read, source.map(|source| source.1)));
            }
            IoRow::Random { depth, write, read } => {
                self.say(&line(&format!("write 4 KiB, depth {depth}, /s"), write, None));
                self.say(&line(&format!("read  4 KiB, depth {depth}, /s"), read, None));
            }
            _ => {}
        }
        self.rows.push(row);
    }

    fn end(mut self, args: &BenchIoArgs, forgot: Forgot) -> Result<(), Failure> {
        let (caches, how) = match forgot {
            Forgot::Everything => ("all", "all of the kernel's caches"),
            _ => ("pages", "the pages of the file (all caches only as root)"),
        };
        self.say("published random requests of 4 KiB per second, at a depth that is not said:\n");
        for (name, plain, encrypted) in zynq::IOPS {
            let pair = Pair { plain, encrypted };
            self.say(&format!(
                "  {name:<6} plain {plain:.0}, encrypted {encrypted:.0}: {:.1} %\n",
                pair.overhead()
            ));
        }
        self.say(&format!("\nDropped before reading: {how}\nSource: {}\n", zynq::SOURCE));
        if self.output.is_json() {
            let rows: Vec<Value> = self.rows.iter().map(json_row).collect();
            let quoted = zynq::IOPS.map(|(name, plain, encrypted)| json!({ "file_system": name, "plain": plain, "encrypted": encrypted }));
            let report = json!({
                "table": "zynq",
                "place": path_text(&args.place),
                "source": zynq::SOURCE,
                "caches_dropped": caches,
                "rows": rows,
                "source_random": quoted,
            });
            return self.output.report(&report, "");
        }
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

fn line(what: &str, here: Pair, source: Option<(f64, f64)>) -> String {
    let mut text =
        format!("{what:<25} {:>9.1} {:>9.1} {:>6.1} %", here.plain, here.encrypted, here.overhead());
    if let Some((plain, encrypted)) = source {
        let overhead = Pair { plain, encrypted }.overhead();
        text += &format!("    {plain:>9.2} {encrypted:>9.2} {overhead:>6.1} %");
    }
    text + "\n"
}

fn json_row(row: &IoRow) -> Value {
    let pair = |pair: Pair| json!({ "plain": pair.plain, "encrypted": pair.encrypted, "overhead_percent": pair.overhead() });
    match *row {
        IoRow::Sequential { size, write, read } => {
            let source = zynq::row(size);
            let both = |(plain, encrypted)| json!({ "plain": plain, "encrypted": encrypted });
            json!({
                "kind": "sequential",
                "bytes": size,
                "write_mib_per_second": pair(write),
                "read_mib_per_second": pair(read),
                "source_write_mib_per_second": source.map(|source| both(source.0)),
                "source_read_mib_per_second": source.map(|source| both(source.1)),
            })
        }
        IoRow::Random { depth, write, read } => json!({
            "kind": "random",
            "bytes": 4096,
            "depth": depth,
            "writes_per_second": pair(write),
            "reads_per_second": pair(read),
        }),
        _ => Value::Null,
    }
}
