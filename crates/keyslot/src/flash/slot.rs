//! From what a passphrase derives to the volume key and back.
//!
//! Wrapping key = HMAC-SHA256 keyed by the derived 32 bytes, over a label, the parameters of the volume and those of the keyslot. With a
//! device secret the chip makes another HMAC over a label and that. AES-256 key wrap (RFC 3394) does the rest.

use core::fmt;

use atrest_codec::{Writer, encode, split_mut};
use atrest_kdf::Prf;
use atrest_secret::{Random, SecretArray, wipe};

use super::cost::KdfCost;
use super::derive::Derive;
#[cfg(feature = "rotate")]
use super::header::PREVIOUS;
use super::header::{BOUND_LEN, IN_USE, NEEDS_DEVICE, Slot, wrapped_len};
use super::params::{Params, Uuid};
use super::{MAX_KEY_LEN, MAX_PASSPHRASE_LEN, PARAMS_LEN, SLOT_LEN, SlotError};
use crate::wrap;

/// Bytes in a salt.
pub const SLOT_SALT_LEN: usize = 16;

/// What a passphrase derives.
pub type Derived = SecretArray<32>;

/// What the wrapping key's HMAC begins with.
const KEYSLOT_LABEL: &[u8; 24] = b"atrest flash keyslot v1\0";
/// What the HMAC begins with under which the key of before is wrapped.
#[cfg(feature = "rotate")]
const PREVIOUS_LABEL: &[u8; 25] = b"atrest flash previous v1\0";
/// What the message to the chip begins with.
const DEVICE_LABEL: &[u8; 24] = b"atrest device secret v1\0";

/// A key in the chip that can't be read, only used: an HMAC peripheral, a secure element. Wiping it makes the keyslots that need
/// it worthless, wherever copies of them are.
pub trait DeviceSecret {
    /// HMAC-SHA256 of a message of 56 bytes, keyed by the secret.
    ///
    /// # Errors
    /// [`DeviceSecretError`] if the chip does not compute it: the secret was wiped, or the peripheral failed.
    fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError>;
}

/// The chip did not answer: its key was wiped, or its peripheral failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSecretError;

/// A device secret in software: for tests, for chips whose secret can be read, and for the copy of it that opens a card on a desk.
pub struct HmacSecret(SecretArray<32>);

/// A volume key, and whose it is.
pub struct FlashKey {
    bytes: SecretArray<MAX_KEY_LEN>,
    len: usize,
    uuid: Uuid,
}

/// How a new keyslot's key is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKdf {
    /// The derivation.
    pub cost: KdfCost,
    /// Its salt, fresh.
    pub salt: [u8; SLOT_SALT_LEN],
}

/// A keyslot as it is written.
pub struct SlotBytes(pub(super) [u8; SLOT_LEN]);

/// Whether a passphrase has a length that is taken.
///
/// # Errors
/// [`SlotError::EmptyPassphrase`], or [`SlotError::PassphraseTooLong`] for more than [`MAX_PASSPHRASE_LEN`]
/// bytes.
pub fn check_passphrase(passphrase: &[u8]) -> Result<(), SlotError> {
    match passphrase.len() {
        0 => Err(SlotError::EmptyPassphrase),
        1..=MAX_PASSPHRASE_LEN => Ok(()),
        len => Err(SlotError::PassphraseTooLong { len }),
    }
}

/// Unwraps the volume key with what the passphrase derived with the keyslot's cost and salt. `key` is empty after an error.
///
/// Programs that derive in steps of their own call this; others leave the derivation to [`Derive`], too.
///
/// # Errors
/// [`SlotError::WrongKey`] if the passphrase or the device secret is another one, or if header or keyslot
/// were changed. [`SlotError::NeedsDevice`] if the keyslot needs a device secret and `device` is `None`,
/// [`SlotError::Device`] if that secret did not answer.
#[inline(never)] // nor are its parts: derivation, HMAC and cipher take a small stack one after the other, not all at once
pub fn open_slot(
    params: &Params,
    slot: &Slot<'_>,
    derived: &Derived,
    device: Option<&mut dyn DeviceSecret>,
    key: &mut FlashKey,
) -> Result<(), SlotError> {
    key.clear();
    let device = if slot.needs_device { Some(device.ok_or(SlotError::NeedsDevice)?) } else { None };
    let wrapping = wrapping_key(params, slot.bound, derived, device)?;
    let len = usize::from(params.key_len);
    let to = key.bytes.get_mut(..len).ok_or(SlotError::WrongKey)?;
    wrap::unwrap(&*wrapping, slot.wrapped, to).map_err(|_| SlotError::WrongKey)?;
    (key.len, key.uuid) = (len, params.uuid);
    Ok(())
}

