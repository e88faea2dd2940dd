//! What can be wrong with a LUKS2 header: each rule has its own variant, which names the place.

use core::fmt;

/// A part of the JSON metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The outermost object.
    Top,
    /// `keyslots`.
    Keyslots,
    /// `tokens`.
    Tokens,
    /// `segments`.
    Segments,
    /// `digests`.
    Digests,
    /// `config`.
    Config,
}

/// An object of the JSON metadata: a numbered one, or a section itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it is listed.
    pub section: Section,
    /// Its number; `None` for the section itself.
    pub id: Option<u32>,
}

/// A field of an object, such as `keyslots.3 area.offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The object.
    pub item: Item,
    /// The field's path inside it.
    pub field: &'static str,
}

/// Why a header copy can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The device or buffer ends inside the header copy.
    TooShort {
        /// Bytes that the copy needs.
        needs: u64,
        /// Bytes there are.
        has: u64,
    },
    /// The copy could not be read from the device.
    Unreadable {
        /// Byte offset of the copy.
        offset: u64,
    },
    /// The magic is missing.
    Magic,
    /// The version is not 2.
    Version {
        /// The version.
        version: u16,
    },
    /// The size of a header copy is none of [`HEADER_SIZES`](super::HEADER_SIZES).
    HeaderSize {
        /// Bytes it claims.
        bytes: u64,
    },
    /// The copy was written for another offset.
    HeaderOffset {
        /// Offset that it claims.
        claims: u64,
        /// Offset at which it was found.
        found: u64,
    },
    /// The checksum algorithm is not known.
    ChecksumAlgorithm,
    /// The checksum does not match: the copy is damaged.
    ChecksumMismatch,
    /// A text does not fit in its field of the binary header: it is too long, or contains a NUL.
    BinaryText {
        /// The field.
        field: &'static str,
    },
    /// The copy is intact but older than the other.
    Outdated {
        /// Its sequence number.
        sequence: u64,
        /// The other's.
        newest: u64,
    },
    /// The copy has the other's sequence number, but not its contents.
    Differs,
    /// The metadata is not JSON, from this byte of the JSON area on.
    JsonSyntax {
        /// Byte offset in the JSON area.
        offset: u64,
    },
    /// The JSON area does not start with an object.
    JsonStart,
    /// The JSON text is not ended by a zero byte.
    JsonUnterminated,
    /// Bytes other than zero follow the JSON text.
    JsonTrailingBytes {
        /// Byte offset in the JSON area.
        offset: u64,
    },
    /// Objects and arrays are nested more than 32 deep.
    JsonDepth,
    /// An object or array has more than 1024 members.
    JsonMembers,
    /// An object names a member twice.
    JsonDuplicate,
    /// A mandatory field is missing.
    Missing(Place),
    /// A field has another JSON type than it must have.
    WrongType(Place),
    /// A number is not written as a decimal number, or too large for its field.
    NotANumber(Place),
    /// A number is outside its bounds.
    OutOfBounds {
        /// The field.
        place: Place,
        /// Its value.
        value: u64,
    },
    /// A number is not the multiple that it must be.
    Misaligned {
        /// The field.
        place: Place,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// A field has a value that is not known.
    UnknownValue(Place),
    /// A salt or digest is not base64, or has the wrong length.
    Base64(Place),
    /// Members of a section are not numbered, or their number is too large.
    BadId {
        /// The section.
        section: Section,
        /// Numbers must be below this.
        limit: u32,
    },
    /// A list of keyslots or segments names one that does not exist.
    UnknownReference {
        /// The list.
        place: Place,
    },
    /// A list names a keyslot or segment twice.
    DuplicateReference {
        /// The list.
        place: Place,
    },
    /// `json_size` is not what the binary header says.
    JsonSize {
        /// What it says.
        claims: u64,
        /// What it must be.
        must: u64,
    },
    /// The keyslots area reaches into the data.
    KeyslotsReachData {
        /// End of the keyslots area.
        end: u64,
        /// Start of the first data segment.
        data: u64,
    },
    /// A keyslot area is empty, or not inside the keyslots area.
    AreaOutOfBounds {
        /// The keyslot.
        keyslot: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
    },
    /// Two keyslot areas overlap.
    AreaOverlap {
        /// One keyslot.
        a: u32,
        /// The other.
        b: u32,
    },
    /// A keyslot area is too small for its key.
    AreaTooSmall {
        /// The keyslot.
        keyslot: u32,
        /// Bytes that it has.
        has: u64,
        /// Bytes that it needs.
        needs: u64,
    },
    /// A keyslot belongs to no digest, or to several.
    KeyslotDigests {
        /// The keyslot.
        keyslot: u32,
        /// How many digests list it.
        count: u32,
    },
    /// A segment belongs to no digest.
    SegmentWithoutDigest {
        /// The segment.
        segment: u32,
    },
    /// A sealed segment is not the only one, or the requirement for it is missing, or stands alone.
    Sealed,
    /// There is no data segment, or their numbers have gaps.
    SegmentNumbers,
    /// Only the last segment may extend to the end of the device.
    SegmentAfterDynamic {
        /// The segment that should have a size.
        segment: u32,
    },
    /// Two segments overlap, or one reaches beyond any device.
    SegmentOverlap {
        /// One segment.
        a: u32,
        /// The other.
        b: u32,
    },
    /// A null cipher, which keeps nothing secret.
    NullCipher(Place),
    /// A key does not have a length that its cipher takes.
    KeyLength {
        /// Where the length is stated.
        place: Place,
        /// Bytes.
        bytes: u64,
    },
    /// The re-encryption keyslot and the requirement for it don't belong together, or there are several.
    ReencryptionState,
}

