//! The escapes of fstab and crypttab.

/// Decodes `\\` and three octal digits (`\040` is a space). `\xHH` stays as it is: so udev names its links, and a path to one is
/// written that way. `None` for any other backslash, and for bytes that are no UTF-8 or a zero.
pub fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = after;
            continue;
        }
        match after {
            [b'\\', ..] => {
                bytes.push(b'\\');
                rest = after.get(1..)?;
            }
            [b'x', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                bytes.extend_from_slice(rest.get(..4)?);
                rest = after.get(3..)?;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after.get(3..)?;
            }
            _ => return None,
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_digits_and_backslashes_are_decoded_and_nothing_else() {
        let table = [
            ("plain", Some("plain")),
            ("/media/key\\040stick", Some("/media/key stick")),
            ("a\\134b\\\\c", Some("a\\b\\c")),
            ("/dev/disk/by-label/key\\x20stick", Some("/dev/disk/by-label/key\\x20stick")),
            ("cipher\\054x", Some("cipher,x")),
            ("\\303\\244", Some("\u{e4}")),
            ("\\400", None),
            ("\\04", None),
            ("\\n", None),
            ("\\", None),
            ("\\000", None),
            ("\\377", None),
            ("\\xg0", None),
        ];
        for (text, expected) in table {
            assert_eq!(unescape(text).as_deref(), expected, "{text}");
        }
    }
}
