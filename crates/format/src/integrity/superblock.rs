//! The superblock: how much room for data there is beside the tags and the journal.

use core::fmt;

use atrest_codec::{Le, decode, encode};

/// Bytes that the superblock takes on the media, of which 512 are read.
pub const SUPERBLOCK_LEN: usize = 4096;

const MAGIC: [u8; 8] = *b"integrt\0";
/// The longest tag: an entry of the journal with it, for data units of 4096 bytes, fills a sector.
const MAX_TAG: u16 = 424;

/// What whoever laid the device out wrote, and what is going on with its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The version, 1 to 5.
    pub version: u8,
    /// Base-2 logarithm of the sectors of data between two runs of tags; 0 if the data is on a device of its own.
    pub log2_interleave: u8,
    /// Bytes of tag beside each data unit.
    pub tag_len: u16,
    /// Sections of the journal, 1 or more.
    pub journal_sections: u32,
    /// Bytes of data that the device provides.
    pub provided: u64,
    /// What is special about it.
    pub flags: Flags,
    /// Bytes in a data unit: 512 to 4096.
    pub data_unit: u32,
    /// Base-2 logarithm of the data units for which a bit of the bitmap stands.
    pub log2_units_per_bit: u8,
    /// Sector from which on the tags are still to be computed, while [`Flags::recalculating`] is set.
    pub recalculate: u64,
    /// Goes into each keyed hash if [`Flags::fixed_hmac`] is set.
    pub salt: [u8; 16],
}

/// The flags of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The sections of the journal have a keyed hash.
    pub journal_mac: bool,
    /// Tags are missing from [`Superblock::recalculate`] on.
    pub recalculating: bool,
    /// The place of the journal holds a bitmap of what may have wrong tags.
    pub dirty_bitmap: bool,
    /// Runs of tags end at 4096 bytes, not at 128 KiB.
    pub fixed_padding: bool,
    /// Keyed hashes begin with the salt.
    pub fixed_hmac: bool,
}

/// Why a superblock can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// There is none: the bytes are too few, or do not begin with its magic.
    Missing,
    /// The version is not one of 1 to 5.
    Version(u8),
    /// Version 6: the tags lie in the drive's own metadata of each sector, which needs such a drive.
    Inline,
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
    /// Tags have no byte, or more than fit in an entry of the journal.
    TagLen(u16),
    /// The base-2 logarithm of the sectors between two runs of tags is neither 0 nor 3 to 31.
    Interleave(u8),
    /// There is no journal.
    Journal,
    /// There are flags that are not known.
    Flags(u32),
    /// A bit of the bitmap stands for more than there can be.
    Bitmap(u8),
    /// Tags are missing from a sector on that lies behind the data.
    Recalculate {
        /// The sector.
        sector: u64,
    },
}

/// Magic, version, interleaving, bytes of tag, journal sections, sectors provided, flags, size of a data unit, units per bit of the
/// bitmap, nothing, the sector to be recalculated, nothing, salt.
type Fields = (
    [u8; 8],
    [u8; 1],
    [u8; 1],
    Le<u16>,
    Le<u32>,
    Le<u64>,
    Le<u32>,
    [u8; 1],
    [u8; 1],
    [u8; 2],
    Le<u64>,
    ([u8; 8], [u8; 16]),
);

impl Superblock {
    /// Reads the first bytes of a dm-integrity device, of which at least 64 are needed.
    ///
    /// # Errors
    /// [`SuperblockError::Missing`] if this is no dm-integrity device or has fewer than 64 bytes. The others
    /// name the field of a superblock that is not acceptable.
    pub fn parse(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let bytes: &[u8; 64] = bytes.first_chunk().ok_or(SuperblockError::Missing)?;
        let fields: Fields = decode(bytes);
        let (magic, [version], [log2_interleave], Le(tag_len), Le(sections), Le(sectors), ..) = fields;
        let (
            _,
            _,
            _,
            _,
            _,
            _,
            Le(flags),
            [log2_sectors],
            [log2_units_per_bit],
            _,
            Le(recalculate),
            (_, salt),
        ) = fields;
        if magic != MAGIC {
            return Err(SuperblockError::Missing);
        }
        match version {
            1..=5 => {}
            6 => return Err(SuperblockError::Inline),
            _ => return Err(SuperblockError::Version(version)),
        }
        if log2_sectors > 3 {
            return Err(SuperblockError::DataUnit { log2_sectors });
        }
        let data_unit = 512_u32 << log2_sectors;
        let provided = sectors.checked_mul(512).filter(|bytes| bytes.is_multiple_of(data_unit.into()));
        let provided = provided.ok_or(SuperblockError::Provided { sectors })?;
        if !(1..=MAX_TAG).contains(&tag_len) {
            return Err(SuperblockError::TagLen(tag_len));
        }
        if !matches!(log2_interleave, 0 | 3..=31) {
            return Err(SuperblockError::Interleave(log2_interleave));
        }
        if sections == 0 {
            return Err(SuperblockError::Journal);
        }
        let flags = Flags::parse(flags)?;
        if log2_units_per_bit > 63 {
            return Err(SuperblockError::Bitmap(log2_units_per_bit));
        }
        if flags.recalculating && recalculate > sectors {
            return Err(SuperblockError::Recalculate { sector: recalculate });
        }
        Ok(Self {
            version,
            log2_interleave,
            tag_len,
            journal_sections: sections,
            provided,
            flags,
            data_unit,
            log2_units_per_bit,
            recalculate,
            salt,
        })
    }

