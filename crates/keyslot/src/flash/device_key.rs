//! Volume keys that a chip makes from its own secret, which never leaves it. FORMATS.md, "Keys from a chip".

use atrest_cipher::{AesEncrypt, aes_cmac};
use atrest_codec::encode;
use atrest_kdf::Prf;
use atrest_secret::SecretArray;

use super::slot::{DeviceSecret, DeviceSecretError, FlashKey};
use super::{MAX_KEY_LEN, SlotError, Uuid};

/// What the message to the chip begins with.
const LABEL: &[u8; 24] = b"atrest device volume v1\0";
/// What the volume key is expanded for, beside its length.
const INFO: &[u8] = b"atrest volume key 1";

impl FlashKey {
    /// Derives a volume key of `len` bytes from the chip's own secret, for a chip that opens its flash without a passphrase.
    ///
    /// `label` says what the key is for, such as the product and the cipher; it is no secret. Another label, UUID or length
    /// gives another key, and so does another chip. The UUID is that of the volume, and new for each volume: sealed flash
    /// never uses the same key and UUID twice.
    ///
    /// Whoever can make the chip compute its HMAC can derive this key. The secret is worth as much as the rule of who may.
    ///
    /// ```
    /// use atrest_keyslot::flash::{DeviceSecret, DeviceSecretError, FlashKey};
    ///
    /// /// The HMAC peripheral of a chip, with a key in its fuses.
    /// struct Fuses;
    ///
    /// impl DeviceSecret for Fuses {
    ///     fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
    ///         // Here the peripheral computes HMAC-SHA-256 of the message, and the program waits until it is done.
    /// #       out.copy_from_slice(&message[..32]);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut key = FlashKey::empty();
    /// key.of_device(&mut Fuses, b"thermostat, aes-xts", &[9; 16], 32)?;
    /// assert_eq!(key.expose().len(), 32);
    /// # Ok::<(), atrest_keyslot::flash::SlotError>(())
    /// ```
    ///
    /// # Errors
    /// [`SlotError::OtherVolume`] if the UUID is nil, or the length 0 or more than [`MAX_KEY_LEN`].
    /// [`SlotError::Device`] if the chip does not answer, or answers with nothing but zeros. The key is empty then.
    pub fn of_device(
        &mut self,
        device: &mut dyn DeviceSecret,
        label: &[u8],
        uuid: &Uuid,
        len: usize,
    ) -> Result<(), SlotError> {
        self.clear();
        if *uuid == [0; 16] || len == 0 || len > MAX_KEY_LEN {
            return Err(SlotError::OtherVolume);
        }
        let message = encode((*LABEL, *Prf::once(uuid, &[label])));
        let mut root = SecretArray::<32>::zeroed();
        device.mac(&message, &mut root).map_err(SlotError::Device)?;
        // What a peripheral without a key gives. Every byte is looked at, whatever it is.
        if root.iter().fold(0, |all, byte| all | byte) == 0 {
            return Err(SlotError::Device(DeviceSecretError));
        }
        // cannot be cut off: it is 64 at most, which was looked at.
        self.fill(&Prf::new(&root).expand(&[INFO, &[len as u8]]), len, *uuid);
        Ok(())
    }
}

/// A key in the chip under which AES-CMAC (NIST SP 800-38B) can be computed, of any length that AES has: chips that have an AES
/// engine with a key of its own, and no HMAC.
pub trait DeviceCmac {
    /// AES-CMAC of a message of 57 bytes.
    ///
    /// # Errors
    /// [`DeviceSecretError`] if the chip does not compute it.
    fn cmac(&mut self, message: &[u8; 57], out: &mut [u8; 16]) -> Result<(), DeviceSecretError>;
}

/// Makes a [`DeviceSecret`] of a chip's AES-CMAC: CMAC(1 ‖ message) ‖ CMAC(2 ‖ message).
#[derive(Clone, Copy, Debug)]
pub struct CmacSecret<C>(pub C);

impl<C: DeviceCmac> DeviceSecret for CmacSecret<C> {
    fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
        let (halves, _) = out.as_chunks_mut::<16>();
        for (number, half) in (1_u8..).zip(halves) {
            let mut numbered = SecretArray::<57>::zeroed();
            let parts = core::iter::once(&number).chain(message);
            numbered.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
            self.0.cmac(&numbered, half)?;
        }
        Ok(())
    }
}

/// A [`DeviceCmac`] of a chip's AES, under a key that may be one that nobody can read: in fuses, in a secure element, behind the
/// identifier of a PSA key.
#[derive(Clone, Copy, Debug)]
pub struct AesCmac<E>(pub E);

impl<E: AesEncrypt> DeviceCmac for AesCmac<E> {
    fn cmac(&mut self, message: &[u8; 57], out: &mut [u8; 16]) -> Result<(), DeviceSecretError> {
        *out = aes_cmac(&mut self.0, message).map_err(|_| DeviceSecretError)?;
        Ok(())
    }
}
