//! A map on a medium in memory, plain or sealed, and what a power loss leaves of it.

use std::fmt::Debug;

use atrest_cipher::aead::AsconAead128;
use atrest_cipher::{AesXts, MapperOptions};
use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_flash::CryptFlash;
use atrest_flash::sealed::{BlockState, SealedError, SealedFlash, SealedKey, SealedOptions, Tickets, Verify};
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapKey, MapOptions};
use atrest_secret::OsRandom;
use atrest_testkit::Random;
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, TrustedMemory, TrustedRecord,
    TrustedWrite,
};

pub const VOLUME_KEY: [u8; 32] = *b"a volume key of 32 bytes in all.";
pub const UUID: [u8; 16] = [0x24; 16];
pub const KEY: MapKey<'_> = MapKey { volume_key: &VOLUME_KEY, uuid: &UUID };
/// Bytes of a sealed unit, which is programmed at once: payload, serial, tag, and room for the salts.
const STRIDE: u32 = PAYLOAD + 35;
const PAYLOAD: u32 = 64;
const SEALED: SealedOptions = SealedOptions {
    payload: PAYLOAD,
    tickets: Tickets::Slot,
    medium: atrest_flash::sealed::SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 12,
    read_back: true,
    verify: Verify::OnRead,
};

pub type Map = KeyValue<Device, Vec<IndexEntry>, Vec<u8>>;
type Sealed = SealedFlash<AsconAead128, SharedFlash, TrustedMemory, Vec<BlockState>, Vec<u8>>;

/// What the map lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Plain,
    Sealed,
}

pub enum Device {
    Plain(Box<CryptFlash<SharedFlash, AesXts, Vec<u8>>>),
    Sealed(Box<Sealed>),
}

#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
pub enum Trouble {
    Sealed(SealedError),
    Map(MapError),
}

impl Trouble {
    pub fn map(&self) -> Option<MapError> {
        match self {
            Self::Map(error) => Some(*error),
            Self::Sealed(_) => None,
        }
    }
}

/// Medium and store.
pub struct Rig {
    pub on: On,
    pub medium: SharedFlash,
    pub store: TrustedMemory,
    pub options: MapOptions,
    pub names: usize,
}

impl Rig {
    /// A medium of so many blocks, with nothing on it.
    pub fn new(on: On, blocks: u64, options: MapOptions) -> Self {
        let geometry = match on {
            On::Plain => FlashGeometry::new(1, 16, 512, blocks),
            // Ten units and a slot.
            On::Sealed => FlashGeometry::new(1, STRIDE, 11 * STRIDE, blocks),
        };
        Self::with(on, EmulatedFlash::new(geometry.expect("a geometry")), None, options)
    }

    pub fn with(on: On, medium: EmulatedFlash, record: Option<TrustedRecord>, options: MapOptions) -> Self {
        let (medium, store) = (SharedFlash::new(medium), TrustedMemory::with_record(record));
        Self { on, medium, store, options, names: 16 }
    }

    pub fn snapshot(&self) -> Self {
        let image = self.medium.lock().image().clone();
        Self::with(self.on, EmulatedFlash::with_image(image), self.store.record(), self.options)
    }

    pub fn device(&self, new: bool) -> Result<Device, Trouble> {
        let medium = self.medium.clone();
        if self.on == On::Plain {
            let cipher = AesXts::new(&VOLUME_KEY, &MapperOptions::default()).expect("a cipher");
            let flash = CryptFlash::new(medium, cipher, vec![0; 64]).expect("sizes");
            return Ok(Device::Plain(Box::new(flash)));
        }
        let open = if new { Sealed::format } else { Sealed::mount };
        let key = SealedKey { volume_key: &VOLUME_KEY[..16], uuid: &UUID, header: None };
        let table = vec![BlockState::default(); medium.geometry().block_count() as usize];
        let sealed = open(medium, self.store.clone(), &key, SEALED, table, vec![0; 256], &mut OsRandom);
        Ok(Device::Sealed(Box::new(sealed.map_err(Trouble::Sealed)?)))
    }

    pub fn format(&self) -> Result<Map, Trouble> {
        let (index, buffer) = (vec![IndexEntry::default(); self.names], vec![0; 64]);
        Map::format(self.device(true)?, &KEY, self.options, index, buffer).map_err(Trouble::Map)
    }

    pub fn open(&self) -> Result<Map, Trouble> {
        let (index, buffer) = (vec![IndexEntry::default(); self.names], vec![0; 64]);
        Map::open(self.device(false)?, &KEY, self.options, index, buffer).map_err(Trouble::Map)
    }

