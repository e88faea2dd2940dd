//! AES-256-XTS against OpenSSL, each backend, in place, every unit with its own tweak.

use std::error::Error;

use atrest_cipher::{BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions};

use crate::Plan;
use crate::limit;
use crate::machine::{clock, on_cores, thread_time};
use crate::measure::{Contender, medians};
use crate::openssl::OpenSsl;
use crate::report::Report;

/// Bytes of the buffer that stays in the cache.
const CACHE: usize = 128 << 10;
/// Bytes of the buffer that does not.
const MEMORY: usize = 256 << 20;
/// CPU time of one slice, in seconds.
const SLICE: f64 = 0.002;

pub fn measure(plan: &Plan, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    let mut version = String::new();
    for (place, bytes) in [("cache, 128 KiB", CACHE), ("memory, 256 MiB", MEMORY)] {
        for unit in [512, 4096] {
            for encrypt in [true, false] {
                let row = on_cores(1, || row(plan, bytes, unit, encrypt, &mut version))?;
                let direction = if encrypt { "encrypt" } else { "decrypt" };
                let (openssl, ours) = (row.0, row.1);
                for (name, speed, limit, cycles) in ours {
                    let ratio = speed / openssl;
                    let share = limit.map(|limit| speed / limit);
                    let (of_openssl, of_limit) = targets(&name, unit, bytes);
                    let verdicts: Vec<String> =
                        [(Some(ratio), of_openssl, ""), (share, of_limit, " of the limit")]
                            .into_iter()
                            .filter_map(|(reached, target, what)| Some(verdict(reached?, target?) + what))
                            .collect();
                    rows.push(vec![
                        format!("{direction}, {unit} B, {place}"),
                        name,
                        format!("{speed:.2}"),
                        cycles,
                        format!("{openssl:.2}"),
                        format!("{ratio:.2}"),
                        share.map_or("–".into(), |share| format!("{share:.2}")),
                        if verdicts.is_empty() { "–".into() } else { verdicts.join("; ") },
                    ]);
                }
            }
        }
    }
    report.table(
        &format!("AES-256-XTS against {version}, one core"),
        "GB/s of thread CPU time, median of interleaved slices; both in place, every data unit with its own tweak. The \
         limit is that of the backend's instructions: the rounds alone, in registers, in the same turns.",
        &["what", "backend", "atrest", "cycles/B", "OpenSSL", "ratio", "of the limit", "target"],
        rows,
    );
    Ok(())
}

/// OpenSSL's speed; each backend with its speed, its limit and its cycles per byte.
type Row = (f64, Vec<(String, f64, Option<f64>, String)>);

fn row(
    plan: &Plan,
    bytes: usize,
    unit: usize,
    encrypt: bool,
    version: &mut String,
) -> Result<Row, Box<dyn Error>> {
    let mut key = [0; 64];
    key.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 11 + 3) as u8);
    let spec: CipherSpec = "aes-xts-plain64".parse()?;
    let mut openssl = OpenSsl::new(&key, encrypt)?;
    *version = openssl.version().to_owned();
    let apply = move |mapper: &Mapper, run: &mut [u8]| match encrypt {
        true => mapper.encrypt(DataUnitIndex(0), run),
        false => mapper.decrypt(DataUnitIndex(0), run),
    };
    let mut mappers = Vec::new();
    for backend in BackendChoice::detected() {
        let options = MapperOptions { data_unit: unit, backend: Some(backend), ..MapperOptions::default() };
        let mapper = Mapper::new(&spec, &key, &options)?;
        let mut ours: Vec<u8> =
            (0..CACHE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let mut theirs = ours.clone();
        apply(&mapper, &mut ours)?;
        openssl.run(0, unit, &mut theirs);
        if ours != theirs {
            return Err(format!("{} and OpenSSL disagree on {unit}-byte units", backend.name()).into());
        }
        mappers.push((backend.name().to_owned(), mapper));
    }
    // The buffer is each contender's in turn; from memory one sweep is one slice.
    let buffer = std::cell::RefCell::new(vec![0x5au8; bytes]);
    let timed = |work: &mut dyn FnMut(&mut [u8])| {
        let mut buffer = buffer.borrow_mut();
        let begun = thread_time();
        let mut done = 0;
        loop {
            work(&mut buffer);
            done += buffer.len();
            let elapsed = thread_time() - begun;
            if elapsed >= SLICE {
                return done as f64 / elapsed / 1e9;
            }
        }
    };
    let mut contenders = vec![Contender::new("OpenSSL", || Ok(timed(&mut |run| openssl.run(0, unit, run))))];
    for (name, mapper) in &mappers {
        let apply = &apply;
        let timed = &timed;
        contenders.push(Contender::new(name, move || {
            let mut failed = None;
            let speed = timed(&mut |run| failed = apply(mapper, run).err());
            failed.map_or(Ok(speed), |error| Err(error.into()))
        }));
    }
    let limited: Vec<&str> =
        mappers.iter().map(|(name, _)| name.as_str()).filter(|name| limit::speed(name).is_some()).collect();
    for name in &limited {
        contenders.push(Contender::new(*name, || limit::speed(name).ok_or_else(|| "no limit".into())));
    }
    let rounds = if bytes > CACHE { plan.slices.min(5) } else { plan.slices };
    let speeds = medians(&mut contenders, rounds)?;
    let clock = clock();
    let ours = mappers
        .iter()
        .zip(&speeds[1..])
        .map(|((name, _), speed)| {
            let limit = limited.iter().position(|limited| limited == name);
            let limit = limit.map(|at| speeds[1 + mappers.len() + at]);
            (name.clone(), *speed, limit, clock.map_or("–".into(), |clock| format!("{:.2}", clock / speed)))
        })
        .collect();
    Ok((speeds[0], ours))
}

/// What a backend must reach: times OpenSSL 3.0, and of its limit.
fn targets(backend: &str, unit: usize, bytes: usize) -> (Option<f64>, Option<f64>) {
    match (backend, unit, bytes) {
        ("vaes-512", 512, CACHE) => (None, Some(0.82)),
        ("vaes-512", 4096, CACHE) => (None, Some(0.95)),
        ("vaes-256", 4096, CACHE) => (Some(1.3), None),
        ("vaes-256" | "aes-ni", 512, CACHE) => (Some(1.8), None),
        ("aes-ni", 4096, CACHE) => (Some(1.05), None),
        _ => (None, None),
    }
}

/// A target, and whether it was reached.
pub fn verdict(ratio: f64, target: f64) -> String {
    format!("≥ {target:.2} {}", if ratio >= target { "reached" } else { "**missed**" })
}