    /// Returns the whole area of the superblock, as it goes to the media.
    pub fn compose(&self) -> [u8; SUPERBLOCK_LEN] {
        // cannot be more than 3: data units have 512 to 4096 bytes.
        let log2_sectors = (self.data_unit >> 9).trailing_zeros() as u8;
        let fields: Fields = (
            MAGIC,
            [self.version],
            [self.log2_interleave],
            Le(self.tag_len),
            Le(self.journal_sections),
            Le(self.provided >> 9),
            Le(self.flags.bits()),
            [log2_sectors],
            [self.log2_units_per_bit],
            [0; 2],
            Le(self.recalculate),
            ([0; 8], self.salt),
        );
        let mut area = [0; SUPERBLOCK_LEN];
        let bytes: [u8; 64] = encode(fields);
        area.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        area
    }

    /// Returns the version that the kernel gives a superblock with these flags.
    pub(super) fn version_of(flags: Flags, separate: bool) -> u8 {
        match flags {
            Flags { fixed_hmac: true, .. } => 5,
            Flags { fixed_padding: true, .. } => 4,
            Flags { dirty_bitmap: true, .. } => 3,
            Flags { recalculating: true, .. } => 2,
            _ if separate => 2,
            _ => 1,
        }
    }

    /// Sets flags, and the version that they ask for. A version is never lowered: what is there was made by it.
    pub fn set_flags(&mut self, flags: Flags) {
        self.flags = flags;
        self.version = self.version.max(Self::version_of(flags, self.log2_interleave == 0));
    }
}

impl Flags {
    const KNOWN: u32 = 0x1f;

    fn parse(bits: u32) -> Result<Self, SuperblockError> {
        if bits & !Self::KNOWN != 0 {
            return Err(SuperblockError::Flags(bits));
        }
        let has = |bit: u32| bits & bit != 0;
        Ok(Self {
            journal_mac: has(1),
            recalculating: has(2),
            dirty_bitmap: has(4),
            fixed_padding: has(8),
            fixed_hmac: has(16),
        })
    }

    fn bits(self) -> u32 {
        let Self { journal_mac, recalculating, dirty_bitmap, fixed_padding, fixed_hmac } = self;
        let flags = [journal_mac, recalculating, dirty_bitmap, fixed_padding, fixed_hmac];
        flags.iter().zip(0..).fold(0, |bits, (set, at)| bits | u32::from(*set) << at)
    }
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dm-integrity's superblock ")?;
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Version(version) => write!(f, "has the unknown version {version}"),
            Self::Inline => f.write_str("asks for tags in the metadata of the drive's sectors (inline)"),
            Self::DataUnit { log2_sectors } => write!(f, "asks for data units of 2^{log2_sectors} sectors"),
            Self::Provided { sectors } => write!(f, "provides {sectors} sectors, which can't be"),
            Self::TagLen(len) => write!(f, "asks for tags of {len} bytes, which can't be"),
            Self::Interleave(log2) => write!(f, "puts 2^{log2} sectors between tags, which can't be"),
            Self::Journal => f.write_str("has no journal"),
            Self::Flags(flags) => write!(f, "has unknown flags ({flags:#x})"),
            Self::Bitmap(log2) => write!(f, "has a bit for 2^{log2} data units, which can't be"),
            Self::Recalculate { sector } => {
                write!(f, "misses tags from sector {sector} on, which is behind its data")
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
        bytes[24] = 8;
        bytes[28] = 3;
        bytes
    }

