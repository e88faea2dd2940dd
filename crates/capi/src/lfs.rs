//! The four functions of `struct lfs_config` (littlefs, `lfs.h`), whose `context` is an open `atrest_flash` or `atrest_sealed`.

use core::ffi::{c_int, c_void};

use atrest_device::FlashDevice;

use crate::handle::{bytes, bytes_mut};
#[cfg(feature = "sealed")]
use crate::sealed::{Sealed, SealedState};
use crate::status::Status;
use crate::volume::{Flash, FlashState};

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
        let address = address(state.erase_size(), block, offset);
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
        let address = address(state.erase_size(), block, offset);
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
        let (address, len) = (address(state.erase_size(), block, 0), state.erase_size().into());
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
unsafe fn state<'a>(config: *const Config) -> Result<&'a mut FlashState, Status> {
    // SAFETY: the caller's promise.
    unsafe { Flash::state(config.as_ref().ok_or(Status::Argument)?.context.cast()) }
}

/// Reads for littlefs from a sealed volume. What is not what was stored is an error, and no corrupt block: littlefs would go on with an
/// older half of its metadata.
///
/// # Safety
///
/// As littlefs calls it, with a `context` that is an `atrest_sealed`.
#[cfg(feature = "sealed")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_lfs_read(
    config: *const Config,
    block: u32,
    offset: u32,
    buffer: *mut c_void,
    size: u32,
) -> c_int {
    // SAFETY: littlefs's promise.
    let (state, buffer) = unsafe { (sealed(config), bytes_mut(buffer, size as usize)) };
    reported(state.and_then(|state| {
        let volume = state.plain()?;
        let address = address(volume.geometry().erase_size(), block, offset);
        Ok(volume.read(address, buffer?)?)
    }))
}

/// Programs for littlefs into a sealed volume, and makes it durable. Units that can't be programmed are refused as corrupt, whereupon
/// littlefs writes elsewhere.
///
/// # Safety
///
/// As for [`atrest_sealed_lfs_read`].
#[cfg(feature = "sealed")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_lfs_prog(
    config: *const Config,
    block: u32,
    offset: u32,
    data: *const c_void,
    size: u32,
) -> c_int {
    // SAFETY: littlefs's promise.
    let (state, data) = unsafe { (sealed(config), bytes(data, size as usize)) };
    reported(state.and_then(|state| {
        let volume = state.plain()?;
        let address = address(volume.geometry().erase_size(), block, offset);
        volume.prog(address, data?)?;
        Ok(volume.sync()?)
    }))
}

/// Erases a block for littlefs, and makes it durable.
///
/// # Safety
///
/// As for [`atrest_sealed_lfs_read`].
#[cfg(feature = "sealed")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_lfs_erase(config: *const Config, block: u32) -> c_int {
    // SAFETY: littlefs's promise.
    let state = unsafe { sealed(config) };
    reported(state.and_then(|state| {
        let volume = state.plain()?;
        let erase_size = volume.geometry().erase_size();
        volume.erase(address(erase_size, block, 0), erase_size.into())?;
        Ok(volume.sync()?)
    }))
}

/// Makes it all durable for littlefs.
///
/// # Safety
///
/// As for [`atrest_sealed_lfs_read`].
#[cfg(feature = "sealed")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_lfs_sync(config: *const Config) -> c_int {
    // SAFETY: littlefs's promise.
    let state = unsafe { sealed(config) };
    reported(state.and_then(|state| Ok(state.plain()?.sync()?)))
}

/// # Safety
///
/// As for [`atrest_sealed_lfs_read`].
#[cfg(feature = "sealed")]
unsafe fn sealed<'a>(config: *const Config) -> Result<&'a mut SealedState, Status> {
    // SAFETY: the caller's promise.
    unsafe { Sealed::state(config.as_ref().ok_or(Status::Argument)?.context.cast()) }
}

fn address(erase_size: u32, block: u32, offset: u32) -> u64 {
    u64::from(block) * u64::from(erase_size) + u64::from(offset)
}

fn reported(result: Result<(), Status>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Status::Corrupt) => CORRUPT,
        Err(Status::Argument | Status::Closed | Status::Memory) => INVALID,
        Err(_) => IO,
    }
}