impl Section {
    /// The section itself.
    pub const fn itself(self) -> Item {
        Item { section: self, id: None }
    }

    /// A numbered member.
    pub const fn member(self, id: u32) -> Item {
        Item { section: self, id: Some(id) }
    }

    /// Its name in the JSON text.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Top => "metadata",
            Section::Keyslots => "keyslots",
            Section::Tokens => "tokens",
            Section::Segments => "segments",
            Section::Digests => "digests",
            Section::Config => "config",
        }
    }
}

impl Item {
    /// A field of the object.
    pub const fn at(self, field: &'static str) -> Place {
        Place { item: self, field }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.section.name())?;
        match self.id {
            Some(id) => write!(f, ".{id}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.item, self.field)
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { needs, has } => {
                write!(f, "the header needs {needs} bytes, but only {has} are there")
            }
            Self::Unreadable { offset } => write!(f, "the header at offset {offset} can't be read"),
            Self::Magic => f.write_str("the magic is missing"),
            Self::Version { version } => write!(f, "version {version} is not LUKS2"),
            Self::HeaderSize { bytes } => write!(f, "a header size of {bytes} bytes does not exist"),
            Self::HeaderOffset { claims, found } => {
                write!(f, "the header at offset {found} was written for offset {claims}")
            }
            Self::ChecksumAlgorithm => f.write_str("the checksum algorithm is not known"),
            Self::ChecksumMismatch => f.write_str("the checksum does not match"),
            Self::BinaryText { field } => write!(f, "{field} does not fit in the header"),
            Self::Outdated { sequence, newest } => {
                write!(f, "it is outdated (sequence number {sequence}, the other copy has {newest})")
            }
            Self::Differs => f.write_str("it differs from the other copy of the same sequence number"),
            Self::JsonSyntax { offset } => write!(f, "the metadata is no JSON at byte {offset}"),
            Self::JsonStart => f.write_str("the metadata does not start with an object"),
            Self::JsonUnterminated => f.write_str("the metadata is not ended by a zero byte"),
            Self::JsonTrailingBytes { offset } => write!(f, "bytes follow the metadata at byte {offset}"),
            Self::JsonDepth => f.write_str("the metadata is nested more than 32 deep"),
            Self::JsonMembers => f.write_str("an object or array of the metadata has more than 1024 members"),
            Self::JsonDuplicate => f.write_str("an object of the metadata names a member twice"),
            Self::Missing(place) => write!(f, "{place} is missing"),
            Self::WrongType(place) => write!(f, "{place} has the wrong type"),
            Self::NotANumber(place) => write!(f, "{place} is not a number of the right form"),
            Self::OutOfBounds { place, value } => write!(f, "{place} is out of bounds: {value}"),
            Self::Misaligned { place, value, multiple } => {
                write!(f, "{place} is {value}, which is not a multiple of {multiple}")
            }
            Self::UnknownValue(place) => write!(f, "{place} has an unknown value"),
            Self::Base64(place) => write!(f, "{place} is not base64 of the right length"),
            Self::BadId { section, limit } => {
                write!(f, "members of {} must be numbered from 0 to below {limit}", section.name())
            }
            Self::UnknownReference { place } => write!(f, "{place} lists something that does not exist"),
            Self::DuplicateReference { place } => write!(f, "{place} lists something twice"),
            Self::JsonSize { claims, must } => write!(f, "config.json_size is {claims} instead of {must}"),
            Self::KeyslotsReachData { end, data } => {
                write!(f, "the keyslots area ends at {end}, but data starts at {data}")
            }
            Self::AreaOutOfBounds { keyslot, offset, size } => {
                write!(
                    f,
                    "the area of keyslot {keyslot} ({size} bytes at {offset}) is not inside the keyslots area"
                )
            }
            Self::AreaOverlap { a, b } => write!(f, "the areas of keyslots {a} and {b} overlap"),
            Self::AreaTooSmall { keyslot, has, needs } => {
                write!(f, "the area of keyslot {keyslot} has {has} bytes, but its key needs {needs}")
            }
            Self::KeyslotDigests { keyslot, count } => {
                write!(f, "keyslot {keyslot} belongs to {count} digests instead of one")
            }
            Self::SegmentWithoutDigest { segment } => write!(f, "segment {segment} belongs to no digest"),
            Self::Sealed => {
                f.write_str("the sealed segment and the requirement for it don't belong together")
            }
            Self::SegmentNumbers => f.write_str("there is no data segment, or their numbers have gaps"),
            Self::SegmentAfterDynamic { segment } => {
                write!(f, "segment {segment} has no size, but others follow it")
            }
            Self::SegmentOverlap { a, b } => write!(f, "segments {a} and {b} overlap"),
            Self::NullCipher(place) => write!(f, "{place} is a null cipher, which keeps nothing secret"),
            Self::KeyLength { place, bytes } => {
                write!(f, "{place} is {bytes} bytes, which the cipher does not take")
            }
            Self::ReencryptionState => {
                f.write_str("the re-encryption keyslot and the requirement for it don't belong together")
            }
        }
    }
}

impl core::error::Error for HeaderError {}
