//! A small sealed volume: its medium, its store, and what must be read from it.

use std::cell::{Cell, RefCell};

use arbitrary::{Result, Unstructured};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{
    FlashCause, FlashDevice, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedFlash, SealedKey, SealedMedium, SealedOptions, SealedReader, Tickets,
    Verify,
};
use atrest_secret::{Random, RandomError};

use crate::medium::{Keeps, Medium};
use crate::random;

pub const BLOCKS: usize = 5;
pub const UNITS: usize = 4;
/// Bytes of an erase block.
pub const ERASE: usize = 512;
/// Bytes of a unit as the user sees it, with a slot for a ticket or without.
pub const PAYLOAD: usize = 88;
/// What a unit reads as that was left out, or is still to come.
const OPEN: u8 = 0xff;
/// What a unit reads as that can't be programmed any more.
const CLOSED: u8 = 0;

pub const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };

pub type Record = [u8; TRUSTED_RECORD_LEN];

/// Names what was programmed: a number of its own for each unit, or none for one that was left out.
pub type Content = Option<u32>;

/// What the blocks hold, each from its first unit on.
pub type State = Vec<Vec<Content>>;

pub type Volume<'a> = SealedFlash<ChaCha20Poly1305, &'a RefCell<Medium>, Store<'a>, Vec<BlockState>, Vec<u8>>;
pub type Reader<'a> = SealedReader<ChaCha20Poly1305, &'a RefCell<Medium>, Vec<BlockState>, Vec<u8>>;

/// Medium and store.
pub struct Bench {
    pub medium: RefCell<Medium>,
    pub record: Cell<Option<Record>>,
    /// How often the store was written.
    pub stored: Cell<u64>,
    pub options: SealedOptions,
    salt: Cell<u64>,
}

/// A store that loses its power with the medium.
pub struct Store<'a>(&'a Bench);

impl TrustedStore for Store<'_> {
    fn load(&mut self) -> core::result::Result<Option<Record>, TrustedStoreError> {
        Ok(self.0.record.get())
    }

    fn store(&mut self, record: &Record) -> core::result::Result<(), TrustedStoreError> {
        let mut medium = self.0.medium.borrow_mut();
        if medium.left == Some(0) {
            medium.has_power = false;
        }
        if !medium.has_power {
            return Err(TrustedStoreError::Driver(1));
        }
        medium.left = medium.left.map(|left| left - 1);
        self.0.record.set(Some(*record));
        self.0.stored.set(self.0.stored.get() + 1);
        Ok(())
    }
}

/// Another salt for each session, and the same in each run.
struct Salts<'a>(&'a Cell<u64>);

impl Random for Salts<'_> {
    fn fill(&mut self, out: &mut [u8]) -> core::result::Result<(), RandomError> {
        let mut random = random::Random(self.0.get());
        out.iter_mut().for_each(|byte| *byte = random.next() as u8);
        self.0.set(random.0);
        Ok(())
    }
}

/// Options of a volume, from two bytes.
pub fn options(u: &mut Unstructured<'_>) -> Result<SealedOptions> {
    let [kind, rest] = u.arbitrary::<[u8; 2]>()?;
    Ok(SealedOptions {
        payload: 90,
        tickets: if kind & 1 == 0 { Tickets::Slot } else { Tickets::Store },
        medium: [SealedMedium::Ordered, SealedMedium::Ordered, SealedMedium::Cached, SealedMedium::Card]
            [usize::from(kind >> 1 & 3)],
        anchor_every: 1 + u32::from(rest & 3),
        reserve: [3, 4, 12][usize::from(rest >> 2) % 3],
        read_back: kind & 8 == 0,
        verify: if kind & 16 == 0 { Verify::OnRead } else { Verify::AtOpening },
    })
}

impl Bench {
    /// An erased medium.
    pub fn new(options: SealedOptions) -> Self {
        let keeps = match options.medium {
            SealedMedium::Ordered => Keeps::Order,
            SealedMedium::Cached => Keeps::Cache,
            SealedMedium::Card => Keeps::Card,
        };
        let geometry = FlashGeometry::new(1, 16, ERASE as u32, BLOCKS as u64).expect("a geometry");
        Self::with(Medium::new(geometry, keeps), None, options)
    }

