//! A disk under many schedules of those who use it: no unit is read or left half written, no write is lost, nobody waits for
//! ever. The medium under it shows its writes half done.

use std::sync::Arc;

use atrest_cipher::MapperOptions;
use atrest_testkit::schedules::device::{Done, HalfDone};
use atrest_testkit::schedules::{Planted, find, hold, thread};

use super::*;
use crate::sync::Mutex;

const UNIT: usize = 512;

/// Four units of zeros.
fn disk() -> (Arc<HalfDone>, Disk) {
    let key: Vec<u8> = (0..64).collect();
    let options = MapperOptions { data_unit: UNIT, ..MapperOptions::default() };
    let mapper =
        Mapper::new(&"aes-xts-plain64".parse().expect("a cipher"), &key, &options).expect("a mapper");
    let mut image = vec![0; 4 * UNIT];
    mapper.encrypt(atrest_cipher::DataUnitIndex(0), &mut image).expect("whole units");
    let media = Arc::new(HalfDone::new(image));
    let len = media.size();
    let disk =
        Disk::of_mapper(media.clone(), Locked::new(mapper), 0, len, DiskOptions::default()).expect("it fits");
    (media, disk)
}

fn parts_of_a_unit_are_written_and_read_at_once() {
    let (_, disk) = disk();
    thread::scope(|scope| {
        scope.spawn(|| disk.write_at(10, &[1; 20]).expect("writes"));
        // Ends in the next unit.
        scope.spawn(|| disk.write_at(UNIT as u64 - 5, &[2; 10]).expect("writes"));
        let mut read = [0; UNIT];
        disk.read_at(0, &mut read).expect("reads");
        for (at, byte) in read.into_iter().enumerate() {
            let new = if (10..30).contains(&at) {
                1
            } else if at >= UNIT - 5 {
                2
            } else {
                0
            };
            assert!(byte == 0 || byte == new, "{byte} at {at}");
        }
    });
    let mut end = [0; 2 * UNIT];
    disk.read_at(0, &mut end).expect("reads");
    let mut expected = [0; 2 * UNIT];
    expected[10..30].fill(1);
    expected[UNIT - 5..UNIT + 5].fill(2);
    assert!(end == expected, "a write is lost");
}

#[test]
fn no_unit_is_torn_and_no_write_to_a_part_is_lost() {
    hold(parts_of_a_unit_are_written_and_read_at_once);
}

#[test]
fn a_lock_that_is_left_out_is_found() {
    find(Planted::RwLock, parts_of_a_unit_are_written_and_read_at_once);
}

#[test]
fn a_write_to_a_part_does_not_undo_one_of_the_whole_unit() {
    hold(|| {
        let (_, disk) = disk();
        thread::scope(|scope| {
            scope.spawn(|| disk.write_at(10, &[1; 20]).expect("writes"));
            scope.spawn(|| disk.write_zeroes(UNIT as u64 + 3, 7).expect("writes"));
            disk.write_at(0, &[9; 2 * UNIT]).expect("writes");
        });
        let mut end = [0; 2 * UNIT];
        disk.read_at(0, &mut end).expect("reads");
        for (at, byte) in end.into_iter().enumerate() {
            let part = match at {
                10..30 => 1,
                at if (UNIT + 3..UNIT + 10).contains(&at) => 0,
                _ => 9,
            };
            assert!(byte == 9 || byte == part, "{byte} at {at}");
        }
    });
}

/// Its own writes, that is: those of others may have begun later.
#[test]
fn a_flush_comes_after_the_writes_before_it() {
    hold(|| {
        let (media, disk) = disk();
        thread::scope(|scope| {
            scope.spawn(|| disk.write_at(UNIT as u64, &[3; UNIT]).expect("writes"));
            disk.write_at(10, &[1; 20]).expect("writes");
            disk.flush().expect("flushes");
        });
        let done = media.done();
        let write = done.iter().position(|event| *event == Done::Write(0, UNIT)).expect("the write");
        let covered = done.iter().any(|event| matches!(event, Done::Flush(begun) if *begun > write));
        assert!(covered, "{done:?}");
    });
}

/// Ranges that touch two stretches, among them the last and the first, which are neighbours among the locks.
#[test]
fn whoever_needs_two_locks_gets_them_some_time() {
    const STRETCH: u64 = 1 << 20;
    hold(|| {
        let units = Units::new();
        let inside = Mutex::new([0_u32; 4]);
        let change = |stretches: [usize; 2], by: u32| {
            let mut inside = inside.lock().expect("nobody panics");
            for stretch in stretches {
                inside[stretch] = inside[stretch].wrapping_add(by);
                assert!(inside[stretch] <= 1, "two are in one stretch");
            }
        };
        thread::scope(|scope| {
            for (border, stretches) in [(1, [0, 1]), (2, [1, 2]), (64, [3, 0])] {
                let (units, change) = (&units, &change);
                scope.spawn(move || {
                    let _alone = units.exclude(border * STRETCH - 256, UNIT);
                    change(stretches, 1);
                    change(stretches, 1_u32.wrapping_neg());
                });
            }
            let _shared = units.share(STRETCH - 256, UNIT);
        });
    });
}

/// A piece is done by whoever is there: helpers may be refused.
#[test]
fn every_piece_of_a_large_request_is_done_once_and_the_first_error_is_told() {
    hold(|| {
        let helpers = Helpers::new(3);
        let total = 3 * SPLIT_MIN;
        let done = Mutex::new(Vec::new());
        let work = |skip: usize, len: usize| {
            done.lock().expect("nobody panics").push((skip, len));
            let failed = DeviceError::new(Operation::Read, skip as u64, len as u64, Cause::Os(5));
            if skip == 0 { Ok(()) } else { Err(failed) }
        };
        let result = helpers.split_len(total, UNIT, work);
        let mut done = done.into_inner().expect("nobody panics");
        done.sort_unstable();
        let mut at = 0;
        for (skip, len) in &done {
            assert_eq!(*skip, at, "{done:?}");
            at += len;
        }
        assert_eq!(at, total);
        let second = done.get(1).map(|(skip, _)| *skip as u64);
        assert_eq!(result.err().map(|error| error.offset), second);
    });
}
