//! The trusted store of a sealed volume: two functions of C, or pages of the controller's own flash.

use core::ffi::{c_int, c_void};

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::store::PageStore;

use crate::medium::{Driver, Medium};
use crate::status::Status;

/// Longest prog unit of pages.
const MOST_PROG: usize = 256;

/// `struct atrest_store`: where the record of a sealed volume is kept.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Erase blocks of the controller's own flash, two at least; or null, and the functions.
    pub pages: *const Medium,
    /// Given to the functions.
    pub context: *mut c_void,
    /// Copies the record that was stored last.
    pub load: Option<unsafe extern "C" fn(*mut c_void, *mut u8) -> c_int>,
    /// Replaces the record.
    pub store: Option<unsafe extern "C" fn(*mut c_void, *const u8) -> c_int>,
}

/// A store that was looked at.
pub(crate) enum Kept {
    Calls(Calls),
    Pages(PageStore<Driver, MOST_PROG>),
}

/// The two functions of C.
pub(crate) struct Calls {
    context: *mut c_void,
    load: unsafe extern "C" fn(*mut c_void, *mut u8) -> c_int,
    store: unsafe extern "C" fn(*mut c_void, *const u8) -> c_int,
}

impl Kept {
    /// # Safety
    ///
    /// The pointer is null, or to a store whose functions may be called while this lives.
    pub(crate) unsafe fn of(store: *const Store) -> Result<Self, Status> {
        // SAFETY: the caller's promise.
        let (store, pages) = unsafe {
            let store = store.as_ref().ok_or(Status::Argument)?;
            (store, store.pages.as_ref())
        };
        match (pages, store.load, store.store) {
            // SAFETY: the caller's promise.
            (Some(pages), None, None) => Ok(Self::Pages(PageStore::new(unsafe { Driver::new(*pages)? })?)),
            (None, Some(load), Some(store_)) => {
                Ok(Self::Calls(Calls { context: store.context, load, store: store_ }))
            }
            _ => Err(Status::Argument),
        }
    }
}

impl TrustedStore for Kept {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        match self {
            Self::Calls(calls) => calls.load(),
            Self::Pages(pages) => pages.load(),
        }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        match self {
            Self::Calls(calls) => calls.store(record),
            Self::Pages(pages) => pages.store(record),
        }
    }
}

impl Calls {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        let mut record = [0; TRUSTED_RECORD_LEN];
        // SAFETY: whoever made this promised that it may be called; the record is as long as `atrest.h` says.
        match unsafe { (self.load)(self.context, record.as_mut_ptr()) } {
            0 => Ok(Some(record)),
            code if code == Status::StoreEmpty as c_int => Ok(None),
            code => Err(failed(code)),
        }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        // SAFETY: whoever made this promised that it may be called; the record is as long as `atrest.h` says.
        match unsafe { (self.store)(self.context, record.as_ptr()) } {
            0 => Ok(()),
            code => Err(failed(code)),
        }
    }
}

/// What a function of the caller's says went wrong.
fn failed(code: c_int) -> TrustedStoreError {
    match code {
        code if code == Status::StoreDamaged as c_int => TrustedStoreError::Damaged,
        code if code == Status::WornOut as c_int => TrustedStoreError::WornOut,
        code => TrustedStoreError::Driver(code),
    }
}
