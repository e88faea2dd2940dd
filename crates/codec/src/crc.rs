//! The checksums of many layouts, a byte at a time by a table.
//!
//! A sum is continued from a seed and is not inverted at its end: formats differ in that, and in what else they put
//! in front. `!crc32(!0, data)` is the CRC-32 of Ethernet, zlib and the GPT; `!crc32c(!0, data)` is iSCSI's.

use core::ops::Range;

/// CRC-32 of IEEE 802.3, reflected, of `data`, continued from `seed`.
pub fn crc32(seed: u32, data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0xedb8_8320);
    update(&TABLE, seed, data)
}

/// CRC-32C (Castagnoli), reflected, of `data`, continued from `seed`. ext4 and JBD2 use it without the inversion.
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0x82f6_3b78);
    update(&TABLE, seed, data)
}

/// CRC-32C in which the bytes `field` of `data` count as zeros: a checksum covers its own place so. `None` unless the field
/// lies in `data`.
pub fn crc32c_without(seed: u32, data: &[u8], field: Range<usize>) -> Option<u32> {
    let (before, after) = (data.get(..field.start)?, data.get(field.end..)?);
    let sum = field.fold(crc32c(seed, before), |sum, _| crc32c(sum, &[0]));
    Some(crc32c(sum, after))
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
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
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
