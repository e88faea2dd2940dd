//! A bulk run under many schedules: every chunk is written once, what counts as done is written, and the run ends, in errors too.

use std::sync::atomic::AtomicBool as Flag;

use atrest_device::{Cause, Operation};
use atrest_testkit::schedules::{Planted, find, hold};

use super::*;

const CHUNKS: u64 = 4;
const TOTAL: u64 = (CHUNKS - 1) * CHUNK as u64 + 100;

/// What happened to the output, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Written(u64),
    Flushed,
}

/// A run whose source says in each chunk which one it is. Writing fails at an offset, or cancels there.
fn run_once(fail_at: Option<u64>, cancel_at: Option<u64>) -> (Result<Instant, BulkError>, Vec<Event>) {
    let (events, cancelled) = (Mutex::new(Vec::new()), Flag::new(false));
    let note = |event| events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    let read = |offset: u64, chunk: &mut [u8]| {
        chunk[..8].copy_from_slice(&offset.to_le_bytes());
        Ok(())
    };
    let write = |offset: u64, chunk: &mut [u8]| {
        assert_eq!(chunk[..8], offset.to_le_bytes(), "another worker's chunk");
        if fail_at == Some(offset) {
            return Err(DeviceError::new(Operation::Write, offset, chunk.len() as u64, Cause::NoSpace));
        }
        if cancel_at == Some(offset) {
            cancelled.store(true, Ordering::Release);
        }
        note(Event::Written(offset));
        Ok(())
    };
    let flush = || {
        note(Event::Flushed);
        Ok(())
    };
    let job =
        Job { total: TOTAL, read: &read, write: &write, prefetch: &|_, _| {}, flush: &flush, written: &read };
    let options = BulkOptions { threads: 3, cancel: Some(&cancelled), ..BulkOptions::default() };
    let mut seen = 0;
    let mut progress = |done: u64, total: u64| {
        assert!(seen <= done && done <= total, "{done} after {seen}");
        seen = done;
    };
    let result = run(&job, 0, None, &options, &mut progress);
    (result, events.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn every_chunk_is_written_once() {
    let (result, events) = run_once(None, None);
    result.expect("nothing fails");
    let (last, mut written) = (events.last().copied(), events);
    written.retain(|event| *event != Event::Flushed);
    written.sort_by_key(|event| format!("{event:?}"));
    let mut expected: Vec<Event> = (0..CHUNKS).map(|chunk| Event::Written(chunk * CHUNK as u64)).collect();
    expected.sort_by_key(|event| format!("{event:?}"));
    assert_eq!((written, last), (expected, Some(Event::Flushed)));
}

#[test]
fn a_run_writes_every_chunk_once_and_then_makes_them_durable() {
    hold(every_chunk_is_written_once);
}

#[test]
fn a_counter_of_chunks_that_is_not_atomic_is_found() {
    find(Planted::Addition, every_chunk_is_written_once);
}

#[test]
fn a_run_ends_in_the_error_of_a_chunk_or_where_it_is_cancelled() {
    hold(|| {
        let bad = 2 * CHUNK as u64;
        let (result, events) = run_once(Some(bad), None);
        assert!(matches!(result, Err(BulkError::Write(error)) if error.offset == bad), "{result:?}");
        assert!(!events.contains(&Event::Written(bad)));
        let (result, events) = run_once(None, Some(CHUNK as u64));
        match result {
            // Others may have taken the last chunk before.
            Ok(_) => assert_eq!(events.len() as u64, CHUNKS + 1),
            Err(BulkError::Cancelled { done, total }) => {
                assert!(done < total);
                let below = (0..done).step_by(CHUNK).all(|offset| events.contains(&Event::Written(offset)));
                assert!(below, "{done} are said to be done of {events:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
    });
}

/// What checkpoints rest on.
#[test]
fn everything_below_the_prefix_is_written_at_any_moment() {
    hold(|| {
        let written = Mutex::new(Vec::new());
        let read = |_: u64, _: &mut [u8]| Ok(());
        let write = |offset: u64, _: &mut [u8]| {
            written.lock().unwrap_or_else(PoisonError::into_inner).push(offset);
            Ok(())
        };
        let job = Job {
            total: TOTAL,
            read: &read,
            write: &write,
            prefetch: &|_, _| {},
            flush: &|| Ok(()),
            written: &read,
        };
        let shared = Shared::new(&job, 0, vec![0; 2], None);
        thread::scope(|scope| {
            for bound in &shared.bounds {
                let shared = &shared;
                scope.spawn(move || shared.work(bound, 2, &mut || {}));
            }
            for _ in 0..4 {
                let prefix = shared.prefix();
                let written = written.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let below = (0..prefix).step_by(CHUNK).all(|offset| written.contains(&offset));
                assert!(below, "the prefix is {prefix}, written is {written:?}");
            }
        });
        assert_eq!(shared.prefix(), TOTAL);
    });
}
