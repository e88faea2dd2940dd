//! Internal Trusted Storage on a sealed volume: `atrest_its`. The semantics are those of `atrest_keyvalue::its`, and what the functions
//! return are the status codes of the PSA Certified Secure Storage API 1.0.

use core::ffi::{c_int, c_void};

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_keyvalue::its::{CreateFlags, Its, ItsError};
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapKey, MapOptions};

use crate::aead::Plain;
use crate::handle::{Handle, Open, bytes, bytes_mut};
use crate::key::{Key, uuid};
use crate::lent::{Lent, is_lent_as};
use crate::sealed::Sealed;
use crate::status::{Status, returned};

/// `ATREST_ITS_WORDS`: room for an open map wherever it begins.
pub const ITS_WORDS: usize = if size_of::<usize>() > 4 { 160 } else { 128 };

/// Bytes of `struct atrest_its_entry`, which is of words.
pub const ITS_ENTRY: usize = 20;

const _: () = assert!(is_lent_as::<IndexEntry>(ITS_ENTRY, 4), "struct atrest_its_entry is another size");

/// `PSA_SUCCESS`.
const SUCCESS: c_int = 0;
/// `PSA_ERROR_GENERIC_ERROR`: the storage is not open.
const GENERIC_ERROR: c_int = -132;
/// `PSA_ERROR_INVALID_ARGUMENT`: a pointer is missing.
const INVALID_ARGUMENT: c_int = -135;

/// `struct atrest_its`.
pub type Storage = Handle<StorageState, { ITS_WORDS - 1 }>;

type Map = KeyValue<OnVolume, Lent<IndexEntry>, Lent<u8>>;

/// What is in there.
pub struct StorageState(Option<Map>);

impl Open for StorageState {
    const TAG: u64 = u64::from_le_bytes(*b"atrest\x03\xa7");
}

/// `struct atrest_its_options`: lent until the storage is closed, but for the sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ItsOptions {
    /// An entry of [`ITS_ENTRY`] bytes for each identifier that can be in use.
    pub entries: *mut c_void,
    /// How many.
    pub entry_count: usize,
    /// A unit of the volume.
    pub buffer: *mut u8,
    /// How many bytes.
    pub buffer_len: usize,
    /// Bytes in the longest data.
    pub longest: u16,
    /// Erase blocks that are kept free. 0 takes 1.
    pub spares: u8,
}

/// `struct atrest_its_info`, which is `struct psa_storage_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItsInfo {
    /// Bytes that are set aside.
    pub capacity: usize,
    /// Bytes that are stored.
    pub size: usize,
    /// The flags that the data were created with.
    pub flags: u32,
}

/// The sealed volume that the caller has open, looked for at each call.
struct OnVolume {
    sealed: *mut Sealed,
    geometry: FlashGeometry,
}

impl OnVolume {
    fn volume(&mut self, operation: FlashOperation) -> Result<&mut dyn Plain, FlashError> {
        // SAFETY: whoever opened the storage promised that the handle is there until it is closed; nobody else uses it during a call.
        let state = unsafe { Sealed::state(self.sealed) };
        state.and_then(|state| state.plain()).map_err(|status| {
            let (address, len, cause) = (0, 0, FlashCause::Driver(status.into()));
            FlashError { operation, address, len, cause }
        })
    }
}

impl FlashDevice for OnVolume {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.volume(FlashOperation::Read)?.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.volume(FlashOperation::Prog)?.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.volume(FlashOperation::Erase)?.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.volume(FlashOperation::Sync)?.sync()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.volume(FlashOperation::BlankQuery)?.is_blank(address, len, scratch)
    }
}

