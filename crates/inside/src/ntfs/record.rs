//! Records of the master file table and blocks of an index: each 512 bytes of them end with a number that says to which write they
//! belong, and what was there before stands in the header.

use atrest_codec::{Reader, Record};

/// Puts back what the numbers at the ends stand for. `None` if the magic differs, or a write was torn.
pub(super) fn restore(bytes: &mut [u8], magic: &[u8; 4]) -> Option<()> {
    const STRIDE: usize = 512;
    let header = Record::<8>::new(bytes.first_chunk()?);
    if header.array::<0, 4>() != magic {
        return None;
    }
    let (at, count) = (usize::from(header.le16::<4>()), usize::from(header.le16::<6>()));
    let strides = bytes.len().checked_div(STRIDE)?;
    if count != strides.checked_add(1)? {
        return None;
    }
    let numbers = Reader::at(bytes, at).ok()?.bytes(count.checked_mul(2)?).ok()?.to_vec();
    let (number, kept) = numbers.split_at_checked(2)?;
    for (stride, kept) in bytes.chunks_exact_mut(STRIDE).zip(kept.chunks_exact(2)) {
        let end = stride.last_chunk_mut::<2>()?;
        if end.as_slice() != number {
            return None;
        }
        end.copy_from_slice(kept);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::restore;

    /// A record of 1024 bytes whose ends are kept at byte 48.
    fn record() -> Vec<u8> {
        let mut bytes = vec![7; 1024];
        bytes[..8].copy_from_slice(b"FILE\x30\0\x03\0");
        bytes[48..54].copy_from_slice(b"\x05\0abcd");
        bytes[510..512].copy_from_slice(b"\x05\0");
        bytes[1022..].copy_from_slice(b"\x05\0");
        bytes
    }

    #[test]
    fn ends_come_back_and_torn_writes_are_noticed() {
        let mut bytes = record();
        assert_eq!(restore(&mut bytes, b"FILE"), Some(()));
        assert_eq!((&bytes[510..512], &bytes[1022..]), (&b"ab"[..], &b"cd"[..]));
        assert_eq!(restore(&mut record(), b"INDX"), None);
        for (at, byte) in [(0, b'B'), (4, 0xff), (5, 0xff), (6, 2), (6, 4), (510, 6), (511, 1), (1022, 4)] {
            let mut bytes = record();
            bytes[at] = byte;
            assert_eq!(restore(&mut bytes, b"FILE"), None, "byte {at}");
        }
    }
}
