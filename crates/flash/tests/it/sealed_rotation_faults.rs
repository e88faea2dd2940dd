//! A rotation on media, scratches and stores that fail, and with futures that are dropped: the volume is read all the time, and goes on
//! where it was.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashRegion, TRUSTED_RECORD_LEN, TrustedStore,
    TrustedStoreError, asynchronous,
};
use atrest_flash::asynchronous::{RotatingFlash, WithScratch as AwaitedScratch};
use atrest_flash::sealed::{
    BlockState, RotationError, RotationKeys, SealedError, SealedKey, SealedOptions, Verify, WithScratch,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{BadBlock, Caching, EmulatedFlash, SharedFlash, TrustedMemory};
use atrest_testkit::{Campaign, Random};

use crate::any::{any_flash, any_store};
use crate::rotation_rig::{Chip, Contents, KEYS, Rotating, UNITS, contents, filled};
use crate::sealed::{BLOCKS, ERASE, FIRST, KEY, OPTIONS, UUID, Units};
use crate::waits::{Waits, block_on, poll_at_most};

const FAILED: FlashCause = FlashCause::TrustedStore(TrustedStoreError::Driver(7));

/// A store of which one write fails: before it has stored anything, or after.
#[derive(Clone)]
struct FailsOnce {
    store: TrustedMemory,
    /// Writes before the one that fails.
    left: Rc<Cell<Option<u64>>>,
    late: bool,
}

impl TrustedStore for FailsOnce {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.store.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        let left = self.left.get();
        self.left.set(left.and_then(|left| left.checked_sub(1)));
        if left != Some(0) {
            return self.store.store(record);
        }
        if self.late {
            self.store.store(record)?;
        }
        Err(TrustedStoreError::Driver(7))
    }
}

fn rotating(chip: &Chip, store: impl TrustedStore + 'static) -> Result<Rotating, SealedError> {
    let devices = (any_flash(chip.medium()), any_flash(chip.scratch()));
    Rotating::open_rotating(devices, any_store(store), &KEYS, chip.options, &mut OsRandom)
}

/// To the end, and the new key alone has it all.
fn ends_well(chip: &Chip, mut volume: Rotating, model: &Contents) {
    volume.rotate_all();
    assert_eq!(contents(&mut volume), *model);
    drop(volume);
    assert_eq!(contents(&mut chip.mount(&KEYS.key).expect("the new key")), *model);
}

#[test]
fn each_write_of_the_store_may_fail_early_or_late() {
    let mut failed = 0;
    // One at the beginning, two in each of ten steps, one at the end.
    for (number, late) in (0..22).flat_map(|number| [(number, false), (number, true)]) {
        let chip = Chip::new(OPTIONS);
        let model = filled(&chip);
        let store = FailsOnce { store: chip.store.clone(), left: Rc::new(Cell::new(Some(number))), late };
        let mut volume = match rotating(&chip, store.clone()) {
            Ok(volume) => volume,
            Err(error) => {
                assert_eq!((error, number), (SealedError::Store(TrustedStoreError::Driver(7)), 0));
                failed += 1;
                rotating(&chip, store).expect("both keys")
            }
        };
        while volume.rotation().left > 0 {
            if let Err(error) = volume.rotate_step() {
                failed += 1;
                assert_eq!(error, RotationError::Volume(FAILED));
                assert_eq!(contents(&mut volume), model);
                // Power is lost now, or somewhere in the step that makes up for this one.
                assert_eq!(contents(&mut chip.snapshot().rotating().expect("both keys")), model);
                chip.flash.lock().record();
                chip.store.beside(&chip.flash);
                let before = chip.store.record();
                volume.rotate_step().expect("a step");
                let (recording, writes) = (chip.flash.lock().finish_recording(), chip.store.writes());
                for cut in recording.cuts(Caching::None) {
                    let stored = writes.iter().rev().find(|write| write.step <= cut.step);
                    let record = stored.map_or(before, |write| Some(write.after));
                    let left = Chip::with(recording.aftermath(cut).0, record, OPTIONS);
                    let opened =
                        left.rotating().unwrap_or_else(|error| panic!("write {number}, {cut}: {error}"));
                    assert_eq!(contents(&mut { opened }), model, "write {number}, {cut}");
                }
            }
        }
        if let Err(error) = volume.finish_rotation() {
            failed += 1;
            assert_eq!(error, RotationError::Volume(FAILED));
            assert_eq!(contents(&mut chip.snapshot().rotating().expect("both keys")), model);
        }
        ends_well(&chip, volume, &model);
    }
    assert_eq!(failed, 44, "each of them failed");
}

