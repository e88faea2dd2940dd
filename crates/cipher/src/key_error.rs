//! Why a key, or what goes with it, was refused.

use core::fmt;

/// Why no mapper could be made of a specification and a key.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The specification takes no key of this length.
    Length {
        /// Bytes in the key.
        len: usize,
    },
    /// Both halves of an XTS key are the same, which makes XTS weaker than its proof.
    EqualXtsHalves,
    /// The null cipher encrypts nothing.
    NullCipher,
    /// This build was made without the cipher.
    NotBuilt {
        /// The cargo feature of this crate that brings it.
        feature: &'static str,
    },
    /// Not one to three ciphers, or ciphers whose blocks differ in length: they make no chain.
    Chain,
    /// The mode takes no cipher with blocks of this length.
    Block {
        /// Bytes in a block.
        len: usize,
    },
    /// The AES engine is not there, failed, or computes something else than AES.
    Engine,
    /// A data unit must be a multiple of 16 bytes, and at least 16.
    DataUnit {
        /// Bytes asked for.
        len: usize,
    },
    /// The IV rule was made for data units of 512 bytes, or for multiples of that.
    IvRuleDataUnit {
        /// Bytes asked for.
        len: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len } => write!(f, "the cipher takes no key of {len} bytes"),
            Self::EqualXtsHalves => f.write_str("the two halves of the XTS key are equal"),
            Self::NotBuilt { feature } => {
                write!(f, "this program was built without the cipher feature \"{feature}\"")
            }
            Self::Chain => f.write_str("one chain takes one to three ciphers, with blocks of one length"),
            Self::Block { len } => write!(f, "the mode takes no cipher with blocks of {len} bytes"),
            Self::Engine => f.write_str("the AES engine is not there, or computes something else than AES"),
            Self::NullCipher => f.write_str("the null cipher does not encrypt"),
            Self::DataUnit { len } => write!(f, "a data unit of {len} bytes is not a multiple of 16 bytes"),
            Self::IvRuleDataUnit { len } => write!(f, "the IV rule does not take data units of {len} bytes"),
        }
    }
}

impl core::error::Error for KeyError {}
