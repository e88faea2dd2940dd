//! The superblock that veritysetup writes in front of the tree: 512 bytes, little endian.

use core::fmt;

use atrest_codec::{Record, RecordMut};

use super::parameters::{HashType, MAX_HASH_NAME, ParameterError, Parameters};

/// Bytes that the superblock takes.
pub const SUPERBLOCK_LEN: usize = 512;

const MAGIC: [u8; 8] = *b"verity\0\0";
const VERSION: u32 = 1;

/// What the superblock says. It is not authenticated: only the root hash is trusted, and wrong parameters give another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// UUID of the tree.
    pub uuid: [u8; 16],
    /// What the hashes depend on.
    pub parameters: Parameters,
}

/// Why a superblock can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// There is none: the bytes are too few, or do not begin with its magic.
    Missing,
    /// The version is not 1.
    Version(u32),
    /// The hash type is neither 0 nor 1.
    HashType(u32),
    /// A field has a value that is not acceptable.
    Parameter(ParameterError),
}

impl Superblock {
    /// Reads a superblock. Of `bytes` the first 512 count.
    ///
    /// # Errors
    /// [`SuperblockError::Missing`] if there is none. The others name the field of one that is not acceptable.
    pub fn parse(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let bytes: &[u8; SUPERBLOCK_LEN] = bytes.first_chunk().ok_or(SuperblockError::Missing)?;
        let record = Record::new(bytes);
        if *record.array::<0, 8>() != MAGIC {
            return Err(SuperblockError::Missing);
        }
        let version = record.le32::<8>();
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        let number = record.le32::<12>();
        let hash_type = HashType::from_number(number).ok_or(SuperblockError::HashType(number))?;
        let name = record.array::<32, 32>();
        let end = name.iter().position(|byte| *byte == 0);
        let name = end.and_then(|end| name.get(..end)).and_then(|name| core::str::from_utf8(name).ok());
        let name = name.ok_or(SuperblockError::Parameter(ParameterError::HashName))?;
        let salt_len = usize::from(record.le16::<80>());
        let salt = record.array::<88, 256>().get(..salt_len);
        let salt = salt.ok_or(SuperblockError::Parameter(ParameterError::Salt { bytes: salt_len }))?;
        let blocks = (record.le32::<64>(), record.le32::<68>());
        let parameters = Parameters::check(hash_type, name, blocks, record.le64::<72>(), salt)
            .map_err(SuperblockError::Parameter)?;
        Ok(Self { uuid: *record.array::<16, 16>(), parameters })
    }

    /// Returns the bytes of the superblock.
    pub fn compose(&self) -> [u8; SUPERBLOCK_LEN] {
        let parameters = &self.parameters;
        let mut bytes = [0; SUPERBLOCK_LEN];
        let mut record = RecordMut::new(&mut bytes);
        record.set::<0, 8>(&MAGIC);
        record.set_le32::<8>(VERSION);
        record.set_le32::<12>(parameters.hash_type().number());
        record.set::<16, 16>(&self.uuid);
        let mut name = [0; MAX_HASH_NAME + 1];
        copy(&mut name, parameters.hash().as_bytes());
        record.set::<32, 32>(&name);
        record.set_le32::<64>(parameters.data_block());
        record.set_le32::<68>(parameters.hash_block());
        record.set_le64::<72>(parameters.data_blocks());
        let mut salt = [0; 256];
        copy(&mut salt, parameters.salt());
        record.set::<88, 256>(&salt);
        // cannot be cut off: `Parameters` have at most 256 bytes of salt.
        record.set_le16::<80>(parameters.salt().len() as u16);
        bytes
    }
}

/// Copies to the front. What is copied is shorter: `Parameters` have looked.
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no superblock of dm-verity"),
            Self::Version(version) => write!(f, "dm-verity's superblock has the unknown version {version}"),
            Self::HashType(number) => write!(f, "dm-verity's superblock has the unknown hash type {number}"),
            Self::Parameter(error) => write!(f, "dm-verity's superblock is damaged: {error}"),
        }
    }
}

impl core::error::Error for SuperblockError {}
