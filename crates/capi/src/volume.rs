//! An open encrypted volume: `atrest_flash`.

use core::ffi::{c_int, c_void};
use core::slice;

use atrest_cipher::DataUnitCipher;
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion};
use atrest_flash::{CryptFlash, FlashHeader};
use atrest_keyslot::flash::{FlashKey, Protection};

use crate::cipher::Cipher;
use crate::handle::{Handle, Open, answer, bytes, bytes_mut};
use crate::key::Key;
use crate::medium::{Driver, Medium};
use crate::passphrase::Unlock;
use crate::status::{Status, returned};

/// `ATREST_FLASH_WORDS`: room for an open volume wherever it begins.
pub const WORDS: usize = if size_of::<usize>() > 4 { 1024 } else { 384 };

/// `struct atrest_flash`.
pub type Flash = Handle<FlashState, { WORDS - 1 }>;

/// What is in there.
pub struct FlashState {
    driver: Driver,
    first_block: u64,
    block_count: u64,
    cipher: Cipher,
    buffer: *mut u8,
    buffer_len: usize,
}

impl Open for FlashState {
    const TAG: u64 = u64::from_le_bytes(*b"atrest\x01\xa7");
}

/// What a volume's encrypted data is read and written through.
type Data<'a> = CryptFlash<FlashRegion<Driver>, &'a dyn DataUnitCipher, &'a mut [u8]>;

impl FlashState {
    /// # Safety
    ///
    /// What `atrest_flash_open` asks for.
    unsafe fn open(&mut self, unlock: &Unlock) -> Result<(), Status> {
        let mut key = FlashKey::empty();
        // SAFETY: the caller's promise; no other reference to the buffer is alive.
        let mut parts = unsafe { unlock.parts() }?;
        let header = FlashHeader::open(self.driver, parts.buffer)?;
        let params = *header.header()?.params();
        if params.protection != Protection::Encrypted {
            return Err(Status::NotSealed);
        }
        header.unlock(None, parts.passphrase, &mut parts.kdf, parts.device.as_dyn(), &mut key)?;
        self.first_block = params.sizes.first_data_block();
        // cannot overflow: reading the header checked that blocks follow its copies.
        self.block_count = params.sizes.block_count.saturating_sub(self.first_block);
        let expanded = self.cipher.expand(params.cipher, params.data_unit, key.expose());
        key.clear();
        expanded?;
        self.data().map(drop)
    }

    /// # Safety
    ///
    /// What `atrest_flash_open_key` asks for.
    unsafe fn open_with(&mut self, key: &Key, data_unit: u32) -> Result<(), Status> {
        self.block_count = self.driver.geometry().block_count();
        // SAFETY: the caller's promise.
        self.cipher.expand(key.cipher()?, data_unit, unsafe { key.bytes() }?)?;
        self.data().map(drop)
    }

    /// Made for each call, of parts that were checked when the volume was opened.
    pub(crate) fn data(&mut self) -> Result<Data<'_>, Status> {
        let region = FlashRegion::new(self.driver, self.first_block, self.block_count)?;
        let cipher = self.cipher.expanded().ok_or(Status::Closed)?;
        // SAFETY: the buffer is lent while the volume is open, and `self` is borrowed while this reference lives.
        let buffer = unsafe { slice::from_raw_parts_mut(self.buffer, self.buffer_len) };
        Ok(CryptFlash::new(region, cipher, buffer)?)
    }

    /// Whether units are blank, for which the buffer is used.
    pub(crate) fn is_blank(&mut self, address: u64, len: u64) -> Result<bool, Status> {
        let mut region = FlashRegion::new(self.driver, self.first_block, self.block_count)?;
        // SAFETY: the buffer is lent while the volume is open, and `self` is borrowed while this reference lives.
        let buffer = unsafe { slice::from_raw_parts_mut(self.buffer, self.buffer_len) };
        Ok(region.is_blank(address, len, buffer)?)
    }

    pub(crate) fn erase_size(&self) -> u32 {
        self.driver.geometry().erase_size()
    }

    /// Whether blank units can be told from others.
    pub(crate) fn knows_blank(&self) -> bool {
        self.driver.erased_byte().is_some()
    }
}

