//! CRC-32 with the polynomial 0x04c11db7, reflected.

/// The CRC of gzip and zip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !update(u32::MAX, bytes)
}

/// Goes on with a CRC that is inverted neither before nor after.
pub(crate) fn update(crc: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    bytes.iter().fold(crc, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
