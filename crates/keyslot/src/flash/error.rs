//! What can be wrong with a flash header or one of its keyslots.

use core::fmt;

use atrest_secret::RandomError;

use super::cost::KdfCost;
use super::derive::DeriveError;
use super::params::ParamsError;
use super::slot::DeviceSecretError;
use super::{MAX_PASSPHRASE_LEN, VERSION};

/// Why bytes are not an acceptable header.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Flash that was erased, and holds nothing.
    Blank,
    /// The magic is not there: something else is on this medium.
    Foreign,
    /// The checksum does not fit: half-written or damaged.
    Checksum,
    /// Another version, and its checksum fits.
    Version {
        /// The version.
        version: u16,
    },
    /// What the header says of the volume is not acceptable.
    Params(ParamsError),
    /// The state of a keyslot is none that exists.
    SlotState {
        /// The keyslot.
        slot: usize,
        /// Its state.
        state: u8,
    },
    /// A keyslot has flags that are not known.
    SlotFlags {
        /// The keyslot.
        slot: usize,
        /// Its flags.
        flags: u8,
    },
    /// A keyslot names a key derivation that is not known, or that has more parameters than it should.
    SlotKdf {
        /// The keyslot.
        slot: usize,
        /// Number of the derivation.
        kdf: u8,
    },
    /// A keyslot's derivation is undefined or absurdly dear.
    SlotCost {
        /// The keyslot.
        slot: usize,
        /// The cost.
        cost: KdfCost,
    },
    /// The volume key is being rotated, and the program can't: the feature `rotate` is not in it. Or the header holds two old keys, or is
    /// not of a sealed volume.
    Rotating {
        /// The keyslot with the old key.
        slot: usize,
    },
    /// There is something where a keyslot should hold zeros.
    SlotJunk {
        /// The keyslot.
        slot: usize,
    },
}

/// Why a keyslot was not opened or made.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// A passphrase of no bytes.
    EmptyPassphrase,
    /// A passphrase of more bytes than are taken.
    PassphraseTooLong {
        /// Bytes it has.
        len: usize,
    },
    /// The passphrase or the device secret is another one, or the header was changed on purpose.
    WrongKey,
    /// The keyslot opens only together with the secret of the chip that made it.
    NeedsDevice,
    /// The chip did not answer.
    Device(DeviceSecretError),
    /// Nothing was derived.
    Derive(DeriveError),
    /// A derivation that would be refused when it is read.
    Cost(KdfCost),
    /// The random source failed. Nothing was written.
    Random,
    /// The volume key belongs to another volume, or there is none.
    OtherVolume,
}

impl From<ParamsError> for HeaderError {
    fn from(error: ParamsError) -> Self {
        Self::Params(error)
    }
}

impl From<RandomError> for SlotError {
    fn from(_: RandomError) -> Self {
        Self::Random
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("the flash is erased"),
            Self::Foreign => f.write_str("there is something else than a flash header"),
            Self::Checksum => f.write_str("it is half-written or damaged: its checksum does not fit"),
            Self::Version { version } => {
                write!(f, "its version is {version}, this program knows version {VERSION}")
            }
            Self::Params(error) => error.fmt(f),
            Self::SlotState { slot, state } => {
                write!(f, "the state {state} of keyslot {slot} does not exist")
            }
            Self::SlotFlags { slot, flags } => write!(f, "keyslot {slot} has unknown flags {flags:#04x}"),
            Self::SlotKdf { slot, kdf } => {
                write!(f, "the key derivation {kdf} of keyslot {slot} is not known in this form")
            }
            Self::SlotCost { slot, cost } => {
                write!(f, "keyslot {slot} asks for an absurd key derivation: {cost:?}")
            }
            Self::Rotating { slot } => write!(
                f,
                "keyslot {slot} holds an old volume key where none can be, or this program can't rotate keys (feature `rotate`)"
            ),
            Self::SlotJunk { slot } => write!(f, "keyslot {slot} holds something where zeros belong"),
        }
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPassphrase => f.write_str("the passphrase is empty"),
            Self::PassphraseTooLong { len } => {
                write!(f, "the passphrase has {len} bytes, at most {MAX_PASSPHRASE_LEN} are taken")
            }
            Self::WrongKey => f.write_str("no keyslot opens with this"),
            Self::NeedsDevice => f.write_str("the keyslot needs the secret of the chip that made it"),
            Self::Device(error) => error.fmt(f),
            Self::Derive(error) => error.fmt(f),
            Self::Cost(cost) => write!(f, "the key derivation would be refused when read: {cost:?}"),
            Self::Random => {
                f.write_str("the random source failed, so no key was made and nothing was written")
            }
            Self::OtherVolume => f.write_str("the volume key is that of another volume"),
        }
    }
}

impl core::error::Error for HeaderError {}
impl core::error::Error for SlotError {}
