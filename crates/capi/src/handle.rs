//! An open volume: `atrest_flash`.

use core::ffi::{c_int, c_void};
use core::mem::{align_of, size_of};
use core::slice;

use atrest_cipher::DataUnitCipher;
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion};
use atrest_flash::{CryptFlash, FlashHeader};
use atrest_keyslot::flash::FlashKey;

use crate::cipher::Cipher;
use crate::medium::{Driver, Medium};
use crate::passphrase::Unlock;
use crate::status::{Status, returned};

/// `ATREST_FLASH_WORDS`: room for an open volume wherever it begins.
pub const WORDS: usize = if size_of::<usize>() > 4 { 1024 } else { 384 };

const _: () =
    assert!(8 + size_of::<State>() + align_of::<State>() <= 8 * WORDS, "ATREST_FLASH_WORDS is too small");

/// `struct atrest_flash`: memory that the caller lends. Opaque, and never moved while the volume is open.
#[repr(C)]
pub struct Flash {
    /// `OPEN` if what follows is a state.
    tag: u64,
    rest: [u64; WORDS - 1],
}

/// Unlikely to be there by chance.
const OPEN: u64 = u64::from_le_bytes(*b"atrest\x01\xa7");

/// What is in there.
pub(crate) struct State {
    driver: Driver,
    first_block: u64,
    block_count: u64,
    cipher: Cipher,
    buffer: *mut u8,
    buffer_len: usize,
}

/// What a volume's encrypted data is read and written through.
type Data<'a> = CryptFlash<FlashRegion<Driver>, &'a dyn DataUnitCipher, &'a mut [u8]>;

impl Flash {
    fn place(&mut self) -> *mut State {
        let start = self.rest.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(align_of::<State>())).cast()
    }

    /// The state, if the volume is open.
    ///
    /// # Safety
    ///
    /// The pointer is null or to an `atrest_flash` whose first word was zero before it was opened, and which nobody else uses now.
    pub(crate) unsafe fn state<'a>(flash: *mut Self) -> Result<&'a mut State, Status> {
        // SAFETY: as the caller says.
        let flash = unsafe { flash.as_mut() }.ok_or(Status::Argument)?;
        if flash.tag != OPEN {
            return Err(Status::Closed);
        }
        // SAFETY: the tag says that `open` has written a state, at a place that depends on the address alone.
        Ok(unsafe { &mut *flash.place() })
    }
}

impl State {
    /// # Safety
    ///
    /// What `atrest_flash_open` asks for.
    unsafe fn open(&mut self, unlock: &Unlock) -> Result<(), Status> {
        let mut key = FlashKey::empty();
        // SAFETY: the caller's promise; no other reference to the buffer is alive.
        let (passphrase, buffer, mut kdf) = unsafe { unlock.parts() }?;
        let header = FlashHeader::open(self.driver, buffer)?;
        header.unlock(None, passphrase, &mut kdf, None, &mut key)?;
        let params = *header.header()?.params();
        self.first_block = params.sizes.first_data_block();
        // cannot overflow: reading the header checked that blocks follow its copies.
        self.block_count = params.sizes.block_count.saturating_sub(self.first_block);
        let expanded = self.cipher.expand(&params, &key);
        key.clear();
        expanded?;
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
        // SAFETY: as in `data`.
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

/// Opens a volume.
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
    let (flash, medium, unlock) = unsafe { (flash.as_mut(), medium.as_ref(), unlock.as_ref()) };
    let (Some(flash), Some(medium), Some(unlock)) = (flash, medium, unlock) else {
        return Status::Argument.into();
    };
    if flash.tag == OPEN {
        return Status::Argument.into();
    }
    // SAFETY: the functions are the caller's.
    let driver = match unsafe { Driver::new(*medium) } {
        Ok(driver) => driver,
        Err(status) => return status.into(),
    };
    let state = flash.place();
    // SAFETY: there is room, as the assertion on WORDS says; nothing that is there needs to be dropped.
    let opened = unsafe {
        state.write(State {
            driver,
            first_block: 0,
            block_count: 0,
            cipher: Cipher::Nothing,
            buffer: unlock.buffer,
            buffer_len: unlock.buffer_len,
        });
        (*state).open(unlock)
    };
    match opened {
        Ok(()) => flash.tag = OPEN,
        // SAFETY: it was written above.
        Err(_) => unsafe { state.drop_in_place() },
    }
    returned(opened)
}

/// Closes a volume, and wipes its keys. One that is not open stays so.
///
/// # Safety
///
/// As for [`atrest_flash_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_close(flash: *mut Flash) {
    // SAFETY: the caller's promise.
    if let Some(flash) = unsafe { flash.as_mut() }
        && flash.tag == OPEN
    {
        flash.tag = 0;
        // SAFETY: the tag said that there is a state. Its keys wipe themselves.
        unsafe { flash.place().drop_in_place() }
    }
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
    match state.and_then(|state| state.is_blank(address, size)) {
        Ok(blank) => blank.into(),
        Err(status) => status.into(),
    }
}

/// Bytes that C lends. No bytes may lie nowhere.
///
/// # Safety
///
/// The pointer is null, or to so many bytes.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Status> {
    match (start.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Status::Argument),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(start.cast(), len) }),
    }
}

/// Bytes that C lends to be written to. If there are none, the pointer may be null.
///
/// # Safety
///
/// As for [`bytes`]; nobody else uses them.
pub(crate) unsafe fn bytes_mut<'a>(start: *mut c_void, len: usize) -> Result<&'a mut [u8], Status> {
    match (start.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Status::Argument),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) }),
    }
}
