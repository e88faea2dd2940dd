//! littlefs on a sealed volume: a medium, its store, and what a power loss leaves of both.
#![allow(dead_code, reason = "each test file uses a part")]

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashDevice, FlashGeometry};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedKey, SealedMedium, SealedOptions, Tickets, Verify,
};
use atrest_flash::{LittlefsGeometry, LittlefsStorage};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{
    EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, TrustedMemory, TrustedRecord,
    TrustedWrite,
};
use littlefs2::consts::{U1, U64};
use littlefs2::fs::Filesystem;

use crate::any::{AnyReader, AnyVolume, any_flash, any_store};
use crate::littlefs::{Change, Played, Tree, play_on, read_all_on};

/// 64 blocks of ten units of 64 bytes, as littlefs sees them.
pub struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = 64;
    const PROG_SIZE: usize = 64;
    const BLOCK_SIZE: usize = 640;
    const BLOCK_COUNT: usize = 64;
    type CACHE_SIZE = U64;
    type LOOKAHEAD_SIZE = U1;
}

/// Bytes of a unit on the medium.
pub const STRIDE: u32 = 99;

pub type Volume = AnyVolume<'static, ChaCha20Poly1305>;
pub type Reader = AnyReader<ChaCha20Poly1305>;
pub type Storage<D = Volume> = LittlefsStorage<D, Sizes>;

pub const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };

/// littlefs2 syncs after every program; the store is not written as often.
pub const OPTIONS: SealedOptions = SealedOptions {
    payload: 64,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 40,
    reserve: 12,
    read_back: true,
    verify: Verify::OnRead,
};

/// The medium: a program is of a whole unit, or of a ticket.
pub fn geometry(tickets: Tickets) -> FlashGeometry {
    let cells = if tickets == Tickets::Slot { 11 } else { 10 };
    FlashGeometry::new(1, STRIDE, STRIDE * cells, 64).expect("a geometry")
}

/// Medium and store.
#[derive(Clone)]
pub struct Parts {
    pub medium: SharedFlash,
    pub store: TrustedMemory,
    pub options: SealedOptions,
}

impl Parts {
    pub fn new(image: FlashImage, record: Option<TrustedRecord>, options: SealedOptions) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { medium, store: TrustedMemory::with_record(record), options }
    }

    /// A copy of both, as they are now.
    pub fn snapshot(&self) -> Self {
        Self::new(self.medium.lock().image().clone(), self.store.record(), self.options)
    }

    /// The volume, closed in good order before.
    pub fn session(&self) -> Volume {
        self.open(true).expect("mount")
    }

    /// An empty file system.
    pub fn formatted(options: SealedOptions) -> Self {
        let parts = Self::new(FlashImage::erased(geometry(options.tickets)), None, options);
        let mut storage = Storage::new(parts.open(false).expect("format")).expect("the same sizes");
        Filesystem::format(&mut storage).expect("format");
        storage.into_device().close().expect("close");
        parts
    }

    pub fn open(&self, mount: bool) -> Result<Volume, SealedError> {
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = (vec![BlockState::default(); 64], vec![0; STRIDE as usize]);
        let (medium, store) = (any_flash(self.medium.clone()), any_store(self.store.clone()));
        open(medium, store, &KEY, self.options, table, buffer, &mut OsRandom)
    }

    pub fn without_freshness(&self) -> Result<Reader, SealedError> {
        let (table, buffer) = (vec![BlockState::default(); 64], vec![0; STRIDE as usize]);
        Reader::open_without_freshness(any_flash(self.medium.clone()), &KEY, self.options, table, buffer)
    }

    pub fn storage(&self) -> Result<Storage, SealedError> {
        Ok(Storage::new(self.open(true)?).expect("the same sizes"))
    }

    /// Makes changes, recorded from before the volume is opened; anchors what is left if so asked.
    pub fn record(&self, start: Tree, changes: &[Change], anchor: bool) -> Recorded {
        self.medium.lock().record();
        self.store.beside(&self.medium);
        let first = self.store.record();
        let mut storage = self.storage().expect("mount");
        let acknowledge = |number| self.medium.lock().acknowledge(number);
        let (played, result) = play_on(&mut storage, start, changes, acknowledge);
        assert!(result.is_ok(), "{result:?}");
        if anchor {
            storage.device_mut().anchor().expect("anchor");
        }
        let recording = self.medium.lock().finish_recording();
        Recorded { played, recording, writes: self.store.writes(), first, options: self.options }
    }
}

