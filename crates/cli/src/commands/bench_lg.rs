//! `atrest bench io --table lg`.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use atrest_measure::io::{Contender, LgOptions, LgRow, Place, Work, lg::slides, lg_chart, measure_lg};
use serde_json::{Value, json};

use crate::args::tools::BenchIoArgs;
use crate::failure::Failure;
use crate::output::{Output, path_text};
use crate::progress;

/// Bytes in the files of each kind of encryption at most: what is measured is the CPU's part, and the medium's is the same for all.
const MOST: u64 = 256 << 20;

pub fn run(args: &BenchIoArgs, output: &Output) -> Result<(), Failure> {
    if !args.place.is_dir() {
        return Err(Failure::parameters("the table lg compares files, for which it needs a directory")
            .at(&args.place));
    }
    let mut options = LgOptions::of(args.largest.min(MOST));
    options.time = Duration::from_secs(args.time);
    // Made before anything is measured: a name that can't be used is told now.
    let svg = match &args.svg {
        Some(path) => Some(File::create_new(path).map_err(|error| Failure::from(error).at(path))?),
        None => None,
    };
    let mut table = Table { output, rows: Vec::new(), failed: None };
    table.head();
    let waiting = progress::spinner("measuring", output);
    let place = Place::Directory(args.place.clone());
    let measured = measure_lg(&place, &options, &mut |row| waiting.suspend(|| table.add(row)));
    waiting.finish_and_clear();
    measured.map_err(|error| Failure::from(error).at(&args.place))?;
    if let Some(mut file) = svg {
        file.write_all(lg_chart(&table.rows).as_bytes())?;
    }
    table.end(args, options.size)
}

/// Prints rows as they come; as JSON all at once at the end.
struct Table<'a> {
    output: &'a Output,
    rows: Vec<LgRow>,
    failed: Option<io::Error>,
}

impl Table<'_> {
    fn say(&mut self, text: &str) {
        if !self.output.is_json() && self.failed.is_none() {
            self.failed = io::stdout().write_all(text.as_bytes()).err();
        }
    }

    fn head(&mut self) {
        let mut line = format!("{:<30}", "MiB/s; random: requests/s");
        for contender in Contender::ALL {
            line += &format!("{:>10}   ", contender.name());
        }
        self.say(&format!("{}\n", line.trim_end()));
    }

    fn add(&mut self, row: LgRow) {
        let cores = if row.cores == 1 { "core" } else { "cores" };
        let mut line = format!("{:<30}", format!("{}, {} {cores}", short(row.work), row.cores));
        for contender in Contender::ALL {
            let loss = match contender {
                Contender::Plain => String::new(),
                _ => format!("{:+.0}%", -row.overhead(contender)),
            };
            line += &format!("{:>8.0} {loss:<4}", row.of(contender));
        }
        self.say(&(line.trim_end().to_owned() + "\n"));
        self.rows.push(row);
    }

    fn end(mut self, args: &BenchIoArgs, size: u64) -> Result<(), Failure> {
        let ratios = ratios(&self.rows);
        self.say("\nRatios\n");
        for (what, values) in &ratios {
            self.say(&format!("{what}\n{:<30}", ""));
            let line: String = values.iter().map(|value| format!("{value:>8.2}     ")).collect();
            self.say(&format!("{}\n", line.trim_end()));
        }
        self.say("\nPublished in 2016 for CPUs without instructions for AES:\n");
        for (_, what, labels) in slides::STATEMENTS {
            self.say(&format!("  {what}: {labels}\n"));
        }
        for conclusion in slides::CONCLUSIONS {
            self.say(&format!("  conclusion: {conclusion}\n"));
        }
        self.say(&format!("Source: {}\n", slides::SOURCE));
        if self.output.is_json() {
            let report = json!({
                "table": "lg",
                "place": path_text(&args.place),
                "bytes": size,
                "rows": self.rows.iter().map(row_json).collect::<Vec<_>>(),
                "ratios": ratios.iter().map(|(what, values)| json!({ "what": what, "by": by(values) })).collect::<Vec<_>>(),
                "source": slides::SOURCE,
                "statements": slides::STATEMENTS.map(|(slide, what, labels)| json!({ "slide": slide, "what": what, "labels": labels })),
                "conclusions": slides::CONCLUSIONS,
            });
            return self.output.report(&report, "");
        }
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// A name that leaves room for five columns of figures.
fn short(work: Work) -> &'static str {
    match work {
        Work::ReadNotAhead => "read 4 KiB, not ahead",
        Work::RandomNotAhead => "random, not ahead",
        work => work.name(),
    }
}

/// What the slides ask: how it scales, what several threads give, and what read-ahead gives.
fn ratios(rows: &[LgRow]) -> Vec<(String, [f64; 5])> {
    let find = |work: Work, cores: usize| rows.iter().find(|row| row.work == work && row.cores == cores);
    let most = rows.iter().map(|row| row.cores).max().unwrap_or(1);
    let mut questions = Vec::new();
    for work in [Work::Write, Work::Read, Work::Random] {
        for cores in [2, most] {
            questions.push((
                format!("{}: {cores} cores to 1", work.name()),
                find(work, cores),
                find(work, 1),
            ));
        }
    }
    let threads = format!("read, {most} cores: threads on all to one thread");
    questions.push((threads, find(Work::Read, most), find(Work::ReadOneThread, most)));
    for (ahead, not) in [(Work::ReadPages, Work::ReadNotAhead), (Work::Random, Work::RandomNotAhead)] {
        let what = format!("{}, 1 core: with read-ahead to without", ahead.name());
        questions.push((what, find(ahead, 1), find(not, 1)));
    }
    questions.dedup_by(|a, b| a.0 == b.0);
    let both = questions.into_iter().filter_map(|(what, a, b)| Some((what, a?, b?)));
    both.filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| (what, std::array::from_fn(|i| a.speeds[i] / b.speeds[i])))
        .collect()
}

fn row_json(row: &LgRow) -> Value {
    json!({
        "work": row.work.name(),
        "unit": if row.work.counts_requests() { "requests per second" } else { "MiB per second" },
        "cores": row.cores,
        "by": by(&row.speeds),
    })
}

fn by(values: &[f64; 5]) -> Value {
    Contender::ALL
        .iter()
        .zip(values)
        .map(|(contender, value)| (contender.name().to_owned(), json!(value)))
        .collect()
}
