//! What can go wrong with a BitLocker volume alone.

use core::fmt;

use atrest_format::bitlocker::{BootError, LayoutError, MetadataError, Protection, State};

/// Why a BitLocker volume can't be opened.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BitLockerError {
    /// Nothing of BitLocker is there.
    NotBitLocker,
    /// The boot sector can't be used.
    Boot(BootError),
    /// No copy of the metadata can be used; this is wrong with the first one.
    Metadata(MetadataError),
    /// What is encrypted, only a bitmap says.
    OnWrite,
    /// The volume is in a state that is not known here.
    State(State),
    /// The data is encrypted in a way that is not known.
    Method(u16),
    /// The data can't be where the metadata says.
    Layout(LayoutError),
    /// No protector opens with what was given.
    NotOpened {
        /// What the protectors take.
        protectors: Vec<Protection>,
    },
    /// No protector is of a kind that can be opened here.
    NoneToTry {
        /// What the protectors take.
        protectors: Vec<Protection>,
    },
    /// What a protector or the volume master key opens is no key.
    Datum,
    /// A key has a length that its cipher has not.
    KeyLen {
        /// Bytes it has.
        has: usize,
        /// Bytes it needs.
        needs: usize,
    },
    /// The metadata is not what was written: its hash under the volume master key is another one.
    Validation,
}

/// What protectors take, each once.
struct Kinds<'a>(&'a [Protection]);

impl fmt::Display for Kinds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<Protection> = Vec::new();
        for kind in self.0 {
            if told.contains(kind) {
                continue;
            }
            let comma = if told.is_empty() { "" } else { ", " };
            write!(f, "{comma}{kind}")?;
            told.push(*kind);
        }
        if told.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Display for BitLockerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBitLocker => f.write_str("it is not a BitLocker volume"),
            Self::Boot(error) => write!(f, "the BitLocker volume can't be opened: {error}"),
            Self::Metadata(error) => {
                write!(f, "no copy of BitLocker's metadata can be used; of the first one, {error}")
            }
            Self::OnWrite => f.write_str(
                "BitLocker has encrypted it only where it was written, and what that is stands in a bitmap",
            ),
            Self::State(state) => {
                write!(f, "the BitLocker volume has the state \"{state}\", which can't be opened")
            }
            Self::Method(number) => {
                write!(f, "the data is encrypted by the method {number:#06x}, which is not known")
            }
            Self::Layout(error) => write!(f, "the BitLocker volume does not fit: {error}"),
            Self::NotOpened { protectors } => {
                write!(f, "no protector opens with this; there are: {}", Kinds(protectors))
            }
            Self::NoneToTry { protectors } => {
                write!(f, "no protector can be opened here; there are: {}", Kinds(protectors))
            }
            Self::Datum => f.write_str("what should be a key in BitLocker's metadata is none"),
            Self::KeyLen { has, needs } => write!(f, "the key has {has} bytes, but the cipher's has {needs}"),
            Self::Validation => f.write_str(
                "BitLocker's metadata was changed: it does not have the hash that its key verifies",
            ),
        }
    }
}

crate::error::source! { BitLockerError: Boot Metadata Layout; }
