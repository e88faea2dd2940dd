//! Where serials end: how many power losses a volume survives, the last serial of a window and of all, and what an opening does at each edge.

use crate::any::{AnyVolume, any_flash, any_store};
use crate::sealed;
use std::cell::Cell;

use crate::sealed::{BLOCKS, Bench, ERASE, FIRST, KEY, OPTIONS, STRIDE, Units};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{BlockState, SealedError, SealedOptions, Tickets};
use atrest_secret::{OsRandom, Random, RandomError};
use atrest_testkit::flash::WrongReads;

type Volume = sealed::Volume<ChaCha20Poly1305>;

fn with_reserve(bench: &mut Bench, reserve: u8) {
    bench.options.reserve = reserve;
}

#[test]
fn a_reserve_that_wears_a_volume_out_early_is_refused_unless_it_is_asked_for_by_name() {
    for (reserve, power_losses) in [(23, 1 << 17), (31, 512)] {
        let mut bench = Bench::new(SealedOptions { reserve, ..OPTIONS });
        let refused = SealedError::ShortLived { power_losses };
        assert_eq!(bench.format::<ChaCha20Poly1305>().map(drop), Err(refused));
        assert_eq!(bench.store.record(), None);
        with_reserve(&mut bench, SealedOptions::short_lived(reserve));
        drop(bench.format::<ChaCha20Poly1305>().expect("by name"));
        with_reserve(&mut bench, reserve);
        assert_eq!(bench.mount::<ChaCha20Poly1305>().map(drop), Err(refused));
        // Opened with the default it lives longer.
        with_reserve(&mut bench, 12);
        let volume: Volume = bench.mount().expect("mount");
        assert!(volume.power_losses_left() > SealedOptions::power_losses(12) - (1 << (reserve - 12)) - 2);
    }
    for reserve in [2, SealedOptions::short_lived(2), 32] {
        let bench = Bench::new(SealedOptions { reserve, ..OPTIONS });
        assert_eq!(bench.format::<ChaCha20Poly1305>().map(drop), Err(SealedError::Option));
    }
    // What the documentation of the option says.
    let years = |reserve: u8| SealedOptions::power_losses(reserve) / (20 * 365);
    assert_eq!((years(22), years(31)), (35, 0));
    let cost = 100 * 20 * 365 * 1000 / SealedOptions::power_losses(SealedOptions::default().reserve);
    assert_eq!(cost, 2, "thousandths of the serials for 100 power losses a day");
    let bench = Bench::new(SealedOptions { reserve: 22, ..OPTIONS });
    let volume: Volume = bench.format().expect("format");
    assert_eq!(volume.power_losses_left(), SealedOptions::power_losses(22) - 1);
}

/// Power losses use up all serials but the last sixteen; of those each is used, but for the ones that a record has to leave.
#[test]
fn a_volume_is_worn_out_with_the_last_serial_and_not_before() {
    let mut bench = Bench::new(SealedOptions { reserve: SealedOptions::short_lived(31), ..OPTIONS });
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(0).expect("erase");
    drop(volume);
    let mut survived = 0;
    while bench.mount::<ChaCha20Poly1305>().is_ok() {
        survived += 1;
    }
    assert_eq!(survived, 510);
    let worn_out = |bench: &Bench| bench.mount::<ChaCha20Poly1305>().map(drop) == Err(SealedError::WornOut);
    assert!(worn_out(&bench));
    let record = bench.store.record();
    // One more for each smaller reserve: 2^40 - 15 serials are gone then.
    for reserve in (4..31).rev() {
        with_reserve(&mut bench, SealedOptions::short_lived(reserve));
        drop(bench.mount::<ChaCha20Poly1305>().expect("mount"));
    }
    with_reserve(&mut bench, 3);
    let mut volume: Volume = bench.mount().expect("mount");
    assert_ne!(bench.store.record(), record);
    let anchored = |bench: &Bench| bench.store.record().expect("a record")[4..9].to_vec();
    let serial = |back: u64| ((1_u64 << 40) - back).to_le_bytes()[..5].to_vec();
    assert_eq!(anchored(&bench), serial(15));
    volume.clear(0).expect("erase");
    (0..6).for_each(|unit| volume.put(0, unit, 1).expect("program"));
    volume.anchor().expect("serials up to 2^40 - 2 are allowed");
    assert_eq!(anchored(&bench), serial(9));
    volume.put(0, 6, 1).expect("program");
    assert_eq!(volume.anchor(), Err(FlashCause::WornOut), "2^40 - 1 stays unused");
    assert_eq!(anchored(&bench), serial(9));
    drop(volume);
    assert!(worn_out(&bench), "no eight more are left");
}

