//! What this machine reaches: rows for `atrest bench`, as `cryptsetup benchmark` prints them, for every cipher and
//! key derivation.
//!
//! Ciphers are measured through [`Mapper`](atrest_cipher::Mapper), tweak work included, on data units of 512 and 4096 bytes, from a buffer
//! that stays in a core's cache and by walking through one that does not, on one core and on all. Of a few short
//! slices the median counts. Data never meets a device, but for [`io`]. [`adiantum`] and [`esp32`] are the tables of two sources once more.
//! [`cost`] says what guessing passphrases costs, [`energy()`] what encryption costs a controller with a battery.
//!
//! For `atrest bench` and `atrest kdf cost` alone: nothing that opens a volume measures.
#![forbid(unsafe_code)]

mod cipher;
pub mod cost;
mod energy;
pub mod io;
mod kdf;
mod table;
#[cfg(test)]
mod tests;

use core::fmt;
use std::time::Duration;

use atrest_cipher::{CipherSpec, KeyError};
use atrest_device::DeviceError;
use atrest_engine::DiskError;
use atrest_kdf::{Hash, KdfError};
use atrest_volume::plain::PlainOpenError;

pub use cipher::{CipherRow, Memory};
pub use energy::{ENERGY_FORMULA, EnergyInput, EnergyInputs, EnergyRow, energy};
pub use kdf::{KdfCost, KdfRow};
pub use table::{
    ADIANTUM_SOURCE, AdiantumRow, AdiantumSpeed, ESP32_SOURCE, Esp32Key, Esp32Mode, Esp32Row, Multiply,
    adiantum, esp32,
};

/// The ciphers measured when none is named: each with its longest key, as `spec, key bits`.
pub const CIPHERS: [(&str, usize); 20] = [
    ("aes-xts-plain64", 256),
    ("aes-xts-plain64", 512),
    ("aes-cbc-essiv:sha256", 128),
    ("aes-cbc-essiv:sha256", 256),
    ("aes-cbc-plain64", 256),
    ("aes-lrw-benbi", 384),
    ("aes-ecb", 256),
    ("xchacha12,aes-adiantum-plain64", 256),
    ("xchacha20,aes-adiantum-plain64", 256),
    ("xchacha12,aes-hpolyc-plain64", 256),
    ("serpent-xts-plain64", 512),
    ("serpent-cbc-essiv:sha256", 256),
    ("serpent-lrw-benbi", 384),
    ("twofish-xts-plain64", 512),
    ("twofish-cbc-essiv:sha256", 256),
    ("twofish-lrw-benbi", 384),
    ("camellia-xts-plain64", 512),
    ("camellia-cbc-essiv:sha256", 256),
    ("camellia-lrw-benbi", 384),
    ("camellia-ecb", 256),
];

/// The ciphers of a table that fits a screen: what volumes have, and what is fast where AES is not.
pub const USUAL_CIPHERS: [(&str, usize); 8] = [
    ("aes-xts-plain64", 256),
    ("aes-xts-plain64", 512),
    ("aes-cbc-essiv:sha256", 256),
    ("xchacha12,aes-adiantum-plain64", 256),
    ("xchacha20,aes-adiantum-plain64", 256),
    ("serpent-xts-plain64", 512),
    ("twofish-xts-plain64", 512),
    ("camellia-xts-plain64", 512),
];

/// What is measured, and for how long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BenchOptions {
    /// Bytes in a data unit, a row for each.
    pub data_units: Vec<usize>,
    /// Bytes of the buffer that stays in the cache; 0 leaves its rows out.
    pub cache: usize,
    /// Bytes of the buffer that does not, shared by all threads; 0 leaves its rows out.
    pub memory: usize,
    /// Threads, a row for each.
    pub threads: Vec<usize>,
    /// Time for each direction of each row.
    pub time: Duration,
}

