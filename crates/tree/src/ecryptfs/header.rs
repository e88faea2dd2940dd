//! The header of a lower file: in the file, before its contents, or in the attribute `user.ecryptfs`.

use atrest_codec::{Be, Reader, decode, encode};
use atrest_secret::{Random, RandomError};

use super::packet::{PacketSet, WrappedKey};
use super::{EXTENT, EcryptfsError, HeaderDamage};

/// Bytes before the contents of a file that we make: what the kernel makes where pages have 4096 bytes.
pub const HEADER_LEN: u64 = 8192;
const HEADER_EXTENTS: u16 = HEADER_LEN as u16 / EXTENT as u16;
/// The header proper is read from so many bytes, as the kernel does it.
pub(super) const HEADER_READ: usize = 4096;

/// Bytes of a header in which the size and the marker are.
pub(super) const SIZE_LEN: usize = 16;

/// The two words of the marker differ by this.
const MARKER: u32 = 0x3c81_b7f5;
const VERSION: u8 = 3;
const FLAG_HMAC: u32 = 1;
const FLAG_ENCRYPTED: u32 = 2;
const FLAG_XATTR: u32 = 4;
const FLAG_NAMES: u32 = 8;
/// Of every file that we make.
const FLAGS: u32 = (VERSION as u32) << 24 | FLAG_ENCRYPTED;

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

    /// The size of the contents, from the first [`SIZE_LEN`] bytes of a header. Nothing else of it is looked at.
    pub(super) fn size_of(bytes: &[u8; SIZE_LEN]) -> Option<u64> {
        let (Be(size), _marker): (Be<u64>, [u8; 8]) = decode(bytes);
        (Self::is_header(bytes) && i64::try_from(size).is_ok()).then_some(size)
    }

    /// Reads a header: the first 4096 bytes of the file, or the attribute. The caller has found the marker.
    ///
    /// # Errors
    /// [`EcryptfsError::Header`] or [`EcryptfsError::Packets`] if it is damaged. [`EcryptfsError::Version`],
    /// [`EcryptfsError::Hmac`] or [`EcryptfsError::UnknownCipher`] if it asks for what there is not here.
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
        let mut flags = FLAGS;
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

#[cfg(test)]
mod tests {
    use atrest_secret::OsRandom;

    use super::super::{FileCipher, FileKeyPacket, Signature};
    use super::*;

    fn key() -> WrappedKey {
        let (signature, salt, wrapped) = (Signature([5; 8]), [7; 8], vec![9; 16]);
        WrappedKey { signature, cipher: FileCipher::Aes128, salt, wrapped }
    }

    fn made(place: MetadataPlace, names: bool) -> Vec<u8> {
        Header::new_bytes(&[key()], place, names, &mut OsRandom).expect("random bytes")
    }

    #[test]
    fn what_we_write_says_what_it_is() {
        for (place, names, flags) in [
            (MetadataPlace::File, false, 0x0300_0002_u32),
            (MetadataPlace::File, true, 0x0300_000a),
            (MetadataPlace::Xattr, false, 0x0300_0006),
            (MetadataPlace::Xattr, true, 0x0300_000e),
        ] {
            let bytes = made(place, names);
            assert!(Header::is_header(&bytes));
            assert_eq!(bytes[16..20], flags.to_be_bytes(), "{place:?} {names}");
            assert_eq!(bytes[20..26], [0, 0, 0x10, 0, 0, 2]);
            let header = Header::parse(&bytes, place).expect("its own bytes");
            let contents_at = if place == MetadataPlace::File { HEADER_LEN } else { 0 };
            assert_eq!((header.size, header.version, header.encrypted_names), (0, 3, names));
            assert_eq!(header.contents_at, contents_at);
            assert_eq!(header.packets.0, [FileKeyPacket::Passphrase(key())]);
        }
        let [one, other] = [0; 2].map(|_| made(MetadataPlace::File, false));
        assert_ne!(one[8..16], other[8..16], "markers are random");
    }

    #[test]
    fn a_marker_is_two_words_that_differ_as_they_must() {
        let mut bytes = made(MetadataPlace::File, false);
        for at in 0..26 {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert_eq!(Header::is_header(&bytes), !(8..16).contains(&at), "{at}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert!(!Header::is_header(&bytes[..15]) && Header::is_header(&bytes[..16]));
        assert!(!Header::is_header(&[0; 26]) && !Header::is_header(&[]));
    }

    #[test]
    fn sizes_versions_and_lengths_have_limits() {
        let bytes = made(MetadataPlace::File, false);
        let with = |at: usize, new: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + new.len()].copy_from_slice(new);
            Header::parse(&bytes, MetadataPlace::File)
        };
        let largest = i64::MAX as u64;
        assert_eq!(with(0, &largest.to_be_bytes()).expect("a size").size, largest);
        for size in [largest + 1, u64::MAX] {
            let refused = with(0, &size.to_be_bytes());
            assert!(
                matches!(refused, Err(EcryptfsError::Header(HeaderDamage::Size(found))) if found == size)
            );
        }
        for version in 1..=3 {
            assert_eq!(with(16, &[version]).expect("known").version, version);
        }
        for version in [4, 255] {
            assert!(matches!(with(16, &[version]), Err(EcryptfsError::Version(found)) if found == version));
        }
        for len in (0..20).chain(20..26) {
            let refused = Header::parse(&bytes[..len], MetadataPlace::File);
            assert!(
                matches!(refused, Err(EcryptfsError::Header(HeaderDamage::Short { len: found })) if found == len),
                "{len}: {refused:?}"
            );
        }
        // Version 0 has no field for extents: packets follow at once, contents behind two pages.
        let mut old = bytes[..20].to_vec();
        old[16] = 0;
        old.extend(&bytes[26..]);
        let header = Header::parse(&old, MetadataPlace::File).expect("an old header");
        assert_eq!((header.version, header.contents_at), (0, HEADER_LEN));
        assert_eq!(header.packets.0.len(), 1);
    }

    /// In an attribute, the field for extents says nothing: contents begin where the file does.
    #[test]
    fn contents_beside_an_attribute_begin_at_once() {
        let mut bytes = made(MetadataPlace::Xattr, false);
        for extents in [[0, 0, 0x10, 0, 0, 2], [0; 6], [0xff; 6]] {
            bytes[20..26].copy_from_slice(&extents);
            let header = Header::parse(&bytes, MetadataPlace::Xattr).expect("an attribute");
            assert_eq!(header.contents_at, 0, "{extents:?}");
        }
        bytes[20..26].copy_from_slice(&[0xff, 0xff, 0xf0, 0, 0xff, 0xff]);
        let header = Header::parse(&bytes, MetadataPlace::File).expect("far away");
        assert_eq!(header.contents_at, 0xffff_f000 * 0xffff);
    }
}
