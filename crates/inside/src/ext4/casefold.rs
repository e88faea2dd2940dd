//! Names that are the same but for case, in casefolded directories (kernel, `fs/unicode`): canonical decomposition, full case folding,
//! code points that are to be ignored left out.
//!
//! The kernel's tables are those of Unicode 12.1, ours the library's, which are newer. Code points that got a decomposition or a
//! lower case after that are folded here and not there; in a directory that the kernel wrote, names that differ in these alone are two
//! names, of which a look-up here finds the exact one, or else the first.

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

/// What all spellings of a name have in common. Bytes that are not UTF-8 are a name as they are, as for the kernel.
pub(super) fn fold(name: &[u8]) -> Vec<u8> {
    match core::str::from_utf8(name) {
        Ok(text) => {
            let folded = text.chars().nfd().default_case_fold().nfd();
            folded.filter(|c| !is_ignorable(*c)).collect::<String>().into_bytes()
        }
        Err(_) => name.to_vec(),
    }
}

/// `Default_Ignorable_Code_Point` (Unicode 12.1, `DerivedCoreProperties.txt`).
fn is_ignorable(c: char) -> bool {
    matches!(u32::from(c),
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180e | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfff8
        | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_fold_to_the_same() {
        for (one, other) in [
            ("README", "readme"),
            ("Stra\u{df}e", "STRASSE"),
            ("\u{e9}t\u{e9}", "E\u{301}TE\u{301}"),
            ("\u{130}", "i\u{307}"),
            ("soft\u{ad}hyphen", "SoftHyphen"),
            ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
        ] {
            assert_eq!(fold(one.as_bytes()), fold(other.as_bytes()), "{one} {other}");
        }
        assert_ne!(fold(b"a"), fold("\u{e4}".as_bytes()));
        assert_eq!(fold(&[b'A', 0xff]), [b'A', 0xff]);
    }
}
