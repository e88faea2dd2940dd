//! Sealed cards: what was written since the last sync arrives sector by sector in any choice. Nothing synced is lost, nothing raises an
//! alarm, and a block is in one of the states that it had since then.

use std::cell::RefCell;
use std::rc::Rc;

use crate::any::{AnyFlash, AnyStore, AnyVolume, any_flash, any_store};
use crate::littlefs::{Change, Played, Tree, play_on, read_all_on, suite};
use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashCause, FlashDevice, FlashGeometry, FlashRegion, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::{
    BlockState, RotatingFlash, RotationKeys, SealedError, SealedKey, SealedMedium, SealedOptions, Tickets,
    Verify, WithScratch,
};
use atrest_flash::{LittlefsGeometry, LittlefsStorage};
use atrest_testkit::flash::{CardCut, CardRecording, EmulatedCard, TrustedRecord};
use atrest_testkit::{Campaign, Random};
use littlefs2::consts::{U1, U476};
use littlefs2::fs::Filesystem;

const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };

/// Units of one sector, tickets in slots.
const OPTIONS: SealedOptions = SealedOptions {
    payload: 476,
    tickets: Tickets::Slot,
    medium: SealedMedium::Card,
    anchor_every: 1,
    reserve: 12,
    read_back: true,
    verify: Verify::OnRead,
};

/// A store that notes where in the recording of a card it was written.
#[derive(Clone)]
struct Store(Rc<RefCell<Stored>>);

struct Stored {
    record: Option<TrustedRecord>,
    card: EmulatedCard,
    /// Writes of the card before each, and what was stored then.
    writes: Vec<(usize, Option<TrustedRecord>)>,
}

impl TrustedStore for Store {
    fn load(&mut self) -> Result<Option<TrustedRecord>, TrustedStoreError> {
        Ok(self.0.borrow().record)
    }

    fn store(&mut self, record: &TrustedRecord) -> Result<(), TrustedStoreError> {
        let mut stored = self.0.borrow_mut();
        let write = (stored.card.recorded(), stored.record);
        stored.writes.push(write);
        stored.record = Some(*record);
        Ok(())
    }
}

type Volume = AnyVolume<'static, AsconAead128>;

struct Parts {
    card: EmulatedCard,
    store: Store,
    options: SealedOptions,
}

impl Parts {
    fn new(card: EmulatedCard, record: Option<TrustedRecord>, options: SealedOptions) -> Self {
        let stored = Stored { record, card: card.clone(), writes: Vec::new() };
        Self { card, store: Store(Rc::new(RefCell::new(stored))), options }
    }

    fn open(&self, mount: bool) -> Result<Volume, SealedError> {
        let open = if mount { Volume::mount } else { Volume::format };
        let blocks = self.card.geometry().block_count() as usize;
        let (table, buffer) = (vec![BlockState::default(); blocks], vec![0; 4096]);
        open(
            any_flash(self.card.clone()),
            any_store(self.store.clone()),
            &KEY,
            self.options,
            table,
            buffer,
            &mut atrest_secret::OsRandom,
        )
    }

    fn record(&self) {
        self.card.record();
        self.store.0.borrow_mut().writes.clear();
    }

    fn recorded(&self) -> Recorded {
        let stored = self.store.0.borrow();
        let (writes, last) = (stored.writes.clone(), stored.record);
        Recorded { card: self.card.finish_recording(), writes, last, options: self.options }
    }
}

/// What happened to card and store.
struct Recorded {
    card: CardRecording,
    writes: Vec<(usize, Option<TrustedRecord>)>,
    last: Option<TrustedRecord>,
    options: SealedOptions,
}

/// What is cut: a write of the card, or of the store, of which then nothing has happened.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Card(CardCut),
    Store(usize),
}

impl Recorded {
    fn cuts(&self) -> Vec<Cut> {
        let card = self.card.cuts().into_iter().map(Cut::Card);
        card.chain((0..self.writes.len()).map(Cut::Store)).collect()
    }

    /// What is left, and how many promises had been made.
    fn aftermath(&self, cut: Cut) -> (Parts, usize) {
        let ((card, promises), record) = match cut {
            Cut::Card(cut) => {
                let next = self.writes.iter().find(|(at, _)| *at > cut.write);
                (self.card.aftermath(cut), next.map_or(self.last, |(_, before)| *before))
            }
            Cut::Store(number) => {
                let (at, before) = self.writes[number];
                (self.card.before(at), before)
            }
        };
        (Parts::new(card, record, self.options), promises)
    }
}

/// 24 blocks of 4 KiB: seven units and a slot, all of one sector.
struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = 476;
    const PROG_SIZE: usize = 476;
    const BLOCK_SIZE: usize = 7 * 476;
    const BLOCK_COUNT: usize = 24;
    type CACHE_SIZE = U476;
    type LOOKAHEAD_SIZE = U1;
}

type Storage = LittlefsStorage<Volume, Sizes>;

fn storage(volume: Volume) -> Storage {
    Storage::new(volume).expect("the same sizes")
}

