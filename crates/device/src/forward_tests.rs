//! Through a pointer everything is asked of what it points to, also what has a default.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::asynchronous::{self, Blocking};
use crate::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN, TrustedStore,
    TrustedStoreError,
};

/// Tells by its answers what it was asked.
struct Telling;

fn told<T>(operation: FlashOperation, address: u64, len: u64) -> Result<T, FlashError> {
    Err(FlashError::new(operation, address, len, FlashCause::Unsupported))
}

impl FlashDevice for Telling {
    fn geometry(&self) -> FlashGeometry {
        FlashGeometry::new(1, 2, 4096, 7).expect("a geometry")
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        told(FlashOperation::Read, address, buf.len() as u64)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        told(FlashOperation::Prog, address, data.len() as u64)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        told(FlashOperation::Erase, address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        told(FlashOperation::Sync, 1, 2)
    }

    fn erased_byte(&self) -> Option<u8> {
        Some(0x5a)
    }

    fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
        told(FlashOperation::BlankQuery, address, len)
    }
}

impl TrustedStore for Telling {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        Err(TrustedStoreError::Damaged)
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        Err(TrustedStoreError::Busy)
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        Err(TrustedStoreError::Driver(record[0].into()))
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        Ok(Some(9))
    }
}

#[test]
fn whatever_is_asked_is_asked_of_what_is_inside() {
    let mut flash: Box<dyn FlashDevice> = Box::new(Telling);
    assert_eq!(flash.geometry(), Telling.geometry());
    assert_eq!(flash.read(1, &mut [0; 2]), told(FlashOperation::Read, 1, 2));
    assert_eq!(flash.prog(3, &[0; 4]), told(FlashOperation::Prog, 3, 4));
    assert_eq!(flash.erase(5, 6), told(FlashOperation::Erase, 5, 6));
    assert_eq!(flash.sync(), told(FlashOperation::Sync, 1, 2));
    assert_eq!(flash.erased_byte(), Some(0x5a));
    assert_eq!(flash.is_blank(7, 8, &mut []), told(FlashOperation::BlankQuery, 7, 8));
    let mut store: Box<dyn TrustedStore> = Box::new(Telling);
    assert_eq!(store.load(), Err(TrustedStoreError::Damaged));
    assert_eq!(store.claim(), Err(TrustedStoreError::Busy));
    assert_eq!(store.store(&[7; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::Driver(7)));
    assert_eq!(store.stored_at_most(), Ok(Some(9)));
}

#[test]
fn whatever_is_awaited_is_asked_of_what_is_inside() {
    use asynchronous::{FlashDevice as _, TrustedStore as _};
    let mut inner = Blocking(Telling);
    let mut flash = Box::new(&mut inner);
    assert_eq!(flash.geometry(), Telling.geometry());
    assert_eq!(ready(flash.read(1, &mut [0; 2])), told(FlashOperation::Read, 1, 2));
    assert_eq!(ready(flash.prog(3, &[0; 4])), told(FlashOperation::Prog, 3, 4));
    assert_eq!(ready(flash.erase(5, 6)), told(FlashOperation::Erase, 5, 6));
    assert_eq!(ready(flash.sync()), told(FlashOperation::Sync, 1, 2));
    assert_eq!(flash.erased_byte(), Some(0x5a));
    assert_eq!(ready(flash.is_blank(7, 8, &mut [])), told(FlashOperation::BlankQuery, 7, 8));
    let mut store = Box::new(&mut inner);
    assert_eq!(ready(store.load()), Err(TrustedStoreError::Damaged));
    assert_eq!(ready(store.claim()), Err(TrustedStoreError::Busy));
    assert_eq!(ready(store.store(&[7; TRUSTED_RECORD_LEN])), Err(TrustedStoreError::Driver(7)));
    assert_eq!(ready(store.stored_at_most()), Ok(Some(9)));
}

#[test]
fn a_region_that_is_awaited_adds_where_it_begins() {
    use asynchronous::FlashDevice as _;
    let mut region = asynchronous::FlashRegion::new(Blocking(Telling), 2, 3).expect("a region");
    assert_eq!(region.geometry().block_count(), 3);
    assert_eq!(ready(region.read(4, &mut [0; 2])), told(FlashOperation::Read, 4, 2));
    assert_eq!(ready(region.erase(4096, 8192)), told(FlashOperation::Erase, 4096, 8192));
    let outside = FlashCause::OutOfBounds { size: 3 * 4096 };
    let refused = ready(region.prog(3 * 4096, &[0; 2])).map_err(|error| error.cause);
    assert_eq!(refused, Err(outside));
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}
