//! Sizes of a flash medium, and the checks that every implementor of [`FlashDevice`](crate::FlashDevice) makes first.

use core::fmt;

use crate::{FlashCause, FlashError, FlashOperation};

/// Sizes of a flash medium in bytes, and how many erase blocks it has. They need not be powers of two.
///
/// Invariants: none is 0; a prog unit is a whole number of read units, an erase block of prog units; the size in bytes
/// fits into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashGeometry {
    read_size: u32,
    prog_size: u32,
    erase_size: u32,
    block_count: u64,
}

/// Why sizes do not make a geometry.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// A size or the number of blocks is 0.
    Zero,
    /// A prog unit is not a whole number of read units.
    ProgSize {
        /// Bytes in a read unit.
        read_size: u32,
        /// Bytes in a prog unit.
        prog_size: u32,
    },
    /// An erase block is not a whole number of prog units.
    EraseSize {
        /// Bytes in a prog unit.
        prog_size: u32,
        /// Bytes in an erase block.
        erase_size: u32,
    },
    /// The medium would have more than 2^64 - 1 bytes.
    TooLarge {
        /// Bytes in an erase block.
        erase_size: u32,
        /// Erase blocks.
        block_count: u64,
    },
}

impl FlashGeometry {
    /// Checks and joins the sizes: bytes that are read at least, programmed at least, erased at least, and the number
    /// of erase blocks.
    ///
    /// # Errors
    /// [`GeometryError::Zero`] if a number is 0, [`GeometryError::ProgSize`] or [`GeometryError::EraseSize`] if a
    /// size is not a multiple of the one before it, [`GeometryError::TooLarge`] if the bytes in all do not fit into
    /// 64 bits.
    pub const fn new(
        read_size: u32,
        prog_size: u32,
        erase_size: u32,
        block_count: u64,
    ) -> Result<Self, GeometryError> {
        if read_size == 0 || prog_size == 0 || erase_size == 0 || block_count == 0 {
            return Err(GeometryError::Zero);
        }
        if !prog_size.is_multiple_of(read_size) {
            return Err(GeometryError::ProgSize { read_size, prog_size });
        }
        if !erase_size.is_multiple_of(prog_size) {
            return Err(GeometryError::EraseSize { prog_size, erase_size });
        }
        if block_count.checked_mul(erase_size as u64).is_none() {
            return Err(GeometryError::TooLarge { erase_size, block_count });
        }
        Ok(Self { read_size, prog_size, erase_size, block_count })
    }

    /// Reads begin and end at multiples of so many bytes.
    pub const fn read_size(&self) -> u32 {
        self.read_size
    }

    /// Bytes in a prog unit.
    pub const fn prog_size(&self) -> u32 {
        self.prog_size
    }

    /// Bytes in an erase block.
    pub const fn erase_size(&self) -> u32 {
        self.erase_size
    }

    /// Number of erase blocks.
    pub const fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Bytes in all.
    pub const fn size(&self) -> u64 {
        self.block_count * self.erase_size as u64
    }

    /// Prog units in an erase block.
    pub const fn units_per_block(&self) -> u32 {
        self.erase_size / self.prog_size
    }

    /// Fails unless the operation may be tried on this range: aligned for it, and inside the medium.
    ///
    /// # Errors
    /// [`FlashCause::Misaligned`] with the unit of the operation, [`FlashCause::OutOfBounds`] with the size of the
    /// medium.
    pub const fn check(&self, operation: FlashOperation, address: u64, len: u64) -> Result<(), FlashError> {
        let multiple = match operation {
            FlashOperation::Read => self.read_size,
            FlashOperation::Prog | FlashOperation::BlankQuery => self.prog_size,
            FlashOperation::Erase => self.erase_size,
            FlashOperation::Sync => 1,
        };
        if !address.is_multiple_of(multiple as u64) || !len.is_multiple_of(multiple as u64) {
            return Err(FlashError::new(operation, address, len, FlashCause::Misaligned { multiple }));
        }
        match address.checked_add(len) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(FlashError::new(operation, address, len, FlashCause::OutOfBounds { size: self.size() })),
        }
    }
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("a flash medium has no size that is 0"),
            Self::ProgSize { read_size, prog_size } => write!(
                f,
                "a prog unit of {prog_size} bytes is not a whole number of {read_size}-byte read units"
            ),
            Self::EraseSize { prog_size, erase_size } => write!(
                f,
                "an erase block of {erase_size} bytes is not a whole number of {prog_size}-byte prog units"
            ),
            Self::TooLarge { erase_size, block_count } => {
                write!(f, "{block_count} erase blocks of {erase_size} bytes do not fit into 64 bits")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

#[cfg(test)]
mod tests {
    use super::*;

    const NOR: FlashGeometry = match FlashGeometry::new(1, 16, 4096, 1 << 21) {
        Ok(geometry) => geometry,
        Err(_) => panic!("a geometry of 8 GiB"),
    };

    #[test]
    fn sizes_that_do_not_divide_each_other_are_refused_with_their_numbers() {
        assert_eq!(FlashGeometry::new(1, 0, 4096, 4), Err(GeometryError::Zero));
        assert_eq!(FlashGeometry::new(1, 16, 4096, 0), Err(GeometryError::Zero));
        assert_eq!(
            FlashGeometry::new(4, 18, 4096, 4),
            Err(GeometryError::ProgSize { read_size: 4, prog_size: 18 })
        );
        assert_eq!(
            FlashGeometry::new(1, 252, 4096, 4),
            Err(GeometryError::EraseSize { prog_size: 252, erase_size: 4096 })
        );
        assert!(FlashGeometry::new(252, 252, 3780, 4).is_ok(), "not only powers of two");
        assert_eq!(
            FlashGeometry::new(1, 16, 1 << 16, 1 << 48),
            Err(GeometryError::TooLarge { erase_size: 1 << 16, block_count: 1 << 48 })
        );
        assert!(FlashGeometry::new(1, 16, 1 << 16, (1 << 48) - 1).is_ok());
    }

    #[test]
    fn ranges_are_checked_against_the_units_of_the_operation_and_the_size() {
        let cause = |operation, address, len| NOR.check(operation, address, len).map_err(|error| error.cause);
        let end = 8 << 30;
        assert_eq!(NOR.size(), end);
        assert_eq!(cause(FlashOperation::Read, end - 1, 1), Ok(()));
        assert_eq!(cause(FlashOperation::Read, end, 0), Ok(()));
        assert_eq!(cause(FlashOperation::Read, end, 1), Err(FlashCause::OutOfBounds { size: end }));
        assert_eq!(
            cause(FlashOperation::Prog, u64::MAX - 15, 32),
            Err(FlashCause::OutOfBounds { size: end })
        );
        assert_eq!(cause(FlashOperation::Prog, 8, 16), Err(FlashCause::Misaligned { multiple: 16 }));
        assert_eq!(cause(FlashOperation::Prog, 16, 24), Err(FlashCause::Misaligned { multiple: 16 }));
        assert_eq!(cause(FlashOperation::Erase, 4096, 4096), Ok(()));
        assert_eq!(cause(FlashOperation::Erase, 512, 4096), Err(FlashCause::Misaligned { multiple: 4096 }));
    }
}
