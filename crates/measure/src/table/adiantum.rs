//! The table "Performance on ARM Cortex-A7" of the slides on Adiantum by Crowley and Biggers.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};

use super::clock::cycles_per_second;
use super::seconds;
use crate::{BenchError, BenchOptions};

/// Where the figures beside ours come from.
pub const ADIANTUM_SOURCE: &str = "Crowley, Biggers: Adiantum: length-preserving encryption for entry-level processors, 2019 (ARM Cortex-A7)";

/// Name, dm-crypt's name, bits in the key, whether decryption was measured, cycles per byte at 4096 and at 512 bytes.
type Line = (&'static str, &'static str, usize, bool, [f64; 2]);

/// As the slides list them.
const LINES: [Line; 8] = [
    ("Adiantum-XChaCha12-AES", "xchacha12,aes-adiantum-plain64", 256, false, [10.6, 15.8]),
    ("HPolyC-XChaCha12-AES", "xchacha12,aes-hpolyc-plain64", 256, false, [13.6, 18.7]),
    ("Adiantum-XChaCha20-AES", "xchacha20,aes-adiantum-plain64", 256, false, [14.7, 20.2]),
    ("Speck128/256-XTS", "speck128-xts-plain64", 512, false, [15.8, 16.9]),
    ("HPolyC-XChaCha20-AES", "xchacha20,aes-hpolyc-plain64", 256, false, [17.8, 23.4]),
    ("NOEKEON-XTS", "noekeon-xts-plain64", 256, false, [26.9, 27.9]),
    ("AES-128-XTS (decryption)", "aes-xts-plain64", 256, true, [42.7, 43.9]),
    ("AES-256-XTS (decryption)", "aes-xts-plain64", 512, true, [58.6, 60.1]),
];

/// A line of the slides.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdiantumRow {
    /// The cipher, as the slides call it.
    pub name: &'static str,
    /// What was measured here.
    pub cipher: CipherSpec,
    /// Bits in the key, both halves of an XTS key counted.
    pub key_bits: usize,
    /// Implementation: `aes-ni`, `portable` ….
    pub backend: &'static str,
    /// With data units of 4096 and of 512 bytes, in this order.
    pub speeds: [AdiantumSpeed; 2],
}

/// A cell of the slides.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdiantumSpeed {
    /// Bytes in a data unit.
    pub data_unit: usize,
    /// Nanoseconds per byte, here.
    pub nanoseconds: f64,
    /// Cycles per byte, here, by the clock as it was measured beside.
    pub cycles: f64,
    /// Cycles per byte of the source.
    pub source_cycles: f64,
}

/// Measures every line on data in the core's cache, and hands over each as soon as it is there.
///
/// # Errors
/// [`BenchError::Run`] if the cache of `options` holds no data unit.
pub fn adiantum(options: &BenchOptions, row: &mut dyn FnMut(AdiantumRow)) -> Result<(), BenchError> {
    for (name, cipher, key_bits, decrypt, source) in LINES {
        let cipher: CipherSpec = cipher.parse().expect("a cipher that is listed here");
        let key: Vec<u8> = (0..key_bits / 8).map(|index| (index * 7 + 1) as u8).collect();
        let mut backend = "";
        let mut speed = |data_unit, source_cycles| {
            let mapper_options = MapperOptions { data_unit, iv_large: true, ..MapperOptions::default() };
            let mapper = Mapper::new(&cipher, &key, &mapper_options).map_err(BenchError::Key)?;
            backend = mapper.backend_name();
            let buffer = options.cache / data_unit * data_unit;
            let failed = BenchError::Run { buffer, data_unit };
            if buffer == 0 {
                return Err(failed);
            }
            let mut run = vec![0x5a; buffer];
            let seconds = seconds(options.time, || match decrypt {
                true => mapper.decrypt(DataUnitIndex(0), &mut run),
                false => mapper.encrypt(DataUnitIndex(0), &mut run),
            })
            .map_err(|_| failed)?;
            let per_byte = seconds / buffer as f64;
            Ok(AdiantumSpeed {
                data_unit,
                nanoseconds: per_byte * 1e9,
                cycles: per_byte * cycles_per_second(),
                source_cycles,
            })
        };
        let speeds = [speed(4096, source[0])?, speed(512, source[1])?];
        row(AdiantumRow { name, cipher, key_bits, backend, speeds });
    }
    Ok(())
}
