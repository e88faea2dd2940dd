//! A sealed volume whose key is rotated, in either face: one chip holds the volume and, behind it, the scratch.

use atrest_cipher::aead::{Aead, ChaCha20Poly1305};
use atrest_device::{FlashCause, FlashDevice, FlashGeometry, FlashRegion};
use atrest_flash::asynchronous;
use atrest_flash::sealed::{
    BlockState, RotatingFlash, RotationError, RotationKeys, RotationProgress, SealedError, SealedKey,
    SealedMedium, SealedOptions, WithScratch,
};
use atrest_secret::{OsRandom, Random};
use atrest_testkit::Random as Seeded;
use atrest_testkit::flash::{
    EmulatedFlash, FlashImage, FlashRecording, SharedFlash, TrustedMemory, TrustedRecord, TrustedWrite,
};

use crate::any::{AnyFlash, AnyStore, any_flash, any_store};
use crate::faces::{Faces, either, is_asynchronous};
use crate::sealed::{BLOCKS, ERASE, FIRST, Reader, UUID, Units, VOLUME_KEY, Volume};
use crate::waits::{Waits, block_on};

/// Erase blocks of the scratch.
pub const PLACES: u64 = 2;
/// Units in a block.
pub const UNITS: u64 = 10;
pub const NEW_KEY: [u8; 32] = [0xc7; 32];
pub const KEYS: RotationKeys<'_> = RotationKeys {
    key: SealedKey { volume_key: &NEW_KEY, uuid: &UUID, header: None },
    previous: &VOLUME_KEY,
};

type Table = Vec<BlockState>;
type Blocks<A> = RotatingFlash<A, AnyFlash<'static>, AnyFlash<'static>, AnyStore<'static>, Table, Vec<u8>>;
type Awaits<A> = asynchronous::RotatingFlash<
    A,
    Waits<AnyFlash<'static>>,
    Waits<AnyFlash<'static>>,
    Waits<AnyStore<'static>>,
    Table,
    Vec<u8>,
>;

/// A volume whose key is rotated.
pub type Rotating<A = ChaCha20Poly1305> = Faces<Blocks<A>, Awaits<A>>;

impl<A: Aead> Rotating<A> {
    pub fn open_rotating(
        (device, scratch): (AnyFlash<'static>, AnyFlash<'static>),
        store: AnyStore<'static>,
        keys: &RotationKeys<'_>,
        options: SealedOptions,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        if is_asynchronous() {
            let device = asynchronous::WithScratch::new(Waits(device), Waits(scratch))?;
            let store = Waits(store);
            let opened = Awaits::open_rotating(device, store, keys, options, table, buffer, random);
            block_on(opened).map(Self::Asynchronous).map_err(SealedError::from)
        } else {
            let device = WithScratch::new(device, scratch)?;
            let opened = Blocks::open_rotating(device, store, keys, options, table, buffer, random);
            opened.map(Self::Blocking).map_err(SealedError::from)
        }
    }

    pub fn rotate_step(&mut self) -> Result<RotationProgress, RotationError> {
        either!(self, volume => volume.rotate_step())
    }

    pub fn finish_rotation(&mut self) -> Result<(), RotationError> {
        either!(self, volume => volume.finish_rotation())
    }

    pub fn rotation(&self) -> RotationProgress {
        match self {
            Self::Blocking(volume) => volume.rotation(),
            Self::Asynchronous(volume) => volume.rotation(),
        }
    }

    pub fn anchor_all(&mut self) -> Result<(), FlashCause> {
        either!(self, volume => volume.anchor())
    }

    pub fn close_all(&mut self) -> Result<(), FlashCause> {
        either!(self, volume => volume.close())
    }

    /// Steps until nothing is left, then ends the rotation.
    pub fn rotate_all(&mut self) {
        while self.rotation().left > 0 {
            let before = self.rotation().left;
            let progress = self.rotate_step().expect("a step");
            assert_eq!(progress.left + 1, before, "each step moves a block");
        }
        self.finish_rotation().expect("the end");
    }
}

/// A chip and the store of the volume on it.
#[derive(Clone)]
pub struct Chip {
    pub flash: SharedFlash,
    pub store: TrustedMemory,
    pub options: SealedOptions,
}

/// What a volume holds: of each block the bytes that its units are full of. No unit is full of 0 or 0xFF.
pub type Contents = Vec<Vec<u8>>;

impl Chip {
    pub fn new(options: SealedOptions) -> Self {
        let geometry = FlashGeometry::new(1, 32, ERASE as u32, BLOCKS + PLACES).expect("a geometry");
        Self::with(FlashImage::erased(geometry), None, options)
    }

    pub fn with(image: FlashImage, record: Option<TrustedRecord>, options: SealedOptions) -> Self {
        let flash = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { flash, store: TrustedMemory::with_record(record), options }
    }

    pub fn snapshot(&self) -> Self {
        Self::with(self.flash.lock().image().clone(), self.store.record(), self.options)
    }

    pub fn medium(&self) -> FlashRegion<SharedFlash> {
        FlashRegion::new(self.flash.clone(), 0, BLOCKS).expect("the volume's blocks")
    }

    pub fn scratch(&self) -> FlashRegion<SharedFlash> {
        FlashRegion::new(self.flash.clone(), BLOCKS, PLACES).expect("the blocks behind")
    }

