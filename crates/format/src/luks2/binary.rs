//! The binary part of a header copy: 4096 bytes, big-endian (LUKS2 specification, section 2.1).
//!
//! | offset | bytes | field | | offset | bytes | field |
//! |-------:|------:|-------|-|-------:|------:|-------|
//! | 0 | 6 | magic | | 168 | 40 | UUID |
//! | 6 | 2 | version | | 208 | 48 | subsystem |
//! | 8 | 8 | header size | | 256 | 8 | header offset |
//! | 16 | 8 | sequence number | | 264 | 184 | zeros |
//! | 24 | 48 | label | | 448 | 64 | checksum |
//! | 72 | 32 | checksum algorithm | | 512 | 3584 | zeros |
//! | 104 | 64 | salt | | | | |

use alloc::vec::Vec;

use atrest_codec::{Be, Reader, WriteError, Writer, decode, encode, split, split_mut};

use super::{BINARY_SIZE, HEADER_SIZES, HeaderError, HeaderText};

const MAGIC_PRIMARY: [u8; 6] = *b"LUKS\xBA\xBE";
const MAGIC_SECONDARY: [u8; 6] = *b"SKUL\xBA\xBE";
const VERSION: u16 = 2;
const CHECKSUM_OFFSET: usize = 448;
const CHECKSUM_LEN: usize = 64;
/// Bytes before the zeros at the end.
const FIELDS_LEN: usize = CHECKSUM_OFFSET + CHECKSUM_LEN;

/// The fields in the order of the table above.
type Fields = (
    [u8; 6],
    Be<u16>,
    Be<u64>,
    Be<u64>,
    [u8; 48],
    [u8; 32],
    [u8; 64],
    [u8; 40],
    [u8; 48],
    Be<u64>,
    [u8; 184],
    [u8; CHECKSUM_LEN],
);

/// Which copy of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// At byte 0.
    Primary,
    /// Right behind the first copy.
    Secondary,
}

/// The binary header without what differs between the copies (magic, offset, salt, checksum).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryHeader {
    /// Bytes in one copy, JSON area included: one of [`HEADER_SIZES`].
    pub header_size: u64,
    /// Counts the changes; the copy with the higher number is the newer one.
    pub sequence: u64,
    /// Label, at most 47 bytes; empty if there is none.
    pub label: HeaderText,
    /// Subsystem, at most 47 bytes; empty if there is none.
    pub subsystem: HeaderText,
    /// UUID, at most 39 bytes.
    pub uuid: HeaderText,
    /// Hash of the checksum.
    pub checksum: Checksum,
}

/// Hash of the header checksum. cryptsetup writes SHA-256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Bytes in the header copy that starts with `binary` (at least 512 bytes), so that the caller knows how much to
/// read. Checks everything that does not need the rest: magic, version, size, offset.
///
/// # Errors
/// [`HeaderError::Magic`] or [`HeaderError::Version`] if this is no LUKS2 header. [`HeaderError::TooShort`],
/// [`HeaderError::HeaderSize`] or [`HeaderError::HeaderOffset`] if it is damaged or lies where it does not
/// belong.
pub fn header_size(binary: &[u8], copy: CopyKind, offset: u64) -> Result<u64, HeaderError> {
    let short = |_| HeaderError::TooShort { needs: BINARY_SIZE as u64, has: binary.len() as u64 };
    let fields: Fields = Reader::new(binary).field().map_err(short)?;
    let (found, Be(version), Be(size), _, _, _, _, _, _, Be(claims), _, _) = fields;
    let magic = match copy {
        CopyKind::Primary => MAGIC_PRIMARY,
        CopyKind::Secondary => MAGIC_SECONDARY,
    };
    if found != magic {
        return Err(HeaderError::Magic);
    }
    if version != VERSION {
        return Err(HeaderError::Version { version });
    }
    if !HEADER_SIZES.contains(&size) {
        return Err(HeaderError::HeaderSize { bytes: size });
    }
    let must = match copy {
        CopyKind::Primary => 0,
        CopyKind::Secondary => size,
    };
    if claims != offset || offset != must {
        return Err(HeaderError::HeaderOffset { claims, found: offset });
    }
    Ok(size)
}

impl BinaryHeader {
    /// Parses a whole copy found at `offset`, checks its checksum, and returns it with its JSON area.
    ///
    /// # Errors
    /// Fails where [`header_size`] does. [`HeaderError::TooShort`] if `bytes` end before the copy does,
    /// [`HeaderError::ChecksumAlgorithm`] if this build does not know the algorithm,
    /// [`HeaderError::ChecksumMismatch`] if the copy is damaged.
    pub fn parse(bytes: &[u8], copy: CopyKind, offset: u64) -> Result<(Self, &[u8]), HeaderError> {
        let header_size = header_size(bytes, copy, offset)?;
        let has = bytes.len() as u64;
        let whole = usize::try_from(header_size).ok().and_then(|size| bytes.get(..size));
        let whole = whole.ok_or(HeaderError::TooShort { needs: header_size, has })?;
        let (binary, json) = whole
            .split_first_chunk::<BINARY_SIZE>()
            .ok_or(HeaderError::TooShort { needs: header_size, has })?;
        let (start, _): (&[u8; FIELDS_LEN], &[u8; BINARY_SIZE - FIELDS_LEN]) = split(binary);
        let fields: Fields = decode(start);
        let (_, _, _, Be(sequence), label, algorithm, _, uuid, subsystem, _, _, stored) = fields;
        let checksum = Checksum::from_name(text(&algorithm).as_str())?;
        // Bytes behind the hash's own length are not part of the comparison, as in cryptsetup.
        let computed = checksum.of(binary, json);
        if stored.get(..computed.len()) != Some(computed.as_slice()) {
            return Err(HeaderError::ChecksumMismatch);
        }
        let header = Self {
            header_size,
            sequence,
            label: text(&label),
            subsystem: text(&subsystem),
            uuid: text(&uuid),
            checksum,
        };
        Ok((header, json))
    }

