use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use atrest_cipher::{Mapper, MapperOptions};
use atrest_engine::DiskOptions;
use atrest_secret::Locked;
use atrest_testkit::FaultDevice;
use atrest_testkit::fault::Fault;
use atrest_testkit::needs::wait_until;

use super::*;

const SIZE: u64 = 1 << 20;

fn disk(media: &Arc<FaultDevice>, key: u8, len: u64) -> Disk {
    let cipher = "aes-xts-plain64".parse().expect("a cipher");
    let key: Vec<u8> = (0..32).map(|i| key.wrapping_mul(37).wrapping_add(i)).collect();
    let mapper = Mapper::new(&cipher, &key, &MapperOptions::default()).expect("a mapper");
    let options = DiskOptions::default();
    Disk::of_mapper(media.clone(), Locked::new(mapper), 4096, len, options).expect("it fits")
}

fn gate() -> (Arc<FaultDevice>, Gate) {
    let media = Arc::new(FaultDevice::zeroed(2 << 20));
    let gate = Gate::new(disk(&media, 1, SIZE));
    (media, gate)
}

#[test]
fn what_comes_while_it_is_held_waits_and_is_done_afterwards() {
    let (media, gate) = gate();
    gate.check_open().expect("open");
    gate.write_at(512, &[7; 512]).expect("open");
    let (_, flushes) = media.counts();
    gate.hold().expect("it was open");
    assert_eq!(media.counts().1, flushes + 1, "what was written is durable");
    let image = media.image();
    let done = [(); 4].map(|()| AtomicBool::new(false));
    let mark = |at: usize| done[at].store(true, Ordering::Release);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut read = [0; 512];
            gate.read_at(512, &mut read).expect("it goes on");
            assert_eq!(read, [7; 512]);
            mark(0);
        });
        scope.spawn(|| {
            gate.write_consuming(4096, &mut [8; 512]).expect("it goes on");
            mark(1);
        });
        scope.spawn(|| {
            gate.write_zeroes(8192, 512).expect("it goes on");
            mark(2);
        });
        scope.spawn(|| {
            gate.extent(0, 512).expect("it goes on");
            mark(3);
        });
        // None of these waits: they are asked by threads that have more to do, or there is nothing left to do.
        assert_eq!(gate.read_if_cached(512, &mut [0; 512]), Ok(false));
        assert_eq!(gate.flush(), Ok(()));
        gate.prefetch(0, 512);
        thread::sleep(Duration::from_millis(50));
        assert!(done.iter().all(|done| !done.load(Ordering::Acquire)), "something did not wait");
        assert_eq!((gate.hold(), gate.check_open()), (Err(HoldError::Held), Err(HoldError::Held)));
        // Neither another key nor another size.
        assert_eq!(gate.restore(disk(&media, 2, SIZE)), Err(RestoreError::Other));
        assert_eq!(gate.restore(disk(&media, 1, SIZE / 2)), Err(RestoreError::Other));
        assert!(done.iter().all(|done| !done.load(Ordering::Acquire)) && media.image() == image);
        gate.restore(disk(&media, 1, SIZE)).expect("it was held");
        wait_until("all have gone on", || done.iter().all(|done| done.load(Ordering::Acquire)));
    });
    let (mut written, mut zeros) = ([0; 512], [1; 512]);
    gate.read_at(4096, &mut written).expect("open");
    gate.read_at(8192, &mut zeros).expect("open");
    assert_eq!((written, zeros), ([8; 512], [0; 512]));
    assert_eq!(gate.restore(disk(&media, 1, SIZE)), Err(RestoreError::NotHeld));
}

#[test]
fn one_that_ends_while_it_is_held_refuses_what_waited_and_says_that_something_is_lost() {
    let (media, gate) = gate();
    gate.end();
    gate.write_at(0, &[7; 512]).expect("it was not held, so the end is the face's affair");
    gate.hold().expect("open");
    let image = media.image();
    thread::scope(|scope| {
        let write = scope.spawn(|| gate.write_at(0, &[9; 512]));
        let read = scope.spawn(|| gate.read_at(0, &mut [0; 512]));
        thread::sleep(Duration::from_millis(20));
        gate.end();
        let causes = [write, read].map(|one| one.join().expect("no panic").map_err(|error| error.cause));
        assert_eq!(causes, [Err(Cause::Suspended); 2]);
    });
    assert_eq!(gate.flush().map_err(|error| error.cause), Err(Cause::Suspended));
    assert_eq!((gate.hold(), media.image()), (Err(HoldError::Ended), image));
}

#[test]
fn one_that_ends_while_it_is_held_has_lost_nothing_if_nothing_was_to_be_written() {
    let (_, gate) = gate();
    gate.hold().expect("open");
    gate.end();
    gate.read_at(0, &mut [0; 512]).expect_err("nobody has the key");
    assert_eq!(gate.flush(), Ok(()));
}