    #[test]
    fn what_the_kernel_wrote_is_found() {
        let expected = Superblock {
            version: 4,
            log2_interleave: 15,
            tag_len: 32,
            journal_sections: 1,
            provided: 3568 * 512,
            flags: Flags { fixed_padding: true, ..Flags::default() },
            data_unit: 4096,
            log2_units_per_bit: 0,
            recalculate: 0,
            salt: [0; 16],
        };
        assert_eq!(Superblock::parse(&superblock()), Ok(expected));
        assert_eq!(Superblock::parse(&superblock()[..64]), Ok(expected));
        assert_eq!(expected.compose()[..512], superblock());
        assert!(expected.compose()[512..].iter().all(|byte| *byte == 0));
        for version in 1..=5 {
            let mut bytes = superblock();
            bytes[8] = version;
            assert_eq!(
                Superblock::parse(&bytes),
                Ok(Superblock { version, ..expected }),
                "version {version}"
            );
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
        assert_eq!(Superblock::parse(&superblock()[..63]), Err(SuperblockError::Missing));
        assert_eq!(with(8, 0), Err(SuperblockError::Version(0)));
        assert_eq!(with(8, 7), Err(SuperblockError::Version(7)));
        assert_eq!(with(8, 6), Err(SuperblockError::Inline));
        assert_eq!(with(9, 2), Err(SuperblockError::Interleave(2)));
        assert_eq!(with(9, 32), Err(SuperblockError::Interleave(32)));
        assert_eq!(with(10, 0), Err(SuperblockError::TagLen(0)));
        assert_eq!(with(11, 2), Err(SuperblockError::TagLen(512 + 32)));
        assert_eq!(with(12, 0), Err(SuperblockError::Journal));
        assert_eq!(with(24, 0x28), Err(SuperblockError::Flags(0x28)));
        assert_eq!(with(29, 64), Err(SuperblockError::Bitmap(64)));
        assert_eq!(with(28, 4), Err(SuperblockError::DataUnit { log2_sectors: 4 }));
        assert_eq!(with(16, 0xf1), Err(SuperblockError::Provided { sectors: 3569 }));
        assert!(matches!(with(23, 0x80), Err(SuperblockError::Provided { .. })));
    }
    #[test]
    fn every_field_and_flag_comes_back_and_counts_where_it_stands() {
        let mut bytes = superblock();
        bytes[24] = 0x1f;
        bytes[29] = 9;
        bytes[32..40].copy_from_slice(&3560_u64.to_le_bytes());
        bytes[48..64].copy_from_slice(&[7; 16]);
        let parsed = Superblock::parse(&bytes).expect("all flags");
        assert_eq!((parsed.log2_units_per_bit, parsed.recalculate, parsed.salt), (9, 3560, [7; 16]));
        assert_eq!(parsed.compose()[..512], bytes);
        for bit in 0..5 {
            let mut bytes = superblock();
            bytes[24] = 1 << bit;
            let flags = Superblock::parse(&bytes).expect("one flag").flags;
            let Flags { journal_mac, recalculating, dirty_bitmap, fixed_padding, fixed_hmac } = flags;
            let set = [journal_mac, recalculating, dirty_bitmap, fixed_padding, fixed_hmac];
            assert!(set.iter().enumerate().all(|(at, set)| *set == (at == bit)), "{bit}: {flags:?}");
            assert_eq!(Superblock::parse(&bytes).expect("again").compose()[..512], bytes);
        }
        bytes[32..40].copy_from_slice(&3569_u64.to_le_bytes());
        assert_eq!(Superblock::parse(&bytes), Err(SuperblockError::Recalculate { sector: 3569 }));
    }

    #[test]
    fn flags_ask_for_the_version_that_the_kernel_gives_them() {
        let mut parsed = Superblock::parse(&superblock()).expect("the kernel's");
        parsed.set_flags(Flags { fixed_hmac: true, ..parsed.flags });
        assert_eq!(parsed.version, 5);
        parsed.set_flags(Flags::default());
        assert_eq!(parsed.version, 5, "never lowered");
        parsed.version = 1;
        parsed.set_flags(Flags { dirty_bitmap: true, ..Flags::default() });
        assert_eq!(parsed.version, 3);
    }
}
