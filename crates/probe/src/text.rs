//! UUIDs, and text as superblocks and partition tables have it.

use alloc::string::String;
use core::fmt::Write;

use atrest_codec::{Be, Le, decode, encode};

/// A UUID whose bytes are stored in the order in which they are written.
pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        // Writing to a string can't fail.
        let _ = write!(text, "{}{byte:02x}", if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" });
    }
    text
}

/// A GUID, whose first three groups are stored with their lowest byte first.
pub(crate) fn guid(bytes: &[u8; 16]) -> String {
    let (Le(a), Le(b), Le(c), rest): (Le<u32>, Le<u16>, Le<u16>, [u8; 8]) = decode(bytes);
    uuid(&encode((Be(a), Be(b), Be(c), rest)))
}

/// Text of 16-bit units up to the first zero.
pub(crate) fn utf16(units: impl Iterator<Item = u16>) -> String {
    let units = units.take_while(|unit| *unit != 0);
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Text up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next();
    // cannot miss: what is split has a first part.
    String::from_utf8_lossy(text.unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_guid_prints_as_the_specification_writes_it() {
        // EFI system partition: UEFI 2.10, table 5.7.
        let stored =
            [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        assert_eq!(super::guid(&stored), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
    }
}
