//! One figure: the contenders take turns on so many cores.

use std::thread;
use std::time::{Duration, Instant};

use atrest_device::{BlockDevice, DeviceError};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::MIB;
use super::super::random::rate;
use super::super::sequential::fill;
use super::contender::Files;
use super::{LgOptions, Work};
use crate::BenchError;
use atrest_engine::Disk;

const PAGE: usize = 4096;

/// Runs `work` on a thread that may use only so many of the CPUs that this one may; threads that it starts are bound likewise.
pub fn on_cores<R: Send>(cores: usize, work: impl FnOnce() -> R + Send) -> Result<R, BenchError> {
    let refused = |error: rustix::io::Errno| BenchError::Place(error.kind());
    let allowed = sched_getaffinity(None).map_err(refused)?;
    let mut fewer = CpuSet::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(cores) {
        fewer.set(cpu);
    }
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            sched_setaffinity(None, &fewer).map_err(refused)?;
            Ok(work())
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The median of each contender's turns.
pub fn turns(
    files: &[Files],
    work: Work,
    cores: usize,
    options: &LgOptions,
    data: &[u8],
) -> Result<[f64; 5], BenchError> {
    let mut speeds: [Vec<f64>; 5] = Default::default();
    for turn in 0..options.turns.max(1) {
        let mut order: Vec<_> = files.iter().zip(&mut speeds).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for (files, speeds) in order {
            speeds.push(once(files, work, cores, options.time, data)?);
        }
    }
    Ok(speeds.map(|mut speeds| {
        speeds.sort_by(f64::total_cmp);
        // intended: no measurement, no speed.
        speeds.get(speeds.len() / 2).copied().unwrap_or_default()
    }))
}

fn once(files: &Files, work: Work, cores: usize, time: Duration, data: &[u8]) -> Result<f64, BenchError> {
    let threads = if work == Work::ReadOneThread { 1 } else { cores };
    let disks = files.open(threads)?;
    let read_ahead = !matches!(work, Work::ReadNotAhead | Work::RandomNotAhead);
    files.forget(read_ahead)?;
    match work {
        Work::Write => write(&disks, data),
        Work::Read | Work::ReadOneThread => read(&disks),
        Work::ReadPages => read_pages(&disks, time, |disk, at, page| disk.read_at(at, page)),
        Work::ReadNotAhead => read_pages(&disks, time, |disk, at, page| disk.read_alone(at, page)),
        Work::Random | Work::RandomNotAhead => random(&disks, cores, time),
    }
}

/// MiB/s.
fn write(disks: &[Disk], data: &[u8]) -> Result<f64, BenchError> {
    let begun = Instant::now();
    for disk in disks {
        fill(disk, disk.size() / MIB, data)?;
    }
    Ok(mib(disks) / begun.elapsed().as_secs_f64())
}

/// MiB/s.
fn read(disks: &[Disk]) -> Result<f64, BenchError> {
    let mut block = vec![0; MIB as usize];
    let begun = Instant::now();
    for disk in disks {
        for i in 0..disk.size() / MIB {
            disk.read_at(i * MIB, &mut block).map_err(BenchError::Device)?;
        }
    }
    Ok(mib(disks) / begun.elapsed().as_secs_f64())
}

/// MiB/s, until the time is over or everything was read.
fn read_pages(
    disks: &[Disk],
    time: Duration,
    read: impl Fn(&Disk, u64, &mut [u8]) -> Result<(), DeviceError>,
) -> Result<f64, BenchError> {
    let mut page = [0; PAGE];
    let mut pages = 0_u64;
    let begun = Instant::now();
    'all: for disk in disks {
        for at in (0..disk.size()).step_by(PAGE) {
            read(disk, at, &mut page).map_err(BenchError::Device)?;
            pages += 1;
            if begun.elapsed() > time {
                break 'all;
            }
        }
    }
    Ok(pages as f64 * PAGE as f64 / MIB as f64 / begun.elapsed().as_secs_f64())
}

/// Requests per second, the files' in turn.
fn random(disks: &[Disk], cores: usize, time: Duration) -> Result<f64, BenchError> {
    let Some(first) = disks.first() else { return Ok(0.0) };
    let share = time / u32::try_from(disks.len()).unwrap_or(1).max(1);
    let speeds = disks.iter().map(|disk| rate(disk, first.size(), cores, share, false));
    let sum = speeds.sum::<Result<f64, BenchError>>()?;
    Ok(sum / disks.len() as f64)
}

fn mib(disks: &[Disk]) -> f64 {
    disks.iter().map(|disk| disk.size() / MIB).sum::<u64>() as f64
}
