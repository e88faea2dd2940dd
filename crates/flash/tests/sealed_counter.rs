//! littlefs on a chip beside which nothing is trusted but a counter: volume and log lie on the same medium. Power lost at every program, erase
//! and increment, and everything on the chip put back, moved and damaged.

mod littlefs;
mod sealed_rig;

use std::cell::RefCell;
use std::rc::Rc;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::store::{CounterStore, MonotonicCounter};
use atrest_flash::sealed::{BlockState, SealedError, SealedFlash, SealedKey, SealedOptions};
use atrest_testkit::flash::{
    Adversary, Caching, EmulatedCard, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear,
};
use atrest_testkit::{Campaign, Random};
use littlefs::{Change, Played, Tree, play_on, read_all_on, suite};
use littlefs2::fs::Filesystem;
use sealed_rig::{KEY, OPTIONS, STRIDE, Storage, on};

/// Blocks of the volume; two more are the log.
const BLOCKS: u64 = 64;

/// A counter that notes where in the recording of a medium it was incremented.
#[derive(Clone)]
struct Counter(Rc<RefCell<Shown>>);

struct Shown {
    value: u64,
    medium: Option<SharedFlash>,
    /// Steps of its recording before each increment.
    increments: Vec<usize>,
}

impl Counter {
    fn at(value: u64) -> Self {
        Self(Rc::new(RefCell::new(Shown { value, medium: None, increments: Vec::new() })))
    }

    fn now(&self) -> u64 {
        self.0.borrow().value
    }
}

impl MonotonicCounter for Counter {
    fn value(&mut self) -> Result<u64, TrustedStoreError> {
        Ok(self.now())
    }

    fn increment(&mut self) -> Result<(), TrustedStoreError> {
        let mut counter = self.0.borrow_mut();
        let step = counter.medium.as_ref().map_or(0, |medium| medium.lock().recorded());
        counter.value += 1;
        counter.increments.push(step);
        Ok(())
    }
}

type Part = FlashRegion<SharedFlash>;
type Store = CounterStore<Counter, Part, { STRIDE as usize }>;
type Volume = SealedFlash<ChaCha20Poly1305, Part, Store, Vec<BlockState>, Vec<u8>>;

#[derive(Clone)]
struct Chip {
    medium: SharedFlash,
    counter: Counter,
    options: SealedOptions,
}

impl Chip {
    fn new(image: FlashImage, counter: u64, options: SealedOptions) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { medium, counter: Counter::at(counter), options }
    }

    fn copy(&self) -> Self {
        Self::new(self.medium.lock().image().clone(), self.counter.now(), self.options)
    }

    fn formatted(options: SealedOptions) -> Self {
        let geometry = FlashGeometry::new(1, STRIDE, STRIDE * 11, BLOCKS + 2).expect("a geometry");
        let chip = Self::new(FlashImage::erased(geometry), 1_000, options);
        let mut storage = on(chip.open(false).expect("format"));
        Filesystem::format(&mut storage).expect("format");
        storage.into_device().close().expect("close");
        chip
    }

    fn open(&self, mount: bool) -> Result<Volume, SealedError> {
        let part = |first, count| FlashRegion::new(self.medium.clone(), first, count).expect("in range");
        let log = part(BLOCKS, 2);
        let store = Store::new(log, self.counter.clone(), &KEY).expect("large enough");
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; STRIDE as usize]);
        open(part(0, BLOCKS), store, &KEY, self.options, table, buffer)
    }

    fn record(&self, start: Tree, changes: &[Change], anchor: bool) -> Run {
        self.medium.lock().record();
        let first = self.counter.now();
        let medium = Some(self.medium.clone());
        *self.counter.0.borrow_mut() = Shown { value: first, medium, increments: Vec::new() };
        let mut storage: Storage<Volume> = on(self.open(true).expect("mount"));
        let acknowledge = |number| self.medium.lock().acknowledge(number);
        let (played, result) = play_on(&mut storage, start, changes, acknowledge);
        assert!(result.is_ok(), "{result:?}");
        if anchor {
            storage.device_mut().anchor().expect("anchor");
        }
        let recording = self.medium.lock().finish_recording();
        let increments = self.counter.0.borrow().increments.clone();
        Run { played, recording, first, increments, options: self.options }
    }
}

struct Run {
    played: Played,
    recording: FlashRecording,
    first: u64,
    /// Steps of the recording before each increment.
    increments: Vec<usize>,
    options: SealedOptions,
}

