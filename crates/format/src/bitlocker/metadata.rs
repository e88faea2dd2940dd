//! A copy of the metadata: a block with a checksum behind it, and the entries in it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use atrest_codec::{Reader, Record, crc32};

use super::entry::{Entries, Entry, EntryError, kind, value};
use super::guid::Guid;
use super::method::Method;
use super::protector::{Protector, Wrapped, text};

/// Bytes that a copy takes on the medium at most. The block and what verifies it fit in.
pub const REGION_LEN: usize = 65536;
/// Bytes of the block before the entries.
const FIELDS: usize = 112;
/// Bytes of the block before the data set, whose size counts from there.
const BEFORE_DATA_SET: usize = 64;
/// A volume with more protectors would cost too much to try.
const MOST_PROTECTORS: usize = 100;
/// Windows has 8 KiB for NTFS, and some MiB for FAT.
const MOST_RELOCATED: u64 = 16 << 20;

/// What is being done with the volume, or was last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Decrypted.
    Decrypted,
    /// Being encrypted or decrypted.
    Converting,
    /// Encrypted where it is written.
    OnWrite,
    /// Encrypted.
    Encrypted,
    /// Conversion is paused.
    Paused,
    /// Something else, by its number.
    Other(u16),
}

/// A copy of the metadata.
#[derive(Debug)]
pub struct Metadata {
    /// 1: Windows Vista. 2: later ones.
    pub version: u16,
    /// Present state, and the one that is wanted.
    pub states: (State, State),
    /// Bytes from the start of the volume that are encrypted.
    pub encrypted_size: u64,
    /// Bytes behind them that are being converted: some of them are encrypted, and nothing says which.
    pub converting: u32,
    /// Where the copies are.
    pub copies: [u64; 3],
    /// The cluster of NTFS's second MFT (Vista).
    pub mft_mirror: u64,
    /// The start of the volume, moved away: its first byte and its bytes (Windows 7 and later).
    pub relocated: (u64, u64),
    /// The volume's GUID.
    pub guid: Guid,
    /// How the data is encrypted, if that is known.
    pub method: Result<Method, u16>,
    /// When it was encrypted, in 100 ns since 1601.
    pub created: u64,
    /// Machine, volume and day.
    pub description: Option<String>,
    /// What yields the volume master key.
    pub protectors: Vec<Protector>,
    /// The key of the data, wrapped by the volume master key.
    pub data_key: Wrapped,
    /// SHA-256 of the block, wrapped by the volume master key.
    pub validation: Option<Wrapped>,
    /// Bytes of the block.
    pub len: usize,
}

/// Why a copy of the metadata can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataError {
    /// It does not begin with BitLocker's signature.
    Signature,
    /// A version that is not known.
    Version(u16),
    /// A block of so many bytes does not fit.
    Len(usize),
    /// The checksum is wrong.
    Checksum,
    /// It is not where it says that it is.
    Place,
    /// A field of the data set is wrong.
    DataSet,
    /// The entries can't be read.
    Entry(EntryError),
    /// There is no key of the data, or more than one.
    DataKey,
    /// More protectors than anybody has.
    Protectors(usize),
    /// The start of the volume was not moved anywhere, or is too large.
    Relocated,
}

impl Metadata {
    /// Reads the copy with this number, 0 to 2, whose region is at `offset` on the medium.
    ///
    /// # Errors
    /// [`MetadataError`] for the first thing that is wrong.
    pub fn read(region: &[u8], number: usize, offset: u64, sector_size: u32) -> Result<Self, MetadataError> {
        let fields = region.first_chunk::<FIELDS>().ok_or(MetadataError::Len(region.len()))?;
        let record = Record::new(fields);
        if record.array::<0, 8>() != b"-FVE-FS-" {
            return Err(MetadataError::Signature);
        }
        let version = record.le16::<10>();
        let size = usize::from(record.le16::<8>());
        let len = match version {
            1 => Some(size),
            2 => size.checked_mul(16),
            version => return Err(MetadataError::Version(version)),
        };
        let len = len.filter(|len| *len >= FIELDS).ok_or(MetadataError::Len(size))?;
        let (block, behind) = region.split_at_checked(len).ok_or(MetadataError::Len(len))?;
        let validation = validation(block, behind)?;
        let copies = [record.le64::<32>(), record.le64::<40>(), record.le64::<48>()];
        if copies.get(number) != Some(&offset) {
            return Err(MetadataError::Place);
        }
        let data_set = record.le32::<64>();
        let is_right =
            record.le32::<68>() == 1 && record.le32::<72>() == 48 && record.le32::<76>() == data_set;
        let end = usize::try_from(data_set).ok().and_then(|len| len.checked_add(BEFORE_DATA_SET));
        let entries = end.filter(|_| is_right).and_then(|end| block.get(FIELDS..end));
        let found = Found::read(entries.ok_or(MetadataError::DataSet)?)?;
        let (moved_to, sectors) = (record.le64::<56>(), record.le32::<28>());
        let relocated = match (version, found.relocated) {
            (1, _) => (0, 0),
            (_, Some(place)) => place,
            // cannot overflow: two numbers of 32 bits.
            (_, None) => (moved_to, u64::from(sectors).saturating_mul(sector_size.into())),
        };
        if version != 1 && (relocated.0 == 0 || relocated.1 == 0 || relocated.1 > MOST_RELOCATED) {
            return Err(MetadataError::Relocated);
        }
        let number = record.le16::<100>();
        Ok(Self {
            version,
            states: (State::numbered(record.le16::<12>()), State::numbered(record.le16::<14>())),
            encrypted_size: record.le64::<16>(),
            converting: record.le32::<24>(),
            copies,
            mft_mirror: moved_to,
            relocated,
            guid: Guid(*record.array::<80, 16>()),
            method: Method::numbered(number).ok_or(number),
            created: record.le64::<104>(),
            description: found.description,
            protectors: found.protectors,
            data_key: found.data_key.ok_or(MetadataError::DataKey)?,
            validation,
            len,
        })
    }
}