    /// Opens the map, records what is done, and notes how often `acknowledge` was called before each step.
    pub fn record(&self, work: impl FnOnce(&mut Map, &dyn Fn(u64))) -> Recorded {
        self.medium.lock().record();
        self.store.beside(&self.medium);
        let first = self.store.record();
        let mut map = self.open().expect("opens");
        work(&mut map, &|number| self.medium.lock().acknowledge(number));
        drop(map);
        let recording = self.medium.lock().finish_recording();
        Recorded { on: self.on, options: self.options, recording, writes: self.store.writes(), first }
    }

    /// Changes a map and its model `times`, each time up to a power loss or a close, and reads the map: it is the model after the last
    /// change that returned, or after the one that was cut.
    ///
    /// # Panics
    /// If it is not.
    pub fn live<S: Clone + Debug + PartialEq>(
        mut self,
        times: usize,
        random: &mut Random,
        mut state: S,
        change: impl Fn(&mut Map, &mut S, &mut Random),
        read: impl Fn(&Self) -> S,
    ) {
        for _ in 0..times {
            let mut states = vec![state.clone()];
            let run = self.record(|map, acknowledge| {
                for number in 0..1 + random.below(12) {
                    change(map, &mut state, random);
                    states.push(state.clone());
                    acknowledge(number);
                }
                if random.below(2) == 0 {
                    map.device_mut().close();
                }
            });
            let cut = run.cut(random).filter(|_| random.below(4) > 0);
            let (found, allowed) = match cut {
                None => (read(&self), &states[states.len() - 1..]),
                Some(cut) => {
                    let (after, done) = run.aftermath(cut);
                    self = after;
                    (read(&self), &states[done..(done + 2).min(states.len())])
                }
            };
            assert!(allowed.contains(&found), "{cut:?}: {found:?} is none of {allowed:?}");
            state = found;
        }
    }
}

/// What happened to medium and store.
pub struct Recorded {
    on: On,
    options: MapOptions,
    pub recording: FlashRecording,
    writes: Vec<TrustedWrite>,
    first: Option<TrustedRecord>,
}

/// What is cut.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Medium(PowerCut),
    Store(TrustedWrite),
}

impl Recorded {
    pub fn cuts(&self, caching: Caching) -> Vec<Cut> {
        let medium = self.recording.cuts(caching).into_iter().map(Cut::Medium);
        medium.chain(self.writes.iter().copied().map(Cut::Store)).collect()
    }

    /// Some cut, none if nothing changed.
    pub fn cut(&self, random: &mut Random) -> Option<Cut> {
        let cuts = self.cuts(Caching::None);
        (!cuts.is_empty()).then(|| *random.pick(&cuts))
    }

    /// Medium and store after a cut, and how many changes had been acknowledged by then.
    pub fn aftermath(&self, cut: Cut) -> (Rig, usize) {
        let (image, record, done) = match cut {
            Cut::Medium(cut) => {
                let (image, promises) = self.recording.aftermath(cut);
                let write = self.writes.iter().rev().find(|write| write.step <= cut.step);
                (image, write.map_or(self.first, |write| Some(write.after)), promises.len())
            }
            Cut::Store(write) => {
                let image = self.recording.images().nth(write.step).expect("an image").clone();
                (image, write.before, self.promised(write.step))
            }
        };
        (Rig::with(self.on, EmulatedFlash::with_image(image), record, self.options), done)
    }

    /// Changes acknowledged before a step. One more may have been before a write of the store behind the last step.
    fn promised(&self, step: usize) -> usize {
        let Some(last) = self.recording.len().checked_sub(1) else { return 0 };
        let at = |cut: &PowerCut| cut.step == step.min(last);
        let cut = self.recording.cuts(Caching::None).into_iter().find(at).expect("a cut");
        self.recording.aftermath(cut).1.len()
    }
}

impl Device {
    fn inner(&mut self) -> &mut dyn FlashDevice {
        match self {
            Self::Plain(flash) => &mut **flash,
            Self::Sealed(flash) => &mut **flash,
        }
    }

    pub fn close(&mut self) {
        if let Self::Sealed(flash) = self {
            flash.close().expect("closes");
        }
    }
}

impl FlashDevice for Device {
    fn geometry(&self) -> FlashGeometry {
        match self {
            Self::Plain(flash) => flash.geometry(),
            Self::Sealed(flash) => flash.geometry(),
        }
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.inner().read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.inner().prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.inner().erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.inner().sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        match self {
            Self::Plain(flash) => flash.erased_byte(),
            Self::Sealed(flash) => flash.erased_byte(),
        }
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.inner().is_blank(address, len, scratch)
    }
}

/// The image of a medium.
pub fn image(rig: &Rig) -> FlashImage {
    rig.medium.lock().image().clone()
}
