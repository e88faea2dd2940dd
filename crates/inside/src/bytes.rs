//! What on-disk structures have in common: numbers in two halves, and the two CRCs.

use core::ops::Range;

/// A 64-bit number from its halves.
pub(crate) fn wide(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// CRC-32C (Castagnoli, reflected) of `data`, continued from `seed`, without the final inversion, as ext4 and JBD2 use it.
pub(crate) fn crc32c(seed: u32, data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0x82f6_3b78);
    update(&TABLE, seed, data)
}

/// CRC-32C of `data`, continued from `seed`, in which the bytes `field` count as zeros: a checksum covers its own place so.
/// `None` unless the field lies in `data`.
pub(crate) fn crc32c_without(seed: u32, data: &[u8], field: Range<usize>) -> Option<u32> {
    let (before, after) = (data.get(..field.start)?, data.get(field.end..)?);
    let sum = field.fold(crc32c(seed, before), |sum, _| crc32c(sum, &[0]));
    Some(crc32c(sum, after))
}

/// CRC-32 (IEEE 802.3) of `data`, as the GPT uses it.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0xedb8_8320);
    !update(&TABLE, !0, data)
}

fn update(table: &[u32; 256], mut crc: u32, data: &[u8]) -> u32 {
    for &byte in data {
        let [low, ..] = crc.to_le_bytes();
        // cannot miss: the table has an entry for every byte.
        crc = crc >> 8 ^ table.get(usize::from(low ^ byte)).copied().unwrap_or(0);
    }
    crc
}

// Runs at compile time only, where an overflow or a bad index is a build error.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crcs_match_the_check_values_of_the_rocksoft_catalogue() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_field_that_is_left_out_counts_as_zeros() {
        assert_eq!(crc32c_without(7, b"ab12cd", 2..4), Some(crc32c(7, b"ab\0\0cd")));
        assert_eq!(crc32c_without(7, b"ab12", 2..4), Some(crc32c(7, b"ab\0\0")));
        assert_eq!(crc32c_without(7, b"ab1", 2..4), None);
        assert_eq!(crc32c_without(7, b"", 2..4), None);
    }
}