/// What is behind a block: its checksum, and an entry with its hash.
fn validation(block: &[u8], behind: &[u8]) -> Result<Option<Wrapped>, MetadataError> {
    let mut reader = Reader::new(behind);
    let fields = (|| {
        let (_, version) = (reader.le16()?, reader.le16()?);
        Ok((version, reader.le32()?))
    })();
    let (version, checksum) = fields.map_err(|_: atrest_codec::ReadError| MetadataError::Len(block.len()))?;
    if version > 2 || !crc32(!0, block) != checksum {
        return Err(MetadataError::Checksum);
    }
    // Behind this entry is what was there before.
    match Entries::new(reader.rest()).next() {
        Some(Ok(entry)) if entry.value == value::AES_CCM => Ok(Some(Wrapped::read(&entry)?)),
        _ => Ok(None),
    }
}

#[derive(Default)]
struct Found {
    description: Option<String>,
    protectors: Vec<Protector>,
    data_key: Option<Wrapped>,
    relocated: Option<(u64, u64)>,
}

impl Found {
    fn read(entries: &[u8]) -> Result<Self, MetadataError> {
        let mut found = Self::default();
        for entry in Entries::new(entries) {
            let entry = entry?;
            match (entry.kind, entry.value) {
                (kind::PROTECTOR, value::PROTECTOR) => {
                    if found.protectors.len() >= MOST_PROTECTORS {
                        return Err(MetadataError::Protectors(MOST_PROTECTORS));
                    }
                    found.protectors.push(Protector::read(&entry)?);
                }
                (kind::DATA_KEY, value::AES_CCM) => {
                    let other = found.data_key.replace(Wrapped::read(&entry)?);
                    other.map_or(Ok(()), |_| Err(MetadataError::DataKey))?;
                }
                (kind::DESCRIPTION, value::TEXT) if found.description.is_none() => {
                    found.description = Some(text(entry.data));
                }
                (kind::RELOCATED, value::PLACE) => entry.once(&mut found.relocated, place(&entry)?)?,
                _ => {}
            }
        }
        Ok(found)
    }
}

fn place(entry: &Entry<'_>) -> Result<(u64, u64), EntryError> {
    let mut reader = Reader::new(entry.data);
    let place = reader.le64().and_then(|offset| Ok((offset, reader.le64()?)));
    place.map_err(|_| entry.short())
}

impl State {
    fn numbered(number: u16) -> Self {
        match number {
            1 => Self::Decrypted,
            2 => Self::Converting,
            3 => Self::OnWrite,
            4 => Self::Encrypted,
            5 => Self::Paused,
            other => Self::Other(other),
        }
    }
}

impl From<EntryError> for MetadataError {
    fn from(error: EntryError) -> Self {
        Self::Entry(error)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decrypted => "decrypted",
            Self::Converting => "being converted",
            Self::OnWrite => "encrypted where it is written",
            Self::Encrypted => "encrypted",
            Self::Paused => "conversion paused",
            Self::Other(number) => return write!(f, "state {number}"),
        })
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature => f.write_str("the signature is missing"),
            Self::Version(version) => write!(f, "it has the unknown version {version}"),
            Self::Len(len) => write!(f, "a block of {len} bytes does not fit"),
            Self::Checksum => f.write_str("its checksum is wrong"),
            Self::Place => f.write_str("it is not where it says that it is"),
            Self::DataSet => f.write_str("its data set has wrong sizes"),
            Self::Entry(error) => error.fmt(f),
            Self::DataKey => f.write_str("it has not exactly one key of the data"),
            Self::Protectors(most) => write!(f, "it has more than {most} protectors"),
            Self::Relocated => f.write_str("the start of the volume is nowhere that it could be"),
        }
    }
}

impl core::error::Error for MetadataError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Entry(error) => Some(error),
            _ => None,
        }
    }
}