#[test]
fn a_scratch_that_fails_stops_nothing_but_the_step() {
    for how in BadBlock::ALL {
        let chip = Chip::new(OPTIONS);
        let mut model = filled(&chip);
        let mut volume = chip.rotating().expect("both keys");
        volume.rotate_step().expect("a step");
        volume.rotate_step().expect("a step");
        // Both places hold something, so that an erase that does nothing matters.
        chip.flash.lock().break_block(BLOCKS as usize, how);
        let error = volume.rotate_step().expect_err("block 2 goes to the first place");
        assert!(matches!(error, RotationError::Scratch(_)), "{how:?}: {error:?}");
        assert_eq!(contents(&mut volume), model);
        volume.clear(11).expect("erase");
        volume.put(11, 0, 5).expect("program");
        model[11] = vec![5];
        // Serials were used for what is not on the medium: a power loss now is none of an attacker's.
        assert_eq!(contents(&mut chip.snapshot().rotating().expect("both keys")), model);
        assert_eq!(volume.rotate_step().map(|progress| progress.left), Ok(7), "block 3 to the other one");
        volume.close_all().expect("close");
        drop(volume);
        let mended = chip.snapshot();
        ends_well(&mended, mended.rotating().expect("both keys"), &model);
    }
}

#[test]
fn a_block_that_goes_bad_while_it_is_moved_is_read_from_the_scratch() {
    for how in [BadBlock::ProgError, BadBlock::EraseError, BadBlock::ProgNoop, BadBlock::EraseNoop] {
        let chip = Chip::new(OPTIONS);
        let model = filled(&chip);
        let mut volume = chip.rotating().expect("both keys");
        volume.clear(11).expect("erase");
        volume.rotate_step().expect("a step");
        chip.flash.lock().break_block(1, how);
        assert!(matches!(volume.rotate_step(), Err(RotationError::Volume(_))), "{how:?}");
        assert_eq!(volume.rotation().in_scratch, Some(1));
        assert_eq!(contents(&mut volume), model);
        // Until it has a place again nothing else is changed.
        assert_eq!([volume.put(11, 0, 1), volume.clear(5)], [Err(FlashCause::Stopped); 2]);
        assert!(volume.rotate_step().is_err() && volume.finish_rotation().is_err());
        volume.anchor_all().expect("anchor");
        volume.close_all().expect("close");
        drop(volume);
        let mut volume = chip.rotating().expect("both keys");
        assert_eq!((volume.rotation().in_scratch, contents(&mut volume)), (Some(1), model.clone()));
        drop(volume);
        let mended = chip.snapshot();
        let volume = mended.rotating().expect("both keys");
        assert_eq!(volume.rotation().in_scratch, None, "the opening has finished the move");
        ends_well(&mended, volume, &model);
    }
}

#[test]
fn nothing_is_written_once_the_scratch_is_found_changed() {
    let chip = Chip::new(SealedOptions { verify: Verify::AtOpening, ..OPTIONS });
    filled(&chip);
    let mut volume = chip.rotating().expect("both keys");
    volume.rotate_step().expect("a step");
    chip.flash.lock().break_block(1, BadBlock::ProgError);
    assert!(volume.rotate_step().is_err());
    chip.flash.lock().image_mut().put_unit(BLOCKS as usize + 1, 4, &[0x11; 32]);
    assert_eq!(volume.unit(1, 1), Err(FlashCause::Tampered { block: 1, unit: 1 }));
    let (writes, erases) = (chip.store.count(), chip.flash.lock().wear().erased_blocks());
    assert_eq!(volume.rotate_step(), Err(RotationError::Volume(FlashCause::Stopped)));
    assert_eq!(volume.finish_rotation(), Err(RotationError::Volume(FlashCause::Stopped)));
    assert_eq!((chip.store.count(), chip.flash.lock().wear().erased_blocks()), (writes, erases));
}

