//! The four functions of `struct lfs_config` (littlefs, `lfs.h`), whose `context` is an open `atrest_flash`.

use core::ffi::{c_int, c_void};

use atrest_device::FlashDevice;

use crate::handle::{Flash, State, bytes, bytes_mut};
use crate::status::Status;

// Values of `enum lfs_error`.
const IO: c_int = -5;
const INVALID: c_int = -22;
const CORRUPT: c_int = -84;

/// `struct lfs_config`, of which its first member is all that counts here: `void *context`.
#[repr(C)]
pub struct Config {
    context: *mut c_void,
}

/// Reads for littlefs.
///
/// # Safety
///
/// As littlefs calls it, with a `context` that is an `atrest_flash`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_lfs_read(
    config: *const Config,
    block: u32,
    offset: u32,
    buffer: *mut c_void,
    size: u32,
) -> c_int {
    // SAFETY: littlefs's promise.
    let (state, buffer) = unsafe { (state(config), bytes_mut(buffer, size as usize)) };
    reported(state.and_then(|state| {
        let address = address(state, block, offset);
        Ok(state.data()?.read(address, buffer?)?)
    }))
}

/// Programs for littlefs, and makes it durable. Units that are not blank are refused as corrupt, whereupon littlefs writes
/// elsewhere: after a power loss it may take a torn unit for an erased one.
///
/// # Safety
///
/// As for [`atrest_lfs_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_lfs_prog(
    config: *const Config,
    block: u32,
    offset: u32,
    data: *const c_void,
    size: u32,
) -> c_int {
    // SAFETY: littlefs's promise.
    let (state, data) = unsafe { (state(config), bytes(data, size as usize)) };
    reported(state.and_then(|state| {
        let address = address(state, block, offset);
        if state.knows_blank() && !state.is_blank(address, size.into())? {
            return Err(Status::Corrupt);
        }
        let mut flash = state.data()?;
        flash.prog(address, data?)?;
        Ok(flash.sync()?)
    }))
}

/// Erases a block for littlefs, and makes it durable.
///
/// # Safety
///
/// As for [`atrest_lfs_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_lfs_erase(config: *const Config, block: u32) -> c_int {
    // SAFETY: littlefs's promise.
    let state = unsafe { state(config) };
    reported(state.and_then(|state| {
        let (address, len) = (address(state, block, 0), state.erase_size().into());
        let mut flash = state.data()?;
        flash.erase(address, len)?;
        Ok(flash.sync()?)
    }))
}

/// Makes it all durable for littlefs.
///
/// # Safety
///
/// As for [`atrest_lfs_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_lfs_sync(config: *const Config) -> c_int {
    // SAFETY: littlefs's promise.
    let state = unsafe { state(config) };
    reported(state.and_then(|state| Ok(state.data()?.sync()?)))
}

/// # Safety
///
/// As for [`atrest_lfs_read`].
unsafe fn state<'a>(config: *const Config) -> Result<&'a mut State, Status> {
    // SAFETY: the caller's promise.
    unsafe { Flash::state(config.as_ref().ok_or(Status::Argument)?.context.cast()) }
}

fn address(state: &State, block: u32, offset: u32) -> u64 {
    u64::from(block) * u64::from(state.erase_size()) + u64::from(offset)
}

fn reported(result: Result<(), Status>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Status::Corrupt) => CORRUPT,
        Err(Status::Argument | Status::Closed | Status::Memory) => INVALID,
        Err(_) => IO,
    }
}
