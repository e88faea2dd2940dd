//! Rows for key derivations.

use std::time::{Duration, Instant};

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, ScryptCost};

use super::{BenchError, BenchOptions};

/// Bytes of derived key, as for AES-128-XTS or one half of AES-256-XTS.
const KEY_LEN: usize = 32;
const PASSPHRASE: &[u8] = b"correct horse battery staple";
const SALT: [u8; 32] = [0x2e; 32];

/// One line: a key derivation, its cost and how long it took.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KdfRow {
    /// What was derived, for how much.
    pub cost: KdfCost,
    /// Bits of derived key.
    pub key_bits: usize,
    /// How long one derivation took.
    pub elapsed: Duration,
}

/// The cost of a measured derivation.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfCost {
    /// PBKDF2-HMAC.
    Pbkdf2 {
        /// Its hash.
        hash: Hash,
        /// Iterations.
        iterations: u32,
    },
    /// Argon2i or Argon2id.
    Argon2(Argon2Cost),
    /// scrypt.
    Scrypt(ScryptCost),
}

impl KdfRow {
    /// Iterations per second, for PBKDF2.
    pub fn iterations_per_second(&self) -> Option<f64> {
        match self.cost {
            KdfCost::Pbkdf2 { iterations, .. } => Some(f64::from(iterations) / self.elapsed.as_secs_f64()),
            _ => None,
        }
    }
}

pub fn measure(options: &BenchOptions, row: &mut dyn FnMut(KdfRow)) -> Result<(), BenchError> {
    for hash in Hash::ALL {
        row(pbkdf2(hash, options.time)?);
    }
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(4) as u32;
    for kind in [Argon2Kind::I, Argon2Kind::Id] {
        for (memory_kib, lanes) in [(64 << 10, 1), (256 << 10, lanes)] {
            row(argon2(Argon2Cost { kind, time: 3, memory_kib, lanes })?);
        }
    }
    let cost = ScryptCost { log_n: 14, r: 8, p: 1 };
    row(timed(KdfCost::Scrypt(cost), |key| atrest_kdf::scrypt(&cost, PASSPHRASE, &SALT, key))?);
    Ok(())
}

/// What new volumes use, and what old ones have.
pub fn usual(options: &BenchOptions, row: &mut dyn FnMut(KdfRow)) -> Result<(), BenchError> {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(4) as u32;
    for (memory_kib, lanes) in [(256 << 10, lanes), (64 << 10, 1)] {
        row(argon2(Argon2Cost { kind: Argon2Kind::Id, time: 3, memory_kib, lanes })?);
    }
    for hash in [Hash::Sha256, Hash::Sha512] {
        row(pbkdf2(hash, options.time)?);
    }
    Ok(())
}

fn argon2(cost: Argon2Cost) -> Result<KdfRow, BenchError> {
    timed(KdfCost::Argon2(cost), |key| atrest_kdf::argon2(&cost, PASSPHRASE, &SALT, key))
}

/// As many iterations as take about `time`.
pub fn pbkdf2(hash: Hash, time: Duration) -> Result<KdfRow, BenchError> {
    let mut iterations = 1000;
    loop {
        let row = timed(KdfCost::Pbkdf2 { hash, iterations }, |key| {
            atrest_kdf::pbkdf2(hash, PASSPHRASE, &SALT, iterations, key)
        })?;
        if row.elapsed >= time / 2 || iterations > u32::MAX / 4 {
            return Ok(row);
        }
        iterations *= if row.elapsed < time / 8 { 4 } else { 2 };
    }
}

fn timed(
    cost: KdfCost,
    derive: impl FnOnce(&mut [u8]) -> Result<(), atrest_kdf::KdfError>,
) -> Result<KdfRow, BenchError> {
    let mut key = [0; KEY_LEN];
    let begun = Instant::now();
    derive(&mut key).map_err(BenchError::Kdf)?;
    Ok(KdfRow { cost, key_bits: KEY_LEN * 8, elapsed: begun.elapsed() })
}
