//! The table of an article on encrypting flash on an ESP32: 100 times 128 KiB with AES-128, as ECB and as XTS with one and
//! two keys, on sectors of 8 to 64 cipher blocks, with each of its ways to multiply by x.
//!
//! With one key the article starts at x^0, which is unsound (`crates/cipher/tests/it/one_key.rs` attacks it). What is computed
//! so here goes nowhere; the form that users may choose is `aes-xex1`, and has a row of its own.

use std::time::Duration;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions, RunError};

use super::alpha::Multiply;
use super::seconds;
use crate::{BenchError, BenchOptions};

/// Where the figures beside ours come from.
pub const ESP32_SOURCE: &str =
    "the article \"Embedded filesystem encryption on flash memory\", 2025 (ESP32, AES in hardware)";

/// What is encrypted so many times for a row.
const BYTES: usize = 128 << 10;
const TIMES: f64 = 100.0;
/// Cipher blocks whose tweaks are made, and which are then encrypted by one call: 4 KiB.
const BATCH: usize = 256;
const SECTORS: [usize; 4] = [8, 16, 32, 64];
const ECB_MS: f64 = 744.0;
/// By way to multiply, then by sector: milliseconds with one key and with two.
const XTS_MS: [[[f64; 2]; 4]; 4] = [
    [[2770.0, 2774.0], [2664.0, 2775.0], [2637.0, 2749.0], [2624.0, 2736.0]],
    [[2499.0, 2448.0], [2399.0, 2445.0], [2373.0, 2420.0], [2361.0, 2408.0]],
    [[2549.0, 2447.0], [2449.0, 2445.0], [2424.0, 2420.0], [2412.0, 2408.0]],
    [[2495.0, 2493.0], [2395.0, 2490.0], [2370.0, 2465.0], [2357.0, 2453.0]],
];

/// How a row encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Esp32Mode {
    /// Each cipher block by itself.
    Ecb,
    /// The article's XTS: tweaks by one of its ways, an xor, ECB of a batch, an xor.
    Xts(Multiply),
    /// What this project offers: `aes-xts` with two keys, `aes-xex1` with one.
    Ours,
}

/// How many keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Esp32Key {
    /// One, and a salt for the sector's number.
    One,
    /// One for data, one for tweaks.
    Two,
}

/// A cell of the article's table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Esp32Row {
    /// How it encrypts.
    pub mode: Esp32Mode,
    /// Cipher blocks in a sector; none for ECB.
    pub sector_blocks: Option<usize>,
    /// The number of keys; none for ECB.
    pub keys: Option<Esp32Key>,
    /// Milliseconds for 100 times 128 KiB, here.
    pub milliseconds: f64,
    /// Those of the source, which has none for what is ours.
    pub source_milliseconds: Option<f64>,
}

/// Measures every cell and those of this project's own modes, and hands over each as soon as it is there.
///
/// # Errors
/// [`BenchError::Key`] or [`BenchError::Run`] if a mode of the table refuses its key or its data, which none
/// does.
pub fn esp32(options: &BenchOptions, row: &mut dyn FnMut(Esp32Row)) -> Result<(), BenchError> {
    let mut table = Table { time: options.time / 4, run: vec![0x5a; BYTES], row };
    let mapper = ecb(&DATA_KEY, BATCH)?;
    table.measure(Esp32Mode::Ecb, None, Some(ECB_MS), |run| mapper.encrypt(DataUnitIndex(0), run))?;
    for (way, times) in Multiply::ALL.into_iter().zip(XTS_MS) {
        for (blocks, times) in SECTORS.into_iter().zip(times) {
            for (keys, source) in [Esp32Key::One, Esp32Key::Two].into_iter().zip(times) {
                let mut xts = Xts::new(way, blocks, keys)?;
                let sector = Some((blocks, keys));
                table.measure(Esp32Mode::Xts(way), sector, Some(source), |run| xts.encrypt(run))?;
            }
        }
    }
    for blocks in SECTORS {
        for keys in [Esp32Key::One, Esp32Key::Two] {
            let mapper = ours(blocks, keys)?;
            let sector = Some((blocks, keys));
            table.measure(Esp32Mode::Ours, sector, None, |run| mapper.encrypt(DataUnitIndex(0), run))?;
        }
    }
    Ok(())
}

/// What a cell is measured with, and who gets it.
struct Table<'a> {
    time: Duration,
    run: Vec<u8>,
    row: &'a mut dyn FnMut(Esp32Row),
}

impl Table<'_> {
    fn measure(
        &mut self,
        mode: Esp32Mode,
        sector: Option<(usize, Esp32Key)>,
        source_milliseconds: Option<f64>,
        mut work: impl FnMut(&mut [u8]) -> Result<(), RunError>,
    ) -> Result<(), BenchError> {
        let (sector_blocks, keys) = sector.unzip();
        let data_unit = 16 * sector_blocks.unwrap_or(1);
        let seconds = seconds(self.time, || work(&mut self.run))
            .map_err(|_| BenchError::Run { buffer: BYTES, data_unit })?;
        let milliseconds = seconds * TIMES * 1e3;
        (self.row)(Esp32Row { mode, sector_blocks, keys, milliseconds, source_milliseconds });
        Ok(())
    }
}

