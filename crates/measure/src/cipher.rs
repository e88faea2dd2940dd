//! Rows for ciphers.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions, RunError};

use super::{BenchError, BenchOptions};

/// The time of a row is cut into this many slices, of which the median counts.
const SLICES: u32 = 5;
/// Bytes handed to the mapper at a time when it walks through memory: as much as the engine hands it.
const STEP: usize = 128 << 10;

/// Where the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In the core's cache: a buffer of so many bytes for each thread.
    Cache(usize),
    /// In main memory: a buffer of so many bytes, shared out among the threads.
    Main(usize),
}

/// One line: a cipher, how its data lay, and what was reached.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CipherRow {
    /// The cipher.
    pub cipher: CipherSpec,
    /// Bits in the key, both halves of an XTS key counted.
    pub key_bits: usize,
    /// Bytes in a data unit.
    pub data_unit: usize,
    /// Where the data lay.
    pub memory: Memory,
    /// Threads that worked at the same time.
    pub threads: usize,
    /// Implementation: `aes-ni`, `portable` ….
    pub backend: &'static str,
    /// Whether time is independent of key and data.
    pub constant_time: bool,
    /// Bytes per second encrypted, by all threads together.
    pub encrypt: f64,
    /// Bytes per second decrypted.
    pub decrypt: f64,
}

#[derive(Clone, Copy)]
enum Direction {
    Encrypt,
    Decrypt,
}

pub fn measure(
    spec: &CipherSpec,
    key_bits: usize,
    options: &BenchOptions,
    row: &mut dyn FnMut(CipherRow),
) -> Result<(), BenchError> {
    // Any key will do that is no weak one: XTS refuses equal halves.
    let key: Vec<u8> = (0..key_bits / 8).map(|index| (index * 7 + 1) as u8).collect();
    let memories = [Memory::Cache(options.cache), Memory::Main(options.memory)];
    for memory in memories {
        let bytes = match memory {
            Memory::Cache(bytes) | Memory::Main(bytes) => bytes,
        };
        if bytes == 0 {
            continue;
        }
        for &data_unit in &options.data_units {
            let mapper_options =
                MapperOptions { data_unit, single_snapshot: true, ..MapperOptions::default() };
            let mapper = Mapper::new(spec, &key, &mapper_options).map_err(BenchError::Key)?;
            for &threads in &options.threads {
                let each = match memory {
                    Memory::Cache(bytes) => bytes,
                    Memory::Main(bytes) => bytes / threads.max(1),
                };
                let each = each / data_unit * data_unit;
                let too_small = BenchError::Run { buffer: each, data_unit };
                if each == 0 {
                    return Err(too_small);
                }
                let speed = |direction| {
                    speed(&mapper, direction, each, threads.max(1), options.time)
                        .map_err(|_| too_small.clone())
                };
                row(CipherRow {
                    cipher: spec.clone(),
                    key_bits,
                    data_unit,
                    memory,
                    threads,
                    backend: mapper.backend_name(),
                    constant_time: mapper.is_constant_time(),
                    encrypt: speed(Direction::Encrypt)?,
                    decrypt: speed(Direction::Decrypt)?,
                });
            }
        }
    }
    Ok(())
}

/// Bytes per second of `threads` threads, each with a buffer of its own.
fn speed(
    mapper: &Mapper,
    direction: Direction,
    bytes: usize,
    threads: usize,
    time: Duration,
) -> Result<f64, RunError> {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|_| scope.spawn(|| one_thread(mapper, direction, bytes, time, &start)))
            .collect();
        let mut sum = one_thread(mapper, direction, bytes, time, &start);
        for other in others {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum = sum.and_then(|sum| Ok(sum + other?));
        }
        sum
    })
}

fn one_thread(
    mapper: &Mapper,
    direction: Direction,
    bytes: usize,
    time: Duration,
    start: &Barrier,
) -> Result<f64, RunError> {
    // Not zeros from the system, which all would be one and the same page.
    let mut buffer = vec![0x5a; bytes];
    let unit = mapper.data_unit();
    let step = (STEP / unit * unit).max(unit);
    let mut position = 0;
    let mut run = || -> Result<usize, RunError> {
        let end = (position + step).min(buffer.len());
        let first = DataUnitIndex((position / unit) as u64);
        // cannot be out of range: the end is at most the length.
        let chunk = buffer.get_mut(position..end).unwrap_or_default();
        let done = chunk.len();
        match direction {
            Direction::Encrypt => mapper.encrypt(first, chunk)?,
            Direction::Decrypt => mapper.decrypt(first, chunk)?,
        }
        position = if end == bytes { 0 } else { end };
        Ok(done)
    };
    let warm = run();
    start.wait();
    warm?;
    let mut speeds = Vec::with_capacity(SLICES as usize);
    for _ in 0..SLICES {
        let begun = Instant::now();
        let mut done = 0;
        while begun.elapsed() < time / SLICES || done == 0 {
            done += run()?;
        }
        speeds.push(done as f64 / begun.elapsed().as_secs_f64());
    }
    speeds.sort_by(f64::total_cmp);
    // intended: no measurement, no speed.
    Ok(speeds.get(speeds.len() / 2).copied().unwrap_or_default())
}
