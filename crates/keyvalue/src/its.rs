//! Internal Trusted Storage of the PSA Certified Secure Storage API 1.0 (Arm IHI 0087, section 5.3), over a map.
//!
//! A map on sealed flash confirms all that the API asks of storage on an external chip: nobody reads, changes or puts back what is
//! stored. On `CryptFlash` it is confidential alone, which a chip's own flash may do with.

use core::fmt;

use atrest_codec::{Le, encode};
use atrest_device::FlashDevice;

use crate::{IndexEntry, KeyValue, MapError};

/// What the names of stored data begin with.
const LABEL: &[u8; 8] = b"psa its\0";

/// How data are created: `psa_storage_create_flags_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateFlags(u32);

/// What is known of stored data: `psa_storage_info_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageInfo {
    /// Bytes that are set aside: as many as are stored.
    pub capacity: usize,
    /// Bytes that are stored.
    pub size: usize,
    /// The flags that the data were created with.
    pub flags: CreateFlags,
}

/// The storage of one caller in a map. Callers do not see each other's data, whatever their identifiers.
#[derive(Debug)]
pub struct Its<'m, D, T, B> {
    map: &'m mut KeyValue<D, T, B>,
    caller: i32,
}

/// Why an operation failed, by the status codes of the API.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItsError {
    /// `PSA_ERROR_NOT_PERMITTED`: the data were created with [`CreateFlags::WRITE_ONCE`].
    NotPermitted,
    /// `PSA_ERROR_NOT_SUPPORTED`: a flag that the API does not have.
    NotSupported,
    /// `PSA_ERROR_INVALID_ARGUMENT`: the identifier is 0, or an offset lies behind the data.
    InvalidArgument,
    /// `PSA_ERROR_DOES_NOT_EXIST`: nothing is stored under the identifier.
    DoesNotExist,
    /// `PSA_ERROR_INSUFFICIENT_STORAGE`: there is no room.
    InsufficientStorage,
    /// `PSA_ERROR_STORAGE_FAILURE`: the medium failed, or what it holds was changed.
    StorageFailure(MapError),
}

impl CreateFlags {
    /// `PSA_STORAGE_FLAG_NONE`.
    pub const NONE: Self = Self(0);
    /// `PSA_STORAGE_FLAG_WRITE_ONCE`: the data can be neither changed nor removed.
    pub const WRITE_ONCE: Self = Self(1);
    /// `PSA_STORAGE_FLAG_NO_CONFIDENTIALITY`: the data may be public. They are encrypted all the same.
    pub const NO_CONFIDENTIALITY: Self = Self(2);
    /// `PSA_STORAGE_FLAG_NO_REPLAY_PROTECTION`: older data may be put back. On sealed flash they can't be all the same.
    pub const NO_REPLAY_PROTECTION: Self = Self(4);

    /// From the API's number. Bits that it does not have are refused when data are stored.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The API's number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// As it stands beside the data.
    fn attribute(self) -> Option<u8> {
        let all = Self::WRITE_ONCE.0 | Self::NO_CONFIDENTIALITY.0 | Self::NO_REPLAY_PROTECTION.0;
        u8::try_from(self.0).ok().filter(|_| self.0 & !all == 0)
    }
}

