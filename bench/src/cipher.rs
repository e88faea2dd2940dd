//! AES-256-XTS against OpenSSL, each backend, in place, every unit with its own tweak.

use std::error::Error;

use atrest_cipher::{BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions};

use crate::Plan;
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
                for (name, speed, cycles) in ours {
                    let ratio = speed / openssl;
                    let target = target(&name, unit, bytes);
                    rows.push(vec![
                        format!("{direction}, {unit} B, {place}"),
                        name,
                        format!("{speed:.2}"),
                        cycles,
                        format!("{openssl:.2}"),
                        format!("{ratio:.2}"),
                        target.map_or("–".into(), |target| verdict(ratio, target)),
                    ]);
                }
            }
        }
    }
    report.table(
        &format!("AES-256-XTS against {version}, one core"),
        "GB/s of thread CPU time, median of interleaved slices; both in place, every data unit with its own tweak.",
        &["what", "backend", "atrest", "cycles/B", "OpenSSL", "ratio", "target"],
        rows,
    );
    Ok(())
}

type Row = (f64, Vec<(String, f64, String)>);

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
    let rounds = if bytes > CACHE { plan.slices.min(5) } else { plan.slices };
    let speeds = medians(&mut contenders, rounds)?;
    let clock = clock();
    let ours = mappers
        .iter()
        .zip(&speeds[1..])
        .map(|((name, _), speed)| {
            (name.clone(), *speed, clock.map_or("–".into(), |clock| format!("{:.2}", clock / speed)))
        })
        .collect();
    Ok((speeds[0], ours))
}

/// What the AES-NI backend must reach on processors without wider AES.
fn target(backend: &str, unit: usize, bytes: usize) -> Option<f64> {
    match (backend, unit, bytes) {
        ("aes-ni", 512, CACHE) => Some(1.5),
        ("aes-ni", 4096, CACHE) => Some(1.0),
        _ => None,
    }
}

/// A target, and whether it was reached.
pub fn verdict(ratio: f64, target: f64) -> String {
    format!("≥ {target:.2} {}", if ratio >= target { "reached" } else { "**missed**" })
}