/// What is cut: an operation of the medium, or an increment, of which nothing has happened.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Medium(PowerCut),
    Increment(usize),
}

impl Run {
    fn cuts(&self, caching: Caching) -> Vec<Cut> {
        let medium = self.recording.cuts(caching).into_iter().map(Cut::Medium);
        medium.chain((0..self.increments.len()).map(Cut::Increment)).collect()
    }

    fn shown(&self, step: usize) -> u64 {
        self.first + self.increments.iter().filter(|at| **at <= step).count() as u64
    }

    /// Chip after a cut, and how many changes were acknowledged.
    fn aftermath(&self, cut: Cut) -> (Chip, usize) {
        match cut {
            Cut::Medium(cut) => {
                let (image, promises) = self.recording.aftermath(cut);
                (Chip::new(image, self.shown(cut.step), self.options), promises.len())
            }
            Cut::Increment(number) => {
                let step = self.increments[number];
                let image = self.recording.images().nth(step).expect("an image").clone();
                let step = step.min(self.recording.len() - 1);
                let before = PowerCut { step, tear: Tear::Clean, caching: Caching::None, seed: 0 };
                let done = self.recording.aftermath(before).1.len();
                (Chip::new(image, self.first + number as u64, self.options), done)
            }
        }
    }

    fn survive(&self, cut: Cut) -> (Chip, Tree) {
        let (chip, done) = self.aftermath(cut);
        let found = read(&chip).unwrap_or_else(|trouble| panic!("{cut:?}: {trouble}"));
        let states = &self.played.states;
        assert!(states[done..(done + 2).min(states.len())].contains(&found), "{cut:?}: lost after {done}");
        (chip, found)
    }
}

fn read(chip: &Chip) -> Result<Tree, String> {
    let mut storage = on(chip.open(true).map_err(|error| format!("{error:?}"))?);
    let tree = read_all_on(&mut storage);
    let stopped = storage.device().is_stopped();
    tree.map_err(|error| format!("littlefs error {}, stopped: {stopped}", error.code()))
}

fn afterwards() -> Vec<Change> {
    let (name, write) = ("again".to_string(), Change::Write("again".into(), vec![0x55; 90]));
    vec![Change::Create(name.clone()), write, Change::Append(name, vec![0xff; 90])]
}

fn half_the_suite() -> Vec<Change> {
    let mut changes = suite(64 * 640);
    changes.truncate(40);
    changes
}

fn cut_everywhere(name: &'static str, options: SealedOptions, caching: Caching, sample: usize) {
    let run = Chip::formatted(options).record(Tree::new(), &half_the_suite(), false);
    let cuts = run.cuts(caching);
    let (steps, increments) = (run.recording.len(), run.increments.len());
    println!("{name}: {steps} programs and erases, {increments} increments, {} cuts", cuts.len());
    Campaign::matrix(name, sample).over(&cuts, |cut| {
        let (chip, found) = run.survive(*cut);
        let again = chip.record(found, &afterwards(), false);
        assert_eq!(again.played.refused, 0, "{cut:?}: there is room");
        assert_eq!(read(&chip).as_ref().ok(), again.played.states.last(), "{cut:?}");
    });
}

#[test]
fn no_cut_beside_a_counter_loses_what_was_synced_or_raises_an_alarm() {
    cut_everywhere("counter store power loss", OPTIONS, Caching::None, 150);
    let every = SealedOptions { anchor_every: 1, ..OPTIONS };
    cut_everywhere("counter store power loss, every sync anchored", every, Caching::None, 100);
}

#[test]
fn no_cut_beside_a_counter_on_a_medium_with_a_cache_loses_what_was_synced() {
    let medium = atrest_flash::sealed::SealedMedium::Cached;
    let options = SealedOptions { medium, ..OPTIONS };
    cut_everywhere("counter store power loss, cached", options, Caching::UntilSync, 100);
}

#[test]
fn no_second_cut_beside_a_counter_loses_what_was_synced() {
    let run = Chip::formatted(OPTIONS).record(Tree::new(), &half_the_suite(), false);
    let first = run.cuts(Caching::None);
    Campaign::new("counter store power loss, two cuts", 100, 20_000).run(|_, random: &mut Random| {
        let (chip, _) = run.aftermath(*random.pick(&first));
        let start = read(&chip.copy()).expect("survived");
        let again = chip.record(start, &afterwards(), false);
        // Openings are a large part of it.
        again.survive(*random.pick(&again.cuts(Caching::None)));
    });
}