/// Everything that happened to medium and store.
pub struct Recorded {
    pub played: Played,
    pub recording: FlashRecording,
    pub writes: Vec<TrustedWrite>,
    first: Option<TrustedRecord>,
    options: SealedOptions,
}

impl Recorded {
    /// What the store held when a step of the medium began.
    pub fn stored(&self, step: usize) -> Option<TrustedRecord> {
        let before = self.writes.iter().rev().find(|write| write.step <= step);
        before.map_or(self.first, |write| Some(write.after))
    }

    /// Medium and store after a cut, and how many changes were acknowledged.
    pub fn aftermath(&self, cut: PowerCut) -> (Parts, usize) {
        let (image, promises) = self.recording.aftermath(cut);
        (Parts::new(image, self.stored(cut.step), self.options), promises.len())
    }

    /// Medium and store after a cut in a write of the store, of which nothing has happened, and how many changes were
    /// acknowledged.
    pub fn without_write(&self, write: &TrustedWrite) -> (Parts, usize) {
        let image = self.recording.images().nth(write.step).expect("an image").clone();
        let step = write.step.min(self.recording.len() - 1);
        let cut = self.recording.cuts(atrest_testkit::flash::Caching::None);
        let cut = cut.into_iter().find(|cut| cut.step == step).expect("a cut");
        let done = self.recording.aftermath(cut).1.len();
        (Parts::new(image, write.before, self.options), done)
    }

    /// Medium and store at the end.
    pub fn last(&self) -> Parts {
        let image = self.recording.images().last().expect("an image").clone();
        Parts::new(image, self.stored(usize::MAX), self.options)
    }
}

/// Mounts both and reads everything.
pub fn read_all(parts: &Parts) -> Result<Tree, Trouble> {
    let mut storage = parts.storage().map_err(Trouble::Refused)?;
    let tree = read_all_on(&mut storage);
    let (stopped, damaged) = (storage.device().is_stopped(), storage.device().is_damaged());
    match tree {
        Ok(tree) if !stopped => Ok(tree),
        other => Err(Trouble::Reading(other.map_err(|error| error.code()).err(), stopped || damaged)),
    }
}

/// Why a tree was not read.
#[derive(Debug)]
pub enum Trouble {
    /// The sealed volume did not open.
    Refused(SealedError),
    /// littlefs's error, and whether tampering was found.
    Reading(Option<i32>, bool),
}

/// A volume in use, attacked between opening and reading.
pub fn read_live(parts: &Parts, meanwhile: impl FnOnce(&mut FlashImage)) -> Result<Tree, Trouble> {
    let mut storage = parts.storage().map_err(Trouble::Refused)?;
    meanwhile(parts.medium.lock().image_mut());
    let tree = read_all_on(&mut storage);
    let told = storage.device().is_stopped() || storage.device().is_damaged();
    tree.map_err(|error| Trouble::Reading(Some(error.code()), told))
}

/// Units programmed and blocks erased on a medium.
pub fn totals(medium: &SharedFlash) -> (u64, u64) {
    let medium = medium.lock();
    (medium.wear().programmed_units(), medium.wear().erased_blocks())
}

/// littlefs's storage on any device of these sizes.
pub fn on<D: FlashDevice>(device: D) -> Storage<D> {
    Storage::new(device).expect("the same sizes")
}
