//! The header of a lower file: in the file, before its contents, or in the attribute `user.ecryptfs`.

use atrest_codec::{Be, Reader, encode};
use atrest_secret::{Random, RandomError};

use super::packet::{PacketSet, WrappedKey};
use super::{EXTENT, EcryptfsError, HeaderDamage};

/// Bytes before the contents of a file that we make: what the kernel makes where pages have 4096 bytes.
pub const HEADER_LEN: u64 = 8192;
const HEADER_EXTENTS: u16 = HEADER_LEN as u16 / EXTENT as u16;
/// The header proper is read from so many bytes, as the kernel does it.
pub(super) const HEADER_READ: usize = 4096;

/// The two words of the marker differ by this.
const MARKER: u32 = 0x3c81_b7f5;
const VERSION: u8 = 3;
const FLAG_HMAC: u32 = 1;
const FLAG_ENCRYPTED: u32 = 2;
const FLAG_XATTR: u32 = 4;
const FLAG_NAMES: u32 = 8;

/// Where a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataPlace {
    /// At the start of the lower file.
    File,
    /// In the attribute `user.ecryptfs`; the lower file is contents only.
    Xattr,
}

/// A header, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of contents.
    pub size: u64,
    /// Version of the format, up to 3.
    pub version: u8,
    /// Whether the file's tree had encrypted names when it was made; nothing depends on it.
    pub encrypted_names: bool,
    /// Bytes of the lower file before its contents, if the header is in it.
    pub contents_at: u64,
    /// The wrapped keys.
    pub packets: PacketSet,
}

impl Header {
    /// Whether these bytes begin as a header does.
    pub fn is_header(bytes: &[u8]) -> bool {
        let marker = Reader::at(bytes, 8).and_then(|mut reader| reader.field());
        marker.is_ok_and(|(Be(first), Be(second)): (Be<u32>, Be<u32>)| first ^ second == MARKER)
    }

    /// Reads a header: the first 4096 bytes of the file, or the attribute. The caller has found the marker.
    pub fn parse(bytes: &[u8], place: MetadataPlace) -> Result<Self, EcryptfsError> {
        let short = |_| HeaderDamage::Short { len: bytes.len() };
        let mut reader = Reader::new(bytes);
        let (Be(size), _marker, Be(flags)) = reader.field::<(Be<u64>, [u8; 8], Be<u32>)>().map_err(short)?;
        if i64::try_from(size).is_err() {
            return Err(HeaderDamage::Size(size).into());
        }
        let version = (flags >> 24) as u8;
        if version > VERSION {
            return Err(EcryptfsError::Version(version));
        }
        if flags & FLAG_HMAC != 0 {
            return Err(EcryptfsError::Hmac);
        }
        if flags & FLAG_ENCRYPTED == 0 {
            return Err(HeaderDamage::NotEncrypted { flags }.into());
        }
        let contents_at = match version {
            // Such headers have no field for extents.
            0 => HEADER_LEN,
            _ => {
                let (Be(extent), Be(count)) = reader.field().map_err(short)?;
                front(extent, count, place)?
            }
        };
        Ok(Self {
            size,
            version,
            encrypted_names: flags & FLAG_NAMES != 0,
            contents_at: if place == MetadataPlace::File { contents_at } else { 0 },
            packets: PacketSet::parse(reader.rest())?,
        })
    }

    /// The header of a new file without contents.
    pub(super) fn new_bytes(
        keys: &[WrappedKey],
        place: MetadataPlace,
        encrypted_names: bool,
        random: &mut dyn Random,
    ) -> Result<Vec<u8>, RandomError> {
        let mut marker = [0; 4];
        random.fill(&mut marker)?;
        let marker = u32::from_be_bytes(marker);
        let mut flags = u32::from(VERSION) << 24 | FLAG_ENCRYPTED;
        if place == MetadataPlace::Xattr {
            flags |= FLAG_XATTR;
        }
        if encrypted_names {
            flags |= FLAG_NAMES;
        }
        let (marker, extents) = ((Be(marker), Be(marker ^ MARKER)), (Be(EXTENT as u32), Be(HEADER_EXTENTS)));
        let mut bytes = encode::<_, 26>((Be(0_u64), marker, Be(flags), extents)).to_vec();
        PacketSet::write(keys, &mut bytes);
        Ok(bytes)
    }
}

/// Bytes before the contents.
fn front(extent: u32, count: u16, place: MetadataPlace) -> Result<u64, EcryptfsError> {
    // 48 bits have room for it.
    // cannot overflow: numbers of 32 and 16 bits.
    let front = u64::from(extent).saturating_mul(u64::from(count));
    // The kernel reads whole pages from there on.
    let possible = front >= HEADER_LEN && front.is_multiple_of(EXTENT as u64);
    if place == MetadataPlace::File && !possible {
        return Err(HeaderDamage::Extents { extent, count }.into());
    }
    Ok(front)
}
