//! LUKS2: two copies of a header (4096 binary bytes, then JSON metadata), keyslot areas behind them, then the data.
//!
//! [`Header::parse`] turns one copy into types, [`HeaderPair`] says which of the two counts, and [`Header::encode`]
//! gives the bytes of a copy. Changes go through [`Metadata`]'s methods, whose results pass the same rules as what
//! is read.

mod binary;
mod compose;
mod counter;
mod edit;
mod error;
mod fields;
mod json;
mod metadata;
mod pair;
mod pin;
mod policy;
mod reencrypt;
mod rules;
mod text;
mod token;
mod view;

pub use binary::{BinaryHeader, Checksum, CopyKind, header_size};
pub use compose::Composition;
pub use counter::{BadCounterToken, COUNTER_TOKEN, CounterToken};
pub use error::{HeaderError, Item, Place, Section};
pub use fields::HeaderField;
pub use metadata::Metadata;
pub use pair::{Header, HeaderPair};
pub use pin::{MARK_LEN, Marks, PIN_MAC_LEN, PIN_TOKEN, Pin, PinFault};
pub use policy::{Argon2Floor, HeaderPolicy, PolicyFault};
pub use reencrypt::{
    Checksums, ReencryptDirection, ReencryptMode, Reencryption, ReencryptionFault, Resilience, Shift,
};
pub use text::HeaderText;
pub use token::{KEYRING_TOKEN, keyring_description};
pub use view::{
    Af, Area, AreaKind, Argon2, Config, Digest, DigestKind, Integrity, Kdf, Keyslot, KeyslotKind, Priority,
    Requirement, Segment, SegmentKind, SegmentSize, Token,
};

/// Bytes in the binary part of a header copy.
pub const BINARY_SIZE: usize = 4096;
/// Sizes that a header copy (binary part and JSON) can have. The second copy starts at an offset of its size, so
/// these are also the places to look for it when the first copy is gone.
pub const HEADER_SIZES: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
/// The keyslots area is at most 128 MiB.
pub const MAX_KEYSLOTS_SIZE: u64 = 128 << 20;
/// Offsets and sizes of segments, and the shift of a re-encryption, are at most 4 EiB, half of the largest device that Linux has. So the end of a range
/// fits in 64 bits, as does what is computed from three of them.
pub const MAX_BYTES: u64 = 1 << 62;
/// Keyslots, tokens and segments are numbered from 0 to below this.
pub const MAX_KEYSLOTS: u32 = 32;
/// Digests are numbered from 0 to below this.
pub const MAX_DIGESTS: u32 = 8;
/// The only number of anti-forensic stripes in use.
pub const AF_STRIPES: u32 = 4000;
/// Bytes in every salt of a key derivation or digest.
pub const SALT_LEN: usize = 32;
/// Alignment of keyslot areas.
pub const AREA_ALIGNMENT: u64 = 4096;
/// Most memory that an Argon2 keyslot may ask for, in KiB: cryptsetup's own limit of 4 GiB.
pub const MAX_ARGON2_MEMORY_KIB: u32 = 4 << 20;
/// Most lanes that an Argon2 keyslot may ask for. cryptsetup writes at most 4.
pub const MAX_ARGON2_LANES: u32 = 64;
/// How the type of a token begins of a header that lies in a file while a volume of LUKS1 is re-encrypted. Its keyslots may have more room than there is in
/// front of the data.
pub const HEADER_IN_FILE: &str = "atrest-luks1-in-front";

/// Bytes of a keyslot area for a key of `key_len` bytes, as cryptsetup allocates it.
pub fn area_size(key_len: u32) -> u64 {
    // cannot overflow: a number of 32 bits times 4000.
    u64::from(key_len).saturating_mul(u64::from(AF_STRIPES)).next_multiple_of(AREA_ALIGNMENT)
}
