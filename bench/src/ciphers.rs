//! A table for each cipher: every backend of ours and every peer, one column for a size of data units, a direction and a
//! place in memory.

use std::cell::RefCell;
use std::error::Error;

use atrest_cipher::{BackendChoice, DataUnitIndex, Mapper, MapperOptions, VectorChoice};

use crate::Plan;
use crate::buffer::{Buffer, CHUNK};
use crate::case::{Case, Cipher, Place};
use crate::limit;
use crate::machine::{clock, on_cores, thread_time};
use crate::measure::{Contender, medians};
use crate::peers::{self, OPENSSL_3, Peers, Step};
use crate::report::Report;
use crate::targets;

/// CPU time of one slice, in seconds: in the cache, and from memory, where a whole sweep is enough as well.
const SLICE: f64 = 0.002;
const SWEEP: f64 = 0.06;
/// Chunks between two looks at the clock, which costs a system call.
const CHUNKS: usize = 8;

/// What a contender is in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Peer,
    /// A peer measured elsewhere.
    Scaled,
    /// What its figure is scaled by.
    Yardstick,
    Limit,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Speed {
    pub name: String,
    pub kind: Kind,
    pub gbs: f64,
}

/// One column.
pub struct Column {
    pub case: Case,
    /// Ours first, the fastest at the top.
    pub speeds: Vec<Speed>,
    clock: Option<f64>,
}

impl Column {
    /// The fastest implementation of ours, which is what users get.
    pub fn ours(&self) -> Option<&Speed> {
        self.speeds.iter().find(|speed| speed.kind == Kind::Ours)
    }

    pub fn named(&self, name: &str) -> Option<&Speed> {
        self.speeds.iter().find(|speed| speed.name == name)
    }

    pub fn best_peer(&self) -> Option<&Speed> {
        let peers = self.speeds.iter().filter(|speed| speed.kind == Kind::Peer);
        peers.max_by(|a, b| a.gbs.total_cmp(&b.gbs))
    }

    pub fn authors(&self) -> Option<&Speed> {
        self.speeds.iter().find(|speed| speed.kind == Kind::Scaled)
    }
}

pub fn measure(
    plan: &Plan,
    cipher: Cipher,
    peers: &Peers,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let mut columns = Vec::new();
    for case in Case::of(cipher) {
        columns.push(on_cores(1, || column(plan, case, peers))?);
    }
    for column in &columns {
        targets::judge(column, report);
    }
    let mut head = vec!["GB/s".to_owned()];
    head.extend(columns.iter().map(|column| column.case.head()));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    report.table(cipher.title(), note(cipher), &head, rows(&columns));
    Ok(())
}

fn note(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::CbcEssiv => {
            "Peers know only CBC. Their own AES makes the IVs of a run in one call. Then they get a data unit per \
             call (ipsec-mb: as many as it wants)."
        }
        Cipher::Adiantum12 => {
            "The code of the authors of Adiantum, HPolyC and HCTR2 comes from no registry. \"Scaled\" is its \
             speed on another machine (`bench/src/peers/authors.rs`), times the speed of OpenSSL 3.0's \
             AES-256-XTS here, by its speed there. That is a guess. It is too low where AES is slow beside other \
             vector instructions."
        }
        Cipher::Aes256Xts | Cipher::Hctr2 => {
            "`xts-mode` and `hctr2-rs` use the `aes` crate, a block at a time. Builds of the same sources differ, \
             because the compiler inlines by chance. One machine had 0.15 to 1.2 GB/s (XTS) and 0.13 to 0.5 GB/s \
             (HCTR2)."
        }
        _ => "",
    }
}

/// All contenders in turns.
fn column(plan: &Plan, case: Case, peers: &Peers) -> Result<Column, Box<dyn Error>> {
    let cached = case.place == Place::Cache;
    let mut steps: Vec<(String, Kind, Step<'_>)> = Vec::new();
    for (name, mapper) in mappers(&case)?.into_iter().take(if cached { usize::MAX } else { 1 }) {
        let step: Step<'_> = match case.encrypt {
            true => Box::new(move |run| mapper.encrypt(DataUnitIndex(0), run).expect("whole units")),
            false => Box::new(move |run| mapper.decrypt(DataUnitIndex(0), run).expect("whole units")),
        };
        steps.push((format!("**atrest**, {name}"), Kind::Ours, step));
    }
    for (name, step) in peers.steps(&case)? {
        steps.push((name.to_owned(), Kind::Peer, step));
    }
    agree(&mut steps)?;
    if case.cipher.is_wide_block() {
        steps.push((format!("{OPENSSL_3}, AES-256-XTS"), Kind::Yardstick, peers.yardstick(&case)?));
    }
    if !cached {
        let mut other = Buffer::new(case.place)?;
        steps.push((
            limit::MEMCPY.to_owned(),
            Kind::Limit,
            Box::new(move |run| other.next().copy_from_slice(run)),
        ));
        steps.push((limit::XOR.to_owned(), Kind::Limit, Box::new(limit::xor)));
    }

    let mut named: Vec<(String, Kind)> = steps.iter().map(|(name, kind, _)| (name.clone(), *kind)).collect();
    let buffer = RefCell::new(Buffer::new(case.place)?);
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for (name, _, step) in &mut steps {
        let buffer = &buffer;
        contenders.push(Contender::new(name.clone(), move || Ok(timed(&mut buffer.borrow_mut(), step))));
    }
    let best = BackendChoice::best().name();
    if let Some(rounds) = case.cipher.aes_rounds().filter(|_| limit::speed(best, 14).is_some()) {
        named.push((limit::rounds_name(best), Kind::Limit));
        contenders.push(Contender::new("rounds", move || {
            limit::speed(best, rounds).ok_or_else(|| "no limit on this CPU".into())
        }));
    }
    let has_clock = clock().is_some();
    if has_clock {
        contenders.push(Contender::new("clock", || clock().ok_or_else(|| "no clock".into())));
    }
    let rounds = if cached { plan.slices } else { plan.sweeps };
    let mut medians = medians(&mut contenders, rounds)?;
    let clock = if has_clock { medians.pop() } else { None };
    let mut speeds: Vec<Speed> =
        named.into_iter().zip(medians).map(|((name, kind), gbs)| Speed { name, kind, gbs }).collect();
    if let Some(at) = speeds.iter().position(|speed| speed.kind == Kind::Yardstick)
        && let Some(gbs) = peers::scaled(&case, speeds[at].gbs)
    {
        speeds.insert(at, Speed { name: "its authors' code, scaled".into(), kind: Kind::Scaled, gbs });
    }
    Ok(Column { case, speeds, clock })
}