impl<'m, D, T, B> Its<'m, D, T, B>
where
    D: FlashDevice,
    T: AsRef<[IndexEntry]> + AsMut<[IndexEntry]>,
    B: AsMut<[u8]>,
{
    /// The storage of a caller, by the number that the platform gives it: 0 where there is only one.
    pub const fn new(map: &'m mut KeyValue<D, T, B>, caller: i32) -> Self {
        Self { map, caller }
    }

    /// `psa_its_set`: stores data, in the place of what was stored under the identifier.
    ///
    /// # Errors
    /// With nothing changed: [`ItsError::InvalidArgument`] if the identifier is 0, [`ItsError::NotSupported`] for an
    /// unknown flag, [`ItsError::NotPermitted`] if what is there was created with [`CreateFlags::WRITE_ONCE`],
    /// [`ItsError::InsufficientStorage`] if there is no room. [`ItsError::StorageFailure`] if the medium fails: the data
    /// are then the old ones or the new ones.
    pub fn set(&mut self, uid: u64, data: &[u8], flags: CreateFlags) -> Result<(), ItsError> {
        let name = self.name(uid)?;
        let attribute = flags.attribute().ok_or(ItsError::NotSupported)?;
        self.check_writable(&name)?;
        self.map.set_with(&name, data, attribute).map_err(ItsError::of)
    }

    /// `psa_its_get`: copies stored data from a byte of them on into `out`, as much as has room, and returns how much that is.
    ///
    /// # Errors
    /// [`ItsError::DoesNotExist`] if nothing is stored, [`ItsError::InvalidArgument`] if the identifier is 0 or `offset`
    /// larger than the data, [`ItsError::StorageFailure`] if the medium fails or was changed.
    pub fn get(&mut self, uid: u64, offset: usize, out: &mut [u8]) -> Result<usize, ItsError> {
        let name = self.name(uid)?;
        let info = self.map.info(&name).ok_or(ItsError::DoesNotExist)?;
        if offset > info.len.into() {
            return Err(ItsError::InvalidArgument);
        }
        self.map.read(&name, offset, out).map_err(ItsError::of)?.ok_or(ItsError::DoesNotExist)
    }

    /// `psa_its_get_info`: what is known of stored data.
    ///
    /// # Errors
    /// [`ItsError::DoesNotExist`] if nothing is stored, [`ItsError::InvalidArgument`] if the identifier is 0.
    pub fn info(&self, uid: u64) -> Result<StorageInfo, ItsError> {
        let info = self.map.info(&self.name(uid)?).ok_or(ItsError::DoesNotExist)?;
        let size = info.len.into();
        Ok(StorageInfo { capacity: size, size, flags: CreateFlags(info.attribute.into()) })
    }

    /// `psa_its_remove`: removes stored data.
    ///
    /// # Errors
    /// [`ItsError::DoesNotExist`] if nothing is stored, [`ItsError::InvalidArgument`] if the identifier is 0,
    /// [`ItsError::NotPermitted`] if they were created with [`CreateFlags::WRITE_ONCE`],
    /// [`ItsError::StorageFailure`] if the medium fails.
    pub fn remove(&mut self, uid: u64) -> Result<(), ItsError> {
        let name = self.name(uid)?;
        self.check_writable(&name)?;
        let was_there = self.map.remove(&name).map_err(ItsError::of)?;
        if was_there { Ok(()) } else { Err(ItsError::DoesNotExist) }
    }

    fn check_writable(&self, name: &[u8]) -> Result<(), ItsError> {
        let flags = self.map.info(name).map(|info| CreateFlags(info.attribute.into()));
        let is_final = flags.is_some_and(|flags| flags.has(CreateFlags::WRITE_ONCE));
        if is_final { Err(ItsError::NotPermitted) } else { Ok(()) }
    }

    fn name(&self, uid: u64) -> Result<[u8; 20], ItsError> {
        if uid == 0 {
            return Err(ItsError::InvalidArgument);
        }
        Ok(encode((*LABEL, self.caller.to_le_bytes(), Le(uid))))
    }
}

impl ItsError {
    /// The API's status code.
    pub const fn code(&self) -> i32 {
        match self {
            Self::NotPermitted => -133,
            Self::NotSupported => -134,
            Self::InvalidArgument => -135,
            Self::DoesNotExist => -140,
            Self::InsufficientStorage => -142,
            Self::StorageFailure(_) => -146,
        }
    }

    fn of(error: MapError) -> Self {
        match error {
            MapError::Full { .. } | MapError::ValueTooLong { .. } | MapError::IndexTooSmall { .. } => {
                Self::InsufficientStorage
            }
            other => Self::StorageFailure(other),
        }
    }
}

impl fmt::Display for ItsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("the data were created to be written once"),
            Self::NotSupported => f.write_str("a flag is none that the storage API has"),
            Self::InvalidArgument => f.write_str("the identifier is 0, or the offset lies behind the data"),
            Self::DoesNotExist => f.write_str("nothing is stored under this identifier"),
            Self::InsufficientStorage => f.write_str("there is no room for the data"),
            Self::StorageFailure(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ItsError {}
