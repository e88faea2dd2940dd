//! A medium whose driver is C.

use core::ffi::{c_int, c_void};

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

use crate::status::Status;

/// `LFS_ERR_CORRUPT`: what a driver returns for a block that can't be programmed, erased or read any more.
const CORRUPT: c_int = -84;

/// `struct atrest_medium`: a driver's functions, and the sizes of what it drives.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Medium {
    /// Given to each function.
    pub context: *mut c_void,
    /// Fills a buffer.
    pub read: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> c_int>,
    /// Programs units that are blank.
    pub prog: Option<unsafe extern "C" fn(*mut c_void, u64, *const c_void, usize) -> c_int>,
    /// Erases whole blocks.
    pub erase: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
    /// Makes it all durable. None where that is so already.
    pub sync: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// Bytes read at least.
    pub read_size: u32,
    /// Bytes in a prog unit.
    pub prog_size: u32,
    /// Bytes in an erase block.
    pub erase_size: u32,
    /// What each byte of a blank unit reads as, or -1 where that says nothing.
    pub erased_byte: c_int,
    /// Erase blocks.
    pub block_count: u64,
}

/// A medium that was looked at: all functions are there, and the sizes make sense.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    medium: Medium,
    geometry: FlashGeometry,
}

impl Driver {
    /// # Safety
    ///
    /// While this lives, the functions may be called as `atrest.h` says.
    pub(crate) unsafe fn new(medium: Medium) -> Result<Self, Status> {
        let Medium { read: Some(_), prog: Some(_), erase: Some(_), erased_byte: -1..=255, .. } = medium
        else {
            return Err(Status::Argument);
        };
        let (read, prog, erase) = (medium.read_size, medium.prog_size, medium.erase_size);
        let geometry =
            FlashGeometry::new(read, prog, erase, medium.block_count).map_err(|_| Status::Argument)?;
        Ok(Self { medium, geometry })
    }

    /// Checks a range, calls, and makes an error of what comes back.
    fn call(
        &self,
        operation: FlashOperation,
        (address, len): (u64, u64),
        function: impl FnOnce(&Medium) -> Option<c_int>,
    ) -> Result<(), FlashError> {
        let failed = |cause| Err(FlashError::new(operation, address, len, cause));
        match function(&self.medium) {
            Some(0) => Ok(()),
            Some(CORRUPT) if operation == FlashOperation::Read => failed(FlashCause::Uncorrectable),
            Some(CORRUPT) => {
                // cannot divide by zero: a geometry has no erase blocks without bytes.
                let block = address.checked_div(u64::from(self.geometry.erase_size())).unwrap_or(0);
                failed(FlashCause::BadBlock { block })
            }
            Some(code) => failed(FlashCause::Driver(code)),
            None => failed(FlashCause::Unsupported),
        }
    }
}

impl FlashDevice for Driver {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let len = buf.len() as u64;
        self.geometry.check(FlashOperation::Read, address, len)?;
        self.call(FlashOperation::Read, (address, len), |medium| {
            // SAFETY: `new` was promised that it may be called; the buffer is as long as is said.
            medium
                .read
                .map(|read| unsafe { read(medium.context, address, buf.as_mut_ptr().cast(), buf.len()) })
        })
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let len = data.len() as u64;
        self.geometry.check(FlashOperation::Prog, address, len)?;
        self.call(FlashOperation::Prog, (address, len), |medium| {
            // SAFETY: `new` was promised that it may be called; the data is as long as is said.
            medium.prog.map(|prog| unsafe { prog(medium.context, address, data.as_ptr().cast(), data.len()) })
        })
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Erase, address, len)?;
        self.call(FlashOperation::Erase, (address, len), |medium| {
            // SAFETY: `new` was promised that it may be called.
            medium.erase.map(|erase| unsafe { erase(medium.context, address, len) })
        })
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.call(FlashOperation::Sync, (0, 0), |medium| {
            // SAFETY: `new` was promised that it may be called.
            Some(medium.sync.map_or(0, |sync| unsafe { sync(medium.context) }))
        })
    }

    fn erased_byte(&self) -> Option<u8> {
        self.medium.erased_byte.try_into().ok()
    }
}
