//! How an encrypting flash device is set up: what blank units read as, and which units medium and cipher have in common.

use core::fmt;

use atrest_device::GeometryError;

/// What reading a blank unit yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlankReads {
    /// The medium's erased bytes, decrypted: garbage, but always the same. littlefs asks for no more, and a reader of
    /// the plaintext learns nothing of what is blank.
    #[default]
    Decrypted,
    /// 0xFF, for stacks that look whether flash is erased. Reads are then of whole prog units.
    Erased,
}

/// Why an encrypting device could not be set up.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptFlashError {
    /// The medium's units and the cipher's are no multiples of each other.
    Granularity {
        /// Bytes that the cipher takes at least.
        granularity: usize,
        /// Bytes in a unit of the medium.
        unit: u32,
    },
    /// The units that result do not fit the medium's erase blocks.
    Geometry(GeometryError),
    /// The bounce buffer has no room for a prog unit.
    BounceTooSmall {
        /// Bytes that are needed.
        needs: u32,
        /// Bytes that there are.
        has: usize,
    },
}

/// What is to be encrypted where it is. Zeros when dropped before that, because the cipher refused or nobody waited for it.
pub(crate) struct Plaintext<'a>(&'a mut [u8]);

impl<'a> Plaintext<'a> {
    /// A copy, in a place of the same length.
    pub(crate) fn copied(plain: &[u8], to: &'a mut [u8]) -> Self {
        to.copy_from_slice(plain);
        Self(to)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.0
    }

    /// It has been encrypted, and stays.
    pub(crate) fn encrypted(mut self) -> &'a mut [u8] {
        core::mem::take(&mut self.0)
    }
}

impl Drop for Plaintext<'_> {
    fn drop(&mut self) {
        self.0.fill(0);
    }
}

/// The smallest unit that is whole for medium and cipher, of which one has to divide the other.
pub(crate) fn common_unit(unit: u32, granularity: usize) -> Result<u32, CryptFlashError> {
    let mismatch = CryptFlashError::Granularity { granularity, unit };
    let taken = u32::try_from(granularity).map_err(|_| mismatch)?;
    if taken != 0 && unit.is_multiple_of(taken) {
        Ok(unit)
    } else if taken.is_multiple_of(unit) && taken != 0 {
        Ok(taken)
    } else {
        Err(mismatch)
    }
}

impl fmt::Display for CryptFlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granularity { granularity, unit } => write!(
                f,
                "the cipher takes {granularity} bytes at least, which does not go with the medium's units of {unit} bytes"
            ),
            Self::Geometry(error) => write!(f, "cipher and medium do not go together: {error}"),
            Self::BounceTooSmall { needs, has } => {
                write!(f, "the bounce buffer has {has} bytes, a prog unit needs {needs}")
            }
        }
    }
}

impl core::error::Error for CryptFlashError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_unit_is_the_larger_one_which_the_other_divides() {
        for (unit, granularity, common) in
            [(16, 16, 16), (512, 16, 512), (16, 1, 16), (1, 16, 16), (16, 512, 512), (256, 512, 512)]
        {
            assert_eq!(common_unit(unit, granularity), Ok(common), "{unit}, {granularity}");
        }
        for (unit, granularity) in [(16, 0), (16, 24), (24, 16), (16, 1 << 32), (1, (1 << 32) + 16)] {
            let refused = Err(CryptFlashError::Granularity { granularity, unit });
            assert_eq!(common_unit(unit, granularity), refused, "{unit}, {granularity}");
        }
    }
}
