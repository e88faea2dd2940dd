//! The fields of a header, once it is decrypted: 448 bytes behind the salt, big endian. Offsets are counted from the salt's beginning in
//! the formats' descriptions, and 64 less here.

use core::fmt;

use atrest_codec::{Record, crc32};
use atrest_secret::SecretArray;

use super::{ENCRYPTED_LEN, KEYS_LEN};

/// Which program's letters a header begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// `TRUE`.
    TrueCrypt,
    /// `VERA`.
    VeraCrypt,
}

/// A header.
#[derive(Debug)]
pub struct Header {
    /// Whose it is.
    pub magic: Magic,
    /// Version of the format: 1 to 5.
    pub version: u16,
    /// The least version of the program that can open it, such as 0x0700.
    pub program: u16,
    /// Bytes of the hidden volume, in its own header; 0 in a normal one.
    pub hidden_size: u64,
    /// Bytes of data.
    pub size: u64,
    /// First byte of data.
    pub data_start: u64,
    /// Bytes that are encrypted already.
    pub encrypted_size: u64,
    /// Bit 0: an encrypted system. Bit 1: encrypted in place.
    pub flags: u32,
    /// Bytes in a sector of the device that it was made on.
    pub sector_size: u32,
    /// The keys of the data. How they follow one another is the mode's rule.
    pub keys: SecretArray<KEYS_LEN>,
}

/// Why what decrypts to a header's letters is none.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// A checksum is wrong: the header is damaged, or the key was wrong and four letters came out by chance.
    Checksum,
    /// A version that is not known.
    Version(u16),
    /// Sectors that are no multiple of 512 bytes up to 4096.
    SectorSize(u32),
    /// Flags that are not known.
    Flags(u32),
}

impl Header {
    /// Bit of the flags: an encrypted system.
    pub const SYSTEM: u32 = 1;
    /// The version of new headers: TrueCrypt 7 and all of VeraCrypt.
    pub const VERSION: u16 = 5;
    /// The least version of VeraCrypt that a new volume needs.
    pub const PROGRAM: u16 = 0x010b;
    /// Bit of the flags: encrypted in place, and no system.
    pub const IN_PLACE: u32 = 2;

    /// Reads what was decrypted; `None` unless it begins with a header's letters.
    ///
    /// # Errors
    /// [`HeaderError::Checksum`] if the letters are there and the rest is not right. The others name a field of an intact header that is
    /// not acceptable.
    pub fn read(decrypted: &[u8; ENCRYPTED_LEN]) -> Result<Option<Self>, HeaderError> {
        let record = Record::new(decrypted);
        let magic = match record.array::<0, 4>() {
            b"TRUE" => Magic::TrueCrypt,
            b"VERA" => Magic::VeraCrypt,
            _ => return Ok(None),
        };
        let keys = record.array::<192, KEYS_LEN>();
        if !crc32(!0, keys) != record.be32::<8>() {
            return Err(HeaderError::Checksum);
        }
        let version = record.be16::<4>();
        if version >= 4 && !crc32(!0, record.array::<0, 188>()) != record.be32::<188>() {
            return Err(HeaderError::Checksum);
        }
        if !(1..=5).contains(&version) {
            return Err(HeaderError::Version(version));
        }
        let sector_size = match record.be32::<64>() {
            0 => 512,
            _ if version < 5 => 512,
            bytes if bytes.is_multiple_of(512) && bytes <= 4096 => bytes,
            bytes => return Err(HeaderError::SectorSize(bytes)),
        };
        let flags = record.be32::<60>();
        if flags & !(Self::SYSTEM | Self::IN_PLACE) != 0 {
            return Err(HeaderError::Flags(flags));
        }
        let mut own = SecretArray::zeroed();
        own.copy_from_slice(keys);
        Ok(Some(Self {
            magic,
            version,
            program: record.be16::<6>(),
            hidden_size: record.be64::<28>(),
            size: record.be64::<36>(),
            data_start: record.be64::<44>(),
            encrypted_size: record.be64::<52>(),
            flags,
            sector_size,
            keys: own,
        }))
    }

    /// The header, decrypted, with the checksums that belong to it. Of version 5, whatever [`version`](Self::version) says.
    pub fn to_bytes(&self) -> SecretArray<ENCRYPTED_LEN> {
        let mut bytes = SecretArray::zeroed();
        let mut put = |at: usize, field: &[u8]| {
            // cannot be cut off: the fields below lie in the header.
            for (to, from) in bytes.iter_mut().skip(at).zip(field) {
                *to = *from;
            }
        };
        put(
            0,
            match self.magic {
                Magic::TrueCrypt => b"TRUE",
                Magic::VeraCrypt => b"VERA",
            },
        );
        put(4, &Self::VERSION.to_be_bytes());
        put(6, &self.program.to_be_bytes());
        put(8, &(!crc32(!0, &*self.keys)).to_be_bytes());
        put(28, &self.hidden_size.to_be_bytes());
        put(36, &self.size.to_be_bytes());
        put(44, &self.data_start.to_be_bytes());
        put(52, &self.encrypted_size.to_be_bytes());
        put(60, &self.flags.to_be_bytes());
        put(64, &self.sector_size.to_be_bytes());
        put(192, &*self.keys);
        let fields = bytes.first_chunk::<188>().map_or(0, |fields| !crc32(!0, fields)); // cannot be none: it has 448 bytes
        for (to, from) in bytes.iter_mut().skip(188).zip(fields.to_be_bytes()) {
            *to = from;
        }
        bytes
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("a checksum of the header is wrong"),
            Self::Version(version) => write!(f, "the header has the unknown version {version}"),
            Self::SectorSize(bytes) => write!(f, "the header has sectors of {bytes} bytes"),
            Self::Flags(flags) => write!(f, "the header has the unknown flags {flags:#x}"),
        }
    }
}

impl core::error::Error for HeaderError {}
