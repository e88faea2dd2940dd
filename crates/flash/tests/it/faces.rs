//! What the tests drive as blocking code and as asynchronous code in turns. All of it is used by blocking calls: behind those of the
//! asynchronous face, media that wait and an executor that polls.

use std::cell::Cell;
use std::sync::LazyLock;

use atrest_cipher::DataUnitCipher;
use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::asynchronous::store as waiting;
use atrest_flash::sealed::SealedKey;
use atrest_flash::sealed::store::{
    CounterStore, ENTRY_LEN, ElementSlots, FRAME_LEN, MonotonicCounter, PageStore, SlotStore,
};
use atrest_flash::{BlankReads, CryptFlash, CryptFlashError, asynchronous};

use crate::waits::{Waits, block_on};

/// One or the other.
#[derive(Debug)]
pub enum Faces<B, A> {
    Blocking(B),
    Asynchronous(A),
}

/// Whether the next one is asynchronous. Each test takes them in turns; which one is first depends on its name and on the rotation that
/// campaigns go by, so that it does the same each time it is run at one commit. `ATREST_FACE=blocking` or `async` takes one for all: a case
/// of a campaign that fails is replayed with both.
pub fn is_asynchronous() -> bool {
    static FORCED: LazyLock<Option<bool>> = LazyLock::new(|| match std::env::var("ATREST_FACE").as_deref() {
        Err(_) => None,
        Ok("blocking") => Some(false),
        Ok("async") => Some(true),
        Ok(other) => panic!("ATREST_FACE={other}: neither blocking nor async"),
    });
    thread_local! { static NEXT: Cell<bool> = Cell::new(first()) }
    FORCED.unwrap_or_else(|| NEXT.replace(!NEXT.get()))
}

fn first() -> bool {
    let rotation: u64 = std::env::var("ATREST_ROTATION").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let name = std::thread::current().name().map_or(0, |name| name.bytes().map(u64::from).sum());
    (rotation + name) % 2 == 1
}

/// Calls the one, or waits for the other.
macro_rules! either {
    ($faces:expr, $one:ident => $call:expr) => {
        match $faces {
            Faces::Blocking($one) => $call,
            Faces::Asynchronous($one) => block_on($call),
        }
    };
}
pub(crate) use either;

impl<B: FlashDevice, A: atrest_device::asynchronous::FlashDevice> FlashDevice for Faces<B, A> {
    fn geometry(&self) -> FlashGeometry {
        match self {
            Self::Blocking(flash) => flash.geometry(),
            Self::Asynchronous(flash) => flash.geometry(),
        }
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        either!(self, flash => flash.read(address, buf))
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        either!(self, flash => flash.prog(address, data))
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        either!(self, flash => flash.erase(address, len))
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        either!(self, flash => flash.sync())
    }

    fn erased_byte(&self) -> Option<u8> {
        match self {
            Self::Blocking(flash) => flash.erased_byte(),
            Self::Asynchronous(flash) => flash.erased_byte(),
        }
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        either!(self, flash => flash.is_blank(address, len, scratch))
    }
}

impl<B: TrustedStore, A: atrest_device::asynchronous::TrustedStore> TrustedStore for Faces<B, A> {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        either!(self, store => store.load())
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        either!(self, store => store.claim())
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        either!(self, store => store.store(record))
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        either!(self, store => store.stored_at_most())
    }
}

/// [`PageStore`] in either face.
pub type AnyPages<D, const N: usize = FRAME_LEN> = Faces<PageStore<D, N>, waiting::PageStore<Waits<D>, N>>;

impl<D: FlashDevice, const N: usize> AnyPages<D, N> {
    pub fn new(flash: D) -> Result<Self, TrustedStoreError> {
        Ok(match is_asynchronous() {
            true => Self::Asynchronous(waiting::PageStore::new(Waits(flash))?),
            false => Self::Blocking(PageStore::new(flash)?),
        })
    }

    pub fn into_inner(self) -> D {
        match self {
            Self::Blocking(store) => store.into_inner(),
            Self::Asynchronous(store) => store.into_inner().0,
        }
    }
}

/// [`SlotStore`] in either face.
pub type AnySlots<E> = Faces<SlotStore<E>, waiting::SlotStore<Waits<E>>>;

impl<E: ElementSlots> AnySlots<E> {
    pub fn new(element: E) -> Self {
        match is_asynchronous() {
            true => Self::Asynchronous(waiting::SlotStore::new(Waits(element))),
            false => Self::Blocking(SlotStore::new(element)),
        }
    }

    pub fn into_inner(self) -> E {
        match self {
            Self::Blocking(store) => store.into_inner(),
            Self::Asynchronous(store) => store.into_inner().0,
        }
    }
}

/// [`CounterStore`] in either face.
pub type AnyCounter<C, D, const N: usize = ENTRY_LEN> =
    Faces<CounterStore<C, D, N>, waiting::CounterStore<Waits<C>, Waits<D>, N>>;

impl<C: MonotonicCounter, D: FlashDevice, const N: usize> AnyCounter<C, D, N> {
    pub fn new(log: D, counter: C, key: &SealedKey<'_>) -> Result<Self, TrustedStoreError> {
        Ok(match is_asynchronous() {
            true => Self::Asynchronous(waiting::CounterStore::new(Waits(log), Waits(counter), key)?),
            false => Self::Blocking(CounterStore::new(log, counter, key)?),
        })
    }

    pub fn prepare(&mut self) -> Result<(), TrustedStoreError> {
        either!(self, store => store.prepare())
    }
}

/// [`CryptFlash`] in either face.
pub type AnyCrypt<D, C, B> = Faces<CryptFlash<D, C, B>, asynchronous::CryptFlash<Waits<D>, C, B>>;

impl<D: FlashDevice, C: DataUnitCipher, B: AsMut<[u8]>> AnyCrypt<D, C, B> {
    pub fn new(device: D, cipher: C, bounce: B) -> Result<Self, CryptFlashError> {
        if is_asynchronous() {
            asynchronous::CryptFlash::new(Waits(device), cipher, bounce).map(Self::Asynchronous)
        } else {
            CryptFlash::new(device, cipher, bounce).map(Self::Blocking)
        }
    }

    pub fn with_blank_reads(
        device: D,
        cipher: C,
        bounce: B,
        blank_reads: BlankReads,
    ) -> Result<Self, CryptFlashError> {
        if is_asynchronous() {
            asynchronous::CryptFlash::with_blank_reads(Waits(device), cipher, bounce, blank_reads)
                .map(Self::Asynchronous)
        } else {
            CryptFlash::with_blank_reads(device, cipher, bounce, blank_reads).map(Self::Blocking)
        }
    }

    pub fn device(&self) -> &D {
        match self {
            Self::Blocking(flash) => flash.device(),
            Self::Asynchronous(flash) => &flash.device().0,
        }
    }

    pub fn device_mut(&mut self) -> &mut D {
        match self {
            Self::Blocking(flash) => flash.device_mut(),
            Self::Asynchronous(flash) => &mut flash.device_mut().0,
        }
    }

    pub fn into_device(self) -> D {
        match self {
            Self::Blocking(flash) => flash.into_device(),
            Self::Asynchronous(flash) => flash.into_device().0,
        }
    }
}