#[test]
fn no_attack_on_a_chip_beside_a_counter_goes_undetected() {
    let options = SealedOptions { anchor_every: 5, ..OPTIONS };
    let chip = Chip::formatted(options);
    let run = chip.record(Tree::new(), &half_the_suite(), true);
    let tree = run.played.states.last().expect("a state");
    let adversary = Adversary::new(&run.recording);
    let [mut nothing, mut refused, mut harmless] = [0; 3];
    Campaign::new("counter store, attacks", 400, 50_000).run(|_, random: &mut Random| {
        let attacked = chip.copy();
        let live = random.below(3) == 0;
        let open = live.then(|| attacked.open(true).expect("mount"));
        let attack = adversary.draw(random);
        let changed = adversary.attack(attacked.medium.lock().image_mut(), attack);
        let found = match open {
            Some(volume) => read_all_on(&mut on(volume)).map_err(|error| error.code().to_string()),
            None => read(&attacked),
        };
        match found {
            Ok(found) => {
                assert_eq!(&found, tree, "undetected: {attack}, live: {live}");
                *(if changed { &mut harmless } else { &mut nothing }) += 1;
            }
            Err(trouble) => {
                assert!(changed, "a false alarm: {attack}: {trouble}");
                refused += 1;
            }
        }
    });
    println!("{refused} refused, {harmless} read as before, {nothing} changed nothing");
}

/// Every image that the chip ever held, with the counter of the end: none opens, but those that differ from the last in nothing
/// that counts.
#[test]
fn a_chip_that_was_put_back_does_not_open() {
    let chip = Chip::formatted(OPTIONS);
    let run = chip.record(Tree::new(), &half_the_suite(), true);
    let (mut refused, mut opened) = (0, 0);
    for image in run.recording.images() {
        match Chip::new(image.clone(), chip.counter.now(), OPTIONS).open(true) {
            Err(SealedError::Store(TrustedStoreError::Damaged) | SealedError::StoreEmpty) => refused += 1,
            Err(error) => panic!("{error:?}"),
            Ok(_) => opened += 1,
        }
    }
    println!("{refused} older images refused, {opened} opened");
    assert!(opened == 1 && refused > 250, "the last one alone");
}

/// As firmware has it: one driver, two regions of it.
#[test]
fn a_chip_in_a_cell_holds_volume_and_log() {
    let geometry = FlashGeometry::new(1, 32, 1024, 10).expect("a geometry");
    let (chip, counter) = (RefCell::new(EmulatedFlash::new(geometry)), Counter::at(7));
    let open = |mount: bool| {
        let part = |first, count| FlashRegion::new(&chip, first, count).expect("in range");
        let store = CounterStore::<_, _, 64>::new(part(8, 2), counter.clone(), &KEY).expect("large enough");
        let (table, buffer) = (vec![BlockState::default(); 8], vec![0; 512]);
        let open =
            if mount { SealedFlash::<ChaCha20Poly1305, _, _, _, _>::mount } else { SealedFlash::format };
        open(part(0, 8), store, &KEY, OPTIONS, table, buffer)
    };
    let mut volume = open(false).expect("format");
    let sizes = volume.geometry();
    volume.erase(0, sizes.erase_size().into()).expect("erase");
    volume.prog(0, &vec![9; sizes.prog_size() as usize]).expect("program");
    volume.anchor().expect("anchor");
    drop(volume);
    // One to claim, one for the record of formatting, one for the anchor.
    assert_eq!(counter.now(), 7 + 3);
    let mut volume = open(true).expect("mount");
    assert_eq!(counter.now(), 10 + 3, "two to open, one for what recovery anchors");
    let mut found = vec![0; sizes.prog_size() as usize];
    volume.read(0, &mut found).expect("read");
    assert!(found.iter().all(|byte| *byte == 9));
}

