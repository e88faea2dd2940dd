//! Passphrases: what opens a volume, how it is changed, and how all of it is destroyed.

use core::ffi::{c_int, c_void};

use atrest_flash::{Anchor, FlashHeader, NewSlot};
#[cfg(feature = "catena")]
use atrest_keyslot::flash::ChipKdfs;
#[cfg(not(feature = "catena"))]
use atrest_keyslot::flash::Pbkdf2Kdf;
use atrest_keyslot::flash::{Derive, FlashKey};
use atrest_secret::RandomError;

use crate::handle::{bytes, bytes_mut};
use crate::key::{Device, MaybeDevice};
use crate::medium::{Driver, Medium};
use crate::status::{Status, returned};

/// `struct atrest_unlock`: a passphrase, and the memory that opening takes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Unlock {
    /// 1 to 4096 bytes.
    pub passphrase: *const u8,
    /// How many.
    pub passphrase_len: usize,
    /// Room for a prog unit at least, and for a data unit of a wide-block cipher. Lent until the volume is closed.
    pub buffer: *mut u8,
    /// How much.
    pub buffer_len: usize,
    /// Work area of Catena; may be null for PBKDF2. Lent during the call, and wiped.
    pub kdf_memory: *mut u8,
    /// How much.
    pub kdf_memory_len: usize,
    /// Called every few milliseconds of a derivation, with what is left of it. May be null.
    pub between: Option<unsafe extern "C" fn(*mut c_void, u64)>,
    /// Given to it.
    pub between_context: *mut c_void,
    /// The chip's secret, for keyslots that need it. May be null.
    pub device: *const Device,
}

/// What [`Unlock`] names, checked.
pub(crate) struct Parts<K> {
    pub(crate) passphrase: &'static [u8],
    pub(crate) buffer: &'static mut [u8],
    pub(crate) kdf: K,
    pub(crate) device: MaybeDevice,
}

impl Unlock {
    /// # Safety
    ///
    /// Pointers are null, or to as much as is said; nobody else uses what is written to. The function may be called.
    pub(crate) unsafe fn parts(&self) -> Result<Parts<impl Derive + use<>>, Status> {
        // SAFETY: the caller's promise; what is made of it does not outlive the call into this library.
        let (passphrase, buffer, memory, device) = unsafe {
            (
                bytes(self.passphrase.cast(), self.passphrase_len)?,
                bytes_mut(self.buffer.cast(), self.buffer_len)?,
                bytes_mut(self.kdf_memory.cast(), self.kdf_memory_len)?,
                Device::of(self.device)?,
            )
        };
        let (between, context) = (self.between, self.between_context);
        let between = move |left| {
            if let Some(between) = between {
                // SAFETY: the caller's promise.
                unsafe { between(context, left) }
            }
        };
        #[cfg(feature = "catena")]
        let kdf = ChipKdfs { memory, between };
        #[cfg(not(feature = "catena"))]
        let kdf = {
            let _ = memory;
            Pbkdf2Kdf(between)
        };
        Ok(Parts { passphrase, buffer, kdf, device })
    }
}

/// `struct atrest_random`: a chip's random source.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Random {
    /// Given to the function.
    pub context: *mut c_void,
    /// Fills a buffer, or returns something else than 0.
    pub fill: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int>,
}

impl atrest_secret::Random for Random {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        let fill = self.fill.ok_or(RandomError)?;
        // SAFETY: whoever made this promised that it may be called; the buffer is as long as is said.
        match unsafe { fill(self.context, out.as_mut_ptr().cast(), out.len()) } {
            0 => Ok(()),
            _ => Err(RandomError),
        }
    }
}

/// Changes the passphrase of the keyslot that `unlock` opens, at the cost that it has.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_change_passphrase(
    medium: *const Medium,
    unlock: *const Unlock,
    passphrase: *const u8,
    passphrase_len: usize,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        let (Some(medium), Some(unlock), Some(random)) = (medium.as_ref(), unlock.as_ref(), random.as_ref())
        else {
            return Status::Argument.into();
        };
        bytes(passphrase.cast(), passphrase_len).and_then(|new| change(medium, unlock, new, *random, None))
    })
}

/// # Safety
///
/// As for [`atrest_flash_change_passphrase`].
pub(crate) unsafe fn change(
    medium: &Medium,
    unlock: &Unlock,
    new: &[u8],
    mut random: Random,
    anchor: Anchor<'_>,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let (driver, mut parts) = unsafe { (Driver::new(*medium)?, unlock.parts()?) };
    let mut key = FlashKey::empty();
    let mut header = FlashHeader::open(driver, parts.buffer)?;
    let slot = header.unlock(None, parts.passphrase, &mut parts.kdf, parts.device.as_dyn(), &mut key)?;
    let of_slot = header.header()?.slot(slot).ok_or(Status::NoKeys)?;
    // A keyslot that needed the chip's secret still does.
    let device = if of_slot.needs_device { parts.device.as_dyn() } else { None };
    let new =
        NewSlot { passphrase: new, cost: of_slot.kdf, kdf: &mut parts.kdf, device, random: &mut random };
    let changed = header.change_key(slot, &key, new, anchor);
    key.clear();
    Ok(changed?)
}

/// Destroys every key of a volume, in both copies of its header. Nobody reads what is on it any more.
///
/// # Safety
///
/// As for [`atrest_flash_change_passphrase`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_destroy_keys(
    medium: *const Medium,
    buffer: *mut u8,
    buffer_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe { destroy(medium, buffer, buffer_len, None) })
}

/// # Safety
///
/// As for [`atrest_flash_change_passphrase`].
pub(crate) unsafe fn destroy(
    medium: *const Medium,
    buffer: *mut u8,
    buffer_len: usize,
    anchor: Anchor<'_>,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let (medium, buffer) = unsafe { (medium.as_ref(), bytes_mut(buffer.cast(), buffer_len)?) };
    // SAFETY: the caller's promise.
    let driver = unsafe { Driver::new(*medium.ok_or(Status::Argument)?)? };
    Ok(FlashHeader::open(driver, buffer)?.erase_keys(anchor)?)
}
