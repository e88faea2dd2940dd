//! Descriptors: what policies and protectors are called, in files and file names alike.

use core::fmt;

use atrest_filetree::KeyName;

/// The name of a policy from 16 (version 1) or 32 (version 2) hexadecimal digits in lower case, which is how they are written.
pub(super) fn key_name(text: &[u8]) -> Option<KeyName> {
    digits(text).map(KeyName::Descriptor).or_else(|| digits(text).map(KeyName::Identifier))
}

/// The name of a protector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtectorDescriptor(pub [u8; 8]);

impl ProtectorDescriptor {
    /// From 16 hexadecimal digits in lower case, which is how they are written.
    pub fn parse(text: &[u8]) -> Option<Self> {
        digits(text).map(Self)
    }
}

impl fmt::Display for ProtectorDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `N` bytes from twice as many digits. Upper case is refused: the same descriptor must not have two file names.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        // cannot overflow: digits are less than 16.
        *byte = value(*high)?.wrapping_mul(16).wrapping_add(value(*low)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_one_spelling() {
        let policy = key_name(b"63f29193c25decb7b69d05c6f0d8974c").expect("32 digits");
        assert_eq!(policy.to_string(), "63f29193c25decb7b69d05c6f0d8974c");
        assert!(matches!(key_name(b"746031dd818d3a85"), Some(KeyName::Descriptor(_))));
        let protector = ProtectorDescriptor::parse(b"746031dd818d3a85").expect("16 digits");
        assert_eq!(protector.0, [0x74, 0x60, 0x31, 0xdd, 0x81, 0x8d, 0x3a, 0x85]);
        for text in
            [&b""[..], b"746031dd818d3a8", b"746031dd818d3a855", b"746031DD818D3A85", b"746031dd818d3a8g"]
        {
            assert_eq!(ProtectorDescriptor::parse(text), None, "{text:?}");
            assert_eq!(key_name(text), None, "{text:?}");
        }
    }

    #[test]
    fn every_digit_has_its_value() {
        let all = ProtectorDescriptor::parse(b"0123456789abcdef").expect("16 digits");
        assert_eq!(all.0, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        for no_digit in [b'/', b':', b'`', b'g', b'A', b' ', b'+', 0] {
            let mut text = *b"0123456789abcdef";
            text[5] = no_digit;
            assert_eq!(ProtectorDescriptor::parse(&text), None, "{no_digit}");
        }
    }
}
