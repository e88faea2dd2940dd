//! Making a volume: a header with one keyslot, and what stands behind it.

use core::ffi::c_int;

use atrest_flash::{Existing, FlashHeader, FlashHeaderError, FormatOptions, NewSlot};
use atrest_keyslot::flash::{FlashCipher, FlashKey, KdfCost, Protection};

use crate::key;
use crate::medium::{Driver, Medium};
use crate::passphrase::{Random, Unlock};
use crate::status::{Status, returned};

/// `struct atrest_format`: what a new volume is to be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// A number of `enum atrest_cipher`.
    pub cipher: c_int,
    /// Bytes in the volume key. 0 takes the shortest that the cipher has.
    pub key_len: u32,
    /// Bytes under one tweak: 512, 1024, 2048 or 4096. 0 takes 512. Sealed volumes have their `payload` instead.
    pub data_unit: u32,
    /// Iterations of PBKDF2; or 0, and `garlic`.
    pub iterations: u32,
    /// Garlic of Catena; or 0, and `iterations`.
    pub garlic: u8,
    /// Not 0: what is there is given up, a volume too.
    pub replace: u8,
}

/// Makes an encrypted volume that the passphrase opens. Its data is erased when a file system is made on it.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_flash_format(
    medium: *const Medium,
    unlock: *const Unlock,
    format: *const Format,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    let all = unsafe { (medium.as_ref(), unlock.as_ref(), format.as_ref(), random.as_ref()) };
    let (Some(medium), Some(unlock), Some(format), Some(random)) = all else {
        return Status::Argument.into();
    };
    let data_unit = if format.data_unit == 0 { 512 } else { format.data_unit };
    returned(format.cipher().and_then(|cipher| {
        let mut key = FlashKey::empty();
        // SAFETY: the caller's promise.
        unsafe { make(medium, unlock, format, (cipher, data_unit, Protection::Encrypted), *random, &mut key) }
            .map(drop)
    }))
}

impl Format {
    /// The cipher, if this library has it.
    fn cipher(&self) -> Result<FlashCipher, Status> {
        match key::cipher(self.cipher)? {
            #[cfg(feature = "aes-xts")]
            FlashCipher::AesXts => Ok(FlashCipher::AesXts),
            #[cfg(feature = "adiantum")]
            FlashCipher::Adiantum12 => Ok(FlashCipher::Adiantum12),
            _ => Err(Status::NotHere),
        }
    }

    /// Bytes in the key.
    pub(crate) fn key_len(&self, cipher: FlashCipher) -> Result<u8, Status> {
        let mut lens = cipher.key_lens().iter().copied();
        let len =
            if self.key_len == 0 { lens.next() } else { lens.find(|len| u32::from(*len) == self.key_len) };
        len.ok_or(Status::KeyLength)
    }

    /// What deriving is to cost.
    fn cost(&self) -> Result<KdfCost, Status> {
        match (self.iterations, self.garlic) {
            (1.., 0) => Ok(KdfCost::Pbkdf2 { iterations: self.iterations }),
            (0, 1..) => Ok(KdfCost::catena(self.garlic)),
            _ => Err(Status::Option),
        }
    }
}

/// Makes a header with a keyslot. The key is the new volume's.
///
/// # Safety
///
/// As for [`atrest_flash_format`].
pub(crate) unsafe fn make(
    medium: &Medium,
    unlock: &Unlock,
    format: &Format,
    (cipher, data_unit, protection): (FlashCipher, u32, Protection),
    mut random: Random,
    key: &mut FlashKey,
) -> Result<FlashHeader<Driver, &'static mut [u8]>, Status> {
    let existing = if format.replace == 0 { Existing::Refuse } else { Existing::Replace };
    let key_len = format.key_len(cipher)?;
    let options = FormatOptions { cipher, key_len, data_unit, protection, existing };
    let cost = format.cost()?;
    // SAFETY: the caller's promise.
    let (driver, mut parts) = unsafe { (Driver::new(*medium)?, unlock.parts()?) };
    let slot = NewSlot {
        passphrase: parts.passphrase,
        cost,
        kdf: &mut parts.kdf,
        device: parts.device.as_dyn(),
        random: &mut random,
    };
    match FlashHeader::format(driver, parts.buffer, &options, slot, key) {
        // Nothing of the header was there yet: what does not go together are the options.
        Err(FlashHeaderError::Header(_)) => Err(Status::Option),
        made => Ok(made?),
    }
}
