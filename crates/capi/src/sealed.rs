//! An open sealed volume: `atrest_sealed`.

use core::ffi::{c_int, c_void};

use atrest_device::{FlashDevice, FlashRegion};
use atrest_flash::sealed::{
    BlockState, SealedKey, SealedLayout, SealedMedium, SealedOptions, Tickets, Verify,
};

use crate::aead::{Plain, Setup, TAG_LEN, Volume};
use crate::handle::{Handle, Open, answer, bytes, bytes_mut};
use crate::key::{Key, uuid};
use crate::lent::{Lent, is_lent_as};
use crate::medium::{Driver, Medium};
use crate::passphrase::Random;
use crate::status::{Status, returned};
use crate::store::{Kept, Store};
use crate::volume::Geometry;

/// `ATREST_SEALED_WORDS`: room for an open volume wherever it begins.
pub const SEALED_WORDS: usize = if size_of::<usize>() > 4 { 512 } else { 384 };

/// `ATREST_BLOCK_STATE`: bytes of the table for each erase block.
pub const BLOCK_STATE: usize = 14;

const _: () = assert!(is_lent_as::<BlockState>(BLOCK_STATE, 1), "ATREST_BLOCK_STATE is another size");

/// `struct atrest_sealed`.
pub type Sealed = Handle<SealedState, { SEALED_WORDS - 1 }>;

/// What is in there.
pub struct SealedState(Volume);

impl Open for SealedState {
    const TAG: u64 = u64::from_le_bytes(*b"atrest\x02\xa7");
}

impl SealedState {
    /// Before there is a volume.
    pub(crate) const EMPTY: Self = Self(Volume::Nothing);

    /// The volume.
    pub(crate) fn plain(&mut self) -> Result<&mut dyn Plain, Status> {
        self.0.plain()
    }

    /// Makes an empty one.
    pub(crate) fn make(&mut self, setup: Setup<'_>) -> Result<(), Status> {
        self.0.make(setup)
    }

    /// Opens it.
    pub(crate) fn mount(&mut self, setup: Setup<'_>) -> Result<(), Status> {
        self.0.mount(setup)
    }
}

/// `struct atrest_sealed_options`. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bytes of a unit, about. 0 takes 252.
    pub payload: u32,
    /// The trusted store is written on every so many syncs. 0 takes 1.
    pub anchor_every: u32,
    /// So many serials, 2 to this power, may be used before the store is written. 0 takes 12.
    pub reserve: u8,
    /// 1: erases are announced in the store, and not in blocks.
    pub tickets: u8,
    /// 0 for a medium that is durable in order, 1 for one with a cache, 2 for a card.
    pub medium: u8,
    /// 1: all units are verified when the volume is opened.
    pub verify_at_opening: u8,
    /// 1: what is programmed is not read back.
    pub no_read_back: u8,
}

impl Options {
    /// What the library calls them.
    pub(crate) fn to_rust(self) -> Result<SealedOptions, Status> {
        let default = SealedOptions::default();
        let or = |value, default| if value == 0 { default } else { value };
        let flag = |value| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Status::Option),
        };
        Ok(SealedOptions {
            payload: or(self.payload, default.payload),
            anchor_every: or(self.anchor_every, default.anchor_every),
            reserve: if self.reserve == 0 { default.reserve } else { self.reserve },
            tickets: if flag(self.tickets)? { Tickets::Store } else { Tickets::Slot },
            medium: match self.medium {
                0 => SealedMedium::Ordered,
                1 => SealedMedium::Cached,
                2 => SealedMedium::Card,
                _ => return Err(Status::Option),
            },
            verify: if flag(self.verify_at_opening)? { Verify::AtOpening } else { Verify::OnRead },
            read_back: !flag(self.no_read_back)?,
        })
    }

    /// # Safety
    ///
    /// The pointer is null, for the defaults, or valid.
    pub(crate) unsafe fn of(options: *const Self) -> Result<SealedOptions, Status> {
        // SAFETY: the caller's promise.
        let options = unsafe { options.as_ref() }.copied();
        options.map_or(Ok(SealedOptions::default()), Self::to_rust)
    }
}

/// `struct atrest_sealed_memory`: lent until the volume is closed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// [`BLOCK_STATE`] bytes for each erase block.
    pub table: *mut c_void,
    /// How many in all.
    pub table_len: usize,
    /// A unit, as it is on the medium.
    pub buffer: *mut u8,
    /// How many bytes.
    pub buffer_len: usize,
}

impl Memory {
    /// Whether it is enough for a volume: before anything is written that has to be written over otherwise.
    pub(crate) fn check(&self, layout: &SealedLayout) -> Result<(), Status> {
        let entries = self.table_len.checked_div(BLOCK_STATE).ok_or(Status::Memory)? as u64;
        let fits =
            entries >= layout.medium().block_count() && self.buffer_len >= layout.buffer_len() as usize;
        if fits { Ok(()) } else { Err(Status::Memory) }
    }

    /// # Safety
    ///
    /// The pointers are null, or to so many bytes, which nobody else uses until the volume is closed.
    pub(crate) unsafe fn lent(&self) -> Result<(Lent<BlockState>, Lent<u8>), Status> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok((
                Lent::new(self.table.cast(), self.table_len, BlockState::VOID)?,
                Lent::new(self.buffer, self.buffer_len, 0)?,
            ))
        }
    }
}

/// `struct atrest_sealed_sizes`: what a volume takes and has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the table.
    pub table_len: usize,
    /// Bytes of the buffer.
    pub buffer_len: usize,
    /// The sizes of the volume.
    pub geometry: Geometry,
}

