//! Keys that the caller has: from a secret of the chip, or from elsewhere.

use core::ffi::{c_int, c_void};

use atrest_keyslot::flash::{CmacSecret, DeviceCmac, DeviceSecret, DeviceSecretError, FlashCipher, FlashKey};

use crate::handle::{bytes, bytes_mut};
use crate::status::{Status, returned};

/// `struct atrest_key`: a volume key, and what it is for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    /// A number of `enum atrest_cipher`.
    pub cipher: c_int,
    /// The key. Not kept: it may be wiped when the call has returned.
    pub bytes: *const u8,
    /// How long it is.
    pub len: usize,
    /// The volume's identifier, 16 bytes. Null for encrypted flash, which needs none.
    pub uuid: *const u8,
}

impl Key {
    /// The cipher that the number names.
    pub(crate) fn cipher(&self) -> Result<FlashCipher, Status> {
        cipher(self.cipher)
    }

    /// # Safety
    ///
    /// The pointer is null, or to so many bytes, for as long as what is returned lives.
    pub(crate) unsafe fn bytes(&self) -> Result<&[u8], Status> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(self.bytes.cast(), self.len) }?;
        // Every byte is looked at, whatever it is.
        if bytes.iter().fold(0, |all, byte| all | byte) == 0 {
            return Err(Status::KeyLength);
        }
        Ok(bytes)
    }
}

/// The cipher of a number of `enum atrest_cipher`.
pub(crate) fn cipher(number: c_int) -> Result<FlashCipher, Status> {
    u8::try_from(number).ok().and_then(FlashCipher::from_code).ok_or(Status::NotHere)
}

/// # Safety
///
/// The pointer is null, or to 16 bytes.
pub(crate) unsafe fn uuid<'a>(start: *const u8) -> Result<&'a [u8; 16], Status> {
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe { start.cast::<[u8; 16]>().as_ref() }.ok_or(Status::Argument)
}

/// `struct atrest_device`: a secret that never leaves the chip, as HMAC-SHA-256 or AES-CMAC under it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Given to the functions.
    pub context: *mut c_void,
    /// HMAC-SHA-256 of 56 bytes into 32. Returns something else than 0 if the chip does not compute it.
    pub hmac: Option<unsafe extern "C" fn(*mut c_void, *const u8, *mut u8) -> c_int>,
    /// AES-CMAC of 57 bytes into 16, where there is no HMAC.
    pub cmac: Option<unsafe extern "C" fn(*mut c_void, *const u8, *mut u8) -> c_int>,
}

impl Device {
    /// # Safety
    ///
    /// The pointer is null, or to a device whose functions may be called.
    pub(crate) unsafe fn of(device: *const Self) -> Result<MaybeDevice, Status> {
        // SAFETY: the caller's promise.
        match unsafe { device.as_ref() } {
            None => Ok(MaybeDevice(None)),
            Some(Self { hmac: None, cmac: None, .. }) => Err(Status::Argument),
            Some(device) => Ok(MaybeDevice(Some(*device))),
        }
    }
}

/// The chip's secret, if the caller has one.
#[derive(Clone, Copy)]
pub(crate) struct MaybeDevice(Option<Device>);

impl MaybeDevice {
    pub(crate) fn as_dyn(&mut self) -> Option<&mut dyn DeviceSecret> {
        match &mut self.0 {
            Some(device) => Some(device),
            None => None,
        }
    }
}

impl DeviceSecret for Device {
    fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
        let Some(hmac) = self.hmac else { return CmacSecret(*self).mac(message, out) };
        // SAFETY: whoever made this promised that it may be called; message and room are as long as `atrest.h` says.
        match unsafe { hmac(self.context, message.as_ptr(), out.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(DeviceSecretError),
        }
    }
}

impl DeviceCmac for Device {
    fn cmac(&mut self, message: &[u8; 57], out: &mut [u8; 16]) -> Result<(), DeviceSecretError> {
        let cmac = self.cmac.ok_or(DeviceSecretError)?;
        // SAFETY: whoever made this promised that it may be called; message and room are as long as `atrest.h` says.
        match unsafe { cmac(self.context, message.as_ptr(), out.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(DeviceSecretError),
        }
    }
}

/// Derives a volume key from the chip's secret.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_device_key(
    device: *const Device,
    label: *const u8,
    label_len: usize,
    uuid: *const u8,
    key: *mut u8,
    key_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        Device::of(device).and_then(|mut device| {
            let device = device.as_dyn().ok_or(Status::Argument)?;
            let (label, uuid) = (bytes(label.cast(), label_len)?, self::uuid(uuid)?);
            let out = bytes_mut(key.cast(), key_len)?;
            let mut derived = FlashKey::empty();
            derived.of_device(device, label, uuid, out.len())?;
            out.copy_from_slice(derived.expose());
            derived.clear();
            Ok(())
        })
    })
}