/// Wraps the volume key for a new keyslot.
///
/// # Errors
/// [`SlotError::OtherVolume`] if `key` is empty or not of the volume that `params` describe,
/// [`SlotError::Cost`] for a cost that [`open_slot`]'s programs would refuse, [`SlotError::Device`] if the
/// device secret did not answer.
pub fn seal_slot(
    params: &Params,
    kdf: &SlotKdf,
    derived: &Derived,
    device: Option<&mut dyn DeviceSecret>,
    key: &FlashKey,
) -> Result<SlotBytes, SlotError> {
    if key.uuid != params.uuid || key.len != usize::from(params.key_len) {
        return Err(SlotError::OtherVolume);
    }
    if !kdf.cost.is_acceptable() {
        return Err(SlotError::Cost(kdf.cost));
    }
    let mut bytes = [0; SLOT_LEN];
    let (bound, place): (_, &mut [u8; SLOT_LEN - BOUND_LEN]) = split_mut(&mut bytes);
    let flags = if device.is_some() { NEEDS_DEVICE } else { 0 };
    *bound = encode(([IN_USE, flags], kdf.cost.encode(), [0], kdf.salt));
    let wrapping = wrapping_key(params, bound, derived, device)?;
    let mut writer = Writer::new(place);
    let wrapped = writer.place(wrapped_len(params)).map_err(|_| SlotError::OtherVolume)?;
    wrap::wrap(&*wrapping, key.expose(), wrapped).map_err(|_| SlotError::WrongKey)?;
    Ok(SlotBytes(bytes))
}

/// Unwraps the volume key of before with the new one. `previous` is empty after an error.
///
/// # Errors
/// [`SlotError::OtherVolume`] if `key` is empty or not of the volume that `params` describe, [`SlotError::WrongKey`] if it is not the one
/// under which the key of before was wrapped, or if the header was changed.
#[cfg(feature = "rotate")]
pub fn open_previous(
    params: &Params,
    wrapped: &[u8],
    key: &FlashKey,
    previous: &mut FlashKey,
) -> Result<(), SlotError> {
    previous.clear();
    let wrapping = previous_wrapping_key(params, key)?;
    let len = usize::from(params.key_len);
    let to = previous.bytes.get_mut(..len).ok_or(SlotError::WrongKey)?;
    wrap::unwrap(&*wrapping, wrapped, to).map_err(|_| SlotError::WrongKey)?;
    (previous.len, previous.uuid) = (len, params.uuid);
    Ok(())
}

/// Wraps the volume key of before under the new one, for a keyslot of its own.
///
/// # Errors
/// [`SlotError::OtherVolume`] if one of the keys is empty or not of the volume that `params` describe.
#[cfg(feature = "rotate")]
pub fn seal_previous(params: &Params, key: &FlashKey, previous: &FlashKey) -> Result<SlotBytes, SlotError> {
    if previous.uuid != params.uuid || previous.len != usize::from(params.key_len) {
        return Err(SlotError::OtherVolume);
    }
    let wrapping = previous_wrapping_key(params, key)?;
    let mut bytes = [0; SLOT_LEN];
    let (bound, place): (&mut [u8; BOUND_LEN], &mut [u8; SLOT_LEN - BOUND_LEN]) = split_mut(&mut bytes);
    let [state, ..] = bound;
    *state = PREVIOUS;
    let mut writer = Writer::new(place);
    let wrapped = writer.place(wrapped_len(params)).map_err(|_| SlotError::OtherVolume)?;
    wrap::wrap(&*wrapping, previous.expose(), wrapped).map_err(|_| SlotError::WrongKey)?;
    Ok(SlotBytes(bytes))
}

/// HMAC-SHA256 keyed by the new volume key, over a label and the parameters of the volume.
#[cfg(feature = "rotate")]
fn previous_wrapping_key(params: &Params, key: &FlashKey) -> Result<SecretArray<32>, SlotError> {
    if key.uuid != params.uuid || key.len != usize::from(params.key_len) {
        return Err(SlotError::OtherVolume);
    }
    let fields: [u8; PARAMS_LEN] = params.encode(0);
    // The bytes behind the key are zeros, which HMAC fills a key up with.
    Ok(Prf::once(&key.bytes, &[PREVIOUS_LABEL, &fields]))
}

