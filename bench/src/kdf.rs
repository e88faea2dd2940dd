//! Key derivations: PBKDF2-SHA256 with a key of 64 bytes, which is two chains, and Argon2id as a laptop would choose it.

use std::error::Error;
use std::time::Instant;

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash};

use crate::Plan;
use crate::machine::{on_cores, thread_time};
use crate::measure::{Contender, medians};
use crate::peers::{GCRYPT, LibArgon2, LibSodium, Peers};
use crate::report::Report;

const PASSPHRASE: &[u8] = b"correct horse battery staple";
const SALT: [u8; 16] = [0x2e; 16];
/// Iterations of a slice: about two milliseconds.
const ITERATIONS: u32 = 1500;
const PASSES: u32 = 3;
const MEMORY_KIB: u32 = 64 << 10;
/// Bytes of the derived key for PBKDF2: that of AES-256-XTS.
const LONG_KEY: usize = 64;

pub fn measure(plan: &Plan, peers: &Peers, report: &mut Report) -> Result<(), Box<dyn Error>> {
    on_cores(1, || {
        pbkdf2(plan, peers, report)?;
        argon2(plan, report)
    })
}

type Derivation<'a, const LEN: usize> = (&'static str, Box<dyn Fn(&mut [u8; LEN]) + 'a>);

fn pbkdf2(plan: &Plan, peers: &Peers, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut all: Vec<Derivation<'_, LONG_KEY>> = vec![(
        "**atrest**",
        Box::new(|key| {
            atrest_kdf::pbkdf2(Hash::Sha256, PASSPHRASE, &SALT, ITERATIONS, key)
                .expect("a cost within bounds");
        }),
    )];
    for (name, library) in &peers.openssl {
        all.push((name, Box::new(|key| library.pbkdf2(PASSPHRASE, &SALT, ITERATIONS, key))));
    }
    all.push((GCRYPT, Box::new(|key| peers.gcrypt.pbkdf2(PASSPHRASE, &SALT, ITERATIONS, key))));
    all.push((
        "RustCrypto",
        Box::new(|key| pbkdf2::pbkdf2_hmac::<sha2::Sha256>(PASSPHRASE, &SALT, ITERATIONS, key)),
    ));
    agree(&all)?;
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for (name, derive) in &all {
        contenders.push(Contender::new(*name, move || {
            let begun = thread_time();
            derive(&mut [0; LONG_KEY]);
            Ok(f64::from(ITERATIONS) / (thread_time() - begun) / 1e6)
        }));
    }
    let speeds = medians(&mut contenders, plan.slices)?;
    let names = all.iter().map(|(name, _)| *name);
    let rows: Vec<(&str, f64)> = names.zip(speeds).collect();
    if let [(_, ours), others @ ..] = &rows[..]
        && let Some((best, speed)) = others.iter().max_by(|a, b| a.1.total_cmp(&b.1))
    {
        report.target("PBKDF2-SHA256, key of 64 bytes", best, ours / speed, 1.6);
    }
    let ours = rows[0].1;
    report.table(
        "PBKDF2-SHA256, a key of 64 bytes",
        "Millions of iterations per second of CPU time. Each counts as two, one for each half of the key.",
        &["who", "M iterations/s", "atrest by it"],
        rows.iter()
            .map(|(name, speed)| vec![(*name).into(), format!("{speed:.3}"), format!("{:.2}", ours / speed)])
            .collect(),
    );
    Ok(())
}

fn argon2(plan: &Plan, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: PASSES, memory_kib: MEMORY_KIB, lanes: 1 };
    let (libargon2, libsodium) = (LibArgon2::load()?, LibSodium::load()?);
    let all: [Derivation<'_, 32>; 3] = [
        (
            "**atrest**, which takes RustCrypto's",
            Box::new(|key| {
                atrest_kdf::argon2(&cost, PASSPHRASE, &SALT, key).expect("a cost within bounds");
            }),
        ),
        ("libargon2", Box::new(|key| libargon2.argon2id(PASSES, MEMORY_KIB, PASSPHRASE, &SALT, key))),
        ("libsodium", Box::new(|key| libsodium.argon2id(PASSES, MEMORY_KIB, PASSPHRASE, &SALT, key))),
    ];
    agree(&all)?;
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for (name, derive) in &all {
        contenders.push(Contender::new(*name, move || {
            // Some of them start a thread even for one lane, whose time is not this one's.
            let begun = Instant::now();
            derive(&mut [0; 32]);
            Ok(1.0 / begun.elapsed().as_secs_f64())
        }));
    }
    let speeds = medians(&mut contenders, plan.rounds)?;
    report.table(
        "Argon2id, 3 passes over 64 MiB, one lane",
        "Elapsed time, on one core.",
        &["who", "ms", "atrest by it (speed)"],
        all.iter()
            .zip(&speeds)
            .map(|((name, _), speed)| {
                let (ms, ratio) = (1000.0 / speed, speeds[0] / speed);
                vec![(*name).into(), format!("{ms:.0}"), format!("{ratio:.2}")]
            })
            .collect(),
    );
    Ok(())
}

/// All derive the same key.
fn agree<const LEN: usize>(all: &[Derivation<'_, LEN>]) -> Result<(), Box<dyn Error>> {
    let derived = |derive: &dyn Fn(&mut [u8; LEN])| {
        let mut key = [0; LEN];
        derive(&mut key);
        key
    };
    let first = all.first().map(|(_, derive)| derived(derive));
    match all.iter().find(|(_, derive)| Some(derived(derive)) != first) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{name} derives another key").into()),
    }
}
