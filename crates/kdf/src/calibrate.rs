//! Costs that take a given time on this machine, with the limits and minimums that cryptsetup uses.

use core::hint::black_box;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use std::vec;

use crate::limit::processor_time;
use crate::{Argon2Cost, Argon2Kind, Hash, KdfError, WorkLimit, argon2, memory, pbkdf2};

/// Fewest PBKDF2 iterations that are ever written (NIST SP 800-132 recommends them).
pub const MIN_PBKDF2_ITERATIONS: u32 = 1000;
/// Fewest Argon2 passes that calibration yields.
pub const MIN_ARGON2_TIME: u32 = 4;
/// Least Argon2 memory that may be asked for, in KiB.
pub const MIN_ARGON2_MEMORY_KIB: u32 = 32;
/// Most Argon2 memory that is used unless more is asked for, in KiB: 1 GiB.
pub const DEFAULT_ARGON2_MEMORY_KIB: u32 = 1 << 20;
/// Most Argon2 lanes that are used.
pub const MAX_ARGON2_LANES: u32 = 4;
/// Time that unlocking takes unless another is asked for.
pub const DEFAULT_TIME: Duration = Duration::from_millis(2000);
/// Time that checking a volume-key digest takes, an eighth of a second.
pub const DIGEST_TIME: Duration = Duration::from_millis(125);

/// Least Argon2 memory that calibration yields, however short the time, unless less is allowed; in KiB: 64 MiB, as in
/// cryptsetup. With less, the whole point of Argon2 is gone.
pub const MIN_CALIBRATED_MEMORY_KIB: u32 = 64 << 10;
/// Shorter measurements say too little.
const MIN_MEASUREMENT: Duration = Duration::from_millis(250);
/// Measurements shorter than this can't even be scaled.
const USELESS_MEASUREMENT: Duration = Duration::from_millis(10);

/// PBKDF2 iterations that take `target` of processor time for a key of `key_len` bytes, at least [`MIN_PBKDF2_ITERATIONS`].
pub fn pbkdf2_iterations(hash: Hash, key_len: usize, target: Duration) -> u32 {
    let mut key = vec![0u8; key_len.max(1)];
    let mut iterations = 1u32 << 12;
    loop {
        let started = processor_time();
        // The inputs are valid: at least one iteration and one byte. A busy machine must not get fewer iterations.
        let (passphrase, salt) = (b"foobarfo", b"0123456789abcdef0123456789abcdef");
        let done = unlimited().during(|| pbkdf2(hash, passphrase, salt, iterations, &mut key));
        // cannot be less: the clock only goes up.
        let took = processor_time().saturating_sub(started);
        black_box((&key, done.is_ok()));
        if took >= MIN_MEASUREMENT || iterations >= 1 << 30 {
            let wanted = u128::from(iterations) * target.as_nanos() / took.as_nanos().max(1);
            // intended: as many iterations as a header can hold.
            return u32::try_from(wanted).unwrap_or(u32::MAX).max(MIN_PBKDF2_ITERATIONS);
        }
        iterations <<= if took < MIN_MEASUREMENT / 8 { 3 } else { 1 };
    }
}

/// What is measured here is bounded by itself, and is not what a caller's limit is about.
fn unlimited() -> WorkLimit {
    WorkLimit { time: Duration::MAX, cancel: None, announce: None }
}

/// The largest Argon2 memory and lanes to calibrate for: 1 GiB and 4, but no more than half of the machine's memory
/// and its number of processors.
pub fn default_argon2_limit(kind: Argon2Kind) -> Argon2Cost {
    Argon2Cost {
        kind,
        time: u32::MAX,
        memory_kib: memory_limit_kib(DEFAULT_ARGON2_MEMORY_KIB),
        lanes: lane_limit(MAX_ARGON2_LANES),
    }
}

/// An Argon2 cost that takes about `target`: memory first, from
/// [`MIN_CALIBRATED_MEMORY_KIB`] up to `max.memory_kib`, then passes, at least [`MIN_ARGON2_TIME`] and at most `max.time` of them. Lanes are `max.lanes`, cut to 4 and to the number of processors;
/// memory is cut to half of the machine's.
///
/// # Errors
/// [`KdfError::NotEnoughMemory`] or [`KdfError::AllocationFailed`] if the memory of a measurement can't be
/// had. A caller's [`WorkLimit`] does not apply here.
pub fn argon2_cost(kind: Argon2Kind, max: Argon2Cost, target: Duration) -> Result<Argon2Cost, KdfError> {
    let lanes = lane_limit(max.lanes);
    let max_memory = memory_limit_kib(max.memory_kib).max(MIN_ARGON2_MEMORY_KIB);
    let least_memory = MIN_CALIBRATED_MEMORY_KIB.min(max_memory);
    let memory = least_memory..=max_memory;
    let max_time = max.time.max(MIN_ARGON2_TIME);
    let mut cost = Argon2Cost { kind, time: MIN_ARGON2_TIME, memory_kib: least_memory, lanes };
    let mut took = measure(&cost)?;
    // A measurement long enough to scale: grow memory, then passes.
    while took < MIN_MEASUREMENT.min(target) {
        let goal = if took < USELESS_MEASUREMENT { took * 16 } else { MIN_MEASUREMENT.min(target) };
        let next = scaled(&cost, took, goal, &memory, max_time);
        if next == cost {
            break;
        }
        cost = next;
        took = measure(&cost)?;
    }
    // Then the real size, measured, since larger memory is slower per byte; stop when inside 95 to 110 percent.
    for _ in 0..3 {
        if took >= target * 95 / 100 && took <= target * 110 / 100 {
            break;
        }
        let next = scaled(&cost, took, target, &memory, max_time);
        if next == cost {
            break;
        }
        cost = next;
        took = measure(&cost)?;
    }
    Ok(cost)
}

