//! The superblock of dm-integrity (`drivers/md/dm-integrity.c` of the kernel; versions 1 to 5): how much room for data it found beside
//! its tags and its journal.

use core::fmt;

use atrest_codec::{Le, decode};

/// Bytes that the superblock takes on the media, of which 512 are read.
pub const SUPERBLOCK_LEN: usize = 4096;

const MAGIC: [u8; 8] = *b"integrt\0";

/// What the kernel wrote when it laid out the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of tag beside each data unit.
    pub tag_len: u16,
    /// Bytes of data that the device provides.
    pub provided: u64,
    /// Bytes in a data unit: 512 to 4096.
    pub data_unit: u32,
}

/// Why a superblock can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// There is none: the bytes are too few, or do not begin with its magic.
    Missing,
    /// The version is not one of 1 to 5.
    Version(u8),
    /// Data units are longer than 4096 bytes.
    DataUnit {
        /// Base-2 logarithm of the sectors in one.
        log2_sectors: u8,
    },
    /// The data is no whole number of data units, or is too long for 64 bits.
    Provided {
        /// Sectors of 512 bytes.
        sectors: u64,
    },
}

/// Magic, version, interleaving, bytes of tag, journal sections, sectors provided, flags, size of a data unit, the rest.
type Fields = ([u8; 8], [u8; 1], [u8; 1], Le<u16>, [u8; 4], Le<u64>, [u8; 4], [u8; 1], [u8; 11]);

impl Superblock {
    /// Reads the first bytes of a dm-integrity device, of which at least 40 are needed.
    ///
    /// # Errors
    /// [`SuperblockError::Missing`] if this is no dm-integrity device or has fewer than 40 bytes. The others
    /// name the field of a superblock that is not acceptable.
    pub fn parse(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let bytes: &[u8; 40] = bytes.first_chunk().ok_or(SuperblockError::Missing)?;
        let (magic, [version], _, Le(tag_len), _, Le(sectors), _, [log2_sectors], _): Fields = decode(bytes);
        if magic != MAGIC {
            return Err(SuperblockError::Missing);
        }
        if !(1..=5).contains(&version) {
            return Err(SuperblockError::Version(version));
        }
        if log2_sectors > 3 {
            return Err(SuperblockError::DataUnit { log2_sectors });
        }
        let data_unit = 512_u32 << log2_sectors;
        let provided = sectors.checked_mul(512).filter(|bytes| bytes.is_multiple_of(data_unit.into()));
        let provided = provided.ok_or(SuperblockError::Provided { sectors })?;
        Ok(Self { tag_len, provided, data_unit })
    }
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("dm-integrity's superblock is missing"),
            Self::Version(version) => {
                write!(f, "dm-integrity's superblock has the unknown version {version}")
            }
            Self::DataUnit { log2_sectors } => {
                write!(f, "dm-integrity's superblock asks for data units of 2^{log2_sectors} sectors")
            }
            Self::Provided { sectors } => {
                write!(f, "dm-integrity's superblock provides {sectors} sectors, which can't be")
            }
        }
    }
}

impl core::error::Error for SuperblockError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel 6.1 wrote it for 4 MiB with `hmac(sha256)`; what `dmsetup table` says of it is in the test.
    fn superblock() -> [u8; 512] {
        let mut bytes = [0; 512];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = 4;
        bytes[9] = 15;
        bytes[10] = 32;
        bytes[12] = 1;
        bytes[16..24].copy_from_slice(&3568_u64.to_le_bytes());
        bytes[28] = 3;
        bytes
    }

    #[test]
    fn what_the_kernel_wrote_is_found() {
        let expected = Superblock { tag_len: 32, provided: 3568 * 512, data_unit: 4096 };
        assert_eq!(Superblock::parse(&superblock()), Ok(expected));
        assert_eq!(Superblock::parse(&superblock()[..40]), Ok(expected));
        for version in 1..=5 {
            let mut bytes = superblock();
            bytes[8] = version;
            assert_eq!(Superblock::parse(&bytes), Ok(expected), "version {version}");
        }
        for log2_sectors in 0..=3 {
            let mut bytes = superblock();
            bytes[28] = log2_sectors;
            let data_unit = 512 << log2_sectors;
            assert_eq!(Superblock::parse(&bytes), Ok(Superblock { data_unit, ..expected }));
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = superblock();
            bytes[at] = byte;
            Superblock::parse(&bytes)
        };
        assert_eq!(with(0, b'I'), Err(SuperblockError::Missing));
        assert_eq!(Superblock::parse(&superblock()[..39]), Err(SuperblockError::Missing));
        assert_eq!(with(8, 0), Err(SuperblockError::Version(0)));
        assert_eq!(with(8, 6), Err(SuperblockError::Version(6)));
        assert_eq!(with(28, 4), Err(SuperblockError::DataUnit { log2_sectors: 4 }));
        assert_eq!(with(16, 0xf1), Err(SuperblockError::Provided { sectors: 3569 }));
        assert!(matches!(with(23, 0x80), Err(SuperblockError::Provided { .. })));
    }
}