    pub fn format(&self) -> Volume {
        self.plain(&crate::sealed::KEY, false).expect("format")
    }

    /// Opens the volume with one key.
    pub fn mount(&self, key: &SealedKey<'_>) -> Result<Volume, SealedError> {
        self.plain(key, true)
    }

    fn plain(&self, key: &SealedKey<'_>, mount: bool) -> Result<Volume, SealedError> {
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let (medium, store) = (any_flash(self.medium()), any_store(self.store.clone()));
        open(medium, store, key, self.options, table, buffer, &mut OsRandom)
    }

    /// Opens the volume with both keys.
    pub fn rotating(&self) -> Result<Rotating, SealedError> {
        self.rotating_with(&KEYS)
    }

    pub fn rotating_with(&self, keys: &RotationKeys<'_>) -> Result<Rotating, SealedError> {
        let devices = (any_flash(self.medium()), any_flash(self.scratch()));
        let store = any_store(self.store.clone());
        Rotating::open_rotating(devices, store, keys, self.options, &mut OsRandom)
    }

    /// Units of the medium that open under a key, by block.
    pub fn under(&self, key: &SealedKey<'_>) -> Vec<u64> {
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let reader =
            Reader::open_without_freshness(any_flash(self.medium()), key, self.options, table, buffer);
        let mut reader: Reader = reader.expect("a reader").assuming_torn();
        (0..BLOCKS).filter(|block| reader.unit(*block, 0).is_ok()).collect()
    }
}

/// What stands in a volume, read unit by unit.
///
/// # Panics
/// When a unit reads as tampered with, or is not full of one byte.
pub fn contents(volume: &mut impl FlashDevice) -> Contents {
    let block = |block| {
        let unit = |unit| match volume.unit(block, unit) {
            Ok(bytes) => {
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{block}.{unit}: {bytes:?}");
                (![0, 0xff].contains(&bytes[0])).then_some(bytes[0])
            }
            Err(FlashCause::Void { .. }) => None,
            Err(cause) => panic!("{block}.{unit}: {cause}"),
        };
        (0..UNITS).map_while(unit).collect()
    };
    (0..BLOCKS).map(block).collect()
}

/// Ten blocks with one to ten units.
pub fn filled(chip: &Chip) -> Contents {
    let mut volume = chip.format();
    let mut model = vec![Vec::new(); BLOCKS as usize];
    for block in 0..10 {
        volume.clear(block).expect("erase");
        for unit in 0..=block {
            volume.put(block, unit, 1 + (10 * block + unit) as u8).expect("program");
            model[block as usize].push(1 + (10 * block + unit) as u8);
        }
    }
    volume.close().expect("close");
    model
}

/// What a user does while the key is rotated.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Clear(u64),
    Put(u64),
    Sync,
    Step,
    Reopen,
    Finish,
}

pub fn drawn(random: &mut Seeded) -> Op {
    match random.below(12) {
        0..3 => Op::Clear(random.below(BLOCKS)),
        3..7 => Op::Put(random.below(BLOCKS)),
        7 => Op::Sync,
        8..11 => Op::Step,
        _ => Op::Reopen,
    }
}

/// Everything that happened to a chip and its store, and what the volume held after each operation.
pub struct Run {
    pub states: Vec<Contents>,
    /// Operations after which everything before is durable.
    pub durable: Vec<usize>,
    pub recording: FlashRecording,
    pub writes: Vec<TrustedWrite>,
    pub first: Option<TrustedRecord>,
    pub options: SealedOptions,
}

/// Opens a volume with both keys, does all this, and records it.
pub fn play(chip: &Chip, start: Contents, ops: &[Op], random: &mut Seeded) -> Run {
    chip.flash.lock().record();
    chip.store.beside(&chip.flash);
    let first = chip.store.record();
    let mut volume = chip.rotating().expect("both keys");
    let (mut states, mut durable) = (vec![start], vec![0]);
    let ordered = chip.options.medium == SealedMedium::Ordered;
    for op in ops {
        let mut model = states.last().expect("a state").clone();
        let mut synced = ordered;
        match *op {
            Op::Clear(block) => {
                volume.clear(block).expect("erase");
                model[block as usize].clear();
            }
            Op::Put(block) => {
                let (held, byte) = (&mut model[block as usize], 1 + random.below(250) as u8);
                if (held.len() as u64) < UNITS && volume.put(block, held.len() as u64, byte).is_ok() {
                    held.push(byte);
                }
            }
            Op::Sync => {
                volume.sync().expect("sync");
                synced = true;
            }
            Op::Step => {
                volume.rotate_step().expect("a step");
            }
            Op::Reopen => {
                if random.below(2) == 0 {
                    volume.close_all().expect("close");
                } else {
                    volume.anchor_all().expect("anchor");
                }
                drop(volume);
                volume = chip.rotating().expect("both keys");
                synced = true;
            }
            Op::Finish => {
                volume.rotate_all();
                synced = true;
            }
        }
        if random.below(10) == 0 {
            assert_eq!(contents(&mut volume), model, "{op:?}");
        }
        if synced {
            durable.push(states.len());
        }
        states.push(model);
        chip.flash.lock().acknowledge(states.len() as u64);
    }
    drop(volume);
    let recording = chip.flash.lock().finish_recording();
    Run { states, durable, recording, writes: chip.store.writes(), first, options: chip.options }
}