    /// Bytes in the JSON area of a copy.
    pub fn json_size(&self) -> u64 {
        // cannot be less: only sizes of HEADER_SIZES are read, and no others are written.
        self.header_size.saturating_sub(BINARY_SIZE as u64)
    }

    /// The bytes of a whole copy. `salt` makes the two copies differ. `json` is padded with zeros; at least one must
    /// fit behind it.
    ///
    /// # Errors
    /// [`HeaderError::HeaderSize`] if the header's size is none of [`HEADER_SIZES`], [`HeaderError::TooShort`] if
    /// `json` does not fit.
    /// [`HeaderError::BinaryText`] if the label, the subsystem or the UUID does not fit its field.
    pub fn encode(&self, copy: CopyKind, salt: &[u8; 64], json: &str) -> Result<Vec<u8>, HeaderError> {
        if !HEADER_SIZES.contains(&self.header_size) {
            return Err(HeaderError::HeaderSize { bytes: self.header_size });
        }
        let must = self.json_size();
        if json.len() as u64 >= must {
            // cannot overflow: no text in memory has 2^64 bytes.
            return Err(HeaderError::TooShort { needs: (json.len() as u64).saturating_add(1), has: must });
        }
        let (magic, offset) = match copy {
            CopyKind::Primary => (MAGIC_PRIMARY, 0),
            CopyKind::Secondary => (MAGIC_SECONDARY, self.header_size),
        };
        let fields: Fields = (
            magic,
            Be(VERSION),
            Be(self.header_size),
            Be(self.sequence),
            padded(self.label.as_bytes(), "label")?,
            padded(self.checksum.name().as_bytes(), "checksum algorithm")?,
            *salt,
            padded(self.uuid.as_bytes(), "uuid")?,
            padded(self.subsystem.as_bytes(), "subsystem")?,
            Be(offset),
            [0; 184],
            [0; CHECKSUM_LEN],
        );
        let mut binary: [u8; BINARY_SIZE] =
            encode((encode::<_, FIELDS_LEN>(fields), [0; BINARY_SIZE - FIELDS_LEN]));
        // At most 4 MiB: the size is one of a fixed list.
        let mut out = alloc::vec![0; self.header_size as usize];
        let mut writer = Writer::new(&mut out);
        let full = |_: WriteError| HeaderError::TooShort { needs: json.len() as u64, has: must };
        let place = writer.place(BINARY_SIZE).map_err(full)?;
        let area = writer.place(must as usize).map_err(full)?;
        writer.finish().map_err(full)?;
        let mut text = Writer::new(area);
        text.bytes(json.as_bytes()).map_err(full)?;
        text.finish_zeros();
        let sum = self.checksum.of(&binary, area);
        let (_, rest): (&mut [u8; CHECKSUM_OFFSET], &mut [u8; BINARY_SIZE - CHECKSUM_OFFSET]) =
            split_mut(&mut binary);
        Writer::new(rest).bytes(&sum).map_err(full)?;
        place.copy_from_slice(&binary);
        Ok(out)
    }
}

impl Checksum {
    /// Its name in the header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn from_name(name: &str) -> Result<Self, HeaderError> {
        [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512]
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or(HeaderError::ChecksumAlgorithm)
    }

    /// Hash over the binary header, its checksum field as zeros, and the JSON area.
    fn of(self, binary: &[u8; BINARY_SIZE], json: &[u8]) -> Vec<u8> {
        fn hash<D: sha2::digest::Digest>(binary: &[u8; BINARY_SIZE], json: &[u8]) -> Vec<u8> {
            let (before, rest): (&[u8; CHECKSUM_OFFSET], &[u8; BINARY_SIZE - CHECKSUM_OFFSET]) =
                split(binary);
            let (_, after): (&[u8; CHECKSUM_LEN], &[u8; BINARY_SIZE - FIELDS_LEN]) = split(rest);
            let mut state = D::new();
            for part in [&before[..], &[0; CHECKSUM_LEN], after, json] {
                state.update(part);
            }
            state.finalize().to_vec()
        }
        match self {
            Self::Sha1 => hash::<sha1::Sha1>(binary, json),
            Self::Sha256 => hash::<sha2::Sha256>(binary, json),
            Self::Sha384 => hash::<sha2::Sha384>(binary, json),
            Self::Sha512 => hash::<sha2::Sha512>(binary, json),
        }
    }
}

/// A text field: NUL-terminated and padded with NULs.
fn padded<const N: usize>(text: &[u8], field: &'static str) -> Result<[u8; N], HeaderError> {
    let mut out = [0; N];
    if text.len() >= N || text.contains(&0) {
        return Err(HeaderError::BinaryText { field });
    }
    Writer::new(&mut out).bytes(text).map_err(|_| HeaderError::BinaryText { field })?;
    Ok(out)
}

/// Text up to the first NUL. cryptsetup ends a field without a NUL at its last byte.
fn text(field: &[u8]) -> HeaderText {
    let text = field.split_last().map_or(field, |(_, text)| text);
    let len = text.iter().position(|byte| *byte == 0);
    len.and_then(|len| text.get(..len)).unwrap_or(text).into()
}
