//! Requests of 4096 bytes at random places.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;

use super::medium::{Medium, Target};
use super::{MIB, Pair, sequential};
use crate::BenchError;
use atrest_engine::Disk;

const BLOCK: u64 = 4096;
/// Odd, and far from small multiples of a power of two: neighbours in time are far apart on the medium.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A plain file and an encrypted one, with something in them.
pub struct Prepared<'a> {
    medium: &'a Medium,
    plain: Target,
    encrypted: Target,
    disk: Disk,
    size: u64,
}

impl<'a> Prepared<'a> {
    /// On a device both are its first `size` bytes.
    pub fn new(medium: &'a Medium, size: u64) -> Result<Self, BenchError> {
        let data = sequential::random_data()?;
        let plain = medium.target(size)?;
        let encrypted = match medium.is_device() {
            true => plain.clone(),
            false => medium.target(size)?,
        };
        let disk = medium.encrypted(&encrypted)?;
        plain.plain.expect_random_reads();
        encrypted.plain.expect_random_reads();
        sequential::fill(&*plain.plain, size / MIB, &data)?;
        sequential::fill(&disk, size / MIB, &data)?;
        Ok(Self { medium, plain, encrypted, disk, size })
    }

    /// Writes and reads per second with `depth` requests under way.
    pub fn measure(&self, depth: usize, time: Duration) -> Result<(Pair, Pair), BenchError> {
        let both = |write: bool| -> Result<Pair, BenchError> {
            self.medium.forget(&self.plain)?;
            let plain = rate(&*self.plain.plain, self.size, depth, time, write)?;
            self.medium.forget(&self.encrypted)?;
            Ok(Pair { plain, encrypted: rate(&self.disk, self.size, depth, time, write)? })
        };
        Ok((both(true)?, both(false)?))
    }
}

/// Requests per second, until the time is over or every block was asked for once: no read finds what another one brought into a cache.
/// Writes end when they are on the medium, which is part of the time.
pub fn rate(
    device: &dyn BlockDevice,
    size: u64,
    depth: usize,
    time: Duration,
    write: bool,
) -> Result<f64, BenchError> {
    // The largest power of two: multiplying by an odd number then visits each block once.
    let blocks = 1_u64 << (size / BLOCK).ilog2();
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let worker = |number: usize| -> Result<u64, BenchError> {
        let mut block = [number as u8; BLOCK as usize];
        let mut count = 0;
        // One at least: on a busy machine a thread may begin when the time is over.
        while count == 0 || begun.elapsed() < time {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= blocks {
                break;
            }
            let place = i.wrapping_mul(STRIDE) % blocks * BLOCK;
            match write {
                true => device.write_at(place, &block),
                false => device.read_at(place, &mut block),
            }
            .map_err(BenchError::Device)?;
            count += 1;
        }
        Ok(count)
    };
    let worker = &worker;
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..depth).map(|number| scope.spawn(move || worker(number))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Vec<_>>()
    });
    if write {
        device.flush().map_err(BenchError::Device)?;
    }
    let count = counts.into_iter().sum::<Result<u64, BenchError>>()?;
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