/// With a reserve of 8 serials, of which the window has used `units`: what an opening says whose store is that of the window's beginning.
fn with_units(units: u64) -> Result<u64, SealedError> {
    let bench = Bench::new(SealedOptions { reserve: 3, ..OPTIONS });
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(0).expect("erase");
    volume.anchor().expect("anchor");
    let old = bench.store.record();
    (0..units).for_each(|unit| volume.put(0, unit, 1).expect("program"));
    drop(volume);
    bench.store.put(old);
    let mut volume: Volume = bench.mount()?;
    Ok((0..10).filter(|unit| volume.unit(0, *unit).is_ok_and(|bytes| bytes == [1; 72])).count() as u64)
}

#[test]
fn the_first_serial_that_a_record_does_not_allow_is_refused_and_the_last_that_it_does_is_not() {
    assert_eq!(with_units(8), Ok(8));
    assert_eq!(with_units(9), Err(SealedError::StoreOlder { limit: 9, found: 9 }));
}

/// Nobody tampers: a window that is used up is followed by another one, in time.
#[test]
fn a_record_is_written_before_the_first_serial_that_it_would_not_allow() {
    let bench = Bench::new(SealedOptions { reserve: 3, ..OPTIONS });
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(0).expect("erase");
    volume.anchor().expect("anchor");
    let written = bench.store.count();
    (0..8).for_each(|unit| volume.put(0, unit, 1).expect("program"));
    assert_eq!(bench.store.count(), written);
    volume.put(0, 8, 1).expect("program");
    assert_eq!(bench.store.count(), written + 1);
    drop(volume);
    let mut volume: Volume = bench.mount().expect("no alarm");
    assert_eq!(volume.unit(0, 8), Ok(vec![1; 72]));
}

/// A source of one salt.
struct OneSalt;

impl Random for OneSalt {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        (1..).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(())
    }
}

/// Two units of one block that were sealed under one serial and one salt, by two volumes that were made alike: in one block they never stood.
#[test]
fn two_units_of_a_block_with_one_serial_are_refused() {
    let options = SealedOptions { tickets: Tickets::Store, ..OPTIONS };
    let benches = [(); 2].map(|()| Bench::new(options));
    for (bench, beside) in benches.iter().zip([1, 0]) {
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
        let mut volume =
            Volume::format(medium, store, &KEY, options, table, buffer, &mut OneSalt).expect("format");
        for block in [3, 4] {
            volume.clear(block).expect("erase");
        }
        volume.anchor().expect("anchor");
        volume.put(3, 0, 1).expect("serial 1");
        (0..beside).for_each(|unit| volume.put(4, unit, 2).expect("serial 2"));
        // Of the first volume serial 3, of the second 2 and 3.
        volume.put(3, 1, 3).expect("program");
        if beside == 0 {
            volume.put(3, 2, 4).expect("program");
        }
    }
    let [first, second] = &benches;
    let mut copied = vec![0; STRIDE];
    first.medium.clone().read((3 * ERASE + FIRST) as u64, &mut copied).expect("read");
    for (unit, bytes) in (FIRST / 32..).zip(copied.chunks(32)) {
        second.medium.lock().image_mut().put_unit(3, unit, bytes);
    }
    let refused = second.mount::<ChaCha20Poly1305>().map(drop).expect_err("refused");
    assert!(matches!(refused, SealedError::NotAnchored { .. } | SealedError::Gap { .. }), "{refused:?}");
}

#[test]
fn the_newest_unit_is_read_again_before_it_is_anchored() {
    let bench = Bench::new(OPTIONS);
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(3).expect("erase");
    volume.put(3, 0, 1).expect("program");
    volume.anchor().expect("anchor");
    volume.put(3, 1, 2).expect("program");
    drop(volume);
    // One place reads right once, and wrong from then on.
    let (at, reads) = ((3 * ERASE + FIRST + 5) as u64, Cell::new(0));
    let medium = WrongReads(bench.medium.clone(), |address: u64, buf: &mut [u8]| {
        if (address..address + buf.len() as u64).contains(&at) {
            reads.set(reads.get() + 1);
            if reads.get() > 1 {
                buf[(at - address) as usize] ^= 1;
            }
        }
    });
    let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
    let mut volume = AnyVolume::<'_, ChaCha20Poly1305>::mount(
        any_flash(medium),
        any_store(bench.store.clone()),
        &KEY,
        OPTIONS,
        table,
        buffer,
        &mut OsRandom,
    )
    .expect("mount");
    assert!(reads.get() > 1);
    assert_eq!(volume.unit(3, 0), Ok(vec![1; 72]));
    assert_eq!(volume.unit(3, 1), Ok(vec![0; 72]), "taken as not there, and not as damaged later");
    assert_eq!(volume.put(3, 1, 9), Err(FlashCause::Closed { block: 3 }));
}