impl Default for BenchOptions {
    /// Some 30 seconds for all [`CIPHERS`].
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = vec![1, cores];
        threads.dedup();
        Self {
            data_units: vec![512, 4096],
            cache: 128 << 10,
            memory: 256 << 20,
            threads,
            time: Duration::from_millis(60),
        }
    }
}

/// Why a row could not be measured.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchError {
    /// The cipher does not take the key or the data unit.
    Key(KeyError),
    /// The mapper refused a run; its buffer is smaller than a data unit.
    Run {
        /// Bytes in the buffer.
        buffer: usize,
        /// Bytes in a data unit.
        data_unit: usize,
    },
    /// The key derivation failed.
    Kdf(KdfError),
    /// The place to measure on can't be used.
    Place(std::io::ErrorKind),
    /// It has no room.
    Space {
        /// Bytes of the largest size.
        needs: u64,
        /// Bytes that are there.
        has: u64,
    },
    /// Reading or writing failed.
    Device(DeviceError),
    /// The volume that is measured can't be opened.
    Volume(PlainOpenError),
    /// It does not fit its medium.
    Disk(DiskError),
    /// There is no randomness.
    Random,
    /// An input of the table of energy is no quantity that it can be computed from.
    Input {
        /// Its name, with underscores.
        name: &'static str,
    },
    /// This build has no instruction count.
    Figure {
        /// Program of `firmware/bench`.
        program: &'static str,
        /// What it counts.
        what: &'static str,
    },
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Run { buffer, data_unit } => {
                write!(f, "a buffer of {buffer} bytes holds no data unit of {data_unit} bytes")
            }
            Self::Kdf(error) => error.fmt(f),
            Self::Place(error) => error.fmt(f),
            Self::Space { needs, has } => {
                write!(f, "there is room for {has} bytes, and {needs} are to be written")
            }
            Self::Device(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
            Self::Random => f.write_str("the operating system gives no random bytes"),
            Self::Input { name } => {
                write!(f, "--{} is no quantity that the table can be computed from", name.replace('_', "-"))
            }
            Self::Figure { program, what } => write!(f, "nobody has counted \"{what}\" of {program}"),
        }
    }
}

impl core::error::Error for BenchError {}

impl BenchOptions {
    /// What matters for a volume: data units of 4096 bytes from memory, on one core and on all.
    pub fn usual() -> Self {
        Self { data_units: vec![4096], cache: 0, ..Self::default() }
    }
}

/// Measures one cipher with a key of `key_bits`, and hands over each row as soon as it is there.
///
/// # Errors
/// [`BenchError::Key`] if the cipher has no keys of `key_bits`, [`BenchError::Run`] if a buffer of `options`
/// holds no data unit.
pub fn cipher(
    spec: &CipherSpec,
    key_bits: usize,
    options: &BenchOptions,
    row: &mut dyn FnMut(CipherRow),
) -> Result<(), BenchError> {
    cipher::measure(spec, key_bits, options, row)
}

/// Measures every key derivation that a volume may use, and hands over each row as soon as it is there.
///
/// # Errors
/// [`BenchError::Kdf`] if there is too little memory for a derivation. Rows that were handed over before
/// hold.
pub fn kdfs(options: &BenchOptions, row: &mut dyn FnMut(KdfRow)) -> Result<(), BenchError> {
    kdf::measure(options, row)
}

/// Measures the key derivations of new volumes, and of old ones.
///
/// # Errors
/// [`BenchError::Kdf`] if there is too little memory for a derivation.
pub fn usual_kdfs(options: &BenchOptions, row: &mut dyn FnMut(KdfRow)) -> Result<(), BenchError> {
    kdf::usual(options, row)
}

/// Measures PBKDF2 with one hash.
///
/// # Errors
/// [`BenchError::Kdf`] if the derivation fails.
pub fn pbkdf2(hash: Hash, options: &BenchOptions) -> Result<KdfRow, BenchError> {
    kdf::pbkdf2(hash, options.time)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
