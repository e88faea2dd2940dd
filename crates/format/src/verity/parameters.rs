//! What the hashes depend on.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Smallest block, in bytes.
pub const MIN_BLOCK: u32 = 512;
/// Largest block, in bytes. The kernel takes no more than a page.
pub const MAX_BLOCK: u32 = 512 << 10;
/// Longest salt, in bytes.
pub const MAX_SALT: usize = 256;
/// Longest name of a hash, in bytes: the superblock has 32, and ends it with a zero.
pub const MAX_HASH_NAME: usize = 31;

/// How a block is hashed, and how hashes lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashType {
    /// Type 0, of Chrome OS: the salt follows the block, and hashes lie side by side.
    ChromeOs,
    /// Type 1: the salt precedes the block, and each hash has a power of two of bytes, filled with zeros.
    Normal,
}

impl HashType {
    /// The type of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::ChromeOs),
            1 => Some(Self::Normal),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Self::ChromeOs => 0,
            Self::Normal => 1,
        }
    }
}

/// Everything that the hashes depend on but the data. What is here has passed [`Parameters::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    hash_type: HashType,
    hash: String,
    data_block: u32,
    hash_block: u32,
    data_blocks: u64,
    salt: Vec<u8>,
}

/// Why parameters can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterError {
    /// The name of the hash is empty, too long, or has other characters than lower-case letters, digits and `-`.
    HashName,
    /// A block of the data or the tree is no power of two of 512 to 524288 bytes.
    Block {
        /// Bytes in it.
        bytes: u32,
    },
    /// There is no block of data, or their bytes do not fit into 63 bits.
    DataBlocks {
        /// How many there are.
        blocks: u64,
    },
    /// The salt has more than 256 bytes.
    Salt {
        /// How many it has.
        bytes: usize,
    },
}

impl Parameters {
    /// Joins and checks parameters: type, name of the hash, bytes in a block of data and of the tree, blocks of data, salt.
    ///
    /// # Errors
    /// [`ParameterError`] names the one that is not acceptable.
    pub fn check(
        hash_type: HashType,
        hash: &str,
        (data_block, hash_block): (u32, u32),
        data_blocks: u64,
        salt: &[u8],
    ) -> Result<Self, ParameterError> {
        let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if hash.is_empty() || hash.len() > MAX_HASH_NAME || !hash.bytes().all(named) {
            return Err(ParameterError::HashName);
        }
        for bytes in [data_block, hash_block] {
            if !bytes.is_power_of_two() || !(MIN_BLOCK..=MAX_BLOCK).contains(&bytes) {
                return Err(ParameterError::Block { bytes });
            }
        }
        let bytes = data_blocks.checked_mul(data_block.into()).filter(|bytes| *bytes <= i64::MAX as u64);
        if bytes.is_none_or(|bytes| bytes == 0) {
            return Err(ParameterError::DataBlocks { blocks: data_blocks });
        }
        if salt.len() > MAX_SALT {
            return Err(ParameterError::Salt { bytes: salt.len() });
        }
        Ok(Self { hash_type, hash: hash.into(), data_block, hash_block, data_blocks, salt: salt.into() })
    }

    /// How a block is hashed.
    pub fn hash_type(&self) -> HashType {
        self.hash_type
    }

    /// Name of the hash.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Bytes in a block of the data.
    pub fn data_block(&self) -> u32 {
        self.data_block
    }

    /// Bytes in a block of the tree.
    pub fn hash_block(&self) -> u32 {
        self.hash_block
    }

    /// Blocks of data.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks
    }

    /// Bytes of data.
    pub fn data_len(&self) -> u64 {
        // cannot overflow: `check` has looked.
        self.data_blocks.wrapping_mul(self.data_block.into())
    }

    /// The salt, which is no secret.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HashName => f.write_str("the name of the hash is not one"),
            Self::Block { bytes } => {
                write!(f, "blocks of {bytes} bytes are impossible: a power of two of 512 to 524288 is not")
            }
            Self::DataBlocks { blocks: 0 } => f.write_str("there is no block of data"),
            Self::DataBlocks { blocks } => write!(f, "{blocks} blocks of data are more than 2^63 bytes"),
            Self::Salt { bytes } => write!(f, "the salt has {bytes} bytes, more than 256"),
        }
    }
}

impl core::error::Error for ParameterError {}
