//! A volume whose key is not known yet.

use std::path::Path;

use atrest_device::DeviceError;
use atrest_engine::contents::Contents;
use atrest_kdf::plain::PlainHash;
#[cfg(feature = "foreign")]
use atrest_volume::loopaes::LoopAesOptions;
use atrest_volume::luks2::{PinCounter, PinError, PinRecord, VolumeKeyId};
use atrest_volume::plain::PlainOptions;
#[cfg(feature = "foreign")]
use atrest_volume::tcrypt::TcryptOptions;
use atrest_volume::{Devices, OpenError, UnlockError, UnlockOptions, Volume, VolumeFormat};

use crate::token::Token;
use crate::{Key, luks, plain};
#[cfg(feature = "foreign")]
use crate::{bitlocker, fvault2, loopaes, tcrypt};

/// What a caller knows of a volume before it is looked at.
#[derive(Clone, Debug, Default)]
pub enum Format {
    /// Its header tells.
    #[default]
    ByHeader,
    /// It has no header: the options say everything.
    Plain {
        /// Cipher, key and place.
        options: PlainOptions,
        /// How a passphrase becomes the key; a key file is the key itself.
        hash: Option<PlainHash>,
    },
    /// loop-AES, without a header, too.
    #[cfg(feature = "foreign")]
    LoopAes(LoopAesOptions),
    /// BitLocker, and nothing else.
    #[cfg(feature = "foreign")]
    BitLocker,
    /// FileVault 2, and nothing else.
    #[cfg(feature = "foreign")]
    FileVault,
    /// TrueCrypt or VeraCrypt, of which nothing on the device shows that it is there.
    #[cfg(feature = "foreign")]
    Tcrypt {
        /// Which header, and what is known of it.
        options: TcryptOptions,
        /// Told before the first derivation and after each: how many are left, and how many there are in all.
        progress: Option<fn(usize, usize)>,
    },
}

/// A volume whose key is not known yet. Every format is one; nobody above asks which.
pub trait Locked {
    /// Its format.
    fn format(&self) -> VolumeFormat;

    /// Checks what can be checked without a key, so that it can be told before anybody is asked for one.
    ///
    /// # Errors
    /// The data can't be where the header or the options say. Unlocking checks it again, and more.
    fn check(&self) -> Result<(), UnlockError>;

    /// Checks what the caller knows of the volume beforehand, as far as that needs no key.
    ///
    /// # Errors
    /// [`UnlockError::HeaderPolicy`] or [`UnlockError::Pin`]: the header says something else, or is not one that could answer.
    fn check_expected(&self, options: &UnlockOptions) -> Result<(), UnlockError> {
        match options.expects() {
            true => Err(UnlockError::Pin(PinError::NotLuks2)),
            false => Ok(()),
        }
    }

    /// What a trusted store is to keep of the pinned header of the volume whose key has this identifier, once that key has unlocked it;
    /// `None` if there is no such header.
    fn pin_record(&self, _key: VolumeKeyId) -> Option<PinRecord> {
        None
    }

    /// The counter of a TPM that the pinned header names.
    ///
    /// # Errors
    /// [`PinError`] if it names none.
    fn pin_counter(&self) -> Result<PinCounter, PinError> {
        Err(PinError::NotLuks2)
    }

    /// Unlocks it. Writes nothing, but for the part of a re-encryption that was interrupted: if the volume is to be written, that is
    /// completed first.
    ///
    /// # Errors
    /// [`UnlockError::WrongPassphrase`] and its like where another key may do better
    /// ([`MayBeWrongKey`](crate::MayBeWrongKey)); anything else is about the volume.
    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError>;

    /// The volume, where its key is on the device itself in the clear, so that nobody is to be asked; `None` elsewhere.
    ///
    /// # Errors
    /// As [`try_key`](Self::try_key), once there is such a key.
    fn without_key(&self, options: &UnlockOptions) -> Result<Option<Volume>, UnlockError> {
        let _ = options;
        Ok(None)
    }

    /// The tokens of the header, which may have its key.
    fn tokens(&self) -> Vec<Token> {
        Vec::new()
    }

    /// What is on the device where a volume without a header would be, so that writes would destroy it. A volume with
    /// a header returns `None`.
    ///
    /// # Errors
    /// The device can't be read.
    fn in_the_way(&self) -> Result<Option<Contents>, DeviceError> {
        Ok(None)
    }
}

/// Looks for a header of one format: `None` if there is none of it.
type Probe = for<'a> fn(Devices<'a>, Option<&'a Path>) -> Result<Option<Box<dyn Locked + 'a>>, OpenError>;

/// The formats that have a header. The first one that is found counts.
const WITH_HEADER: &[Probe] = &[
    luks::probe,
    #[cfg(feature = "foreign")]
    bitlocker::probe,
    #[cfg(feature = "foreign")]
    fvault2::probe,
];

/// The volume on these devices, with the path of a detached header that may have to be written.
pub(crate) fn find<'a>(
    devices: Devices<'a>,
    header_path: Option<&'a Path>,
    format: &Format,
) -> Result<Box<dyn Locked + 'a>, OpenError> {
    match format {
        Format::Plain { options, hash } => Ok(plain::locked(devices, options.clone(), *hash)),
        #[cfg(feature = "foreign")]
        Format::LoopAes(options) => Ok(loopaes::locked(devices, options.clone())),
        #[cfg(feature = "foreign")]
        Format::BitLocker => Ok(bitlocker::locked(devices)),
        #[cfg(feature = "foreign")]
        Format::FileVault => Ok(fvault2::locked(devices)),
        #[cfg(feature = "foreign")]
        Format::Tcrypt { options, progress } => Ok(tcrypt::locked(devices, options.clone(), *progress)),
        Format::ByHeader => {
            for probe in WITH_HEADER {
                if let Some(locked) = probe(devices, header_path)? {
                    return Ok(locked);
                }
            }
            Err(OpenError::NotLuks)
        }
    }
}
