//! Several sealed volumes on one chip behind one trusted store: each is what it was, whatever happens to the others, to the log of
//! their records, and to the power.

use atrest_cipher::aead::AsconAead128;
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TrustedStore, TrustedStoreError,
};
use atrest_flash::sealed::{
    BlockState, PartsError, SealedError, SealedKey, SealedMedium, SealedOptions, SealedParts, Tickets, Verify,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{
    Adversary, BadBlock, Caching, EmulatedFlash, FlashImage, PowerCut, SharedFlash, TrustedMemory,
    TrustedRecord, TrustedWrite,
};
use atrest_testkit::{Campaign, Random};

use crate::any::{AnyFlash, AnyStore, AnyVolume, any_flash, any_store};

const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };
const OPTIONS: SealedOptions = SealedOptions {
    payload: 64,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 5,
    read_back: true,
    verify: Verify::OnRead,
};
const QUOTAS: [u32; 2] = [3, 4];
const STRIDE: u32 = 99;

type Parts = SealedParts<'static, AnyFlash<'static>, AnyStore<'static>, Vec<u8>, 2>;
/// What each block of each part reads as: None if it is void.
type State = [Vec<Option<u8>>; 2];

/// Chip and store.
struct Rig {
    chip: SharedFlash,
    store: TrustedMemory,
    medium: SealedMedium,
}

impl Rig {
    fn new(image: FlashImage, record: Option<TrustedRecord>) -> Self {
        Self {
            chip: SharedFlash::new(EmulatedFlash::with_image(image)),
            store: TrustedMemory::with_record(record),
            medium: SealedMedium::Ordered,
        }
    }

    fn formatted() -> Self {
        let geometry = FlashGeometry::new(1, STRIDE, 11 * STRIDE, 9).expect("a geometry");
        let rig = Self::new(FlashImage::erased(geometry), None);
        let parts = rig.parts();
        (0..2).for_each(|part| rig.open(&parts, part, false).expect("formats").close().expect("closes"));
        drop(parts);
        rig
    }

    fn snapshot(&self) -> Self {
        Self::new(self.chip.lock().image().clone(), self.store.record())
    }

    fn parts(&self) -> Parts {
        let (chip, store) = (any_flash(self.chip.clone()), any_store(self.store.clone()));
        SealedParts::new(chip, store, &KEY, QUOTAS, vec![0; 200]).expect("they fit")
    }

    fn open<'p>(
        &self,
        parts: &'p Parts,
        part: usize,
        mount: bool,
    ) -> Result<AnyVolume<'p, AsconAead128>, SealedError> {
        let part = parts.part(part).expect("there are two");
        let open =
            if mount { AnyVolume::<'_, AsconAead128>::mount } else { AnyVolume::<AsconAead128>::format };
        let options = SealedOptions { medium: self.medium, ..OPTIONS };
        let (table, buffer) = (vec![BlockState::default(); 4], vec![0; STRIDE as usize]);
        open(any_flash(part.device), any_store(part.store), &part.key, options, table, buffer, &mut OsRandom)
    }

    fn read(&self) -> [Result<Vec<Option<u8>>, SealedError>; 2] {
        let parts = self.parts();
        [0, 1].map(|part| self.open(&parts, part, true).map(|mut volume| read(&mut volume)))
    }
}

