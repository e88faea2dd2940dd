//! Names of 16-bit units, as Windows has them.

/// The bytes of a name: UTF-8. Half of a surrogate pair, which Windows allows alone, becomes three bytes as it would in UTF-8 (WTF-8),
/// so that no two names become the same.
pub(crate) fn utf16(units: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let mut out = Vec::new();
    for unit in char::decode_utf16(units) {
        match unit {
            Ok(letter) => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(half) => {
                let half = half.unpaired_surrogate();
                let byte = |high: u16, bits: u16| high as u8 | (bits & 0x3f) as u8;
                out.extend_from_slice(&[0xe0 | (half >> 12) as u8, byte(0x80, half >> 6), byte(0x80, half)]);
            }
        }
    }
    out
}

/// A name as it is compared where capitals do not count: each letter that has one capital becomes that. What is no UTF-8 stays.
pub(crate) fn folded(name: &[u8]) -> Vec<u8> {
    let Ok(text) = core::str::from_utf8(name) else { return name.to_vec() };
    let capital = |letter: char| {
        let mut capitals = letter.to_uppercase();
        // intended: a letter with more than one capital is none that file systems fold.
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => capital,
            _ => letter,
        }
    };
    text.chars().map(capital).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::utf16;

    #[test]
    fn halves_of_pairs_stay_apart() {
        assert_eq!(utf16("aß\u{1f600}".encode_utf16()), "aß\u{1f600}".as_bytes());
        // The Unicode Standard, table 3-6, applied to U+D83D and U+DE00.
        assert_eq!(utf16([0xd83d, 0x61]), b"\xed\xa0\xbda");
        assert_eq!(utf16([0xde00]), b"\xed\xb8\x80");
    }
}
