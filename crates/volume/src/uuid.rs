//! UUIDs as LUKS headers store them: 36 characters of text (RFC 9562, version 4 when we draw one).

use atrest_secret::{OsRandom, Random, RandomError};

use crate::OptionError;

/// A fresh random UUID.
pub(crate) fn random() -> Result<String, RandomError> {
    let mut bytes = [0; 16];
    OsRandom.fill(&mut bytes)?;
    let mut number = u128::from_be_bytes(bytes);
    number = (number & !(0xF << 76)) | (0x4 << 76);
    number = (number & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let mut text = String::with_capacity(36);
    for (i, digit) in hex.chars().enumerate() {
        if matches!(i, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    Ok(text)
}

/// Whether `text` has the form of a UUID.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A UUID that a user has chosen for a volume: of the right form, and not the nil UUID, which several volumes would share.
pub(crate) fn check(text: &str) -> Result<(), OptionError> {
    if !is_uuid(text) {
        return Err(OptionError::Uuid);
    }
    if text.bytes().all(|byte| matches!(byte, b'0' | b'-')) {
        return Err(OptionError::NilUuid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_uuids_differ_and_say_version_4_variant_1() {
        let (a, b) = (random().expect("random"), random().expect("random"));
        assert_ne!(a, b);
        for text in [a, b] {
            assert!(is_uuid(&text), "{text}");
            assert_eq!(text.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_uuid() {
        for text in ["", "x", "3a26dfd2-096e-44cf-b9ba-98b49baf498", "3a26dfd2-096e-44cf-b9ba_98b49baf4980"] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
