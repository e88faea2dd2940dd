//! A medium and a trusted store whose types nobody needs to know: sealed flash has code for each cipher, and with types it would have
//! that once more for each medium and store that the tests have. What is sealed on them is of either face.

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashDevice, TrustedStore};
use atrest_flash::asynchronous;
use atrest_flash::sealed::{
    BlockState, NotOpened, SealedError, SealedFlash, SealedKey, SealedLayout, SealedOptions, SealedReader,
    UnitState, Verdict,
};
use atrest_secret::Random;

use crate::faces::{Faces, either, is_asynchronous};
use crate::waits::{Waits, block_on};

/// A sealed volume on any medium with any store.
pub type AnyVolume<'a, A> = Faces<Blocks<'a, A>, Awaits<'a, A>>;
type Blocks<'a, A> = SealedFlash<A, AnyFlash<'a>, AnyStore<'a>, Vec<BlockState>, Vec<u8>>;
type Awaits<'a, A> =
    asynchronous::SealedFlash<A, Waits<AnyFlash<'a>>, Waits<AnyStore<'a>>, Vec<BlockState>, Vec<u8>>;

/// A sealed volume on any medium, read without its store.
pub type AnyReader<A> = Faces<
    SealedReader<A, AnyFlash<'static>, Vec<BlockState>, Vec<u8>>,
    asynchronous::SealedReader<A, Waits<AnyFlash<'static>>, Vec<BlockState>, Vec<u8>>,
>;

/// Any medium.
pub type AnyFlash<'a> = Box<dyn FlashDevice + 'a>;
/// Any trusted store.
pub type AnyStore<'a> = Box<dyn TrustedStore + 'a>;

pub fn any_flash<'a>(flash: impl FlashDevice + 'a) -> AnyFlash<'a> {
    Box::new(flash)
}

pub fn any_store<'a>(store: impl TrustedStore + 'a) -> AnyStore<'a> {
    Box::new(store)
}

/// The ways to a volume.
macro_rules! ways {
    ($($way:ident)*) => { $(
        pub fn $way(
            device: AnyFlash<'a>,
            store: AnyStore<'a>,
            key: &SealedKey<'_>,
            options: SealedOptions,
            table: Vec<BlockState>,
            buffer: Vec<u8>,
            random: &mut dyn Random,
        ) -> Result<Self, SealedError> {
            if is_asynchronous() {
                let (device, store) = (Waits(device), Waits(store));
                let volume = Awaits::$way(device, store, key, options, table, buffer, random);
                block_on(volume).map(Self::Asynchronous)
            } else {
                Blocks::$way(device, store, key, options, table, buffer, random).map(Self::Blocking)
            }
        }
    )* };
}

/// The ways to a volume that give back what was passed.
macro_rules! tries {
    ($($way:ident)*) => { $(
        pub fn $way(
            device: AnyFlash<'a>,
            store: AnyStore<'a>,
            key: &SealedKey<'_>,
            options: SealedOptions,
            table: Vec<BlockState>,
            buffer: Vec<u8>,
            random: &mut dyn Random,
        ) -> Result<Self, NotOpened<AnyFlash<'a>, AnyStore<'a>, Vec<BlockState>, Vec<u8>>> {
            if is_asynchronous() {
                let (device, store) = (Waits(device), Waits(store));
                let volume = block_on(Awaits::$way(device, store, key, options, table, buffer, random));
                volume.map(Self::Asynchronous).map_err(|refused| {
                    let NotOpened { error, device, store, table, buffer } = refused;
                    NotOpened { error, device: device.0, store: store.0, table, buffer }
                })
            } else {
                Blocks::$way(device, store, key, options, table, buffer, random).map(Self::Blocking)
            }
        }
    )* };
}

impl<'a, A: Aead> AnyVolume<'a, A> {
    ways!(format format_over mount adopt);

    tries!(try_format try_mount);

    pub fn anchor(&mut self) -> Result<(), FlashCause> {
        either!(self, volume => volume.anchor())
    }

    pub fn close(&mut self) -> Result<(), FlashCause> {
        either!(self, volume => volume.close())
    }

    pub fn unit_state(&mut self, block: u32, unit: u32) -> Result<UnitState, FlashCause> {
        either!(self, volume => volume.unit_state(block, unit))
    }

    pub fn correct(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<bool, FlashCause> {
        either!(self, volume => volume.correct(block, unit, out))
    }

    pub fn power_losses_left(&self) -> u64 {
        match self {
            Self::Blocking(volume) => volume.power_losses_left(),
            Self::Asynchronous(volume) => volume.power_losses_left(),
        }
    }

    pub fn layout(&self) -> &SealedLayout {
        match self {
            Self::Blocking(volume) => volume.layout(),
            Self::Asynchronous(volume) => volume.layout(),
        }
    }

    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Blocking(volume) => volume.is_stopped(),
            Self::Asynchronous(volume) => volume.is_stopped(),
        }
    }

    pub fn is_damaged(&self) -> bool {
        match self {
            Self::Blocking(volume) => volume.is_damaged(),
            Self::Asynchronous(volume) => volume.is_damaged(),
        }
    }
}

impl<A: Aead> AnyReader<A> {
    pub fn open_without_freshness(
        device: AnyFlash<'static>,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: Vec<BlockState>,
        buffer: Vec<u8>,
    ) -> Result<Self, SealedError> {
        if is_asynchronous() {
            let opened = asynchronous::SealedReader::open_without_freshness(
                Waits(device),
                key,
                options,
                table,
                buffer,
            );
            block_on(opened).map(Self::Asynchronous)
        } else {
            SealedReader::open_without_freshness(device, key, options, table, buffer).map(Self::Blocking)
        }
    }

    pub fn assuming_torn(self) -> Self {
        match self {
            Self::Blocking(reader) => Self::Blocking(reader.assuming_torn()),
            Self::Asynchronous(reader) => Self::Asynchronous(reader.assuming_torn()),
        }
    }

    pub fn verdict(&mut self, block: u32, unit: u32) -> Result<Verdict, FlashCause> {
        either!(self, reader => reader.verdict(block, unit))
    }
}
