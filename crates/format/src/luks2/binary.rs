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

use super::{BINARY_SIZE, HEADER_SIZES, HeaderError, HeaderText};

const MAGIC_PRIMARY: [u8; 6] = *b"LUKS\xBA\xBE";
const MAGIC_SECONDARY: [u8; 6] = *b"SKUL\xBA\xBE";
const VERSION: u16 = 2;
const CHECKSUM_OFFSET: usize = 448;
const CHECKSUM_LEN: usize = 64;

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
pub fn header_size(binary: &[u8], copy: CopyKind, offset: u64) -> Result<u64, HeaderError> {
    let fields = Fields(binary);
    let magic = match copy {
        CopyKind::Primary => MAGIC_PRIMARY,
        CopyKind::Secondary => MAGIC_SECONDARY,
    };
    if fields.array::<6>(0)? != magic {
        return Err(HeaderError::Magic);
    }
    let version = u16::from_be_bytes(fields.array(6)?);
    if version != VERSION {
        return Err(HeaderError::Version { version });
    }
    let size = u64::from_be_bytes(fields.array(8)?);
    if !HEADER_SIZES.contains(&size) {
        return Err(HeaderError::HeaderSize { bytes: size });
    }
    let claims = u64::from_be_bytes(fields.array(256)?);
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
    pub fn parse(bytes: &[u8], copy: CopyKind, offset: u64) -> Result<(Self, &[u8]), HeaderError> {
        let header_size = header_size(bytes, copy, offset)?;
        let has = bytes.len() as u64;
        let whole = usize::try_from(header_size).ok().and_then(|size| bytes.get(..size));
        let whole = whole.ok_or(HeaderError::TooShort { needs: header_size, has })?;
        let (binary, json) =
            whole.split_at_checked(BINARY_SIZE).ok_or(HeaderError::TooShort { needs: header_size, has })?;
        let fields = Fields(binary);
        let checksum = Checksum::from_name(fields.text::<32>(72)?.as_str())?;
        let stored: [u8; CHECKSUM_LEN] = fields.array(CHECKSUM_OFFSET)?;
        // Bytes behind the hash's own length are not part of the comparison, as in cryptsetup.
        let computed = checksum.of(binary, json);
        if stored.get(..computed.len()) != Some(computed.as_slice()) {
            return Err(HeaderError::ChecksumMismatch);
        }
        let header = Self {
            header_size,
            sequence: u64::from_be_bytes(fields.array(16)?),
            label: fields.text::<48>(24)?,
            subsystem: fields.text::<48>(208)?,
            uuid: fields.text::<40>(168)?,
            checksum,
        };
        Ok((header, json))
    }

    /// Bytes in the JSON area of a copy.
    pub fn json_size(&self) -> u64 {
        self.header_size.saturating_sub(BINARY_SIZE as u64)
    }

    /// The bytes of a whole copy. `salt` makes the two copies differ. `json` is padded with zeros; at least one must
    /// fit behind it.
    pub fn encode(&self, copy: CopyKind, salt: &[u8; 64], json: &str) -> Result<Vec<u8>, HeaderError> {
        let must = self.json_size();
        if json.len() as u64 >= must || !HEADER_SIZES.contains(&self.header_size) {
            return Err(HeaderError::TooShort { needs: (json.len() as u64).saturating_add(1), has: must });
        }
        let (magic, offset) = match copy {
            CopyKind::Primary => (MAGIC_PRIMARY, 0),
            CopyKind::Secondary => (MAGIC_SECONDARY, self.header_size),
        };
        let mut out = Vec::with_capacity(usize::try_from(self.header_size).unwrap_or(0));
        out.extend_from_slice(&magic);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.header_size.to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        push_text(&mut out, self.label.as_bytes(), 48, "label")?;
        push_text(&mut out, self.checksum.name().as_bytes(), 32, "checksum algorithm")?;
        out.extend_from_slice(salt);
        push_text(&mut out, self.uuid.as_bytes(), 40, "uuid")?;
        push_text(&mut out, self.subsystem.as_bytes(), 48, "subsystem")?;
        out.extend_from_slice(&offset.to_be_bytes());
        out.resize(BINARY_SIZE, 0);
        let mut area = Vec::with_capacity(usize::try_from(must).unwrap_or(0));
        area.extend_from_slice(json.as_bytes());
        area.resize(usize::try_from(must).unwrap_or(0), 0);
        let sum = self.checksum.of(&out, &area);
        for (place, byte) in out.iter_mut().skip(CHECKSUM_OFFSET).zip(sum) {
            *place = byte;
        }
        out.append(&mut area);
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
    fn of(self, binary: &[u8], json: &[u8]) -> Vec<u8> {
        fn hash<D: sha2::digest::Digest>(binary: &[u8], json: &[u8]) -> Vec<u8> {
            let (before, rest) = binary.split_at_checked(CHECKSUM_OFFSET).unwrap_or((binary, &[]));
            let after = rest.get(CHECKSUM_LEN..).unwrap_or(&[]);
            let mut state = D::new();
            for part in [before, &[0; CHECKSUM_LEN], after, json] {
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
fn push_text(out: &mut Vec<u8>, text: &[u8], len: usize, field: &'static str) -> Result<(), HeaderError> {
    let padding = len.checked_sub(text.len()).filter(|padding| *padding > 0);
    let padding = padding.filter(|_| !text.contains(&0)).ok_or(HeaderError::BinaryText { field })?;
    out.extend_from_slice(text);
    out.extend(core::iter::repeat_n(0, padding));
    Ok(())
}

/// Fields at fixed offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], HeaderError> {
        let short = HeaderError::TooShort { needs: BINARY_SIZE as u64, has: self.0.len() as u64 };
        self.0.get(offset..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(short)
    }

    fn text<const N: usize>(&self, offset: usize) -> Result<HeaderText, HeaderError> {
        let bytes: [u8; N] = self.array(offset)?;
        // cryptsetup ends a field without a NUL at its last byte.
        let text = bytes.split_last().map_or(bytes.as_slice(), |(_, text)| text);
        let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
        Ok(text.into())
    }
}
