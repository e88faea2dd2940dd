//! Erase blocks that go bad below a map: it goes on elsewhere as long as a block is left, and shows nothing else than was stored.

use std::cell::Cell;
use std::rc::Rc;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapOptions};
use atrest_testkit::Random;
use atrest_testkit::flash::{BadBlock, EmulatedFlash, SharedFlash};

use crate::histories::{State, change, read};
use crate::rig::{KEY, Map, On, Rig};

const OPTIONS: MapOptions = MapOptions { longest: 120, spares: 2 };

#[test]
fn a_block_that_can_not_be_changed_any_more_is_left_out() {
    let ways = [BadBlock::ProgError, BadBlock::EraseError, BadBlock::ProgNoop, BadBlock::EraseNoop];
    for on in [On::Plain, On::Sealed] {
        for (how, block, after) in ways
            .iter()
            .flat_map(|how| (0..5).map(move |block| (*how, block)))
            .flat_map(|(how, block)| [0, 30].map(|after| (how, block, after)))
        {
            let rig = Rig::new(on, 5, OPTIONS);
            let (mut random, mut state) = (Random::new(7), State::new());
            let mut map = rig.format().expect("formats");
            for step in 0..80 {
                if step == after {
                    rig.medium.lock().break_block(block, how);
                }
                change(&mut map, &mut state, &mut random);
                if step % 16 == 15 {
                    drop(map);
                    assert_eq!(read(&rig), state, "{on:?} {how:?} {block} {after}, step {step}");
                    map = rig.open().expect("opens");
                }
            }
        }
    }
}

#[test]
fn a_block_that_can_not_be_read_costs_what_stood_in_it_and_no_more() {
    let mut unsaid = 0;
    for block in 0..5 {
        let rig = Rig::new(On::Plain, 5, OPTIONS);
        let (mut random, mut state) = (Random::new(7), State::new());
        let mut map = rig.format().expect("formats");
        (0..40).for_each(|_| change(&mut map, &mut state, &mut random));
        rig.medium.lock().break_block(block, BadBlock::ReadError);
        let mut lost = 0;
        for (name, (value, _)) in &state {
            let mut out = [0; 120];
            match map.get(&[*name], &mut out) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(error) => {
                    assert!(matches!(error, MapError::Damaged { block: b, .. } if usize::from(b) == block));
                    assert!(out.iter().all(|byte| *byte == 0), "what was not verified is shown");
                    lost += 1;
                }
            }
        }
        let opened = rig.open().err().and_then(|trouble| trouble.map());
        unsaid += u32::from(lost > 0 && opened.is_none());
    }
    // Of the block that was begun last nobody else knows: the map opens as it was before that.
    assert_eq!(unsaid, 1);
}

#[test]
fn beginning_a_block_may_fail_twice_in_a_row() {
    for how in [BadBlock::ProgError, BadBlock::EraseError, BadBlock::ProgNoop] {
        let rig = Rig::new(On::Plain, 6, MapOptions { spares: 3, ..OPTIONS });
        let mut map = rig.format().expect("formats");
        let mut random = Random::new(11);
        let mut state = State::new();
        (0..25).for_each(|_| change(&mut map, &mut state, &mut random));
        let free: Vec<usize> = (0..6).filter(|block| !holds_map(&rig, *block)).take(2).collect();
        free.iter().for_each(|block| rig.medium.lock().break_block(*block, how));
        (0..40).for_each(|_| change(&mut map, &mut state, &mut random));
        drop(map);
        assert_eq!(read(&rig), state, "{how:?}");
    }
}

#[test]
fn without_a_spare_block_everything_is_read_and_nothing_changed() {
    let rig = Rig::new(On::Plain, 4, MapOptions { longest: 120, spares: 1 });
    let mut map = rig.format().expect("formats");
    let (mut random, mut state) = (Random::new(5), State::new());
    (0..30).for_each(|_| change(&mut map, &mut state, &mut random));
    (0..4).for_each(|block| rig.medium.lock().break_block(block, BadBlock::EraseError));
    let refused = (0..40_u8).find_map(|round| {
        let value = vec![round; 100];
        let done = map.set(&[0], &value);
        if done.is_ok() {
            state.insert(0, (value, 0));
        }
        done.err()
    });
    assert_eq!(refused, Some(MapError::NoSpare));
    assert_eq!((map.set(&[1], b""), map.remove(&[0])), (Err(MapError::NoSpare), Err(MapError::NoSpare)));
    assert_eq!(read(&rig), state);
}

/// Whether a block holds the map, by its first unit alone: what was erased, or never begun, does not.
fn holds_map(rig: &Rig, block: usize) -> bool {
    !rig.medium.lock().image().is_blank(block, 0)
}