#[test]
fn a_block_with_a_damaged_unit_stays_until_it_is_erased() {
    for verify in [Verify::OnRead, Verify::AtOpening] {
        let chip = Chip::new(SealedOptions { verify, ..OPTIONS });
        let mut model = filled(&chip);
        chip.flash.lock().image_mut().put_unit(4, 7, &[0x11; 32]);
        let mut volume = chip.rotating().expect("both keys");
        let tampered = RotationError::Volume(FlashCause::Tampered { block: 4, unit: 2 });
        for step in 0..10 {
            let moved = volume.rotate_step().map(|progress| progress.left);
            // Past block 4 the others are moved.
            let left = if step < 4 { 9 - step } else { 10 - step };
            assert_eq!(moved, if step == 4 { Err(tampered) } else { Ok(left) }, "step {step}");
        }
        assert_eq!(volume.rotate_step(), Err(tampered));
        assert_eq!(volume.finish_rotation(), Err(RotationError::Left { blocks: 1 }));
        volume.clear(4).expect("erase");
        model[4].clear();
        ends_well(&chip, volume, &model);
    }
    // One that has failed since it was verified ends all writing.
    let chip = Chip::new(SealedOptions { verify: Verify::AtOpening, ..OPTIONS });
    filled(&chip);
    let mut volume = chip.rotating().expect("both keys");
    chip.flash.lock().image_mut().put_unit(0, 0, &[0x11; 32]);
    let tampered = FlashCause::Tampered { block: 0, unit: 0 };
    assert_eq!(volume.rotate_step(), Err(RotationError::Volume(tampered)));
    assert_eq!(volume.rotate_step(), Err(RotationError::Volume(FlashCause::Stopped)));
}

#[test]
fn a_scratch_has_to_have_room_and_units_that_go_into_the_mediums() {
    let flash = |read, prog, erase, blocks| {
        EmulatedFlash::new(FlashGeometry::new(read, prog, erase, blocks).expect("a geometry"))
    };
    let made = |medium, scratch| WithScratch::new(medium, scratch).map(drop);
    let medium = || flash(4, 32, 1024, 4);
    for fits in [flash(4, 32, 1024, 1), flash(1, 1, 4096, 1), flash(2, 16, 512, 2), flash(1, 32, 256, 7)] {
        assert_eq!(made(medium(), fits), Ok(()));
    }
    for unfit in [
        // A block smaller, units larger, blocks of which no number makes one.
        flash(4, 32, 512, 1),
        flash(4, 64, 1024, 2),
        flash(8, 32, 1024, 2),
        flash(4, 32, 768, 4),
    ] {
        assert_eq!(made(medium(), unfit), Err(SealedError::Scratch));
    }
    // Blocks of the scratch larger than the medium's, and smaller: a rotation on each.
    for (erase, blocks) in [(4224, 1), (4224, 2), (352, 3), (352, 7)] {
        let chip = Chip::new(OPTIONS);
        let model = filled(&chip);
        let scratch = SharedFlash::new(flash(1, 32, erase, blocks));
        let devices = (any_flash(chip.medium()), any_flash(scratch.clone()));
        let store = any_store(chip.store.clone());
        let volume = Rotating::open_rotating(devices, store, &KEYS, OPTIONS, &mut OsRandom);
        ends_well(&chip, volume.expect("both keys"), &model);
        // Places are taken in turns.
        let erases = scratch.lock().wear().erases.clone();
        let parts = if erase > ERASE as u32 { 1 } else { 3 };
        let places = blocks as usize / parts;
        let used = erases.iter().filter(|count| **count >= (10 / places) as u32).count();
        assert_eq!(used, places * parts, "{erases:?}");
    }
}

