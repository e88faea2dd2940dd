//! littlefs on a chip beside which nothing is trusted but a counter: volume and log lie on the same medium.
#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::RefCell;
use std::rc::Rc;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashGeometry, FlashRegion, TrustedStoreError};
use atrest_flash::sealed::store::MonotonicCounter;
use atrest_flash::sealed::{BlockState, SealedError, SealedOptions};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear,
};
use littlefs2::fs::Filesystem;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::faces::AnyCounter as CounterStore;
use crate::littlefs::{Change, Played, Tree, play_on, read_all_on, suite};
use crate::sealed_rig::{KEY, STRIDE, Storage, on};

/// Blocks of the volume; as many more are the log.
pub const BLOCKS: u64 = 64;
pub const LOG: u64 = 3;

/// A counter that notes where in the recording of a medium it was incremented.
#[derive(Clone)]
pub struct Counter(pub Rc<RefCell<Shown>>);

pub struct Shown {
    pub value: u64,
    pub medium: Option<SharedFlash>,
    /// Steps of its recording before each increment.
    pub increments: Vec<usize>,
}

impl Counter {
    pub fn at(value: u64) -> Self {
        Self(Rc::new(RefCell::new(Shown { value, medium: None, increments: Vec::new() })))
    }

    pub fn now(&self) -> u64 {
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

pub type Part = FlashRegion<SharedFlash>;
pub type Store = CounterStore<Counter, Part, { 2 * STRIDE as usize }>;
pub type Volume = AnyVolume<'static, ChaCha20Poly1305>;

#[derive(Clone)]
pub struct Chip {
    pub medium: SharedFlash,
    pub counter: Counter,
    pub options: SealedOptions,
}

impl Chip {
    pub fn new(image: FlashImage, counter: u64, options: SealedOptions) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { medium, counter: Counter::at(counter), options }
    }

    pub fn copy(&self) -> Self {
        Self::new(self.medium.lock().image().clone(), self.counter.now(), self.options)
    }

    pub fn formatted(options: SealedOptions) -> Self {
        let geometry = FlashGeometry::new(1, STRIDE, STRIDE * 11, BLOCKS + LOG).expect("a geometry");
        let chip = Self::new(FlashImage::erased(geometry), 1_000, options);
        let mut storage = on(chip.open(false).expect("format"));
        Filesystem::format(&mut storage).expect("format");
        storage.into_device().close().expect("close");
        chip
    }

    pub fn open(&self, mount: bool) -> Result<Volume, SealedError> {
        self.open_with(mount, BLOCKS as usize)
    }

    /// With a table of so many entries.
    pub fn open_with(&self, mount: bool, entries: usize) -> Result<Volume, SealedError> {
        let part = |first, count| FlashRegion::new(self.medium.clone(), first, count).expect("in range");
        let store = Store::new(part(BLOCKS, LOG), self.counter.clone(), &KEY).expect("large enough");
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = (vec![BlockState::default(); entries], vec![0; STRIDE as usize]);
        let (medium, store) = (any_flash(part(0, BLOCKS)), any_store(store));
        open(medium, store, &KEY, self.options, table, buffer, &mut OsRandom)
    }

    pub fn record(&self, start: Tree, changes: &[Change], anchor: bool) -> Run {
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

pub struct Run {
    pub played: Played,
    pub recording: FlashRecording,
    pub first: u64,
    /// Steps of the recording before each increment.
    pub increments: Vec<usize>,
    pub options: SealedOptions,
}

/// What is cut: an operation of the medium, or an increment, of which nothing has happened.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Medium(PowerCut),
    Increment(usize),
}

impl Run {
    pub fn cuts(&self, caching: Caching) -> Vec<Cut> {
        let medium = self.recording.cuts(caching).into_iter().map(Cut::Medium);
        medium.chain((0..self.increments.len()).map(Cut::Increment)).collect()
    }

    pub fn shown(&self, step: usize) -> u64 {
        self.first + self.increments.iter().filter(|at| **at <= step).count() as u64
    }

    /// Chip after a cut, and how many changes were acknowledged.
    pub fn aftermath(&self, cut: Cut) -> (Chip, usize) {
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

    pub fn survive(&self, cut: Cut) -> (Chip, Tree) {
        let (chip, done) = self.aftermath(cut);
        let found = read(&chip).unwrap_or_else(|trouble| panic!("{cut:?}: {trouble}"));
        let states = &self.played.states;
        assert!(states[done..(done + 2).min(states.len())].contains(&found), "{cut:?}: lost after {done}");
        (chip, found)
    }
}

pub fn read(chip: &Chip) -> Result<Tree, String> {
    let mut storage = on(chip.open(true).map_err(|error| format!("{error:?}"))?);
    let tree = read_all_on(&mut storage);
    let stopped = storage.device().is_stopped();
    tree.map_err(|error| format!("littlefs error {}, stopped: {stopped}", error.code()))
}

pub fn afterwards() -> Vec<Change> {
    let (name, write) = ("again".to_string(), Change::Write("again".into(), vec![0x55; 90]));
    vec![Change::Create(name.clone()), write, Change::Append(name, vec![0xff; 90])]
}

pub fn half_the_suite() -> Vec<Change> {
    let mut changes = suite(64 * 640);
    changes.truncate(40);
    changes
}
