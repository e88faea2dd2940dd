//! Numbers of varying length: LEB128 with the shortest encoding only, and zigzag for those with a sign.

use atrest_codec::Reader;

use super::FormatError;

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number. An encoding that could be shorter is refused: each number has one.
pub(super) fn take(reader: &mut Reader<'_>) -> Result<u64, FormatError> {
    let mut number = 0_u64;
    for shift in (0_u32..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        let placed = bits.checked_shl(shift).ok_or(FormatError::Layout)?;
        if placed.checked_shr(shift) != Some(bits) {
            return Err(FormatError::Layout);
        }
        number |= placed;
        if byte & 0x80 == 0 {
            return if byte == 0 && shift > 0 { Err(FormatError::Layout) } else { Ok(number) };
        }
    }
    Err(FormatError::Layout)
}

/// A difference as a number without a sign: small ones of either sign are small.
pub(super) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The difference that a number stands for.
pub(super) fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ (number & 1).cast_signed().wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_encodings_of_leb128() {
        // The examples of DWARF 5, figure C.1 and table 7.7, and the ends.
        for (number, bytes) in [
            (2, &[2][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (129, &[0x81, 1]),
            (12_857, &[0xb9, 0x64]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(out, bytes);
            assert_eq!(take(&mut Reader::new(bytes)), Ok(number));
        }
        for bad in [
            &[][..],
            &[0x80],
            &[0x80, 0],
            &[0xff, 0],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(take(&mut Reader::new(bad)), Err(FormatError::Layout), "{bad:x?}");
        }
    }

    #[test]
    fn small_differences_are_small() {
        for (difference, number) in
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
        {
            assert_eq!(zigzag(difference), number);
            assert_eq!(unzigzag(number), difference);
        }
    }
}
