//! Adiantum and HPolyC with each set of vectors, against the `adiantum` crate, and against OpenSSL's AES-256-XTS, by which
//! the figures of Adiantum's authors are to be scaled.

use std::cell::RefCell;
use std::error::Error;

use adiantum::cipher::KeyInit;
use atrest_cipher::{DataUnitIndex, Mapper, MapperOptions, VectorChoice};

use crate::Plan;
use crate::machine::{clock, on_cores, thread_time};
use crate::measure::{Contender, medians};
use crate::openssl::OpenSsl;
use crate::report::Report;

/// Bytes of the buffer, which stays in the cache.
const BUFFER: usize = 128 << 10;
/// CPU time of one slice, in seconds.
const SLICE: f64 = 0.002;

/// Ciphers, and the rounds of those that the `adiantum` crate has too.
const CIPHERS: [(&str, Option<usize>); 4] = [
    ("xchacha12,aes-adiantum", Some(12)),
    ("xchacha20,aes-adiantum", Some(20)),
    ("xchacha12,aes-hpolyc", None),
    ("xchacha20,aes-hpolyc", None),
];

type Step<'a> = Box<dyn FnMut(&mut [u8]) + 'a>;

pub fn measure(plan: &Plan, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for (cipher, rounds) in CIPHERS {
        for unit in [512, 4096] {
            on_cores(1, || measure_one(plan, cipher, rounds, unit, &mut rows))?;
        }
    }
    report.table(
        "Wide-block ciphers, encryption, one core, 128 KiB in the cache",
        "GB/s of thread CPU time, median of interleaved slices; in place, every data unit with its own tweak. The AES is \
         the best there is. The authors' own code comes from no registry.",
        &["cipher", "unit", "vectors", "atrest", "cycles/B", "adiantum crate", "ratio", "OpenSSL AES-256-XTS", "ratio"],
        rows,
    );
    Ok(())
}

fn measure_one(
    plan: &Plan,
    cipher: &str,
    rounds: Option<usize>,
    unit: usize,
    rows: &mut Vec<Vec<String>>,
) -> Result<(), Box<dyn Error>> {
    let key: [u8; 32] = std::array::from_fn(|i| (i * 11 + 3) as u8);
    let spec = format!("{cipher}-plain64").parse()?;
    let mut names = Vec::new();
    let mut steps: Vec<Step<'_>> = Vec::new();
    for vectors in VectorChoice::detected() {
        let options = MapperOptions {
            data_unit: unit,
            vectors: Some(vectors),
            iv_large: true,
            ..MapperOptions::default()
        };
        let mapper = Mapper::new(&spec, &key, &options)?;
        names.push(vectors.name());
        steps.push(Box::new(move |run| mapper.encrypt(DataUnitIndex(0), run).expect("whole units")));
    }
    let ours = steps.len();
    match rounds {
        Some(12) => steps.push(Box::new(of_the_crate::<chacha20::XChaCha12>(&key, unit))),
        Some(_) => steps.push(Box::new(of_the_crate::<chacha20::XChaCha20>(&key, unit))),
        None => {}
    }
    agree(&mut steps)?;
    let crates = steps.len() - ours;
    let xts_key: [u8; 64] = std::array::from_fn(|i| i as u8);
    let mut openssl = OpenSsl::new(&xts_key, true)?;
    steps.push(Box::new(move |run| openssl.run(0, unit, run)));

    let buffer = RefCell::new(vec![0x5a; BUFFER]);
    let mut contenders: Vec<Contender<'_>> = steps
        .iter_mut()
        .enumerate()
        .map(|(index, step)| {
            let buffer = &buffer;
            Contender::new(index.to_string(), move || {
                let mut buffer = buffer.borrow_mut();
                let begun = thread_time();
                let mut done = 0;
                loop {
                    step(&mut buffer);
                    done += BUFFER;
                    let elapsed = thread_time() - begun;
                    if elapsed >= SLICE {
                        return Ok(done as f64 / elapsed / 1e9);
                    }
                }
            })
        })
        .collect();
    let speeds = medians(&mut contenders, plan.slices)?;
    let clock = clock();
    let (theirs, openssl) = ((crates == 1).then(|| speeds[ours]), speeds[ours + crates]);
    for (name, speed) in names.iter().zip(&speeds) {
        let against = |peer: Option<f64>| match peer {
            Some(peer) => [format!("{peer:.2}"), format!("{:.2}", speed / peer)],
            None => ["–".into(), "–".into()],
        };
        let [peer, ratio] = against(theirs);
        let [xts, to_xts] = against(Some(openssl));
        rows.push(vec![
            cipher.to_owned(),
            format!("{unit} B"),
            (*name).to_owned(),
            format!("{speed:.2}"),
            clock.map_or("–".into(), |clock| format!("{:.2}", clock / speed)),
            peer,
            ratio,
            xts,
            to_xts,
        ]);
    }
    Ok(())
}

/// All make the same of the same bytes.
fn agree(steps: &mut [Step<'_>]) -> Result<(), Box<dyn Error>> {
    let start: Vec<u8> = (0..BUFFER as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let mut first: Option<Vec<u8>> = None;
    for (index, step) in steps.iter_mut().enumerate() {
        let mut run = start.clone();
        step(&mut run);
        match &first {
            None => first = Some(run),
            Some(first) if *first != run => return Err(format!("contender {index} disagrees").into()),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The `adiantum` crate, a data unit per call.
fn of_the_crate<S>(key: &[u8; 32], unit: usize) -> impl FnMut(&mut [u8]) + use<S>
where
    S: adiantum::cipher::KeyIvInit
        + adiantum::cipher::StreamCipher
        + adiantum::cipher::KeySizeUser<KeySize = adiantum::cipher::consts::U32>
        + adiantum::cipher::IvSizeUser<IvSize = adiantum::cipher::consts::U24>,
{
    let cipher = adiantum::Cipher::<S, aes::Aes256>::new(key.into());
    move |run| {
        for (number, unit) in run.chunks_exact_mut(unit).enumerate() {
            let mut tweak = [0; 32];
            tweak[..8].copy_from_slice(&(number as u64).to_le_bytes());
            cipher.encrypt(unit, &tweak);
        }
    }
}
