//! A sealed volume on a small emulated medium.
#![allow(dead_code, reason = "each test file uses a part")]

use atrest_cipher::aead::{Aead, ChaCha20Poly1305};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedKey, SealedMedium, SealedOptions, Tickets, Verify,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};

use crate::any::{AnyReader, AnyVolume, any_flash, any_store};

/// A sealed volume as the tests use it.
pub type Volume<A = ChaCha20Poly1305> = AnyVolume<'static, A>;
/// A sealed volume read without its store, as the tests use it.
pub type Reader<A = ChaCha20Poly1305> = AnyReader<A>;

pub const BLOCKS: u64 = 12;
/// Bytes of unit 0 with the salt, of the other units, and of an erase block.
pub const FIRST: usize = 128;
pub const STRIDE: usize = 96;
pub const ERASE: usize = FIRST + 9 * STRIDE + 64;
pub const UUID: [u8; 16] = *b"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f";
pub const VOLUME_KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut i = 0;
    while i < 32 {
        key[i] = i as u8;
        i += 1;
    }
    key
};
pub const KEY: SealedKey<'_> = SealedKey { volume_key: &VOLUME_KEY, uuid: &UUID, header: None };

/// Blocks of 1056 bytes, programmed by 32: ten units of 72 bytes with tags of 16.
pub const OPTIONS: SealedOptions = SealedOptions {
    payload: 64,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 12,
    read_back: true,
    verify: Verify::OnRead,
};

pub fn geometry() -> FlashGeometry {
    FlashGeometry::new(1, 32, ERASE as u32, BLOCKS).expect("a geometry")
}

/// A medium and its store.
#[derive(Clone)]
pub struct Bench {
    pub medium: SharedFlash,
    pub store: TrustedMemory,
    pub options: SealedOptions,
}

impl Bench {
    pub fn new(options: SealedOptions) -> Self {
        Self {
            medium: SharedFlash::new(EmulatedFlash::new(geometry())),
            store: TrustedMemory::new(),
            options,
        }
    }

    pub fn format<A: Aead>(&self) -> Result<Volume<A>, SealedError> {
        self.open(false)
    }

    pub fn mount<A: Aead>(&self) -> Result<Volume<A>, SealedError> {
        self.open(true)
    }

    fn open<A: Aead>(&self, mount: bool) -> Result<Volume<A>, SealedError> {
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = Self::memory();
        let (medium, store) = (any_flash(self.medium.clone()), any_store(self.store.clone()));
        open(medium, store, &KEY, self.options, table, buffer, &mut OsRandom)
    }

    pub fn without_freshness<A: Aead>(&self) -> Result<Reader<A>, SealedError> {
        let (table, buffer) = Self::memory();
        Reader::open_without_freshness(any_flash(self.medium.clone()), &KEY, self.options, table, buffer)
    }

    /// A copy of everything, as it is now.
    pub fn snapshot(&self) -> Self {
        Self {
            medium: SharedFlash::new(self.medium.lock().clone()),
            store: TrustedMemory::with_record(self.store.record()),
            options: self.options,
        }
    }

    fn memory() -> (Vec<BlockState>, Vec<u8>) {
        (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST])
    }
}

/// Block and unit instead of addresses.
pub trait Units: FlashDevice {
    fn unit(&mut self, block: u64, unit: u64) -> Result<Vec<u8>, FlashCause> {
        let (address, len) = self.at(block, unit);
        let mut bytes = vec![0x5a; len];
        self.read(address, &mut bytes).map(|()| bytes).map_err(cause)
    }

    fn put(&mut self, block: u64, unit: u64, byte: u8) -> Result<(), FlashCause> {
        let (address, len) = self.at(block, unit);
        self.prog(address, &vec![byte; len]).map_err(cause)
    }

    fn clear(&mut self, block: u64) -> Result<(), FlashCause> {
        let geometry = self.geometry();
        self.erase(block * u64::from(geometry.erase_size()), geometry.erase_size().into()).map_err(cause)
    }

    fn at(&self, block: u64, unit: u64) -> (u64, usize) {
        let geometry = self.geometry();
        let unit = unit * u64::from(geometry.prog_size());
        (block * u64::from(geometry.erase_size()) + unit, geometry.prog_size() as usize)
    }
}

impl<D: FlashDevice> Units for D {}

pub fn cause(error: FlashError) -> FlashCause {
    error.cause
}
