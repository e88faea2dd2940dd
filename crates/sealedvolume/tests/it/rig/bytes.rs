//! Objects as bytes, read without the crate's own code: what an attacker sees of them.

pub const PRELUDE: usize = 128;
pub const SEALED_BLOCK: usize = 4112;

/// The number in a prelude of the object.
pub fn field(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Blocks in a log object.
pub fn slots(bytes: &[u8]) -> usize {
    field(bytes, 12)
}

/// Bytes of a sealed summary.
pub fn summary(bytes: &[u8]) -> usize {
    field(bytes, 16) + 16
}

/// Where a slot lies.
pub fn slot(bytes: &[u8], slot: usize) -> std::ops::Range<usize> {
    let at = PRELUDE + summary(bytes) + slot * SEALED_BLOCK;
    at..at + SEALED_BLOCK
}

/// The salt of an object.
pub fn salt(bytes: &[u8]) -> [u8; 16] {
    bytes[80..96].try_into().expect("sixteen bytes")
}

/// A log object whose lengths fit.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.len() >= 2 * PRELUDE
        && bytes[10] == 1
        && bytes.len() == 2 * (PRELUDE + summary(bytes)) + slots(bytes) * SEALED_BLOCK
}