fn card(blocks: u64) -> EmulatedCard {
    let geometry = FlashGeometry::new(512, 512, 4096, blocks).expect("a geometry");
    EmulatedCard::used(geometry, &mut Random::new(9))
}

fn play(parts: &Parts, start: Tree, changes: &[Change]) -> (Played, Recorded) {
    parts.record();
    let acknowledge = |_| parts.card.acknowledge();
    let (played, result) =
        play_on(&mut storage(parts.open(true).expect("mount")), start, changes, acknowledge);
    assert!(result.is_ok(), "{result:?}");
    (played, parts.recorded())
}

fn read(parts: &Parts) -> Result<Tree, String> {
    let mut storage = storage(parts.open(true).map_err(|error| format!("{error:?}"))?);
    let tree = read_all_on(&mut storage);
    let stopped = storage.device().is_stopped();
    tree.map_err(|error| format!("littlefs error {}, stopped: {stopped}", error.code()))
}

#[test]
fn no_cut_on_a_card_loses_what_littlefs_synced_or_raises_an_alarm() {
    let parts = Parts::new(card(24), None, OPTIONS);
    let mut fresh = storage(parts.open(false).expect("format"));
    Filesystem::format(&mut fresh).expect("format");
    fresh.into_device().close().expect("close");
    let (played, run) = play(&parts, Tree::new(), &suite(24 * 7 * 476));
    let cuts = run.cuts();
    println!("{} writes of the card, {} of the store, {} cuts", run.card.len(), run.writes.len(), cuts.len());
    assert!(cuts.len() > 1000);
    let again: Vec<Change> =
        vec![Change::Create("again".into()), Change::Write("again".into(), vec![0x55; 200])];
    Campaign::matrix("sealed card power loss", 200).over(&cuts, |cut| {
        let (parts, done) = run.aftermath(*cut);
        let found = read(&parts).unwrap_or_else(|trouble| panic!("{cut:?}: {trouble}"));
        let allowed = &played.states[done..(done + 2).min(played.states.len())];
        assert!(allowed.contains(&found), "{cut:?}: lost after change {done}");
        let (after, _) = play(&parts, found, &again);
        assert_eq!(read(&parts).ok().as_ref(), after.states.last(), "{cut:?}");
    });
}

/// What a block holds: a byte for each unit.
type Held = Vec<u8>;

/// A volume without a file system: of each block, all that it held since the last sync.
struct Blocks {
    volume: Volume,
    since: Vec<Vec<Held>>,
    /// Of each sync: all that each block held since the sync before.
    promised: Vec<Vec<Vec<Held>>>,
    fresh: u8,
}

impl Blocks {
    fn new(volume: Volume, held: Vec<Held>) -> Self {
        let since = held.into_iter().map(|held| vec![held]).collect();
        Self { volume, since, promised: Vec::new(), fresh: 0 }
    }

    fn step(&mut self, card: &EmulatedCard, random: &mut Random) {
        let sizes = self.volume.geometry();
        let (erase, unit) = (u64::from(sizes.erase_size()), u64::from(sizes.prog_size()));
        let at = random.below(sizes.block_count()) as usize;
        let block = at as u64 * erase;
        let held = self.since[at].last().expect("a state").clone();
        match random.below(20) {
            0..=11 if held.len() < sizes.units_per_block() as usize => {
                self.fresh = self.fresh % 200 + 1;
                match self.volume.prog(block + held.len() as u64 * unit, &vec![self.fresh; unit as usize]) {
                    Ok(()) => self.since[at].push([held, vec![self.fresh]].concat()),
                    Err(error) => assert!(
                        matches!(error.cause, FlashCause::Void { .. } | FlashCause::Closed { .. }),
                        "{error}"
                    ),
                }
            }
            0..=16 => {
                self.volume.erase(block, erase).expect("erase");
                self.since[at].push(Held::new());
            }
            17 => {
                self.volume.sync().expect("sync");
                self.settle(card);
            }
            _ => {}
        }
    }

    fn settle(&mut self, card: &EmulatedCard) {
        let since = self.since.clone();
        self.promised.push(since);
        self.since.iter_mut().for_each(|states| drop(states.drain(..states.len() - 1)));
        card.acknowledge();
    }
}

fn held(volume: &mut Volume) -> Vec<Held> {
    let sizes = volume.geometry();
    let unit = |volume: &mut Volume, at: u64| {
        let mut bytes = vec![0; sizes.prog_size() as usize];
        let read = volume.read(at, &mut bytes);
        assert!(read.is_ok() || matches!(read, Err(error) if matches!(error.cause, FlashCause::Void { .. })));
        let byte = bytes[0];
        assert!(bytes.iter().all(|other| *other == byte));
        (read.is_ok() && ![0, 0xff].contains(&byte)).then_some(byte)
    };
    let blocks = (0..sizes.block_count()).map(|block| block * u64::from(sizes.erase_size()));
    let units = |start| (start..).step_by(sizes.prog_size() as usize).take(sizes.units_per_block() as usize);
    blocks.map(|start| units(start).map_while(|at| unit(volume, at)).collect()).collect()
}