impl SlotKdf {
    /// With a fresh salt.
    ///
    /// # Errors
    /// [`SlotError::Random`] if `random` fails.
    pub fn generate(cost: KdfCost, random: &mut dyn Random) -> Result<Self, SlotError> {
        let mut salt = [0; SLOT_SALT_LEN];
        random.fill(&mut salt)?;
        Ok(Self { cost, salt })
    }

    /// Derives from a passphrase.
    ///
    /// # Errors
    /// [`SlotError::EmptyPassphrase`] or [`SlotError::PassphraseTooLong`] before any work,
    /// [`SlotError::Derive`] if `kdf` refuses the cost.
    pub fn derive(
        &self,
        passphrase: &[u8],
        kdf: &mut dyn Derive,
        derived: &mut Derived,
    ) -> Result<(), SlotError> {
        check_passphrase(passphrase)?;
        kdf.derive(&self.cost, passphrase, &self.salt, derived).map_err(SlotError::Derive)
    }
}

impl Slot<'_> {
    /// How its key is derived.
    pub fn slot_kdf(&self) -> SlotKdf {
        SlotKdf { cost: self.kdf, salt: *self.salt }
    }
}

fn wrapping_key(
    params: &Params,
    bound: &[u8; BOUND_LEN],
    derived: &Derived,
    device: Option<&mut dyn DeviceSecret>,
) -> Result<SecretArray<32>, SlotError> {
    let fields: [u8; PARAMS_LEN] = params.encode(0);
    let mut wrapping = Prf::once(derived, &[KEYSLOT_LABEL, &fields, bound]);
    if let Some(device) = device {
        let mut message = SecretArray::<56>::zeroed();
        let (label, key): (&mut [u8; 24], &mut [u8; 32]) = split_mut(&mut message);
        *label = *DEVICE_LABEL;
        key.copy_from_slice(&*wrapping);
        device.mac(&message, &mut wrapping).map_err(SlotError::Device)?;
    }
    Ok(wrapping)
}

impl HmacSecret {
    /// From the key.
    pub const fn new(key: SecretArray<32>) -> Self {
        Self(key)
    }
}

impl DeviceSecret for HmacSecret {
    fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
        out.copy_from_slice(&*Prf::once(&self.0, &[message]));
        Ok(())
    }
}

impl FlashKey {
    /// Without a key, to be filled in.
    pub const fn empty() -> Self {
        Self { bytes: SecretArray::zeroed(), len: 0, uuid: [0; 16] }
    }

    /// The key of a volume that is being made.
    ///
    /// # Errors
    /// [`SlotError::Random`] if `random` fails or yields nothing but zeros. [`SlotError::OtherVolume`] if
    /// `params` ask for more than [`MAX_KEY_LEN`] bytes.
    pub fn generate(&mut self, params: &Params, random: &mut dyn Random) -> Result<(), SlotError> {
        self.clear();
        let len = usize::from(params.key_len);
        let to = self.bytes.get_mut(..len).ok_or(SlotError::OtherVolume)?;
        random.fill(to)?;
        // What a source that is not connected gives. Every byte is looked at, whatever it is.
        if to.iter().fold(0, |all, byte| all | byte) == 0 {
            return Err(SlotError::Random);
        }
        (self.len, self.uuid) = (len, params.uuid);
        Ok(())
    }

    /// Takes the first `len` bytes, 64 at most.
    pub(super) fn fill(&mut self, bytes: &[u8; MAX_KEY_LEN], len: usize, uuid: Uuid) {
        self.bytes.iter_mut().zip(bytes).take(len).for_each(|(to, from)| *to = *from);
        (self.len, self.uuid) = (len.min(MAX_KEY_LEN), uuid);
    }

    /// The key itself; no bytes if there is none.
    pub fn expose(&self) -> &[u8] {
        // cannot be out of range: the length is set only after a key was put into so many bytes.
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// UUID of the volume that it belongs to.
    pub fn uuid(&self) -> &Uuid {
        &self.uuid
    }

    /// Forgets it.
    pub fn clear(&mut self) {
        wipe(&mut *self.bytes);
        (self.len, self.uuid) = (0, [0; 16]);
    }
}

impl fmt::Debug for FlashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlashKey(..)")
    }
}

impl fmt::Debug for HmacSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSecret(..)")
    }
}

impl fmt::Debug for SlotBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlotBytes(..)")
    }
}

impl fmt::Display for DeviceSecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the chip's own secret can't be used: it was wiped, or the peripheral failed")
    }
}

impl core::error::Error for DeviceSecretError {}
