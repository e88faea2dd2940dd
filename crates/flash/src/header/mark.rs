//! What names a header: the trusted store of a sealed volume says which header is the newest.

use atrest_codec::split;
use atrest_keyslot::flash::{HEADER_LEN, Header, HeaderError};

/// Bytes of a header's checksum that name it.
pub const DIGEST_LEN: usize = 12;

/// Where the checksum begins: it is the last 32 bytes.
const CHECKSUM_AT: usize = HEADER_LEN - 32;

/// Names a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderMark {
    /// Its sequence number.
    pub sequence: u64,
    /// The first bytes of its checksum, which is SHA-256 of all before.
    pub digest: [u8; DIGEST_LEN],
}

/// The header that a volume was unlocked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundHeader {
    /// Which.
    pub mark: HeaderMark,
    /// Both copies hold it, so that no change of it can be under way.
    pub in_both: bool,
}

impl HeaderMark {
    /// Of the bytes of a header.
    ///
    /// # Errors
    /// [`HeaderError`] if they are no header that [`Header::parse`] accepts.
    pub fn of(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let sequence = Header::parse(bytes)?.sequence();
        let (_, checksum): (&[u8; CHECKSUM_AT], &[u8; HEADER_LEN - CHECKSUM_AT]) = split(bytes);
        let (digest, _): (_, &[u8; HEADER_LEN - CHECKSUM_AT - DIGEST_LEN]) = split(checksum);
        Ok(Self { sequence, digest: *digest })
    }
}