/// The cost whose work is `goal / took` of `cost`'s, with as much memory as it can use.
fn scaled(
    cost: &Argon2Cost,
    took: Duration,
    goal: Duration,
    memory: &RangeInclusive<u32>,
    max_time: u32,
) -> Argon2Cost {
    let work = u128::from(cost.time) * u128::from(cost.memory_kib) * goal.as_nanos() / took.as_nanos().max(1);
    // intended: the most that is accepted, at the end of the line.
    let work = u64::try_from(work).unwrap_or(u64::MAX).min(Argon2Cost::MAX_WORK);
    let most = *memory.end();
    let least = u64::from((*memory.start()).max(8 * cost.lanes));
    let memory = (work / u64::from(MIN_ARGON2_TIME)).clamp(least, u64::from(most).max(least));
    let time = (work / memory).clamp(MIN_ARGON2_TIME.into(), max_time.into());
    Argon2Cost {
        time: u32::try_from(time).unwrap_or(max_time),
        memory_kib: u32::try_from(memory).unwrap_or(most),
        ..*cost
    }
}

fn measure(cost: &Argon2Cost) -> Result<Duration, KdfError> {
    let mut key = [0u8; 32];
    let started = Instant::now();
    unlimited().during(|| argon2(cost, b"foobarfo", b"0123456789abcdef0123456789abcdef", &mut key))?;
    black_box(&key);
    Ok(started.elapsed())
}

fn lane_limit(asked: u32) -> u32 {
    let processors =
        // intended: more processors than may be used.
        thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    asked.min(MAX_ARGON2_LANES).min(processors).max(1)
}

fn memory_limit_kib(asked: u32) -> u32 {
    let half =
        // intended: more memory than may be used.
        memory::half_of_memory().map_or(u32::MAX, |bytes| u32::try_from(bytes / 1024).unwrap_or(u32::MAX));
    asked.min(half).min(Argon2Cost::MAX_MEMORY_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrated_pbkdf2_takes_about_the_time_that_was_asked_for() {
        let target = Duration::from_millis(400);
        let iterations = pbkdf2_iterations(Hash::Sha256, 64, target);
        let started = processor_time();
        pbkdf2(Hash::Sha256, b"a", b"b", iterations, &mut [0; 64]).expect("valid");
        let took = processor_time() - started;
        assert!(took > target / 3 && took < target * 3, "{iterations} iterations took {took:?}");
    }

    #[test]
    fn iterations_never_fall_below_the_minimum() {
        assert_eq!(pbkdf2_iterations(Hash::Sha1, 16, Duration::ZERO), MIN_PBKDF2_ITERATIONS);
    }

    #[test]
    fn calibrated_argon2_keeps_inside_the_limits() {
        let max = Argon2Cost { kind: Argon2Kind::Id, time: 6, memory_kib: 2048, lanes: 9 };
        let cost = argon2_cost(Argon2Kind::I, max, Duration::from_secs(60)).expect("measured");
        assert_eq!((cost.kind, cost.time, cost.memory_kib), (Argon2Kind::I, 6, 2048));
        assert!((1..=MAX_ARGON2_LANES).contains(&cost.lanes));
        let cost = argon2_cost(Argon2Kind::Id, max, Duration::ZERO).expect("measured");
        assert_eq!(cost.time, MIN_ARGON2_TIME);
        assert_eq!(cost.memory_kib, 2048);
    }

    #[test]
    fn no_time_at_all_still_costs_64_mib() {
        let max = Argon2Cost { kind: Argon2Kind::Id, time: u32::MAX, memory_kib: 1 << 20, lanes: 1 };
        let cost = argon2_cost(Argon2Kind::Id, max, Duration::ZERO).expect("measured");
        assert_eq!((cost.time, cost.memory_kib), (MIN_ARGON2_TIME, 65536));
    }

    #[test]
    fn more_time_buys_memory_first_and_passes_then() {
        let cost = Argon2Cost { kind: Argon2Kind::Id, time: 4, memory_kib: 1000, lanes: 1 };
        let second = Duration::from_secs(1);
        let at = |goal: u32| {
            let next = scaled(&cost, second, second * goal, &(32..=4000), u32::MAX);
            (next.time, next.memory_kib)
        };
        assert_eq!(at(2), (4, 2000));
        assert_eq!(at(4), (4, 4000));
        assert_eq!(at(10), (10, 4000));
    }
}
