//! The header of the physical volume: 512 bytes at its beginning.

use core::fmt;

use atrest_codec::{Record, crc32c};

use super::KEY_LEN;
use super::keys::Uuid;

/// Bytes of the header.
pub const HEADER_LEN: usize = 512;

/// Copies of the metadata in clear.
const COPIES: usize = 4;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes of the device that it was made for.
    pub size: u64,
    /// The block of the disk label.
    pub label: u64,
    /// The blocks at which the copies of the metadata in clear begin, the disk label first. What is not used is 0.
    pub copies: [u64; COPIES],
    /// Bytes of each copy.
    pub copy_len: u32,
    /// Data key of the metadata's XTS, which is no secret.
    pub metadata_key: [u8; KEY_LEN],
    /// The physical volume, and the tweak key of the metadata.
    pub uuid: Uuid,
}

/// Why a header with CoreStorage's signature can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Its checksum is wrong.
    Checksum,
    /// A version that is not known.
    Version(u16),
    /// A block size that is no power of two from 512 to 65536.
    BlockSize(u32),
    /// A cipher of the metadata, or a length of its key, that is not known.
    Cipher {
        /// Number of the cipher.
        cipher: u32,
        /// Bytes of the key.
        key_len: u32,
    },
}

impl Header {
    /// Reads a header; `None` if it is not CoreStorage's.
    ///
    /// # Errors
    /// [`HeaderError`] for the first field that is wrong.
    pub fn read(bytes: &[u8; HEADER_LEN]) -> Result<Option<Self>, HeaderError> {
        let record = Record::new(bytes);
        if record.array::<88, 2>() != b"CS" || record.le16::<10>() != 0x0010 {
            return Ok(None);
        }
        if !is_sound(bytes) {
            return Err(HeaderError::Checksum);
        }
        let version = record.le16::<8>();
        if version != 1 {
            return Err(HeaderError::Version(version));
        }
        let block_size = record.le32::<96>();
        if !block_size.is_power_of_two() || !(512..=65536).contains(&block_size) {
            return Err(HeaderError::BlockSize(block_size));
        }
        let (key_len, cipher) = (record.le32::<168>(), record.le32::<172>());
        if (key_len, cipher) != (KEY_LEN as u32, 2) {
            return Err(HeaderError::Cipher { cipher, key_len });
        }
        Ok(Some(Self {
            block_size,
            size: record.le64::<64>(),
            label: record.le64::<104>(),
            copies: [record.le64::<104>(), record.le64::<112>(), record.le64::<120>(), record.le64::<128>()],
            copy_len: record.le32::<100>(),
            metadata_key: *record.array::<176, KEY_LEN>(),
            uuid: Uuid(*record.array::<304, 16>()),
        }))
    }
}

/// Whether the CRC-32C in front is that of what is behind it.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    let Some((sums, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let sums = Record::new(sums);
    sums.le32::<4>() == u32::MAX && crc32c(u32::MAX, rest) == sums.le32::<0>()
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("the checksum of the header is wrong"),
            Self::Version(version) => write!(f, "the header has the unknown version {version}"),
            Self::BlockSize(bytes) => write!(f, "the header has blocks of {bytes} bytes"),
            Self::Cipher { cipher, key_len } => {
                write!(f, "the header has the unknown cipher {cipher} with a key of {key_len} bytes")
            }
        }
    }
}

impl core::error::Error for HeaderError {}
