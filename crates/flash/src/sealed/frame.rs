//! A record with the number of its writing and a checksum, by which a whole one is told from a torn one.

use atrest_codec::{Le, decode, encode};
use atrest_device::TRUSTED_RECORD_LEN;

/// Bytes that a record takes in a store that is not atomic by itself.
pub const FRAME_LEN: usize = BODY_LEN + 4;
/// Record and sequence number.
const BODY_LEN: usize = TRUSTED_RECORD_LEN + 4;

/// Record, sequence number, CRC-32 of both; little endian.
pub(crate) fn join(record: &[u8; TRUSTED_RECORD_LEN], sequence: u32) -> [u8; FRAME_LEN] {
    let body: [u8; BODY_LEN] = encode((*record, Le(sequence)));
    encode((body, Le(crc32(&body))))
}

/// Sequence number and record; none if it is not whole.
pub(crate) fn split(frame: &[u8; FRAME_LEN]) -> Option<(u32, [u8; TRUSTED_RECORD_LEN])> {
    let (body, Le(sum)): ([u8; BODY_LEN], Le<u32>) = decode(frame);
    if crc32(&body) != sum {
        return None;
    }
    let (record, Le(sequence)) = decode(&body);
    Some((sequence, record))
}

/// The CRC of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (if crc & 1 == 1 { 0xedb8_8320 } else { 0 });
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_everybody_means() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn any_single_changed_bit_is_seen() {
        let frame = join(&[0xa5; TRUSTED_RECORD_LEN], 0x0403_0201);
        assert_eq!(frame[80..84], [1, 2, 3, 4]);
        assert_eq!(split(&frame), Some((0x0403_0201, [0xa5; TRUSTED_RECORD_LEN])));
        for bit in 0..FRAME_LEN * 8 {
            let mut torn = frame;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(split(&torn), None, "bit {bit}");
        }
    }
}
