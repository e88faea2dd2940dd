//! Keyslot areas: the split key as it lies on the media, encrypted in units of 512 bytes whose IVs count from 0.

use core::fmt;

use atrest_cipher::{CipherSpec, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError};
use atrest_secret::with_wiped_stack;

/// Bytes under one tweak in a keyslot area, whatever the data's unit is.
pub const UNIT: usize = 512;

/// Why an area could not be encrypted or decrypted.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaError {
    /// A null cipher would write the key in the clear.
    NullCipher,
    /// The key does not fit the cipher.
    Key(KeyError),
    /// The area is not a whole number of units.
    Run(RunError),
}

/// Encrypts a whole area in place. `area` is a multiple of [`UNIT`] bytes long.
///
/// # Errors
/// [`AreaError::NullCipher`] for a cipher that keeps nothing secret, [`AreaError::Key`] if the cipher does
/// not take `key`, [`AreaError::Run`] for any other length of `area`. The area is unchanged then.
pub fn encrypt(spec: &CipherSpec, key: &[u8], area: &mut [u8]) -> Result<(), AreaError> {
    with_wiped_stack(|| mapper(spec, key)?.encrypt(DataUnitIndex(0), area).map_err(AreaError::Run))
}

/// Decrypts a whole area in place. `area` is a multiple of [`UNIT`] bytes long.
///
/// # Errors
/// [`AreaError::NullCipher`] for a cipher that keeps nothing secret, [`AreaError::Key`] if the cipher does
/// not take `key`, [`AreaError::Run`] for any other length of `area`. The area is unchanged then.
pub fn decrypt(spec: &CipherSpec, key: &[u8], area: &mut [u8]) -> Result<(), AreaError> {
    with_wiped_stack(|| mapper(spec, key)?.decrypt(DataUnitIndex(0), area).map_err(AreaError::Run))
}

fn mapper(spec: &CipherSpec, key: &[u8]) -> Result<Mapper, AreaError> {
    if spec.is_null() {
        return Err(AreaError::NullCipher);
    }
    // The default data unit is a sector, as UNIT is.
    Mapper::new(spec, key, &MapperOptions::default()).map_err(AreaError::Key)
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AreaError::NullCipher => f.write_str("a keyslot area can't be encrypted with a null cipher"),
            AreaError::Key(error) => write!(f, "the keyslot's key does not fit its cipher: {error}"),
            AreaError::Run(error) => write!(f, "the keyslot area has an impossible length: {error}"),
        }
    }
}

impl core::error::Error for AreaError {}
