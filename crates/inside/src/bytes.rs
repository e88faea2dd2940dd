//! Reading numbers out of on-disk structures, and the two CRCs that they carry.
//!
//! Nothing here can panic: a field that lies beyond the end of the slice reads as zero. Every structure is read into
//! a buffer of its full size first, so that only happens where a caller asks for a field its format does not have.

/// Bytes of an on-disk structure.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// `N` bytes at `at`, or zeros.
    pub(crate) fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Bytes `at..at + len`, or as many of them as there are.
    pub(crate) fn slice(self, at: usize, len: usize) -> &'a [u8] {
        let rest = self.0.get(at..).unwrap_or(&[]);
        rest.get(..len).unwrap_or(rest)
    }

    pub(crate) fn u8(self, at: usize) -> u8 {
        self.array::<1>(at)[0]
    }

    pub(crate) fn le16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(crate) fn le32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(crate) fn le64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(crate) fn be16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(crate) fn be32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }
}

/// A 64-bit number from its halves.
pub(crate) fn wide(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// CRC-32C (Castagnoli, reflected) of `data`, continued from `seed`, without the final inversion, as ext4 and JBD2 use it.
pub(crate) fn crc32c(seed: u32, data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0x82f6_3b78);
    update(&TABLE, seed, data)
}

/// CRC-32 (IEEE 802.3) of `data`, as the GPT uses it.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0xedb8_8320);
    !update(&TABLE, !0, data)
}

fn update(table: &[u32; 256], mut crc: u32, data: &[u8]) -> u32 {
    for &byte in data {
        let [low, ..] = crc.to_le_bytes();
        // A byte always lies inside the table, so the default is never used.
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
    fn fields_beyond_the_end_read_as_zero() {
        let fields = Fields(&[1, 2, 3]);
        assert_eq!(fields.le16(1), 0x0302);
        assert_eq!(fields.le16(2), 0);
        assert_eq!(fields.le64(usize::MAX), 0);
        assert_eq!(fields.slice(2, 10), &[3]);
        assert_eq!(fields.slice(10, 10), &[] as &[u8]);
    }
}