/// A medium that does what it is asked and reports failures, from some operation on; or that reports success and programs nothing.
#[derive(Clone)]
struct Lying {
    silent: bool,
    flash: SharedFlash,
    until: Rc<Cell<u32>>,
    lies: Rc<Cell<u32>>,
}

impl Lying {
    fn report(&self, operation: FlashOperation, address: u64, len: u64) -> Result<(), FlashError> {
        if self.until.get() > 0 {
            self.until.set(self.until.get() - 1);
            return Ok(());
        }
        if self.lies.get() == 0 {
            return Ok(());
        }
        self.lies.set(self.lies.get() - 1);
        Err(FlashError::new(operation, address, len, FlashCause::BadBlock { block: 0 }))
    }
}

impl FlashDevice for Lying {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        if self.silent {
            return match self.report(FlashOperation::Prog, address, data.len() as u64) {
                Ok(()) => self.flash.prog(address, data),
                Err(_) => Ok(()),
            };
        }
        self.flash.prog(address, data)?;
        self.report(FlashOperation::Prog, address, data.len() as u64)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.flash.erase(address, len)?;
        if self.silent {
            return Ok(());
        }
        self.report(FlashOperation::Erase, address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.flash.sync()
    }
}

/// What was reported as failed stands on the medium all the same, and may count when the map is opened again.
#[test]
fn two_operations_that_are_done_and_reported_as_failed_lose_nothing() {
    lie(false);
}

#[test]
fn two_programs_that_a_medium_forgets_lose_nothing() {
    lie(true);
}

fn lie(silent: bool) {
    let geometry = FlashGeometry::new(1, 16, 512, 6).expect("a geometry");
    let mut lied = 0;
    for lies in [1, 2] {
        for until in 0..250 {
            let flash = SharedFlash::new(EmulatedFlash::new(geometry));
            let (until, lies) = (Rc::new(Cell::new(until)), Rc::new(Cell::new(lies)));
            let lying = Lying { silent, flash, until: Rc::new(Cell::new(u32::MAX)), lies: lies.clone() };
            let table = || vec![IndexEntry::default(); 16];
            let options = MapOptions { spares: 3, ..OPTIONS };
            let mut map =
                KeyValue::format(lying.clone(), &KEY, options, table(), vec![0; 64]).expect("formats");
            lying.until.set(until.get());
            let mut random = Random::new(3);
            let mut state = std::collections::BTreeMap::new();
            let before = lies.get();
            for _ in 0..40 {
                let (name, len) = (random.below(4) as u8, random.below(121) as usize);
                let value = random.bytes(len);
                map.set(&[name], &value).expect("goes on elsewhere");
                state.insert(name, value);
                // As a power loss would leave it.
                let image = lying.flash.lock().image().clone();
                let again = SharedFlash::new(EmulatedFlash::with_image(image));
                let mut again = KeyValue::open(again, &KEY, options, table(), vec![0; 64]).expect("opens");
                for (name, value) in &state {
                    let mut out = [0; 120];
                    let found = again.get(&[*name], &mut out).expect("reads");
                    assert_eq!(found.as_deref(), Some(&value[..]), "{}", until.get());
                }
            }
            lied += before - lies.get();
        }
    }
    assert!(lied > 400, "{lied}");
}

#[test]
fn a_failed_change_is_made_or_not_and_the_next_one_holds() {
    for on in [On::Plain, On::Sealed] {
        for sync in 0..12 {
            let rig = Rig::new(on, 5, OPTIONS);
            let mut map = rig.format().expect("formats");
            (0..20).for_each(|round| map.set(b"a", &[round; 90]).expect("sets"));
            for _ in 0..sync {
                map.set(b"c", &[1; 40]).expect("sets");
            }
            rig.medium.lock().refusals().syncs = 1;
            let failed = map.set(b"a", &[77; 90]);
            assert!(matches!(failed, Err(MapError::Flash(_))), "{failed:?}");
            rig.medium.lock().refusals().syncs = 0;
            let seen = value(&mut rig.snapshot().open().expect("opens"), b"a");
            assert!([Some(vec![19; 90]), Some(vec![77; 90])].contains(&seen), "{seen:?}");
            map.set(b"b", b"later").expect("sets");
            let seen = value(&mut map, b"a");
            drop(map);
            let mut map = rig.open().expect("opens");
            assert_eq!((value(&mut map, b"b"), value(&mut map, b"a")), (Some(b"later".to_vec()), seen));
        }
    }
}

fn value(map: &mut Map, name: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0; 120];
    map.get(name, &mut out).expect("reads").map(|value| value.to_vec())
}