/// Opens a volume behind a header.
///
/// # Safety
///
/// Pointers are null or valid. Buffers are as long as is said, and lent until the volume is closed, as `atrest.h` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_open(
    flash: *mut Flash,
    medium: *const Medium,
    unlock: *const Unlock,
) -> c_int {
    // SAFETY: the caller's promise.
    let (medium, unlock) = unsafe { (medium.as_ref(), unlock.as_ref()) };
    let (Some(medium), Some(unlock)) = (medium, unlock) else { return Status::Argument.into() };
    // SAFETY: the functions are the caller's, and the handle as well.
    returned(unsafe {
        closed(medium, unlock.buffer, unlock.buffer_len)
            .and_then(|closed| Flash::open(flash, closed, |state| state.open(unlock)))
    })
}

/// Opens a volume without a header, under a key that the caller has.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_open_key(
    flash: *mut Flash,
    medium: *const Medium,
    key: *const Key,
    data_unit: u32,
    buffer: *mut u8,
    buffer_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (medium, key) = unsafe { (medium.as_ref(), key.as_ref()) };
    let (Some(medium), Some(key)) = (medium, key) else { return Status::Argument.into() };
    // SAFETY: the functions are the caller's, and the handle as well.
    returned(unsafe {
        closed(medium, buffer, buffer_len)
            .and_then(|closed| Flash::open(flash, closed, |state| state.open_with(key, data_unit)))
    })
}

/// What a handle holds before there is a key.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
unsafe fn closed(medium: &Medium, buffer: *mut u8, buffer_len: usize) -> Result<FlashState, Status> {
    // SAFETY: the caller's promise. The reference to the buffer, which is looked at alone, ends here.
    let driver = unsafe {
        bytes_mut(buffer.cast(), buffer_len)?;
        Driver::new(*medium)?
    };
    let buffer = if buffer.is_null() { core::ptr::NonNull::dangling().as_ptr() } else { buffer };
    Ok(FlashState { driver, first_block: 0, block_count: 0, cipher: Cipher::Nothing, buffer, buffer_len })
}

/// Closes a volume, and wipes its keys. One that is not open stays so.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_close(flash: *mut Flash) {
    // SAFETY: the caller's promise.
    unsafe { Flash::close(flash) }
}

/// Sizes as C sees them: `struct atrest_geometry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes read at least.
    pub read_size: u32,
    /// Bytes in a prog unit.
    pub prog_size: u32,
    /// Bytes in an erase block.
    pub erase_size: u32,
    /// Erase blocks.
    pub block_count: u64,
}

impl From<FlashGeometry> for Geometry {
    fn from(geometry: FlashGeometry) -> Self {
        Self {
            read_size: geometry.read_size(),
            prog_size: geometry.prog_size(),
            erase_size: geometry.erase_size(),
            block_count: geometry.block_count(),
        }
    }
}

/// The sizes of an open volume.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_geometry(flash: *mut Flash, geometry: *mut Geometry) -> c_int {
    // SAFETY: the caller's promise.
    let (state, geometry) = unsafe { (Flash::state(flash), geometry.as_mut()) };
    returned(state.and_then(|state| {
        *geometry.ok_or(Status::Argument)? = state.data()?.geometry().into();
        Ok(())
    }))
}

/// Reads and decrypts.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_read(
    flash: *mut Flash,
    address: u64,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (state, buffer) = unsafe { (Flash::state(flash), bytes_mut(buffer, size)) };
    returned(state.and_then(|state| Ok(state.data()?.read(address, buffer?)?)))
}

/// Encrypts and programs.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_prog(
    flash: *mut Flash,
    address: u64,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (state, data) = unsafe { (Flash::state(flash), bytes(data, size)) };
    returned(state.and_then(|state| Ok(state.data()?.prog(address, data?)?)))
}

/// Erases blocks.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_erase(flash: *mut Flash, address: u64, size: u64) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { Flash::state(flash) };
    returned(state.and_then(|state| Ok(state.data()?.erase(address, size)?)))
}

/// Makes it durable.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_sync(flash: *mut Flash) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { Flash::state(flash) };
    returned(state.and_then(|state| Ok(state.data()?.sync()?)))
}

/// Whether units are blank: 1, or 0, or a status.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_is_blank(flash: *mut Flash, address: u64, size: u64) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { Flash::state(flash) };
    answer(state.and_then(|state| state.is_blank(address, size)))
}
