//! What can be wrong with a LUKS1 header or keyslot, by field and number.

use core::fmt;

use atrest_cipher::SpecError;
use atrest_kdf::{HashError, KdfError};

use crate::af::AfError;
use crate::area::AreaError;

/// Why bytes are not an acceptable LUKS1 header.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    Truncated {
        /// Bytes there are.
        has: usize,
    },
    /// The magic is not LUKS's.
    Magic,
    /// The version is not 1.
    Version {
        /// The version.
        version: u16,
    },
    /// A text field is empty, not terminated by a zero byte or not printable ASCII.
    Text {
        /// Which one.
        field: TextField,
    },
    /// The volume key's length is zero or more than any cipher takes.
    KeyLen {
        /// Bytes.
        bytes: u32,
    },
    /// The volume key's digest has no iterations.
    DigestIterations,
    /// The state of a keyslot is neither of the two words that exist.
    SlotState {
        /// The keyslot.
        slot: usize,
        /// The word.
        word: u32,
    },
    /// There is no keyslot of that number.
    NoSuchSlot {
        /// The number.
        slot: usize,
    },
    /// A keyslot in use has no iterations.
    SlotIterations {
        /// The keyslot.
        slot: usize,
    },
    /// The number of stripes is zero or beyond reason.
    Stripes {
        /// The keyslot.
        slot: usize,
        /// The number.
        stripes: u32,
    },
    /// A keyslot area starts inside the header.
    AreaInsideHeader {
        /// The keyslot.
        slot: usize,
        /// Its first sector.
        sector: u32,
    },
    /// A keyslot area reaches into the data.
    AreaInsideData {
        /// The keyslot.
        slot: usize,
        /// First sector behind the area.
        end: u64,
        /// First sector of the data.
        data: u32,
    },
    /// Two keyslot areas share sectors.
    AreaOverlap {
        /// A keyslot.
        a: usize,
        /// The other one.
        b: usize,
    },
}

/// A text field of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// Cipher name.
    CipherName,
    /// Cipher mode.
    CipherMode,
    /// Hash of the splitter, of PBKDF2 and of the digest.
    Hash,
    /// UUID.
    Uuid,
}

/// Why a keyslot can't be opened or written.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// There is no such keyslot, or it holds no key.
    NotInUse,
    /// The header's hash is not known, or its digests are shorter than 20 bytes.
    UnsupportedHash,
    /// The header's hash is one that this build was made without.
    HashNotBuilt(HashError),
    /// The header's cipher is not known.
    UnsupportedCipher(SpecError),
    /// This program does not contain the header's cipher.
    CipherNotHere,
    /// This program does not contain the header's hash.
    HashNotHere,
    /// The keyslot or the volume key's digest asks for more work than the program takes on.
    TooManyIterations {
        /// Iterations.
        iterations: u32,
        /// Most that are taken.
        most: u32,
    },
    /// The keyslot's key is split into more stripes than the program reads.
    TooManyStripes {
        /// Stripes.
        stripes: u32,
        /// Most that are read.
        most: u32,
    },
    /// The cipher keeps nothing secret.
    NullCipher,
    /// The cipher has no keys of the header's key length.
    KeyLenForCipher {
        /// Bytes.
        bytes: usize,
    },
    /// A buffer of the caller has the wrong length.
    BufferLen {
        /// Bytes it has.
        has: usize,
        /// Bytes it must have.
        needs: usize,
    },
    /// The key derivation was refused.
    Kdf(KdfError),
    /// The splitter failed.
    Af(AfError),
    /// The area could not be encrypted or decrypted.
    Area(AreaError),
    /// The key that came out is not the volume's: the passphrase is wrong or the area is damaged.
    WrongKey,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Truncated { has } => write!(f, "only {has} of its 592 bytes are there"),
            HeaderError::Magic => f.write_str("it does not start with the LUKS magic"),
            HeaderError::Version { version } => write!(f, "its version is {version} instead of 1"),
            HeaderError::Text { field } => {
                write!(f, "its {field} is empty, unterminated or not printable ASCII")
            }
            HeaderError::KeyLen { bytes } => write!(f, "it names a volume key of {bytes} bytes"),
            HeaderError::DigestIterations => f.write_str("its digest has 0 iterations"),
            HeaderError::SlotState { slot, word } => {
                write!(f, "the state of keyslot {slot} is 0x{word:08x}, neither in use nor free")
            }
            HeaderError::NoSuchSlot { slot } => write!(f, "it has no keyslot {slot}"),
            HeaderError::SlotIterations { slot } => write!(f, "keyslot {slot} is in use with 0 iterations"),
            HeaderError::Stripes { slot, stripes } => write!(f, "keyslot {slot} has {stripes} stripes"),
            HeaderError::AreaInsideHeader { slot, sector } => {
                write!(f, "the area of keyslot {slot} starts at sector {sector}, inside the header")
            }
            HeaderError::AreaInsideData { slot, end, data } => write!(
                f,
                "the area of keyslot {slot} ends at sector {end}, but the data starts at sector {data}"
            ),
            HeaderError::AreaOverlap { a, b } => write!(f, "the areas of keyslots {a} and {b} overlap"),
        }
    }
}

impl fmt::Display for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextField::CipherName => "cipher name",
            TextField::CipherMode => "cipher mode",
            TextField::Hash => "hash name",
            TextField::Uuid => "UUID",
        })
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::NotInUse => f.write_str("the keyslot holds no key"),
            SlotError::HashNotBuilt(error) => error.fmt(f),
            SlotError::UnsupportedHash => f.write_str("the header's hash is not supported"),
            SlotError::UnsupportedCipher(error) => write!(f, "the header's cipher is not supported: {error}"),
            SlotError::CipherNotHere => f.write_str("this program does not contain the header's cipher"),
            SlotError::HashNotHere => f.write_str("this program does not contain the header's hash"),
            SlotError::TooManyIterations { iterations, most } => {
                write!(f, "the header asks for {iterations} iterations, and {most} are taken at most")
            }
            SlotError::TooManyStripes { stripes, most } => {
                write!(f, "the keyslot has {stripes} stripes, and {most} are read at most")
            }
            SlotError::NullCipher => {
                f.write_str("the header's cipher is a null cipher, which keeps nothing secret")
            }
            SlotError::KeyLenForCipher { bytes } => {
                write!(f, "the header's cipher has no keys of {bytes} bytes")
            }
            SlotError::BufferLen { has, needs } => write!(f, "a buffer has {has} bytes instead of {needs}"),
            SlotError::Kdf(error) => error.fmt(f),
            SlotError::Af(error) => error.fmt(f),
            SlotError::Area(error) => error.fmt(f),
            SlotError::WrongKey => f.write_str("the keyslot does not open with this passphrase"),
        }
    }
}

impl core::error::Error for HeaderError {}
impl core::error::Error for SlotError {}

impl From<KdfError> for SlotError {
    fn from(error: KdfError) -> Self {
        Self::Kdf(error)
    }
}

impl From<AfError> for SlotError {
    fn from(error: AfError) -> Self {
        Self::Af(error)
    }
}

impl From<AreaError> for SlotError {
    fn from(error: AreaError) -> Self {
        match error {
            AreaError::NullCipher => Self::NullCipher,
            other => Self::Area(other),
        }
    }
}