/// A card has no blank places and loses what was not synced: entries are written over old ones.
#[test]
fn a_log_on_a_card_holds_the_old_record_or_the_new_one_at_every_cut() {
    let geometry = FlashGeometry::new(512, 512, 1536, 2).expect("a geometry");
    let card = EmulatedCard::used(geometry, &mut Random::new(3));
    let on = |card: &EmulatedCard, counter: &Counter| {
        CounterStore::<_, _, 512>::new(card.clone(), counter.clone(), &KEY).expect("large enough")
    };
    let counter = Counter::at(100);
    card.record();
    let mut store = on(&card, &counter);
    assert_eq!(store.load(), Err(TrustedStoreError::Damaged), "what was on the card before");
    for number in 1..=40 {
        store.store(&[number; 40]).expect("store");
        card.acknowledge();
        if number % 3 == 0 {
            store = on(&card, &counter);
            assert_eq!(store.load(), Ok(Some([number; 40])));
        }
    }
    let recording = card.finish_recording();
    let mut cases = 0;
    // The counter was incremented once to begin with, and then after each write.
    let cuts = recording.cuts().into_iter().map(|cut| (recording.aftermath(cut), 101 + cut.write as u64));
    let unvouched = (1..recording.len())
        .map(|write| ((recording.before(write).0, recording.before(write - 1).1), 100 + write as u64));
    for ((left, done), shown) in cuts.chain(unvouched) {
        let (done, counter) = (done as u8, Counter::at(shown));
        let found = on(&left, &counter).load();
        let allowed = [Ok(Some([done; 40])), Ok(Some([done + 1; 40]))];
        let none = done == 0 && found == Err(TrustedStoreError::Damaged);
        assert!(allowed.contains(&found) || none, "{shown}: {found:?} after {done}");
        for number in 100..110 {
            let mut store = on(&left, &counter);
            store.store(&[number; 40]).expect("store");
            assert_eq!(on(&left, &counter).load(), Ok(Some([number; 40])), "{shown}");
        }
        cases += 1;
    }
    println!("{cases} cuts of a log on a card");
    assert!(cases > 300);
}

/// `vectors/sealed-flash.py` computes it.
#[test]
fn an_entry_is_that_of_an_independent_implementation() {
    let log = SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(1, 64, 128, 2).expect("a geometry")));
    let (volume_key, uuid) =
        (std::array::from_fn::<_, 32, _>(|i| i as u8), std::array::from_fn(|i| 0x10 + i as u8));
    let key = SealedKey { volume_key: &volume_key, uuid: &uuid };
    let mut store = CounterStore::<_, _, 64>::new(log.clone(), Counter::at(7), &key).expect("large enough");
    store.store(&std::array::from_fn(|i| i as u8)).expect("store");
    let entry: String = log.lock().image().unit(0, 0).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        entry,
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262709000000000000004dfcfc9dc41cff2de38f185d3b72dda2"
    );
}

#[test]
fn a_counter_store_says_what_is_wrong() {
    let geometry = FlashGeometry::new(1, 32, 128, 2).expect("a geometry");
    let log = SharedFlash::new(EmulatedFlash::new(geometry));
    let counter = Counter::at(41);
    let store = || CounterStore::<_, _, 64>::new(log.clone(), counter.clone(), &KEY).expect("large enough");
    assert_eq!(store().load(), Ok(None));
    assert_eq!(counter.now(), 41, "nothing to be claimed");
    store().store(&[1; 40]).expect("store");
    assert_eq!((store().load(), counter.now()), (Ok(Some([1; 40])), 45));
    let mut kept = store();
    assert_eq!(kept.load(), Ok(Some([1; 40])));
    (2..9).for_each(|number| kept.store(&[number; 40]).expect("store"));
    assert_eq!(counter.now(), 47 + 7, "one increment for each");
    // Somebody else increments the counter.
    counter.0.borrow_mut().value += 1;
    assert_eq!(kept.store(&[9; 40]), Err(TrustedStoreError::Busy));
    assert_eq!(kept.store(&[9; 40]), Err(TrustedStoreError::Damaged), "what counted does not any more");
    assert_eq!(store().load(), Err(TrustedStoreError::Damaged));
    // To be replaced by name only; then it begins anew.
    store().store(&[10; 40]).expect("store");
    assert_eq!(store().load(), Ok(Some([10; 40])));
    counter.0.borrow_mut().value = u64::MAX;
    assert_eq!(store().store(&[11; 40]), Err(TrustedStoreError::WornOut));
    let small = |prog, erase, count| {
        let flash = EmulatedFlash::new(FlashGeometry::new(1, prog, erase, count).expect("a geometry"));
        CounterStore::<_, _, 64>::new(flash, Counter::at(0), &KEY).err()
    };
    assert_eq!(small(32, 32, 2), Some(TrustedStoreError::TooSmall { needs: 128, has: 64 }));
    assert_eq!(small(64, 64, 1), Some(TrustedStoreError::TooSmall { needs: 128, has: 64 }));
    assert_eq!(small(128, 128, 2), Some(TrustedStoreError::TooSmall { needs: 128, has: 64 }));
    assert_eq!(small(64, 64, 2), None);
}
