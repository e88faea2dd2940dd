//! Serials: 40-bit numbers, of which each is used for one sealing ever.

/// Bytes in a serial.
pub(crate) const SERIAL_LEN: usize = 5;

/// Serials are below this.
pub(crate) const SERIAL_END: u64 = 1 << 40;

/// Five bytes, little endian. The serial is below [`SERIAL_END`].
pub(crate) fn to_bytes(serial: u64) -> [u8; SERIAL_LEN] {
    let [a, b, c, d, e, ..] = serial.to_le_bytes();
    [a, b, c, d, e]
}

pub(crate) fn from_bytes(bytes: [u8; SERIAL_LEN]) -> u64 {
    let [a, b, c, d, e] = bytes;
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}
