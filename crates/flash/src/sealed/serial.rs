//! Serials: 40-bit numbers, of which each is used for one sealing ever.

/// Bytes in a serial.
pub(crate) const SERIAL_LEN: usize = 5;

/// Serials are below this.
pub(crate) const SERIAL_END: u64 = 1 << 40;

/// Serials that a record allows are of so many bits at most, where nobody but a counter knows how many records there were.
pub(crate) const RECORD_BITS: u8 = 16;

/// The first serial that can't have been used under so many records. None if there is no such.
pub(crate) fn unused_after(records: u64) -> Option<u64> {
    let first = records.checked_add(1)?.checked_mul(1 << RECORD_BITS)?;
    (first < SERIAL_END).then_some(first)
}

/// Five bytes, little endian. The serial is below [`SERIAL_END`].
pub(crate) fn to_bytes(serial: u64) -> [u8; SERIAL_LEN] {
    let [a, b, c, d, e, ..] = serial.to_le_bytes();
    [a, b, c, d, e]
}

pub(crate) fn from_bytes(bytes: [u8; SERIAL_LEN]) -> u64 {
    let [a, b, c, d, e] = bytes;
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}