    pub fn with(medium: Medium, record: Option<Record>, options: SealedOptions) -> Self {
        let (medium, record) = (RefCell::new(medium), Cell::new(record));
        Self { medium, record, stored: Cell::new(0), options, salt: Cell::new(1) }
    }

    /// A copy to try something on.
    pub fn copy(&self) -> Self {
        let copy = Self::with(self.medium.borrow().copy(), self.record.get(), self.options);
        copy.salt.set(self.salt.get() + 1000);
        copy
    }

    pub fn format(&self) -> Volume<'_> {
        let (table, buffer) = memory();
        let mut salts = Salts(&self.salt);
        Volume::format(&self.medium, Store(self), &KEY, self.options, table, buffer, &mut salts)
            .expect("an empty medium")
    }

    pub fn mount(&self) -> core::result::Result<Volume<'_>, SealedError> {
        let (table, buffer) = memory();
        let mut salts = Salts(&self.salt);
        Volume::mount(&self.medium, Store(self), &KEY, self.options, table, buffer, &mut salts)
    }

    pub fn reader(&self) -> Reader<'_> {
        let (table, buffer) = memory();
        Reader::open_without_freshness(&self.medium, &KEY, self.options, table, buffer)
            .expect("a medium that can be read")
    }
}

/// Where a unit lies, as the user sees it.
pub fn address(block: usize, unit: usize) -> u64 {
    ((block * UNITS + unit) * PAYLOAD) as u64
}

/// The bytes of a unit that holds this.
pub fn bytes_of(content: Content) -> [u8; PAYLOAD] {
    let mut bytes = [OPEN; PAYLOAD];
    if let Some(number) = content {
        bytes.as_chunks_mut().0.fill(number.to_le_bytes());
    }
    bytes
}

fn memory() -> (Vec<BlockState>, Vec<u8>) {
    (vec![BlockState::VOID; BLOCKS], vec![0; 160])
}

/// What reading a unit has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This number, and nothing else.
    Written(u32),
    /// What can be programmed, or was left out.
    Open,
    /// What was not programmed and can't be.
    Closed,
    /// The block holds nothing.
    Void,
    /// Not what was stored.
    Tampered,
}

impl Seen {
    /// What bytes that were read stand for. A unit that is not there reads as one byte all over.
    fn of(bytes: &[u8; PAYLOAD]) -> Self {
        let number = u32::from_le_bytes(*bytes.first_chunk().expect("a unit"));
        match number {
            u32::MAX if *bytes == [OPEN; PAYLOAD] => Self::Open,
            0 if *bytes == [CLOSED; PAYLOAD] => Self::Closed,
            _ => {
                assert_eq!(*bytes, bytes_of(Some(number)), "bytes that were never written");
                Self::Written(number)
            }
        }
    }
}

/// Reads every unit of a volume.
pub fn read_all(device: &mut dyn FlashDevice) -> Vec<Vec<Seen>> {
    let mut buf = [0; PAYLOAD];
    let mut read = |block, unit| match device.read(address(block, unit), &mut buf) {
        Ok(()) => Seen::of(&buf),
        Err(error) => match error.cause {
            FlashCause::Void { block: named } => {
                assert_eq!(named, block as u64);
                Seen::Void
            }
            FlashCause::Tampered { block: named, .. } => {
                assert_eq!(named, block as u64);
                Seen::Tampered
            }
            cause => panic!("reading unit {unit} of block {block}: {cause}"),
        },
    };
    (0..BLOCKS).map(|block| (0..UNITS).map(|unit| read(block, unit)).collect()).collect()
}

/// Whether a block that was read may be one that holds this; what fails to verify may be anything.
pub fn fits(seen: &[Seen], held: &[Content]) -> bool {
    seen.iter().enumerate().all(|(unit, seen)| match (seen, held.get(unit)) {
        (Seen::Tampered, _) => true,
        (Seen::Written(number), Some(held)) => Some(*number) == *held,
        (Seen::Open, Some(held)) => held.is_none(),
        (Seen::Void, None) => held.is_empty(),
        (Seen::Open | Seen::Closed, None) => true,
        _ => false,
    })
}
