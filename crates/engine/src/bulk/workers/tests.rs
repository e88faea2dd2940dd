use std::sync::Mutex as Noted;

use super::*;

fn job<'a>(total: u64, read: Read<'a>, prefetch: &'a (dyn Fn(u64, u64) + Sync)) -> Job<'a> {
    Job { total, read, write: &|_, _| Ok(()), prefetch, flush: &|| Ok(()), written: &|_, _| Ok(()) }
}

fn run_alone(job: &Job<'_>, start: u64) {
    let options = BulkOptions { threads: 1, ..BulkOptions::default() };
    run(job, start, None, &options, &mut |_: u64, _: u64| ()).expect("nothing fails");
}

/// From media that takes its time, a worker has the chunk announced that it comes to next.
#[test]
fn what_slow_media_is_told_ends_where_the_source_does() {
    const C: u64 = CHUNK as u64;
    let slow = |_: u64, _: &mut [u8]| {
        let begun = Instant::now();
        while begun.elapsed() <= 2 * SLOW_CHUNK {}
        Ok(())
    };
    for (start, total, expected) in [
        (0, 3 * C + 100, &[(C, C), (2 * C, C), (3 * C, 100)][..]),
        (0, 2 * C, &[(C, C)]),
        (2 * C, 4 * C + 1, &[(3 * C, C), (4 * C, 1)]),
        (0, C - 1, &[]),
    ] {
        let told = Noted::new(Vec::new());
        let prefetch = |offset, len| told.lock().expect("no panic").push((offset, len));
        run_alone(&job(total, &slow, &prefetch), start);
        assert_eq!(told.into_inner().expect("no panic"), expected, "{start}..{total}");
    }
}

/// After each chunk, and not only once the next has begun.
#[test]
fn a_chunk_counts_as_soon_as_it_is_written_and_no_further_than_the_slowest_worker() {
    const C: u64 = CHUNK as u64;
    let (read, prefetch) = (|_: u64, _: &mut [u8]| Ok(()), |_, _| ());
    let job = job(2 * C + 7, &read, &prefetch);
    for (others_are_at, expected) in [(u64::MAX, [C, 2 * C, 2 * C + 7]), (C + 1, [C, C + 1, C + 1])] {
        let shared = Shared::new(&job, 0, vec![0, others_are_at], None);
        let mut seen = Vec::new();
        shared.work(&shared.bounds[0], 1, &mut || {
            seen.push((shared.bounds[0].load(Ordering::Acquire), shared.prefix()));
        });
        let ends = [C, 2 * C, 2 * C + 7];
        assert_eq!(seen, ends.into_iter().zip(expected).collect::<Vec<_>>());
        assert_eq!(shared.bounds[0].load(Ordering::Acquire), u64::MAX, "it holds nobody back any more");
    }
}

#[test]
fn of_several_errors_the_first_is_reported() {
    let (read, prefetch) = (|_: u64, _: &mut [u8]| Ok(()), |_, _| ());
    let job = job(1, &read, &prefetch);
    let shared = Shared::new(&job, 0, Vec::new(), None);
    assert!(!shared.is_over());
    for error in [BulkError::ReadOnly, BulkError::NoCheckpoint] {
        shared.fail(error);
        assert!(shared.is_over());
    }
    assert_eq!(*shared.error.lock().expect("no panic"), Some(BulkError::ReadOnly));
}