/// Ours with each backend, or with each set of vector instructions, fastest first.
fn mappers(case: &Case) -> Result<Vec<(&'static str, Mapper)>, Box<dyn Error>> {
    let key = case.cipher.key();
    let spec = case.cipher.spec().parse()?;
    let options = MapperOptions { data_unit: case.unit, iv_large: true, ..MapperOptions::default() };
    let new = |options: MapperOptions| {
        let mapper = Mapper::new(&spec, &key, &options)?;
        Ok((mapper.backend_name(), mapper))
    };
    if case.cipher.is_mostly_vectors() {
        VectorChoice::detected()
            .map(|vectors| new(MapperOptions { vectors: Some(vectors), ..options }))
            .collect()
    } else {
        BackendChoice::detected()
            .map(|backend| new(MapperOptions { backend: Some(backend), ..options }))
            .collect()
    }
}

/// All make the same of the same bytes.
fn agree(steps: &mut [(String, Kind, Step<'_>)]) -> Result<(), Box<dyn Error>> {
    let mut start = vec![0; CHUNK];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for word in start.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    let mut first: Option<(String, Vec<u8>)> = None;
    for (name, _, step) in steps.iter_mut() {
        let mut run = start.clone();
        step(&mut run);
        match &first {
            None => first = Some((name.clone(), run)),
            Some((other, first)) if *first != run => {
                return Err(format!("{name} and {other} disagree").into());
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// GB/s of thread CPU time of one slice.
fn timed(buffer: &mut Buffer, step: &mut Step<'_>) -> f64 {
    let cached = buffer.len() == CHUNK;
    let begun = thread_time();
    let mut done = 0;
    loop {
        for _ in 0..CHUNKS {
            step(buffer.next());
        }
        done += CHUNKS * CHUNK;
        let elapsed = thread_time() - begun;
        if elapsed >= if cached { SLICE } else { SWEEP } || !cached && done >= buffer.len() {
            return done as f64 / elapsed / 1e9;
        }
    }
}

/// The contenders of all columns, then what follows from them.
fn rows(columns: &[Column]) -> Vec<Vec<String>> {
    let mut names: Vec<(Kind, &str)> = Vec::new();
    for kind in [Kind::Ours, Kind::Peer, Kind::Scaled, Kind::Yardstick, Kind::Limit] {
        for speed in columns.iter().flat_map(|column| &column.speeds).filter(|speed| speed.kind == kind) {
            if !names.contains(&(kind, &speed.name)) {
                names.push((kind, &speed.name));
            }
        }
    }
    let mut rows: Vec<Vec<String>> = names
        .iter()
        .map(|(_, name)| row(name, columns, |column| Some(format!("{:.2}", column.named(name)?.gbs))))
        .collect();
    let ratio = |column: &Column, other: Option<&Speed>| {
        let other = other?;
        Some(format!("{:.2} ({})", column.ours()?.gbs / other.gbs, other.name))
    };
    rows.push(row("atrest, cycles/B", columns, |column| {
        Some(format!("{:.2}", column.clock? / column.ours()?.gbs))
    }));
    rows.push(row("atrest by the best peer", columns, |column| ratio(column, column.best_peer())));
    rows.push(row("atrest by the authors'", columns, |column| {
        Some(format!("{:.2} (scaled)", column.ours()?.gbs / column.authors()?.gbs))
    }));
    // Rows in which there is nothing for this cipher.
    rows.retain(|row| row.iter().skip(1).any(|cell| cell != "–"));
    rows
}

fn row(name: &str, columns: &[Column], cell: impl Fn(&Column) -> Option<String>) -> Vec<String> {
    let cells = columns.iter().map(|column| cell(column).unwrap_or_else(|| "–".into()));
    [name.to_owned()].into_iter().chain(cells).collect()
}
