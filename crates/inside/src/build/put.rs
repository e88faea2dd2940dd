//! Writing numbers into on-disk structures: the counterpart of [`Fields`](crate::bytes::Fields).
//!
//! Nothing here can panic. What lies beyond the end of the slice is not written, which no caller asks for: each
//! structure is made in a buffer of its full size.

pub(crate) fn bytes(raw: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = raw.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

pub(crate) fn le16(raw: &mut [u8], at: usize, value: u16) {
    bytes(raw, at, &value.to_le_bytes());
}

pub(crate) fn le32(raw: &mut [u8], at: usize, value: u32) {
    bytes(raw, at, &value.to_le_bytes());
}

/// The low half of a number at one place, its high half at another, as ext4 came to 64 bits.
pub(crate) fn halves16(raw: &mut [u8], low_at: usize, high_at: usize, value: u32) {
    le16(raw, low_at, (value & 0xffff) as u16);
    le16(raw, high_at, (value >> 16) as u16);
}

/// See [`halves16`].
pub(crate) fn halves32(raw: &mut [u8], low_at: usize, high_at: usize, value: u64) {
    le32(raw, low_at, low32(value));
    le32(raw, high_at, (value >> 32) as u32);
}

/// The low 32 bits.
pub(crate) fn low32(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}