/// What a volume on a whole medium will take, before there is one. Behind a header it has fewer blocks, and the table is long enough.
///
/// # Safety
///
/// Pointers are null or valid, as `atrest.h` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_sizes(
    medium: *const Medium,
    options: *const Options,
    sizes: *mut Sizes,
) -> c_int {
    // SAFETY: the caller's promise.
    let (options, medium, sizes) = unsafe { (Options::of(options), medium.as_ref(), sizes.as_mut()) };
    let (Some(medium), Some(sizes)) = (medium, sizes) else { return Status::Argument.into() };
    returned(options.and_then(|options| {
        // SAFETY: its functions are not called.
        let medium = unsafe { Driver::new(*medium)? }.geometry();
        let layout = SealedLayout::new(medium, options.payload, TAG_LEN.into(), options.tickets)
            .map_err(|_| Status::Option)?;
        let blocks = usize::try_from(medium.block_count()).map_err(|_| Status::Option)?;
        let table_len = blocks.checked_mul(BLOCK_STATE).ok_or(Status::Option)?;
        // cannot be cut off: processors with less than 32 bits are not served.
        *sizes =
            Sizes { table_len, buffer_len: layout.buffer_len() as usize, geometry: layout.geometry().into() };
        Ok(())
    }))
}

/// What a call is about that opens or makes a volume under a key of the caller's.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
unsafe fn with_key(
    sealed: *mut Sealed,
    (medium, store): (*const Medium, *const Store),
    key: *const Key,
    options: *const Options,
    memory: *const Memory,
    random: *const Random,
    run: fn(&mut SealedState, Setup<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe {
        let all = (medium.as_ref(), key.as_ref(), memory.as_ref(), random.as_ref());
        let (Some(medium), Some(key), Some(memory), Some(random)) = all else { return Err(Status::Argument) };
        Sealed::open(sealed, SealedState::EMPTY, |state| {
            let driver = Driver::new(*medium)?;
            let device = FlashRegion::new(driver, 0, driver.geometry().block_count())?;
            let (table, buffer) = memory.lent()?;
            let sealed_key = SealedKey { volume_key: key.bytes()?, uuid: uuid(key.uuid)?, header: None };
            let setup = Setup {
                cipher: key.cipher()?,
                device,
                store: Kept::of(store)?,
                table,
                buffer,
                key: sealed_key,
                options: Options::of(options)?,
                random: &mut { *random },
            };
            run(state, setup)
        })
    }
}

/// Opens a volume without a header, under a key that the caller has.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for. Memory, medium and store are lent until the
/// volume is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_open(
    sealed: *mut Sealed,
    medium: *const Medium,
    store: *const Store,
    key: *const Key,
    options: *const Options,
    memory: *const Memory,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_key(sealed, (medium, store), key, options, memory, random, SealedState::mount) })
}

/// Makes an empty volume without a header, and opens it.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_format(
    sealed: *mut Sealed,
    medium: *const Medium,
    store: *const Store,
    key: *const Key,
    options: *const Options,
    memory: *const Memory,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_key(sealed, (medium, store), key, options, memory, random, SealedState::make) })
}

/// Closes a volume in good order, and wipes its keys, whatever comes of it.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_close(sealed: *mut Sealed) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        let closed = Sealed::state(sealed).and_then(|state| Ok(state.plain()?.closed()?));
        Sealed::close(sealed);
        closed
    })
}

/// Calls with the open volume.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
unsafe fn with_volume<T>(
    sealed: *mut Sealed,
    run: impl FnOnce(&mut dyn Plain) -> Result<T, Status>,
) -> Result<T, Status> {
    // SAFETY: the caller's promise.
    run(unsafe { Sealed::state(sealed) }?.plain()?)
}

/// The sizes of an open volume.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_geometry(sealed: *mut Sealed, geometry: *mut Geometry) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        with_volume(sealed, |volume| {
            *geometry.as_mut().ok_or(Status::Argument)? = volume.geometry().into();
            Ok(())
        })
    })
}

/// Reads, and verifies.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_read(
    sealed: *mut Sealed,
    address: u64,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(sealed, |volume| Ok(volume.read(address, bytes_mut(buffer, size)?)?)) })
}

/// Seals, and programs.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_prog(
    sealed: *mut Sealed,
    address: u64,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(sealed, |volume| Ok(volume.prog(address, bytes(data, size)?)?)) })
}

/// Erases blocks.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_erase(sealed: *mut Sealed, address: u64, size: u64) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(sealed, |volume| Ok(volume.erase(address, size)?)) })
}

/// Makes it durable, and on every so many calls anchors it.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_sync(sealed: *mut Sealed) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(sealed, |volume| Ok(volume.sync()?)) })
}

/// Makes it durable, and anchors it now.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_anchor(sealed: *mut Sealed) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { with_volume(sealed, |volume| Ok(volume.anchored()?)) })
}

/// Whether units can be programmed: 1, or 0, or a status.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_is_blank(sealed: *mut Sealed, address: u64, size: u64) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { with_volume(sealed, |volume| Ok(volume.is_blank(address, size, &mut [])?)) })
}

/// Whether units were found that are not what was stored: a status.
///
/// # Safety
///
/// As for [`atrest_sealed_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_health(sealed: *mut Sealed) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { with_volume(sealed, |volume| Ok(volume.health())) } {
        Ok(status) | Err(status) => status.into(),
    }
}