#[test]
fn a_block_of_a_card_is_in_a_state_that_it_had_since_the_last_sync() {
    let layouts = [
        OPTIONS,
        SealedOptions { tickets: Tickets::Store, ..OPTIONS },
        // Units of two sectors, one of which may arrive without the other.
        SealedOptions { payload: 1000, ..OPTIONS },
    ];
    let mut changed = 0_u64;
    Campaign::new("sealed card, blocks", 400, 100_000).run(|_, random: &mut Random| {
        let parts = Parts::new(card(6), None, *random.pick(&layouts));
        drop(parts.open(false).expect("format"));
        let mut expected: Vec<Held> = vec![Held::new(); 6];
        let mut parts = parts;
        // Power is lost four times.
        for _ in 0..4 {
            parts.record();
            let volume = parts.open(true).expect("it opened before");
            let mut blocks = Blocks::new(volume, expected.clone());
            for _ in 0..40 {
                blocks.step(&parts.card, random);
            }
            let last = blocks.since.clone();
            blocks.promised.push(last);
            let promised = blocks.promised;
            drop(blocks.volume);
            let run = parts.recorded();
            let cut = *random.pick(&run.cuts());
            let (left, done) = run.aftermath(cut);
            let mut volume = left.open(true).unwrap_or_else(|error| panic!("{cut:?}: {error:?}"));
            let found = held(&mut volume);
            for (block, (found, allowed)) in found.iter().zip(&promised[done]).enumerate() {
                assert!(
                    allowed.contains(found),
                    "{cut:?}: block {block} holds {found:?}, not of {allowed:?}"
                );
                changed += u64::from(found != allowed.last().expect("a state"));
            }
            drop(volume);
            (expected, parts) = (found, left);
        }
    });
    println!("{changed} blocks were not in their last state");
    assert!(changed > 100, "something was lost");
}

type Rotating = RotatingFlash<
    AsconAead128,
    AnyFlash<'static>,
    AnyFlash<'static>,
    AnyStore<'static>,
    Vec<BlockState>,
    Vec<u8>,
>;

/// The last block of the card is the scratch.
fn region(parts: &Parts, first: u64, count: u64) -> AnyFlash<'static> {
    any_flash(FlashRegion::new(parts.card.clone(), first, count).expect("on the card"))
}

fn rotating(parts: &Parts) -> Result<Rotating, SealedError> {
    let device = WithScratch::new(region(parts, 0, 8), region(parts, 8, 1))?;
    let keys = RotationKeys { key: SealedKey { volume_key: &[0x77; 32], ..KEY }, previous: KEY.volume_key };
    let (table, buffer) = (vec![BlockState::default(); 8], vec![0; 512]);
    let store = any_store(parts.store.clone());
    let random = &mut atrest_secret::OsRandom;
    Ok(Rotating::open_rotating(device, store, &keys, parts.options, table, buffer, random)?)
}

/// The first units of a volume's blocks.
fn first_units(volume: &mut impl FlashDevice) -> Vec<Result<u8, FlashCause>> {
    let unit = |block: u64| {
        let mut unit = [0; 476];
        volume.read(block * 7 * 476, &mut unit).map(|()| unit[0]).map_err(|error| error.cause)
    };
    (0..8).map(unit).collect()
}

#[test]
fn no_cut_of_a_rotation_on_a_card_loses_anything_or_raises_an_alarm() {
    let parts = Parts::new(card(9), None, OPTIONS);
    let (table, buffer) = (vec![BlockState::default(); 8], vec![0; 512]);
    let (flash, store) = (region(&parts, 0, 8), any_store(parts.store.clone()));
    let random = &mut atrest_secret::OsRandom;
    let mut volume = Volume::format(flash, store, &KEY, OPTIONS, table, buffer, random).expect("format");
    for block in 0..6 {
        volume.erase(block * 7 * 476, 7 * 476).expect("erase");
        volume.prog(block * 7 * 476, &vec![block as u8 + 1; 476 * (1 + block as usize)]).expect("program");
    }
    volume.close().expect("close");
    drop(volume);
    parts.record();
    let mut volume = rotating(&parts).expect("both keys");
    let held = first_units(&mut volume);
    assert_eq!(held[5..7], [Ok(6), Err(FlashCause::Void { block: 6 })]);
    while volume.rotation().left > 0 {
        volume.rotate_step().expect("a step");
    }
    volume.finish_rotation().expect("the end");
    drop(volume);
    let run = parts.recorded();
    let cuts = run.cuts();
    assert!(cuts.len() > 150, "{} cuts", cuts.len());
    Campaign::matrix("rotation on a card, power loss", 120).over(&cuts, |cut| {
        let (parts, _) = run.aftermath(*cut);
        for _ in 0..2 {
            let mut volume = rotating(&parts).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
            assert_eq!(first_units(&mut volume), held, "{cut:?}");
            while volume.rotation().left > 0 {
                volume.rotate_step().expect("a step");
            }
            volume.finish_rotation().expect("the end");
            assert_eq!(first_units(&mut volume), held, "{cut:?}");
        }
    });
}
