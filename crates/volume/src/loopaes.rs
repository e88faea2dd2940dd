//! loop-AES volumes: no header, and a key file of 1, 64 or 65 lines.
//!
//! Nothing on the device says whether the key is right: a wrong one unlocks garbage.

use core::fmt;
use core::ops::Range;

use atrest_cipher::CipherSpec;
use atrest_device::BlockDevice;
use atrest_format::loopaes::{KeyFile, KeyFileError, Version};
use atrest_kdf::{Hash, digest};
use atrest_secret::SecretBytes;

use crate::plain::{self, PlainKey, PlainOpenError, PlainOptions};
use crate::{UnlockOptions, Volume, VolumeFormat};

/// What is said of a volume that says nothing of itself. `Default` is what cryptsetup takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopAesOptions {
    /// The block cipher, by dm-crypt's name.
    pub cipher: String,
    /// Bytes in each key.
    pub key_len: usize,
    /// The hash that makes keys of lines; `None` is SHA-256 for keys of 16 bytes, SHA-384 for 24 and SHA-512 for 32.
    pub hash: Option<Hash>,
    /// First sector of the data on the device.
    pub offset: u64,
    /// Number of the first sector's IV; `None` is `offset`.
    pub skip: Option<u64>,
    /// Sectors of data; `None` is up to the device's end.
    pub size: Option<u64>,
}

impl Default for LoopAesOptions {
    fn default() -> Self {
        Self { cipher: "aes".into(), key_len: 32, hash: None, offset: 0, skip: None, size: None }
    }
}

/// Why a loop-AES volume can't be opened.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopAesError {
    /// The file is no key file.
    KeyFile(KeyFileError),
    /// No hash is usual for keys of so many bytes, and none was named, or the one that was is shorter.
    Hash {
        /// Bytes in a key.
        key_len: usize,
    },
    /// The cipher is not known, or takes no such keys, or the place does not fit the device.
    Plain(PlainOpenError),
    /// There is no cipher of this name.
    Cipher(atrest_cipher::SpecError),
}

impl LoopAesOptions {
    /// How dm-crypt would be told: a plain volume, whose keys may take turns.
    fn plain(&self, version: Version) -> Result<PlainOptions, LoopAesError> {
        let (mode, keys) = match version {
            Version::One => ("-cbc-plain64", 1),
            Version::Two => (":64-cbc-lmk", 64),
            Version::Three => (":64-cbc-lmk", 65),
        };
        let cipher: CipherSpec = format!("{}{mode}", self.cipher).parse().map_err(LoopAesError::Cipher)?;
        // intended: the cipher has no keys of such a length.
        let mut plain = PlainOptions::new(cipher, self.key_len.saturating_mul(keys));
        plain.offset = self.offset;
        plain.skip = self.skip.unwrap_or(self.offset);
        plain.size = self.size;
        Ok(plain)
    }

    fn hash(&self) -> Result<Hash, LoopAesError> {
        let usual = match self.key_len {
            16 => Some(Hash::Sha256),
            24 => Some(Hash::Sha384),
            32 => Some(Hash::Sha512),
            _ => None,
        };
        let hash = self.hash.or(usual).filter(|hash| hash.output_len() >= self.key_len);
        hash.ok_or(LoopAesError::Hash { key_len: self.key_len })
    }
}

/// The bytes of the device that a volume of these options takes.
///
/// # Errors
/// [`LoopAesError::Plain`] if the options do not fit the device.
pub fn place(device: &dyn BlockDevice, options: &LoopAesOptions) -> Result<Range<u64>, LoopAesError> {
    options.hash()?;
    plain::place(device, &options.plain(Version::One)?).map_err(LoopAesError::Plain)
}

/// Opens a volume with the lines of a key file. Reads and writes nothing.
///
/// # Errors
/// [`LoopAesError`] if the file is no key file, or options, keys and device do not fit. A wrong key is no error: without a header nobody can tell.
pub fn open(
    device: &dyn BlockDevice,
    options: &LoopAesOptions,
    key_file: &[u8],
    unlock: &UnlockOptions,
) -> Result<Volume, LoopAesError> {
    let key_file = KeyFile::parse(key_file).map_err(LoopAesError::KeyFile)?;
    let plain = options.plain(key_file.version())?;
    let hash = options.hash()?;
    let mut keys = SecretBytes::zeroed(plain.key_len);
    // A key of no bytes makes no chunks, and fits no cipher.
    for (key, line) in keys.chunks_mut(options.key_len.max(1)).zip(key_file.lines()) {
        digest(hash, &[line], key);
        if let Some(first) = key.first_mut() {
            *first ^= key_file.version().marks_with();
        }
    }
    plain::open_as(VolumeFormat::LoopAes, device, &plain, PlainKey::KeyFile(&keys), unlock)
        .map_err(LoopAesError::Plain)
}

impl fmt::Display for LoopAesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile(error) => error.fmt(f),
            Self::Hash { key_len } => write!(f, "no hash was named that makes keys of {key_len} bytes"),
            Self::Plain(error) => error.fmt(f),
            Self::Cipher(error) => write!(f, "the cipher can't be used with loop-AES: {error}"),
        }
    }
}

crate::error::source! { LoopAesError: KeyFile Plain Cipher; }
