//! Names of objects: a letter for the kind, a slash, and a number in hexadecimal digits.

use super::{Kind, MOST_NUMBER};

/// The name of log object `number`: `l/` and 16 digits.
pub fn log(number: u64) -> String {
    format!("l/{number:016x}")
}

/// The name of the checkpoint after log object `number`: `c/` and 16 digits.
pub fn checkpoint(number: u64) -> String {
    format!("c/{number:016x}")
}

/// The name of header object `number`: `h/` and 16 digits.
pub fn header(number: u64) -> String {
    format!("h/{number:016x}")
}

/// The name of a map object with this salt: `m/` and 32 digits.
pub fn map(salt: &[u8; 16]) -> String {
    let mut name = String::from("m/");
    for byte in salt {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

/// What the names of a kind begin with, before the slash.
pub fn letter(kind: Kind) -> &'static str {
    match kind {
        Kind::Log => "l",
        Kind::Map => "m",
        Kind::Checkpoint => "c",
        Kind::Header => "h",
    }
}

/// The kind that a name states, if it is one of a sealed volume's names.
pub fn kind(name: &str) -> Option<Kind> {
    let (kind, digits) = name.split_once('/')?;
    let (kind, len) = match kind {
        "l" => (Kind::Log, 16),
        "c" => (Kind::Checkpoint, 16),
        "h" => (Kind::Header, 16),
        "m" => (Kind::Map, 32),
        _ => return None,
    };
    let fine = digits.len() == len && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    fine.then_some(kind)
}

/// The number in the name of a log object, a checkpoint or a header object.
pub fn number(name: &str) -> Option<u64> {
    match kind(name)? {
        Kind::Map => None,
        Kind::Log | Kind::Checkpoint | Kind::Header => {
            let (_, digits) = name.split_once('/')?;
            u64::from_str_radix(digits, 16).ok().filter(|number| *number <= MOST_NUMBER)
        }
    }
}

/// The salt in the name of a map object.
pub fn salt(name: &str) -> Option<[u8; 16]> {
    let (Some(Kind::Map), Some((_, digits))) = (kind(name), name.split_once('/')) else { return None };
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others_are() {
        assert_eq!((log(10), checkpoint(255)), ("l/000000000000000a".into(), "c/00000000000000ff".into()));
        assert_eq!(map(&[0xab; 16]), format!("m/{}", "ab".repeat(16)));
        assert_eq!((kind(&log(3)), number(&log(3))), (Some(Kind::Log), Some(3)));
        assert_eq!(salt(&map(&std::array::from_fn(|at| at as u8))), Some(std::array::from_fn(|at| at as u8)));
        assert_eq!(salt(&log(3)), None);
        assert_eq!((kind(&map(&[7; 16])), number(&map(&[7; 16]))), (Some(Kind::Map), None));
        for bad in [
            "",
            "l",
            "l/",
            "l/000000000000000A",
            "l/00000000000000a",
            "x/000000000000000a",
            "l/../../etc/passwd",
            "l/000000000000000a/",
        ] {
            assert_eq!((kind(bad), number(bad)), (None, None), "{bad}");
        }
        assert_eq!(number("l/ffffffffffffffff"), None);
    }
}