/// While it is re-encrypted another device stands for the disk: of the same data and size, and only one.
#[test]
fn a_device_stands_for_the_disk_until_it_is_rewritten() {
    let (media, gate) = gate();
    gate.write_at(512, &[7; 512]).expect("open");
    let likeness = |key| disk(&media, key, SIZE).likeness().expect("it encrypts");
    let stands = |len| -> Arc<dyn BlockDevice> { Arc::new(disk(&media, 1, len)) };
    assert_eq!(gate.rewrite(stands(SIZE), &likeness(2)), Err(HoldError::Other));
    assert_eq!(gate.rewrite(stands(SIZE / 2), &likeness(1)), Err(HoldError::Other));
    let Err(HoldError::Ended) = gate.rewritten(disk(&media, 2, SIZE)) else { panic!("nothing stood for it") };
    media.fail(Fault::FailingFlush { number: media.counts().1 });
    assert!(matches!(gate.rewrite(stands(SIZE), &likeness(1)), Err(HoldError::Device(_))));
    media.heal();

    let (media, gate) = self::gate();
    gate.write_at(512, &[7; 512]).expect("open");
    let (_, flushes) = media.counts();
    let other: Arc<dyn BlockDevice> = Arc::new(disk(&media, 1, SIZE));
    gate.rewrite(other.clone(), &likeness(1)).expect("the same data");
    assert_eq!(media.counts().1, flushes + 1, "what was written is durable");
    assert_eq!(gate.rewrite(other, &likeness(1)), Err(HoldError::Rewritten));
    assert_eq!(gate.check_open(), Err(HoldError::Rewritten));
    assert_eq!((gate.hold(), gate.resize(SIZE / 2)), (Err(HoldError::Rewritten), Err(ResizeError::Held)));
    let mut read = [0; 512];
    gate.read_at(512, &mut read).expect("it is served");
    assert_eq!(read, [7; 512]);
    assert_eq!(gate.rewritten(disk(&media, 2, SIZE / 2)), Err(HoldError::Other));
    let (_, flushes) = media.counts();
    gate.rewritten(disk(&media, 2, SIZE)).expect("of the same size");
    assert_eq!(media.counts().1, flushes + 1, "what was written is durable");
    gate.read_at(512, &mut read).expect("it is served");
    assert_ne!(read, [7; 512], "the new key is of nothing here");
    gate.hold().expect("an ordinary one");
}

#[test]
fn what_can_not_be_made_durable_is_not_suspended() {
    let (media, gate) = gate();
    media.fail(Fault::FailingFlush { number: media.counts().1 });
    assert!(matches!(gate.hold(), Err(HoldError::Device(_))));
    gate.read_at(0, &mut [0; 512]).expect("it goes on");
}

/// Requests never stop coming: a hold waits for those in flight alone, and none is lost over many turns.
#[test]
fn under_load_nothing_is_lost_over_many_turns() {
    let (media, gate) = gate();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let (gate, stop) = (&gate, &stop);
                scope.spawn(move || {
                    let mut last = 0_u64;
                    while !stop.load(Ordering::Acquire) {
                        last += 1;
                        gate.write_at(writer * 8192, &last.to_le_bytes()).expect("written");
                        let mut back = [0; 8];
                        gate.read_at(writer * 8192, &mut back).expect("read");
                        assert_eq!(u64::from_le_bytes(back), last);
                    }
                    last
                })
            })
            .collect();
        for _ in 0..50 {
            gate.hold().expect("open");
            let image = media.image();
            thread::yield_now();
            assert!(media.image() == image, "something was written while it was held");
            gate.restore(disk(&media, 1, SIZE)).expect("held");
        }
        stop.store(true, Ordering::Release);
        for (writer, thread) in (0_u64..).zip(writers) {
            let last = thread.join().expect("no panic");
            let mut back = [0; 8];
            gate.read_at(writer * 8192, &mut back).expect("read");
            assert_eq!(u64::from_le_bytes(back), last);
        }
    });
}

#[test]
fn another_size_is_seen_at_once_and_what_is_not_shown_any_more_stays() {
    let (media, gate) = gate();
    gate.write_at(SIZE - 512, &[7; 512]).expect("inside");
    let too_large = gate.resize((2 << 20) - 4096 + 512);
    assert!(matches!(too_large, Err(ResizeError::Disk(DiskError::MediaTooSmall { .. }))), "{too_large:?}");
    let partial = gate.resize(SIZE / 2 + 1);
    assert!(matches!(partial, Err(ResizeError::Disk(DiskError::PartialDataUnit { .. }))), "{partial:?}");
    assert_eq!(gate.size(), SIZE);
    gate.resize(SIZE / 2).expect("it fits");
    assert_eq!(gate.size(), SIZE / 2);
    let outside = gate.read_at(SIZE - 512, &mut [0; 512]).map_err(|error| error.cause);
    assert_eq!(outside, Err(Cause::OutOfBounds { size: SIZE / 2 }));
    gate.hold().expect("open");
    assert_eq!(gate.resize(SIZE), Err(ResizeError::Held));
    assert_eq!(gate.restore(disk(&media, 1, SIZE)), Err(RestoreError::Other));
    gate.restore(disk(&media, 1, SIZE / 2)).expect("the size that it had");
    gate.resize((2 << 20) - 4096).expect("it fits");
    let mut back = [0; 512];
    gate.read_at(SIZE - 512, &mut back).expect("inside again");
    gate.write_at((2 << 20) - 4096 - 512, &[8; 512]).expect("inside");
    assert_eq!(back, [7; 512]);
}