/// Two volume keys whose records begin with the same mark of two bytes, as one in 65,536 does.
#[test]
fn keys_that_leave_one_mark_are_told_apart() {
    let new: [u8; 32] = core::array::from_fn(|i| [0x62, 0x65, 0, 0][i % 4]);
    let keys = RotationKeys { key: SealedKey { volume_key: &new, uuid: &UUID, header: None }, ..KEYS };
    let chip = Chip::new(OPTIONS);
    let model = filled(&chip);
    let mark = chip.store.record().map(|record| [record[0], record[1]]);
    let mut volume = chip.rotating_with(&keys).expect("both keys");
    assert_eq!(
        chip.store.record().map(|record| [record[0], record[1], record[2]]),
        mark.map(|[a, b]| [a, b, 3])
    );
    assert_eq!(volume.rotation().left, 10);
    volume.rotate_step().expect("a step");
    drop(volume);
    let mut volume = chip.rotating_with(&keys).expect("both keys");
    assert_eq!((volume.rotation().left, contents(&mut volume)), (9, model.clone()));
    assert_eq!(chip.mount(&keys.key).map(drop), Err(SealedError::Rotating));
    volume.rotate_all();
    drop(volume);
    let mut volume = chip.rotating_with(&keys).expect("both keys");
    assert_eq!((volume.rotation().left, contents(&mut volume)), (0, model));
    assert!(
        matches!(chip.mount(&KEY).map(drop), Err(SealedError::NotAnchored { .. })),
        "the mark is no proof"
    );
}

/// Notes which cell each serial is in: a serial that seals two contents gives both away.
struct Notes<D> {
    flash: D,
    cells: Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>,
}

impl<D: FlashDevice> FlashDevice for Notes<D> {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let is_ticket = address % ERASE as u64 >= (ERASE - 64) as u64;
        let at = if is_ticket { 18 } else { 72 };
        let known = self.cells.borrow_mut().insert(data[at..at + 5].to_vec(), data.to_vec());
        // A copy of what was sealed is no second sealing.
        assert!(known.is_none_or(|known| known == data), "a serial seals twice");
        self.flash.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.flash.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.flash.sync()
    }
}

type Noted = Waits<Notes<FlashRegion<SharedFlash>>>;
type Dropped = RotatingFlash<ChaCha20Poly1305, Noted, Noted, Waits<TrustedMemory>, Vec<BlockState>, Vec<u8>>;

/// Opens a volume, with futures that are dropped if so asked.
fn open(chip: &Chip, cells: &Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>, random: &mut Random) -> Dropped {
    loop {
        let noted = |flash| Waits(Notes { flash, cells: Rc::clone(cells) });
        let device = AwaitedScratch::new(noted(chip.medium()), noted(chip.scratch())).expect("it fits");
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let store = Waits(chip.store.clone());
        let mut source = OsRandom;
        let opening = Dropped::open_rotating(device, store, &KEYS, chip.options, table, buffer, &mut source);
        let polls = if random.below(2) == 0 { random.below(400) as usize } else { usize::MAX };
        if let Some(opened) = poll_at_most(polls, opening) {
            return opened.expect("both keys");
        }
    }
}

/// What a unit holds: none that counts, or a byte.
fn unit(volume: &mut Dropped, block: u64, unit: u64) -> Option<u8> {
    let mut bytes = [0; 72];
    let read = block_on(asynchronous::FlashDevice::read(volume, block * 720 + unit * 72, &mut bytes));
    match read.map_err(|error| error.cause) {
        Ok(()) => (![0, 0xff].contains(&bytes[0])).then_some(bytes[0]),
        Err(FlashCause::Void { .. }) => None,
        Err(cause) => panic!("{block}.{unit}: {cause}"),
    }
}

fn held(volume: &mut Dropped, block: u64) -> Vec<u8> {
    (0..UNITS).map_while(|number| unit(volume, block, number)).collect()
}