fn read(volume: &mut AnyVolume<'_, AsconAead128>) -> Vec<Option<u8>> {
    let blocks = volume.geometry().block_count();
    let erase = u64::from(volume.geometry().erase_size());
    let one = |block| {
        let mut unit = [0; 64];
        match volume.read(block * erase, &mut unit) {
            Ok(()) => Some(unit[0]),
            Err(error) if matches!(error.cause, FlashCause::Void { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    };
    (0..blocks).map(one).collect()
}

/// Writes a block of a part anew.
fn put(volume: &mut AnyVolume<'_, AsconAead128>, block: u64, byte: u8) -> Result<(), FlashCause> {
    let erase = u64::from(volume.geometry().erase_size());
    volume.erase(block * erase, erase).map_err(|error| error.cause)?;
    volume.prog(block * erase, &[byte; 64]).map_err(|error| error.cause)?;
    volume.sync().map_err(|error| error.cause)
}

fn empty() -> State {
    QUOTAS.map(|blocks| vec![None; blocks as usize])
}

/// Writes blocks of both parts in turn, as the number says, and acknowledges each.
fn work(rig: &Rig, state: &State, seed: u64, changes: u64) -> (Vec<State>, Vec<(usize, usize)>) {
    let mut random = Random::new(seed);
    let (mut states, mut changed) = (vec![state.clone()], Vec::new());
    let parts = rig.parts();
    let mut volumes = [0, 1].map(|part| rig.open(&parts, part, true).expect("mounts"));
    for number in 0..changes {
        let part = random.below(2) as usize;
        let (block, byte) = (random.below(QUOTAS[part].into()), random.below(250) as u8);
        put(&mut volumes[part], block, byte).expect("writes");
        let mut state = states.last().expect("a state").clone();
        state[part][block as usize] = Some(byte);
        states.push(state);
        changed.push((part, block as usize));
        rig.chip.lock().acknowledge(number);
    }
    (states, changed)
}

#[test]
fn each_part_is_a_volume_of_its_own() {
    let rig = Rig::formatted();
    let (states, _) = work(&rig, &empty(), 1, 40);
    let [first, second] = rig.read();
    assert_eq!([first.expect("mounts"), second.expect("mounts")], states[40]);
    // What one of them writes lies in its own blocks, and in the log.
    let before = rig.chip.lock().image().clone();
    let parts = rig.parts();
    put(&mut rig.open(&parts, 0, true).expect("mounts"), 1, 7).expect("writes");
    let after = rig.chip.lock().image().clone();
    let changed: Vec<usize> = (0..9)
        .filter(|block| (0..11).any(|unit| before.unit(*block, unit) != after.unit(*block, unit)))
        .collect();
    assert!(changed.contains(&1) && changed.iter().all(|block| !(3..7).contains(block)), "{changed:?}");
    assert!(parts.part(2).is_none());
}

/// `hmac` of Python's standard library computed what is expected:
///
/// ```text
/// H = lambda k, m: hmac.new(k, m, "sha256").digest()
/// root = H(b"\x24" * 16, b"\x42" * 32)
/// H(root, b"atrest sealed part 1" + bytes([1]) + struct.pack("<II", 3, 4) + b"\x01")[:16]
/// key = H(root, b"atrest sealed parts 1" + bytes([2]) + struct.pack("<I", 7) + b"\x01")
/// H(key, b"")[:2] + bytes([129, 2]) + struct.pack("<Q", 1) + H(key, struct.pack("<Q", 1) + b"\x05" * 80 + bytes(80)) + bytes(36)
/// ```
#[test]
fn identifiers_and_the_record_of_the_store_are_as_documented() {
    let geometry = FlashGeometry::new(1, STRIDE, 11 * STRIDE, 9).expect("a geometry");
    let rig = Rig::new(FlashImage::erased(geometry), None);
    let parts = rig.parts();
    let uuids = [0, 1].map(|part| hex(parts.part(part).expect("a part").key.uuid));
    assert_eq!(uuids, ["60d81af254a7285fa3694a8affa0e7f8", "2e1ca480318037ee866ead283edd7308"]);
    parts.part(0).expect("a part").store.store(&[5; 80]).expect("stores");
    assert_eq!(
        hex(&rig.store.record().expect("a record")),
        format!(
            "f0ef81020100000000000000fa183767e415004409c2ec1f933f0e167965c61cac13da2470140be9f2fa19b2{}",
            "00".repeat(36)
        )
    );
    let image = rig.chip.lock().image().to_bytes();
    let entry = &image[7 * 11 * STRIDE as usize..][..200];
    let expected = [&1_u64.to_le_bytes()[..], &[5; 80], &[0; 80], &[0; 30], &[0xff; 2]].concat();
    assert_eq!(entry, expected);
}

#[test]
fn no_cut_costs_a_part_anything_that_was_synced() {
    cut_everywhere("sealed parts, cuts", SealedMedium::Ordered, Caching::None);
}

#[test]
fn no_cut_on_a_chip_with_a_cache_costs_a_part_anything_that_was_synced() {
    cut_everywhere("sealed parts, cuts with a cache", SealedMedium::Cached, Caching::UntilSync);
}

fn cut_everywhere(name: &'static str, kind: SealedMedium, caching: Caching) {
    let rig = Rig { medium: kind, ..Rig::formatted() };
    let first = rig.store.record();
    rig.chip.lock().record();
    rig.store.beside(&rig.chip);
    let (states, changed) = work(&rig, &empty(), 2, 40);
    let recording = rig.chip.lock().finish_recording();
    let writes = rig.store.writes();
    let last = recording.len() - 1;
    let medium: Vec<PowerCut> = recording.cuts(caching);
    let done = |step: usize| {
        let cut = medium.iter().find(|cut| cut.step == step.min(last)).expect("a cut");
        recording.aftermath(*cut).1.len()
    };
    let stores = writes.iter().map(|write| (None, Some(*write)));
    let cuts: Vec<(Option<PowerCut>, Option<TrustedWrite>)> =
        medium.iter().map(|cut| (Some(*cut), None)).chain(stores).collect();
    assert!(cuts.len() > 1000, "{}", cuts.len());
    Campaign::matrix(name, 200).over(&cuts, |cut| {
        let (image, record, done) = match *cut {
            (Some(cut), _) => {
                let (image, promises) = recording.aftermath(cut);
                let write = writes.iter().rev().find(|write| write.step <= cut.step);
                (image, write.map_or(first, |write| Some(write.after)), promises.len())
            }
            (_, write) => {
                let write = write.expect("one of the two");
                (
                    recording.images().nth(write.step).expect("an image").clone(),
                    write.before,
                    done(write.step),
                )
            }
        };
        let after = Rig { medium: kind, ..Rig::new(image, record) };
        let found = after.read().map(|part| part.unwrap_or_else(|error| panic!("{cut:?}: {error}")));
        // The change before may not have been acknowledged yet, and the one that was cut may have come to any of its states.
        let allowed = (done..(done + 2).min(states.len())).any(|number| {
            let (before, now) = (&states[number], changed.get(number));
            let next = &states[(number + 1).min(states.len() - 1)];
            (0..2).all(|part| {
                (0..found[part].len()).all(|block| {
                    let (seen, old) = (found[part][block], before[part][block]);
                    let is_cut = now == Some(&(part, block));
                    seen == old
                        || is_cut && (seen.is_none() || seen == Some(0xff) || seen == next[part][block])
                })
            })
        });
        assert!(allowed, "{cut:?}: {found:?} after {done}, {:?}", states[done]);
        let (states, _) = work(&after, &found, 3, 6);
        assert_eq!(after.read().map(|part| part.expect("mounts")), states[6], "{cut:?}");
    });
}

#[test]
fn no_attack_on_a_part_or_the_log_goes_undetected() {
    let cases: Vec<_> = (0..4)
        .map(|seed| {
            let rig = Rig::formatted();
            rig.chip.lock().record();
            let (states, _) = work(&rig, &empty(), seed, 60);
            let adversary = Adversary::new(&rig.chip.lock().finish_recording());
            (rig, adversary, states.last().expect("a state").clone())
        })
        .collect();
    let mut refused = [0_u64; 3];
    Campaign::new("sealed parts, attacks", 500, 50_000).run(|_, random: &mut Random| {
        let (rig, adversary, state) = random.pick(&cases);
        let rig = rig.snapshot();
        let attack = adversary.draw(random);
        adversary.attack(rig.chip.lock().image_mut(), attack);
        let parts = rig.parts();
        let mut count = 0;
        for (part, state) in state.iter().enumerate() {
            match rig.open(&parts, part, true) {
                Err(_) => count += 1,
                Ok(mut volume) => {
                    let erase = u64::from(volume.geometry().erase_size());
                    for (block, expected) in (0..).zip(state) {
                        let mut unit = [0; 64];
                        match (volume.read(block * erase, &mut unit), expected) {
                            (Ok(()), Some(byte)) => assert_eq!(unit, [*byte; 64], "undetected: {attack}"),
                            (Err(error), None) if matches!(error.cause, FlashCause::Void { .. }) => {}
                            (Err(error), Some(_)) if matches!(error.cause, FlashCause::Tampered { .. }) => {}
                            (found, _) => panic!("undetected: {attack}: {found:?}"),
                        }
                    }
                }
            }
        }
        refused[count] += 1;
    });
    println!("no part, one, both refused: {refused:?}");
}

#[test]
fn what_is_put_back_of_one_part_is_refused_and_the_other_opens() {
    let rig = Rig::formatted();
    let (states, _) = work(&rig, &empty(), 5, 10);
    let old = rig.chip.lock().image().clone();
    let (later, _) = work(&rig, &states[10], 6, 30);
    let put_back = |blocks: std::ops::Range<usize>| {
        let rig = rig.snapshot();
        for (block, unit) in blocks.flat_map(|block| (0..11).map(move |unit| (block, unit))) {
            rig.chip.lock().image_mut().put_unit(block, unit, old.unit(block, unit));
        }
        rig.read()
    };
    let [first, second] = put_back(0..3);
    assert!(matches!(first, Err(SealedError::NotAnchored { .. })), "{first:?}");
    assert_eq!(second.as_ref(), Ok(&later[30][1]));
    let [first, second] = put_back(3..7);
    assert!(matches!(second, Err(SealedError::NotAnchored { .. })), "{second:?}");
    assert_eq!(first.as_ref(), Ok(&later[30][0]));
    // The log of that time names another state of both, and the store names another log.
    for blocks in [7..9, 0..9] {
        let damaged = Err(SealedError::Store(TrustedStoreError::Damaged));
        assert_eq!(put_back(blocks), [damaged.clone(), damaged]);
    }
}

#[test]
fn blocks_of_the_log_go_bad_and_the_store_fails() {
    for how in [BadBlock::ProgError, BadBlock::EraseError, BadBlock::ProgNoop, BadBlock::EraseNoop] {
        let geometry = FlashGeometry::new(1, STRIDE, 11 * STRIDE, 10).expect("a geometry");
        let rig = Rig::new(FlashImage::erased(geometry), None);
        let parts = rig.parts();
        (0..2).for_each(|part| drop(rig.open(&parts, part, false).expect("formats")));
        rig.chip.lock().break_block(8, how);
        let (states, _) = work(&rig, &empty(), 7, 40);
        assert_eq!(rig.read().map(|part| part.expect("mounts")), states[40], "{how:?}");
    }
    // With a log of two blocks none is left to write to once one is bad, and what counts stays.
    let rig = Rig::formatted();
    let (states, _) = work(&rig, &empty(), 8, 9);
    let parts = rig.parts();
    (0..2).for_each(|part| rig.open(&parts, part, true).expect("mounts").close().expect("closes"));
    (7..9).for_each(|block| rig.chip.lock().break_block(block, BadBlock::ProgError));
    let parts = rig.parts();
    let refused = put(&mut rig.open(&parts, 0, true).expect("mounts, as nothing is written"), 0, 1);
    assert!(matches!(refused, Err(FlashCause::TrustedStore(TrustedStoreError::WornOut))), "{refused:?}");
    assert_eq!(rig.snapshot().read().map(|part| part.expect("mounts")), states[9]);
}

#[test]
fn after_a_write_of_the_store_that_failed_either_record_may_count() {
    for late in [false, true] {
        for after in 0..12 {
            let rig = Rig::formatted();
            let (states, _) = work(&rig, &empty(), 9, after);
            let parts = rig.parts();
            let mut volumes = [0, 1].map(|part| rig.open(&parts, part, true).expect("mounts"));
            put(&mut volumes[1], 0, 1).expect("writes");
            match late {
                true => rig.store.fail_late(TrustedStoreError::Driver(1)),
                false => rig.store.fail(Some(TrustedStoreError::Driver(1))),
            }
            assert!(put(&mut volumes[0], 0, 2).is_err());
            rig.store.fail(None);
            // A copy shows what a power loss would leave now.
            let seen = rig.snapshot().read().map(|part| part.expect("mounts"));
            assert_eq!(seen[1][0], Some(1));
            put(&mut volumes[0], 0, 3).expect("writes");
            put(&mut volumes[1], 0, 4).expect("writes");
            drop(volumes);
            let seen = rig.read().map(|part| part.expect("mounts"));
            let mut expected = states.last().expect("a state").clone();
            (expected[0][0], expected[1][0]) = (Some(3), Some(4));
            assert_eq!(seen, expected, "{late} {after}");
        }
    }
}

/// An entry that the store names after all, though it said that it failed, is not written over before the store names another one.
#[test]
fn what_a_failed_write_of_the_store_names_is_kept() {
    for failed in 0..14 {
        let rig = Rig::formatted();
        let parts = rig.parts();
        let put = |byte| parts.part(0).expect("a part").store.store(&[byte; 80]);
        put(100).expect("stores");
        rig.store.fail_late(TrustedStoreError::Driver(1));
        for byte in 1..=failed {
            assert_eq!(put(byte), Err(TrustedStoreError::Driver(1)), "{failed}");
        }
        // What follows writes to the log at most, and the power is lost.
        rig.store.fail(Some(TrustedStoreError::Driver(2)));
        assert!(put(101).is_err());
        let named = if failed == 0 { 100 } else { failed };
        let found = rig.snapshot().parts().part(0).expect("a part").store.load();
        assert_eq!(found, Ok(Some([named; 80])), "{failed}");
    }
}

/// A chip of which nothing is programmed twice, and that can't say what is blank if it is a card.
struct Strict {
    chip: SharedFlash,
    is_card: bool,
}

impl FlashDevice for Strict {
    fn geometry(&self) -> FlashGeometry {
        self.chip.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.chip.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let done = self.chip.prog(address, data);
        let twice = matches!(done, Err(FlashError { cause: FlashCause::AlreadyProgrammed { .. }, .. }));
        assert!(!twice, "programmed twice: {done:?}");
        done
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.chip.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.chip.sync()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        match self.is_card {
            true => Err(FlashError::new(FlashOperation::Read, address, len, FlashCause::Unsupported)),
            false => self.chip.is_blank(address, len, scratch),
        }
    }
}

/// So many blocks of a log, behind one part of one block.
fn log_of(blocks: u64, is_card: bool) -> (Strict, TrustedMemory) {
    let geometry = FlashGeometry::new(1, STRIDE, 11 * STRIDE, 1 + blocks).expect("a geometry");
    let chip = SharedFlash::new(EmulatedFlash::with_image(FlashImage::erased(geometry)));
    (Strict { chip, is_card }, TrustedMemory::new())
}

fn load(chip: &Strict, store: &TrustedMemory) -> Result<Option<TrustedRecord>, TrustedStoreError> {
    let chip = Strict { chip: chip.chip.clone(), ..*chip };
    let parts = SealedParts::new(chip, store.clone(), &KEY, [1], vec![0; 200]).expect("they fit");
    parts.part(0).expect("a part").store.load()
}

fn store(chip: &Strict, to: &TrustedMemory, bytes: std::ops::Range<u8>) {
    let chip = Strict { chip: chip.chip.clone(), ..*chip };
    let parts = SealedParts::new(chip, to.clone(), &KEY, [1], vec![0; 200]).expect("they fit");
    for byte in bytes {
        parts.part(0).expect("a part").store.store(&[byte; 80]).expect("stores");
    }
}

/// Eleven entries fill a block.
#[test]
fn a_log_goes_on_behind_its_last_entry_and_takes_its_blocks_in_turn() {
    let (chip, memory) = log_of(3, false);
    store(&chip, &memory, 1..6);
    store(&chip, &memory, 6..11);
    assert_eq!(chip.chip.lock().wear().erased_blocks(), 1, "for the first entry");
    store(&chip, &memory, 11..34);
    assert_eq!(chip.chip.lock().wear().erased_blocks(), 3, "one after the other");
    assert!((1..4).all(|block| chip.chip.lock().image().used_units(block) == 11), "each of them");
    assert_eq!(load(&chip, &memory), Ok(Some([33; 80])));
    // Where something stands behind the last entry, such as a torn one, nothing is programmed.
    let (chip, memory) = log_of(2, false);
    store(&chip, &memory, 1..6);
    chip.chip.lock().image_mut().put_unit(1, 5, &[7; STRIDE as usize]);
    store(&chip, &memory, 6..9);
    assert_eq!(load(&chip, &memory), Ok(Some([8; 80])));
    // Nor in a block that keeps what it holds.
    let (chip, memory) = log_of(3, false);
    store(&chip, &memory, 1..34);
    chip.chip.lock().break_block(1, BadBlock::EraseError);
    store(&chip, &memory, 34..80);
    assert_eq!(load(&chip, &memory), Ok(Some([79; 80])));
}

#[test]
fn a_log_on_a_card_which_can_not_say_what_is_blank_is_written() {
    let (card, memory) = log_of(2, true);
    store(&card, &memory, 1..30);
    assert_eq!(load(&card, &memory), Ok(Some([29; 80])));
}

/// Whatever is known of the store, it is asked.
#[test]
fn what_somebody_else_has_stored_is_what_is_loaded() {
    let (chip, memory) = log_of(2, false);
    let here = Strict { chip: chip.chip.clone(), ..chip };
    let parts = SealedParts::new(here, memory.clone(), &KEY, [1], vec![0; 200]).expect("they fit");
    let mut part = parts.part(0).expect("a part").store;
    part.store(&[1; 80]).expect("stores");
    store(&chip, &memory, 2..4);
    assert_eq!(part.load(), Ok(Some([3; 80])));
}

/// A store beside a counter: what it is told, and what it says.
#[derive(Default)]
struct Beside {
    store: TrustedMemory,
    claims: u32,
}

impl TrustedStore for &mut Beside {
    fn load(&mut self) -> Result<Option<TrustedRecord>, TrustedStoreError> {
        self.store.load()
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        self.claims += 1;
        Ok(())
    }

    fn store(&mut self, record: &TrustedRecord) -> Result<(), TrustedStoreError> {
        self.store.store(record)
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        Ok(Some(7))
    }
}

#[test]
fn a_store_beside_a_counter_is_asked_and_told_by_each_part() {
    let chip = EmulatedFlash::new(FlashGeometry::new(1, 16, 512, 8).expect("a geometry"));
    let mut beside = Beside::default();
    let parts = SealedParts::new(chip, &mut beside, &KEY, QUOTAS.map(|blocks| blocks - 1), vec![0; 176]);
    let parts = parts.expect("they fit");
    for part in 0..2 {
        let mut store = parts.part(part).expect("a part").store;
        assert_eq!((store.stored_at_most(), store.claim()), (Ok(Some(7)), Ok(())));
    }
    drop(parts);
    assert_eq!(beside.claims, 2);
}

/// A chip with more blocks than 32 bits count. Nobody has one.
struct Huge;

impl FlashDevice for Huge {
    fn geometry(&self) -> FlashGeometry {
        FlashGeometry::new(1, 16, 512, 1 << 32).expect("a geometry")
    }

    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), FlashError> {
        panic!("nothing is read")
    }

    fn prog(&mut self, _: u64, _: &[u8]) -> Result<(), FlashError> {
        panic!("nothing is programmed")
    }

    fn erase(&mut self, _: u64, _: u64) -> Result<(), FlashError> {
        panic!("nothing is erased")
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        panic!("nothing is written")
    }
}

#[test]
fn a_chip_that_can_not_be_divided_so_is_refused() {
    let geometry = FlashGeometry::new(1, 16, 512, 8).expect("a geometry");
    let new = |quotas, key: &SealedKey<'static>, len| {
        let chip = EmulatedFlash::new(geometry);
        SealedParts::new(chip, TrustedMemory::new(), key, quotas, vec![0; len]).map(|_| ()).err()
    };
    assert_eq!(new([3, 3], &KEY, 176), None);
    assert_eq!(new([3, 4], &KEY, 176), Some(PartsError::TooManyBlocks { needs: 9, has: 8 }));
    assert_eq!(
        new([u32::MAX, u32::MAX], &KEY, 176),
        Some(PartsError::TooManyBlocks { needs: (1 << 33), has: 8 })
    );
    assert_eq!(new([3, 0], &KEY, 176), Some(PartsError::Empty));
    let chip = || EmulatedFlash::new(geometry);
    let none = SealedParts::new(chip(), TrustedMemory::new(), &KEY, [], vec![0; 176]).map(drop);
    let many = SealedParts::new(chip(), TrustedMemory::new(), &KEY, [1; 256], vec![0; 176]).map(drop);
    assert_eq!([none, many], [Err(PartsError::Empty); 2]);
    let huge = SealedParts::new(Huge, TrustedMemory::new(), &KEY, [3, 3], vec![0; 176]).map(drop);
    assert_eq!(huge, Err(PartsError::TooManyBlocks { needs: 8, has: 1 << 32 }));
    assert_eq!(new([3, 3], &KEY, 175), Some(PartsError::BufferTooSmall { needs: 176, has: 175 }));
    for key in [SealedKey { volume_key: &[0; 32], ..KEY }, SealedKey { uuid: &[0; 16], ..KEY }] {
        assert_eq!(new([3, 3], &key, 176), Some(PartsError::NoKey));
    }
    let many = |quotas: [u32; 7]| {
        let chip = EmulatedFlash::new(FlashGeometry::new(1, 16, 512, 80).expect("a geometry"));
        SealedParts::new(chip, TrustedMemory::new(), &KEY, quotas, vec![0; 600]).map(|_| ()).err()
    };
    assert_eq!(many([1; 7]), Some(PartsError::TooManyParts));
}

#[test]
fn another_division_or_store_opens_nothing() {
    let rig = Rig::formatted();
    let other = |quotas, record| {
        let store = TrustedMemory::with_record(record);
        let parts = SealedParts::new(rig.chip.clone(), store, &KEY, quotas, vec![0; 200]).expect("they fit");
        parts.part(0).expect("a part").store.load()
    };
    assert!(matches!(other(QUOTAS, rig.store.record()), Ok(Some(_))));
    // With the log elsewhere the store is another one's. With other parts before it, each has another key.
    assert_eq!(other([3, 3], rig.store.record()), Err(TrustedStoreError::Damaged));
    assert!(matches!(other([4, 3], rig.store.record()), Ok(Some(_))));
    let parts =
        SealedParts::new(rig.chip.clone(), rig.store.clone(), &KEY, [4, 3], vec![0; 200]).expect("they fit");
    let part = parts.part(0).expect("a part");
    let (table, buffer) = (vec![BlockState::default(); 4], vec![0; STRIDE as usize]);
    let (device, store) = (any_flash(part.device), any_store(part.store));
    let opened: Result<AnyVolume<'_, AsconAead128>, SealedError> =
        AnyVolume::mount(device, store, &part.key, OPTIONS, table, buffer, &mut OsRandom);
    assert_eq!(opened.map(|_| ()), Err(SealedError::OtherVolume));
    assert_eq!(other(QUOTAS, Some([7; 80])), Err(TrustedStoreError::Damaged));
    assert_eq!(other(QUOTAS, None), Ok(None));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
