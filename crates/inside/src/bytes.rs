//! What structures of ext4 have in common.

/// A 64-bit number from its halves.
pub(crate) fn wide(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