#[test]
fn futures_that_are_dropped_lose_nothing_and_raise_no_alarm() {
    let (mut dropped, mut halted, mut sessions) = (0_u64, 0_u64, 0_u64);
    Campaign::new("rotation futures dropped", 60, 5_000).run(|_, random: &mut Random| {
        let chip = Chip::new(OPTIONS);
        let mut model = filled(&chip);
        let cells = Rc::default();
        for _ in 0..3 {
            sessions += 1;
            let mut volume = open(&chip, &cells, random);
            for _ in 0..15 {
                let block = random.below(BLOCKS);
                let at = block * 720;
                let polls = random.below(80) as usize;
                let before = model[block as usize].clone();
                let (after, done) = match random.below(4) {
                    0 => {
                        let erase = asynchronous::FlashDevice::erase(&mut volume, at, 720);
                        (Vec::new(), poll_at_most(polls, erase).map(|done| done.map_err(|error| error.cause)))
                    }
                    1 if before.len() < 10 => {
                        let byte = 1 + random.below(250) as u8;
                        let data = [byte; 72];
                        let prog = asynchronous::FlashDevice::prog(
                            &mut volume,
                            at + before.len() as u64 * 72,
                            &data,
                        );
                        let after = before.iter().copied().chain([byte]).collect();
                        (after, poll_at_most(polls, prog).map(|done| done.map_err(|error| error.cause)))
                    }
                    _ => {
                        // The rest of the step is made up for by the next one.
                        let step = poll_at_most(6 * polls, volume.rotate_step());
                        dropped += u64::from(step.map(|step| step.expect("a step")).is_none());
                        (before.clone(), Some(Ok(())))
                    }
                };
                let allowed = match done {
                    Some(Ok(())) => vec![after],
                    Some(Err(cause)) => {
                        if cause == FlashCause::Stopped {
                            assert!(
                                volume.rotation().in_scratch.is_some(),
                                "halted by a step that was dropped"
                            );
                            halted += 1;
                        }
                        vec![before]
                    }
                    None => {
                        dropped += 1;
                        vec![before, after]
                    }
                };
                let found = held(&mut volume, block);
                assert!(allowed.contains(&found), "{block}: {found:?} of {allowed:?}");
                model[block as usize] = found;
            }
            if random.below(2) == 0 {
                poll_at_most(random.below(60) as usize, volume.close());
            }
        }
        let mut volume = open(&chip, &cells, random);
        for block in 0..BLOCKS {
            assert_eq!(held(&mut volume, block), model[block as usize], "{block}");
        }
        while volume.rotation().left > 0 || volume.rotation().in_scratch.is_some() {
            block_on(volume.rotate_step()).expect("a step");
        }
        block_on(volume.finish_rotation()).expect("the end");
        drop(volume);
        assert_eq!(contents(&mut chip.mount(&KEYS.key).expect("the new key")), model);
    });
    println!(
        "{sessions} sessions, {dropped} futures dropped, {halted} changes refused in the middle of a step"
    );
    assert!(dropped > sessions / 2 && halted > 0);
}

/// What happens to scratch and store, in its order.
#[derive(Clone, Default)]
struct Order(Rc<RefCell<Vec<&'static str>>>);

struct Ordered<T>(T, Order);

impl<D: FlashDevice> FlashDevice for Ordered<D> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.1.0.borrow_mut().push("program");
        self.0.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.1.0.borrow_mut().push("erase");
        self.0.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.1.0.borrow_mut().push("sync");
        self.0.sync()
    }
}

impl<S: TrustedStore> TrustedStore for Ordered<S> {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.1.0.borrow_mut().push("record");
        self.0.store(record)
    }
}

#[test]
fn a_scratch_with_a_cache_of_its_own_is_durable_before_a_record_names_it() {
    let chip = Chip::new(OPTIONS);
    filled(&chip);
    let order = Order::default();
    let open = || -> Rotating {
        let scratch = any_flash(Ordered(chip.scratch(), order.clone()));
        let store = any_store(Ordered(chip.store.clone(), order.clone()));
        let devices = (any_flash(chip.medium()), scratch);
        let volume = Rotating::open_rotating(devices, store, &KEYS, OPTIONS, &mut OsRandom);
        volume.expect("both keys")
    };
    let mut volume = open();
    order.0.borrow_mut().clear();
    volume.rotate_step().expect("a step");
    assert_eq!(*order.0.borrow(), ["erase", "program", "sync", "record", "record"]);
    // After a close in good order a record comes first: without it the next opening would use the copy's serials again.
    volume.close_all().expect("close");
    drop(volume);
    let mut volume = open();
    order.0.borrow_mut().clear();
    volume.rotate_step().expect("a step");
    let expected = ["record", "erase", "program", "program", "sync", "record", "record"];
    assert_eq!(*order.0.borrow(), expected);
}
