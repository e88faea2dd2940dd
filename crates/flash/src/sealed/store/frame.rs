//! A record with the number of its writing and a checksum, by which a whole one is told from a torn one.

use atrest_device::TRUSTED_RECORD_LEN;

/// Bytes that a record takes in a store that is not atomic by itself.
pub const FRAME_LEN: usize = TRUSTED_RECORD_LEN + 8;

/// Record, sequence number, CRC-32 of both; little endian.
pub(super) fn join(record: &[u8; TRUSTED_RECORD_LEN], sequence: u32) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let numbered = record.iter().copied().chain(sequence.to_le_bytes());
    frame.iter_mut().zip(numbered).for_each(|(to, from)| *to = from);
    // cannot underflow: a frame is longer than its sum.
    let (body, sum) = frame.split_at_mut(FRAME_LEN.saturating_sub(4));
    sum.copy_from_slice(&crc32(body).to_le_bytes());
    frame
}

/// Sequence number and record; none if it is not whole.
pub(super) fn split(frame: &[u8; FRAME_LEN]) -> Option<(u32, [u8; TRUSTED_RECORD_LEN])> {
    let (body, sum) = frame.split_last_chunk::<4>()?;
    if crc32(body).to_le_bytes() != *sum {
        return None;
    }
    let (record, sequence) = body.split_first_chunk()?;
    Some((u32::from_le_bytes(*sequence.first_chunk()?), *record))
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
        assert_eq!(frame[40..44], [1, 2, 3, 4]);
        assert_eq!(split(&frame), Some((0x0403_0201, [0xa5; TRUSTED_RECORD_LEN])));
        for bit in 0..FRAME_LEN * 8 {
            let mut torn = frame;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(split(&torn), None, "bit {bit}");
        }
    }
}
