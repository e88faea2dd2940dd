//! Plain volumes: dm-crypt without a header (cryptsetup(8), `open --type plain`).
//!
//! Nothing on the device says whether key and options are right: a wrong passphrase unlocks garbage.

use core::fmt;
use core::ops::Range;

use atrest_cipher::{KeyError, MapperOptions};
use atrest_device::BlockDevice;
use atrest_kdf::Hash;
use atrest_kdf::plain::{PlainHash, PlainHashError};
use atrest_secret::SecretBytes;

pub use atrest_format::plain::{PlainError, PlainOptions};

use crate::data_mapper::data_mapper;
use crate::{CryptTarget, Passphrase, Segment, UnlockOptions, Volume, VolumeFormat, VolumeKey};

/// Cipher of plain mode in cryptsetup 2.6.1, unless another is asked for.
pub const DEFAULT_CIPHER: &str = "aes-cbc-essiv:sha256";
/// Bytes in the key, unless other is asked for.
pub const DEFAULT_KEY_LEN: usize = 32;
/// How a passphrase becomes a key, unless other is asked for.
pub const DEFAULT_HASH: PlainHash = PlainHash::new(Hash::Ripemd160);

/// Where the key comes from.
#[derive(Clone, Copy)]
pub enum PlainKey<'a> {
    /// A passphrase, from a prompt or from standard input as a whole, and the rule that hashes it.
    Passphrase(&'a Passphrase, PlainHash),
    /// The bytes of a key file: its first ones are the key itself, never hashed.
    KeyFile(&'a [u8]),
}

/// Why a plain volume can't be opened.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainOpenError {
    /// The options do not fit together or do not fit the device.
    Options(PlainError),
    /// A passphrase was given, and no hash that makes a key out of it.
    NoHash,
    /// The hash does not make a key out of this passphrase.
    Hash(PlainHashError),
    /// The key file is shorter than the key.
    KeyFileTooShort {
        /// Bytes it has.
        has: usize,
        /// Bytes in the key.
        needs: usize,
    },
    /// The key does not fit the cipher.
    Key(KeyError),
}

/// Opens a plain volume. Reads and writes nothing.
///
/// # Errors
/// [`PlainOpenError::Options`] if the options do not go together or do not fit the device,
/// [`PlainOpenError::Hash`] or [`PlainOpenError::KeyFileTooShort`] if no key comes of what is given,
/// [`PlainOpenError::Key`] if the cipher refuses the key. A wrong passphrase is no error: without a header
/// nobody can tell.
pub fn open(
    device: &dyn BlockDevice,
    options: &PlainOptions,
    key: PlainKey<'_>,
    unlock: &UnlockOptions,
) -> Result<Volume, PlainOpenError> {
    open_as(VolumeFormat::Plain, device, options, key, unlock)
}

/// Opens what is laid out as a plain volume.
pub(crate) fn open_as(
    format: VolumeFormat,
    device: &dyn BlockDevice,
    options: &PlainOptions,
    key: PlainKey<'_>,
    unlock: &UnlockOptions,
) -> Result<Volume, PlainOpenError> {
    let layout = options.layout(device.size()).map_err(PlainOpenError::Options)?;
    let key = derive(key, options.key_len)?;
    let mapper = MapperOptions {
        data_unit: usize::try_from(options.data_unit).unwrap_or(512),
        iv_offset: layout.iv_offset,
        iv_large: options.iv_large,
        ..MapperOptions::default()
    };
    let (mapper, weak) = data_mapper(&options.cipher, &key, unlock, mapper).map_err(PlainOpenError::Key)?;
    let segment =
        Segment { start: 0, len: layout.len, media_offset: layout.media_offset, protection: mapper.into() };
    let target = unlock.keep_key.then(|| CryptTarget {
        start: 0,
        len: layout.len,
        media_offset: layout.media_offset,
        cipher: options.cipher.to_string(),
        key,
        digest: None,
        iv_offset: options.skip,
        data_unit: options.data_unit,
        iv_large: options.iv_large,
        tags: None,
    });
    Ok(Volume::new(format, vec![segment])
        .with_targets(target.into_iter().collect())
        .with_read_only(unlock.read_only || weak))
}

/// The bytes of the device that a plain volume of these options takes.
///
/// # Errors
/// [`PlainOpenError::Options`] if the options do not go together or do not fit the device.
pub fn place(device: &dyn BlockDevice, options: &PlainOptions) -> Result<Range<u64>, PlainOpenError> {
    let layout = options.layout(device.size()).map_err(PlainOpenError::Options)?;
    // cannot overflow: the layout lies inside the device.
    Ok(layout.media_offset..layout.media_offset.saturating_add(layout.len))
}

fn derive(key: PlainKey<'_>, len: usize) -> Result<VolumeKey, PlainOpenError> {
    match key {
        PlainKey::Passphrase(passphrase, hash) => {
            let mut derived = SecretBytes::zeroed(len);
            hash.derive(passphrase.expose(), &mut derived).map_err(PlainOpenError::Hash)?;
            Ok(VolumeKey::new(derived))
        }
        PlainKey::KeyFile(bytes) => match bytes.get(..len) {
            Some(key) => Ok(VolumeKey::copy_from(key)),
            None => Err(PlainOpenError::KeyFileTooShort { has: bytes.len(), needs: len }),
        },
    }
}

impl fmt::Debug for PlainKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passphrase(_, hash) => write!(f, "PlainKey::Passphrase(.., {hash:?})"),
            Self::KeyFile(_) => f.write_str("PlainKey::KeyFile(..)"),
        }
    }
}

impl fmt::Display for PlainOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::NoHash => f.write_str("a passphrase needs a hash that makes a key out of it"),
            Self::Hash(error) => error.fmt(f),
            Self::KeyFileTooShort { has, needs } => {
                write!(f, "the key file has {has} bytes, but the key takes {needs}")
            }
            Self::Key(error) => write!(f, "the key does not fit the cipher: {error}"),
        }
    }
}

crate::error::source! { PlainOpenError: Options Hash Key; }
