//! Writing and reading in sequence.

use std::time::Instant;

use atrest_device::BlockDevice;
use atrest_secret::{OsRandom, Random};

use super::medium::{Medium, Target};
use super::{MIB, Pair};
use crate::BenchError;

/// Small sizes are measured so often, and the median counts: a single one says little.
const RUNS: usize = 3;
const SMALL: u64 = 500 * MIB;
/// Random bytes that are written again and again.
const DATA: usize = 16 << 20;

/// MiB/s of writing and of reading `size` bytes.
pub fn measure(medium: &Medium, size: u64) -> Result<(Pair, Pair), BenchError> {
    let data = random_data()?;
    let (mut plain, mut encrypted) = (Speeds::default(), Speeds::default());
    for _ in 0..if size < SMALL { RUNS } else { 1 } {
        let target = medium.target(size)?;
        plain.measure(medium, &target, &*target.plain, &data)?;
        let target = medium.target(size)?;
        encrypted.measure(medium, &target, &medium.encrypted(&target)?, &data)?;
    }
    let write = Pair { plain: median(&mut plain.write), encrypted: median(&mut encrypted.write) };
    let read = Pair { plain: median(&mut plain.read), encrypted: median(&mut encrypted.read) };
    Ok((write, read))
}

/// What is written, from its beginning again and again.
pub fn random_data() -> Result<Vec<u8>, BenchError> {
    let mut data = vec![0; DATA];
    OsRandom.fill(&mut data).map_err(|_| BenchError::Random)?;
    Ok(data)
}

#[derive(Default)]
struct Speeds {
    write: Vec<f64>,
    read: Vec<f64>,
}

impl Speeds {
    fn measure(
        &mut self,
        medium: &Medium,
        target: &Target,
        device: &dyn BlockDevice,
        data: &[u8],
    ) -> Result<(), BenchError> {
        let blocks = target.size() / MIB;
        let begun = Instant::now();
        fill(device, blocks, data)?;
        self.write.push(blocks as f64 / begun.elapsed().as_secs_f64());
        medium.forget(target)?;
        let mut block = vec![0; MIB as usize];
        let begun = Instant::now();
        for i in 0..blocks {
            device.read_at(i * MIB, &mut block).map_err(BenchError::Device)?;
        }
        self.read.push(blocks as f64 / begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Writes so many MiB and waits until they are on the medium.
pub fn fill(device: &dyn BlockDevice, blocks: u64, data: &[u8]) -> Result<(), BenchError> {
    for (i, block) in (0..blocks).zip(data.chunks_exact(MIB as usize).cycle()) {
        device.write_at(i * MIB, block).map_err(BenchError::Device)?;
    }
    device.flush().map_err(BenchError::Device)
}

fn median(speeds: &mut [f64]) -> f64 {
    speeds.sort_by(f64::total_cmp);
    // intended: no measurement, no speed.
    speeds.get(speeds.len() / 2).copied().unwrap_or_default()
}
