//! Trusted stores that are not atomic by themselves: at every cut of every write they hold the old record or the new one.

use crate::faces::{AnyPages as PageStore, AnySlots as SlotStore};
use atrest_device::{FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::store::{ElementSlots, FRAME_LEN};
use atrest_testkit::Random;
use atrest_testkit::flash::{Caching, EmulatedFlash, SharedFlash};

type Record = [u8; TRUSTED_RECORD_LEN];

fn record(number: u8) -> Record {
    [number; TRUSTED_RECORD_LEN]
}

/// Pages with room for four records each, programmed by whole records or by 8 bytes.
fn pages(prog: u32) -> SharedFlash {
    let geometry = FlashGeometry::new(1, prog, 352, 2).expect("a geometry");
    SharedFlash::new(EmulatedFlash::new(geometry))
}

fn on(flash: SharedFlash) -> PageStore<SharedFlash> {
    PageStore::new(flash).expect("large enough")
}

#[test]
fn pages_hold_the_old_record_or_the_new_one_at_every_cut() {
    let mut cuts = 0;
    for prog in [8, 88] {
        let flash = pages(prog);
        flash.lock().record();
        let mut store = on(flash.clone());
        assert_eq!(store.load(), Ok(None));
        for number in 1..=30 {
            store.store(&record(number)).expect("store");
            flash.lock().acknowledge(number.into());
            assert_eq!(store.load(), Ok(Some(record(number))));
            // A store that has not looked yet goes on where the last one was.
            store = on(flash.clone());
        }
        assert!(flash.lock().wear().erased_blocks() >= 7, "both pages are used in turn");
        let recording = flash.lock().finish_recording();
        for cut in recording.cuts(Caching::None) {
            let (image, promises) = recording.aftermath(cut);
            let done = promises.last().map_or(0, |last| *last as u8);
            let after = SharedFlash::new(EmulatedFlash::with_image(image));
            let found = on(after.clone()).load().unwrap_or_else(|error| panic!("{cut}: {error}"));
            let allowed = [(done > 0).then(|| record(done)), Some(record(done + 1))];
            assert!(allowed.contains(&found), "{cut}: {done}, {found:?}");
            // And it can be written on, past the page's end.
            let mut store = on(after);
            for number in 100..110 {
                store.store(&record(number)).unwrap_or_else(|error| panic!("{cut}: {error}"));
                assert_eq!(store.load(), Ok(Some(record(number))), "{cut}");
            }
            cuts += 1;
        }
    }
    println!("{cuts} cuts of a store in pages");
    assert!(cuts > 500);
}

#[test]
fn pages_that_hold_no_whole_record_are_damaged_and_too_small_ones_refused() {
    let flash = pages(88);
    let mut store = on(flash.clone());
    (1..=3).for_each(|number| store.store(&record(number)).expect("store"));
    for unit in 0..3 {
        flash.lock().image_mut().flip(0, unit * 88 + 3, 1);
    }
    assert_eq!(on(flash.clone()).load(), Err(TrustedStoreError::Damaged));
    let mut store = on(flash);
    store.store(&record(9)).expect("a new beginning");
    assert_eq!(store.load(), Ok(Some(record(9))));
    let small = |prog, erase, count| {
        let geometry = FlashGeometry::new(1, prog, erase, count).expect("a geometry");
        PageStore::<_, 88>::new(EmulatedFlash::new(geometry)).err()
    };
    assert_eq!(small(8, 32, 2), Some(TrustedStoreError::TooSmall { needs: 176, has: 64 }));
    assert_eq!(small(8, 88, 1), Some(TrustedStoreError::TooSmall { needs: 176, has: 88 }));
    assert_eq!(small(128, 128, 2), Some(TrustedStoreError::TooSmall { needs: 128, has: 88 }));
    assert_eq!(small(88, 88, 2), None);
}

/// Slots whose write is cut at will, and then leaves garbage.
#[derive(Clone)]
struct Slots {
    slots: [[u8; FRAME_LEN]; 2],
    cut: bool,
    /// Reads that are answered from now on.
    answers: u32,
    random: Random,
}

impl ElementSlots for Slots {
    fn read(&mut self, slot: u8, out: &mut [u8; FRAME_LEN]) -> Result<(), TrustedStoreError> {
        self.answers = self.answers.checked_sub(1).ok_or(TrustedStoreError::Driver(2))?;
        *out = self.slots[usize::from(slot)];
        Ok(())
    }

    fn write(&mut self, slot: u8, bytes: &[u8; FRAME_LEN]) -> Result<(), TrustedStoreError> {
        let cell = &mut self.slots[usize::from(slot)];
        if self.cut {
            let arrived = self.random.below(FRAME_LEN as u64) as usize;
            cell[..arrived].copy_from_slice(&bytes[..arrived]);
            self.random.fill(&mut cell[arrived..]);
            // Cut it was, even if what arrived by chance is the rest.
            cell[FRAME_LEN - 1] ^= u8::from(*cell == *bytes);
            return Err(TrustedStoreError::Driver(1));
        }
        *cell = *bytes;
        Ok(())
    }
}

#[test]
fn slots_hold_the_last_record_that_was_stored_whatever_comes_of_the_next() {
    for blank in [0, 0xff] {
        let slots =
            Slots { slots: [[blank; FRAME_LEN]; 2], cut: false, answers: u32::MAX, random: Random::new(3) };
        let mut store = SlotStore::new(slots);
        assert_eq!(store.load(), Ok(None));
        for number in 1..=40 {
            store.store(&record(number)).expect("store");
            for _ in 0..20 {
                let mut slots = store.into_inner();
                slots.cut = true;
                let mut cut = SlotStore::new(slots);
                assert_eq!(cut.store(&record(200)), Err(TrustedStoreError::Driver(1)));
                // The same object again, without a power loss: it looks first.
                assert_eq!(cut.store(&record(201)), Err(TrustedStoreError::Driver(1)));
                let mut slots = cut.into_inner();
                slots.cut = false;
                store = SlotStore::new(slots);
                assert_eq!(store.load(), Ok(Some(record(number))));
            }
        }
        let mut slots = store.into_inner();
        slots.slots.iter_mut().for_each(|slot| slot[7] ^= 1);
        assert_eq!(SlotStore::new(slots).load(), Err(TrustedStoreError::Damaged));
    }
}

/// What was seen of one slot says nothing about the other.
#[test]
fn after_a_look_that_failed_half_way_no_record_is_written_over_the_newest() {
    for count in [1, 2] {
        let slots =
            Slots { slots: [[0; FRAME_LEN]; 2], cut: false, answers: u32::MAX, random: Random::new(3) };
        let mut store = SlotStore::new(slots);
        (1..=count).for_each(|number| store.store(&record(number)).expect("store"));
        let mut slots = store.into_inner();
        // Four for two looks, and the first of the third.
        slots.answers = 5;
        let mut store = SlotStore::new(slots);
        assert_eq!(store.load(), Ok(Some(record(count))));
        assert_eq!(store.load(), Ok(Some(record(count))));
        assert_eq!(store.load(), Err(TrustedStoreError::Driver(2)));
        assert_eq!(store.store(&record(9)), Err(TrustedStoreError::Driver(2)), "it has to look first");
        let mut slots = store.into_inner();
        slots.answers = u32::MAX;
        assert_eq!(SlotStore::new(slots).load(), Ok(Some(record(count))));
    }
}

/// No program writes one number twice. If it stands there all the same, the answer is the same each time.
#[test]
fn of_two_records_with_one_number_the_first_counts() {
    let held = |number: u8| {
        let slots =
            Slots { slots: [[0; FRAME_LEN]; 2], cut: false, answers: u32::MAX, random: Random::new(3) };
        let mut store = SlotStore::new(slots);
        store.store(&record(number)).expect("store");
        let slots = store.into_inner().slots;
        slots[0]
    };
    let slots = Slots { slots: [held(1), held(2)], cut: false, answers: u32::MAX, random: Random::new(3) };
    let mut store = SlotStore::new(slots);
    assert_eq!(store.load(), Ok(Some(record(1))));
    store.store(&record(3)).expect("store");
    assert_eq!(store.load(), Ok(Some(record(3))));
    assert_eq!(store.into_inner().slots[0], held(1), "the other one is written");
    let flash = pages(88);
    flash.lock().image_mut().put_unit(0, 0, &held(1));
    flash.lock().image_mut().put_unit(1, 0, &held(2));
    assert_eq!(on(flash).load(), Ok(Some(record(1))));
}

#[test]
fn of_the_records_in_pages_the_last_that_was_written_counts() {
    let flash = pages(88);
    for number in 1..=10 {
        on(flash.clone()).store(&record(number)).expect("store");
        assert_eq!(on(flash.clone()).load(), Ok(Some(record(number))));
    }
    // One after the other, and whichever page they are in.
    let mut store = on(flash.clone());
    (11..=18).for_each(|number| store.store(&record(number)).expect("store"));
    assert_eq!(on(store.into_inner()).load(), Ok(Some(record(18))));
}