const DATA_KEY: [u8; 16] = *b"the key for data";
const TWEAK_KEY: [u8; 16] = *b"that for tweaks.";
const SALT: u128 = 0x5a17_5a17_5a17_5a17_5a17_5a17_5a17_5a17;

/// For so many cipher blocks at a time.
fn ecb(key: &[u8; 16], blocks: usize) -> Result<Mapper, BenchError> {
    mapper("aes-ecb", key, 16 * blocks)
}

/// What this project offers, from sector 0 on.
fn ours(sector_blocks: usize, keys: Esp32Key) -> Result<Mapper, BenchError> {
    match keys {
        Esp32Key::One => mapper("aes-xex1-plain64", &DATA_KEY, 16 * sector_blocks),
        Esp32Key::Two => mapper("aes-xts-plain64", &[DATA_KEY, TWEAK_KEY].concat(), 16 * sector_blocks),
    }
}

fn mapper(spec: &str, key: &[u8], data_unit: usize) -> Result<Mapper, BenchError> {
    let options = MapperOptions { data_unit, iv_large: true, ..MapperOptions::default() };
    let spec: CipherSpec = spec.parse().expect("a cipher that is listed here");
    Mapper::new(&spec, key, &options).map_err(BenchError::Key)
}

/// The article's XTS over whole batches of whole sectors, from number 0 on. Not a cipher to use.
struct Xts {
    way: Multiply,
    sector_blocks: usize,
    salt: u128,
    data: Mapper,
    tweak: Mapper,
    first: Vec<[u8; 16]>,
    tweaks: Vec<[u8; 16]>,
}

impl Xts {
    fn new(way: Multiply, sector_blocks: usize, keys: Esp32Key) -> Result<Self, BenchError> {
        let (salt, tweak_key) = match keys {
            Esp32Key::One => (SALT, DATA_KEY),
            Esp32Key::Two => (0, TWEAK_KEY),
        };
        Ok(Self {
            way,
            sector_blocks,
            salt,
            data: ecb(&DATA_KEY, BATCH)?,
            tweak: ecb(&tweak_key, BATCH / sector_blocks)?,
            first: Vec::new(),
            tweaks: vec![[0; 16]; BATCH],
        })
    }

    fn encrypt(&mut self, run: &mut [u8]) -> Result<(), RunError> {
        let mut number = 0u128;
        for batch in run.chunks_mut(self.tweaks.as_flattened().len()) {
            let sectors = batch.len().div_ceil(16 * self.sector_blocks);
            self.first.clear();
            self.first.extend((number..).take(sectors).map(|number| (number ^ self.salt).to_le_bytes()));
            number += sectors as u128;
            self.tweak.encrypt(DataUnitIndex(0), self.first.as_flattened_mut())?;
            self.way.powers(&self.first, self.sector_blocks, &mut self.tweaks);
            xor(batch, self.tweaks.as_flattened());
            self.data.encrypt(DataUnitIndex(0), batch)?;
            xor(batch, self.tweaks.as_flattened());
        }
        Ok(())
    }
}

fn xor(data: &mut [u8], tweaks: &[u8]) {
    data.iter_mut().zip(tweaks).for_each(|(byte, tweak)| *byte ^= tweak);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IEEE 1619-2018, annex B, vector 1: all zero, two cipher blocks.
    #[test]
    fn the_articles_xts_gives_the_published_ciphertext() {
        const WANTED: [u8; 32] = [
            0x91, 0x7c, 0xf6, 0x9e, 0xbd, 0x68, 0xb2, 0xec, 0x9b, 0x9f, 0xe9, 0xa3, 0xea, 0xdd, 0xa6, 0x92,
            0xcd, 0x43, 0xd2, 0xf5, 0x95, 0x98, 0xed, 0x85, 0x8c, 0x02, 0xc2, 0x65, 0x2f, 0xbf, 0x92, 0x2e,
        ];
        for way in &Multiply::ALL[1..] {
            let mut run = [0; 32];
            let mut xts = Xts {
                way: *way,
                sector_blocks: 2,
                salt: 0,
                data: ecb(&[0; 16], 2).expect("a good key"),
                tweak: ecb(&[0; 16], 1).expect("a good key"),
                first: Vec::new(),
                tweaks: vec![[0; 16]; 2],
            };
            xts.encrypt(&mut run).expect("whole blocks");
            assert_eq!(run, WANTED, "{}", way.name());
        }
    }

    #[test]
    fn the_articles_xts_with_two_keys_is_ours_on_every_size_of_sector() {
        for blocks in SECTORS {
            let plain: Vec<u8> = (0..BYTES).map(|index| (index * 7 + index / 256) as u8).collect();
            let mut wanted = plain.clone();
            let ours = ours(blocks, Esp32Key::Two).expect("a good key");
            ours.encrypt(DataUnitIndex(0), &mut wanted).expect("whole units");
            for way in Multiply::ALL {
                let mut run = plain.clone();
                let mut xts = Xts::new(way, blocks, Esp32Key::Two).expect("a good key");
                xts.encrypt(&mut run).expect("whole blocks");
                // The big-endian field is another one: its tweaks agree in the first block of a sector only.
                let same = way != Multiply::UnalignedBigEndian;
                assert!((run == wanted) == same, "{} on {blocks} blocks", way.name());
                assert_eq!(run[..16], wanted[..16], "{}", way.name());
            }
        }
    }
}