/// How a map is had: [`KeyValue::open`] or [`KeyValue::format`].
type Had = fn(OnVolume, &MapKey<'_>, MapOptions, Lent<IndexEntry>, Lent<u8>) -> Result<Map, MapError>;

/// # Safety
///
/// As for [`atrest_its_open`].
unsafe fn with_volume(
    its: *mut Storage,
    sealed: *mut Sealed,
    key: *const Key,
    options: *const ItsOptions,
    had: Had,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe {
        let (Some(key), Some(options)) = (key.as_ref(), options.as_ref()) else {
            return Err(Status::Argument);
        };
        let geometry = Sealed::state(sealed)?.plain()?.geometry();
        Storage::open(its, StorageState(None), |state| {
            let map_key = MapKey { volume_key: key.bytes()?, uuid: uuid(key.uuid)? };
            let entries = options.entry_count.checked_mul(ITS_ENTRY).ok_or(Status::Argument)?;
            let index = Lent::new(options.entries.cast(), entries, IndexEntry::EMPTY)?;
            let buffer = Lent::new(options.buffer, options.buffer_len, 0)?;
            let spares = if options.spares == 0 { 1 } else { options.spares };
            let sizes = MapOptions { longest: options.longest, spares };
            state.0 = Some(had(OnVolume { sealed, geometry }, &map_key, sizes, index, buffer)?);
            Ok(())
        })
    }
}

/// Opens the storage on a sealed volume that is open.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for. Volume, entries and buffer are lent until the
/// storage is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_open(
    its: *mut Storage,
    sealed: *mut Sealed,
    key: *const Key,
    options: *const ItsOptions,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(its, sealed, key, options, KeyValue::open) })
}

/// Makes the storage anew, empty, on a sealed volume that is open, and opens it.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_format(
    its: *mut Storage,
    sealed: *mut Sealed,
    key: *const Key,
    options: *const ItsOptions,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(its, sealed, key, options, KeyValue::format) })
}

/// Closes the storage, and wipes its keys. The volume stays open.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_close(its: *mut Storage) {
    // SAFETY: the caller's promise.
    unsafe { Storage::close(its) }
}

/// Calls with the storage of a caller, and makes a status code of what comes of it.
///
/// # Safety
///
/// As for [`atrest_its_open`].
unsafe fn with_storage(
    its: *mut Storage,
    caller: i32,
    run: impl FnOnce(&mut Its<'_, OnVolume, Lent<IndexEntry>, Lent<u8>>) -> Result<(), c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { Storage::state(its) };
    let Ok(StorageState(Some(map))) = state else { return GENERIC_ERROR };
    run(&mut Its::new(map, caller)).err().unwrap_or(SUCCESS)
}

fn code(error: ItsError) -> c_int {
    error.code()
}

/// `psa_its_set` for a caller.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_set(
    its: *mut Storage,
    caller: i32,
    uid: u64,
    data_len: usize,
    data: *const c_void,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_storage(its, caller, |its| {
            let data = bytes(data, data_len).map_err(|_| INVALID_ARGUMENT)?;
            its.set(uid, data, CreateFlags::from_bits(flags)).map_err(code)
        })
    }
}

/// `psa_its_get` for a caller.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_get(
    its: *mut Storage,
    caller: i32,
    uid: u64,
    offset: usize,
    size: usize,
    data: *mut c_void,
    data_len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_storage(its, caller, |its| {
            let out = bytes_mut(data, size).map_err(|_| INVALID_ARGUMENT)?;
            let data_len = data_len.as_mut().ok_or(INVALID_ARGUMENT)?;
            *data_len = its.get(uid, offset, out).map_err(code)?;
            Ok(())
        })
    }
}

/// `psa_its_get_info` for a caller.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_get_info(
    its: *mut Storage,
    caller: i32,
    uid: u64,
    info: *mut ItsInfo,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_storage(its, caller, |its| {
            let info = info.as_mut().ok_or(INVALID_ARGUMENT)?;
            let known = its.info(uid).map_err(code)?;
            *info = ItsInfo { capacity: known.capacity, size: known.size, flags: known.flags.bits() };
            Ok(())
        })
    }
}

/// `psa_its_remove` for a caller.
///
/// # Safety
///
/// As for [`atrest_its_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_its_remove(its: *mut Storage, caller: i32, uid: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_storage(its, caller, |its| its.remove(uid).map_err(code)) }
}

impl From<MapError> for Status {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Geometry | MapError::Options => Self::Option,
            MapError::NoKey => Self::KeyLength,
            MapError::BufferTooSmall { .. } | MapError::IndexTooSmall { .. } => Self::Memory,
            MapError::NotFormatted => Self::NoMap,
            MapError::Damaged { .. } => Self::Tampered,
            MapError::NoSpare => Self::Corrupt,
            MapError::WornOut => Self::WornOut,
            MapError::Flash(error) => error.into(),
            _ => Self::Argument,
        }
    }
}
