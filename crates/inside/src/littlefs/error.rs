//! What a LittleFS alone can have wrong with it, with the numbers a person needs.

use core::fmt;

use atrest_device::{FlashGeometry, GeometryError};
use atrest_filetree::{Fault, TreeError};
use atrest_littlefs::{Damage, MountError};

/// The metadata of a LittleFS are not what a littlefs writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LittleFsDamage(pub Damage);

/// Why a LittleFS that is not damaged can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LittleFsFault {
    /// The sizes in its superblock do not make a flash medium.
    Geometry(GeometryError),
    /// littlefs can't use a flash medium of these sizes.
    Unusable(FlashGeometry),
    /// It can't be mounted on this medium, or refuses for a reason of its own.
    Refused(MountError),
}

impl fmt::Display for LittleFsDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the LittleFS is damaged: {}", self.0)
    }
}

impl fmt::Display for LittleFsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry(error) => error.fmt(f),
            Self::Unusable(geometry) => write!(
                f,
                "a LittleFS has no room in {} x {} bytes: it takes two erase blocks of 128 bytes at least",
                geometry.block_count(),
                geometry.erase_size()
            ),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LittleFsDamage {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl core::error::Error for LittleFsFault {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Geometry(error) => Some(error),
            Self::Unusable(_) => None,
            Self::Refused(error) => Some(error),
        }
    }
}

impl From<LittleFsFault> for TreeError {
    fn from(fault: LittleFsFault) -> Self {
        Self::Filesystem(Fault::new(fault))
    }
}
