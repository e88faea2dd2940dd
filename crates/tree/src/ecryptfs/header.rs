//! The header of a lower file: in the file, before its contents, or in the attribute `user.ecryptfs`.

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
/// Size, marker, flags, extents: what comes before the packets.
const FIXED: usize = 26;
/// Headers of version 0 have no field for extents.
const FIXED_VERSION_0: usize = 20;
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
        match (word(bytes, 8), word(bytes, 12)) {
            (Some(first), Some(second)) => first ^ second == MARKER,
            _ => false,
        }
    }

    /// Reads a header: the first 4096 bytes of the file, or the attribute. The caller has found the marker.
    pub fn parse(bytes: &[u8], place: MetadataPlace) -> Result<Self, EcryptfsError> {
        let short = HeaderDamage::Short { len: bytes.len() };
        let size = u64::from_be_bytes(*bytes.first_chunk().ok_or(short)?);
        if i64::try_from(size).is_err() {
            return Err(HeaderDamage::Size(size).into());
        }
        let flags = word(bytes, 16).ok_or(short)?;
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
        let (contents_at, packets) = match version {
            0 => (HEADER_LEN, bytes.get(FIXED_VERSION_0..).ok_or(short)?),
            _ => (front(bytes, place)?, bytes.get(FIXED..).ok_or(short)?),
        };
        Ok(Self {
            size,
            version,
            encrypted_names: flags & FLAG_NAMES != 0,
            contents_at: if place == MetadataPlace::File { contents_at } else { 0 },
            packets: PacketSet::parse(packets)?,
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
        let mut bytes = vec![0; 8];
        for word in [marker, marker ^ MARKER, flags, EXTENT as u32] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(HEADER_EXTENTS.to_be_bytes());
        PacketSet::write(keys, &mut bytes);
        Ok(bytes)
    }
}

/// Bytes before the contents.
fn front(bytes: &[u8], place: MetadataPlace) -> Result<u64, EcryptfsError> {
    let short = HeaderDamage::Short { len: bytes.len() };
    let extent = word(bytes, 20).ok_or(short)?;
    let count = bytes.get(24..26).and_then(|bytes| bytes.first_chunk()).ok_or(short)?;
    let count = u16::from_be_bytes(*count);
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

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
