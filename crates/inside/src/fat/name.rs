//! Names: long ones in UTF-16 spread over several slots, and the short ones of eight and three bytes that go with them.
//! FAT specification, sections 6 and 7.

use atrest_codec::{Le, Rows, decode, encode};
use atrest_filetree::TreeError;

/// UTF-16 units in a slot of a long name.
pub(super) const UNITS: usize = 13;
/// Longest name in UTF-16 units.
const MAX_UNITS: usize = 255;

/// Code page 437, upper half: what short names are written in where nothing else is known.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Flags in byte 12 of an entry: a part of the short name is shown in lower case.
const LOWER_BASE: u8 = 0x08;
const LOWER_EXTENSION: u8 = 0x10;

/// Shows a short name.
pub(super) fn decode_short(short: &[u8; 11], flags: u8) -> String {
    let (base, extension) = short.split_at(8);
    let decode = |part: &[u8], lower: bool| -> String {
        let decode = |&byte: &u8| match byte {
            0..0x80 if lower => char::from(byte).to_ascii_lowercase(),
            0..0x80 => char::from(byte),
            _ => CP437.chars().nth(usize::from(byte & 0x7f)).unwrap_or(char::REPLACEMENT_CHARACTER),
        };
        part.trim_ascii_end().iter().map(decode).collect()
    };
    let mut base = base.to_vec();
    // 0xe5 marks deleted entries, so a name that starts with it is stored with 5.
    if let Some(first) = base.first_mut().filter(|first| **first == 5) {
        *first = 0xe5;
    }
    let base = decode(&base, flags & LOWER_BASE != 0);
    let extension = decode(extension, flags & LOWER_EXTENSION != 0);
    if extension.is_empty() { base } else { format!("{base}.{extension}") }
}

/// The checksum by which a long name's slots belong to a short name.
pub(super) fn checksum(short: &[u8; 11]) -> u8 {
    short.iter().fold(0, |sum: u8, &byte| sum.rotate_right(1).wrapping_add(byte))
}

/// Names that differ in case only are the same.
pub(super) fn fold(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).collect()
}

/// A name about to be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewName {
    /// As it is shown.
    pub(super) text: String,
    pub(super) short: [u8; 11],
    /// Byte 12 of the entry.
    pub(super) flags: u8,
    /// UTF-16 units; empty if the short name says it all.
    pub(super) long: Vec<u16>,
}

impl NewName {
    /// Checks a name and makes a short one for it that `taken` does not know.
    pub(super) fn new(name: &[u8], taken: impl Fn(&[u8; 11]) -> bool) -> Result<Self, TreeError> {
        let unsupported = || TreeError::UnsupportedName { len: name.len() };
        let text = core::str::from_utf8(name).map_err(|_| unsupported())?;
        let long: Vec<u16> = text.encode_utf16().collect();
        let allowed = |c: char| !c.is_control() && !"\"*/:<>?\\|".contains(c);
        if long.len() > MAX_UNITS || !text.chars().all(allowed) || text.ends_with(['.', ' ']) {
            return Err(unsupported());
        }
        if let Some((short, flags)) = exact(text).filter(|(short, _)| !taken(short)) {
            return Ok(Self { text: text.to_owned(), short, flags, long: Vec::new() });
        }
        let short = numbered(text, taken).ok_or(TreeError::NoSpace)?;
        Ok(Self { text: text.to_owned(), short, flags: 0, long })
    }

    /// Slots that it takes, that of the entry included.
    pub(super) fn slots(&self) -> usize {
        // cannot overflow: a name has 255 units at most.
        self.long.len().div_ceil(UNITS).saturating_add(1)
    }

    /// The slots in front of the entry itself, in their order on the media.
    pub(super) fn long_slots(&self) -> Vec<[u8; 32]> {
        let sum = checksum(&self.short);
        let parts = self.long.chunks(UNITS);
        // cannot be more: a name has 255 units at most, and 20 slots.
        let last = u8::try_from(parts.len()).unwrap_or(u8::MAX);
        let slot = |(number, part): (u8, &[u16])| {
            // A name that does not fill its last slot ends with 0 and is padded with 0xffff.
            let mut units = [0xffff_u16; UNITS];
            for (target, unit) in units.iter_mut().zip(part.iter().copied().chain([0])) {
                *target = unit;
            }
            let order = if number == last { number | 0x40 } else { number };
            let [a, b, c, d, e, f, g, h, i, j, k, l, m] = units.map(Le);
            let long: LongSlot = (
                [order],
                Rows([a, b, c, d, e]),
                [0x0f, 0, sum],
                Rows([f, g, h, i, j, k]),
                [0; 2],
                Rows([l, m]),
            );
            encode(long)
        };
        let mut slots: Vec<[u8; 32]> = (1..).zip(parts).map(slot).collect();
        slots.reverse();
        slots
    }
}

/// A slot of a long name: its number, five units, attributes, type and checksum, six units, two zeros, two units.
type LongSlot = ([u8; 1], Rows<Le<u16>, 5>, [u8; 3], Rows<Le<u16>, 6>, [u8; 2], Rows<Le<u16>, 2>);

/// The units of one slot.
pub(super) fn units(slot: &[u8; 32]) -> [u16; UNITS] {
    let (_, Rows([a, b, c, d, e]), _, Rows([f, g, h, i, j, k]), _, Rows([l, m])): LongSlot = decode(slot);
    [a, b, c, d, e, f, g, h, i, j, k, l, m].map(|Le(unit)| unit)
}

fn is_short_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'()-@^_`{}~".contains(c)
}

/// The short name that stores a name exactly, with the flags for lower case; none if it takes a long one.
fn exact(name: &str) -> Option<([u8; 11], u8)> {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let dot_alone = name.contains('.') && extension.is_empty();
    if base.is_empty() || base.len() > 8 || extension.len() > 3 || dot_alone {
        return None;
    }
    let mut flags = 0;
    for (part, flag) in [(base, LOWER_BASE), (extension, LOWER_EXTENSION)] {
        let (lower, upper) =
            (part.chars().any(|c| c.is_ascii_lowercase()), part.chars().any(|c| c.is_ascii_uppercase()));
        if !part.chars().all(is_short_char) || (lower && upper) {
            return None;
        }
        flags |= if lower { flag } else { 0 };
    }
    Some((pack(base, extension), flags))
}

/// Eight and three bytes in upper case, padded.
fn pack(base: &str, extension: &str) -> [u8; 11] {
    let mut short = [b' '; 11];
    let (left, right) = short.split_at_mut(8);
    for (target, part) in [(left, base), (right, extension)] {
        for (byte, c) in target.iter_mut().zip(part.bytes()) {
            *byte = c.to_ascii_uppercase();
        }
    }
    short
}

/// A short name with a number: `A rather long name.html` becomes `ARATHE~1.HTM`.
fn numbered(name: &str, taken: impl Fn(&[u8; 11]) -> bool) -> Option<[u8; 11]> {
    let name = name.trim_start_matches(['.', ' ']);
    let (base, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let reduce = |part: &str| -> String {
        let kept = part.chars().filter(|c| !matches!(c, '.' | ' '));
        kept.map(|c| if is_short_char(c) { c.to_ascii_uppercase() } else { '_' }).collect()
    };
    let base = reduce(base);
    let extension: String = reduce(extension).chars().take(3).collect();
    (1..1_000_000_u32)
        .map(|number| {
            let tail = format!("~{number}");
            // cannot overflow: a tilde and six digits at most.
            let head: String = base.chars().take(8_usize.saturating_sub(tail.len())).collect();
            pack(&format!("{head}{tail}"), &extension)
        })
        .find(|short| !taken(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> NewName {
        NewName::new(name.as_bytes(), |_| false).unwrap()
    }

    #[test]
    fn names_that_fit_take_no_long_name() {
        assert_eq!(
            new("README.TXT"),
            NewName { text: "README.TXT".into(), short: *b"README  TXT", flags: 0, long: vec![] }
        );
        assert_eq!(
            new("lower.TXT"),
            NewName { text: "lower.TXT".into(), short: *b"LOWER   TXT", flags: LOWER_BASE, long: vec![] }
        );
        assert_eq!(
            new("a"),
            NewName { text: "a".into(), short: *b"A          ", flags: LOWER_BASE, long: vec![] }
        );
        assert_eq!(decode_short(b"LOWER   TXT", LOWER_BASE), "lower.TXT");
        assert_eq!(decode_short(b"\x05\x81      \xe1  ", 0), "σü.ß");
    }

    #[test]
    fn other_names_get_a_number() {
        for (name, short) in [
            ("A rather long name.html", b"ARATHE~1HTM"),
            (".hidden", b"HIDDEN~1   "),
            ("Mixed.txt", b"MIXED~1 TXT"),
            ("two.dots.gz", b"TWODOT~1GZ "),
            ("ümlaut", b"_MLAUT~1   "),
            ("+", b"_~1        "),
        ] {
            assert_eq!(new(name).short, *short, "{name}");
            assert_eq!(new(name).long, name.encode_utf16().collect::<Vec<_>>());
        }
        let taken = |short: &[u8; 11]| short.ends_with(b"~1   ") || short.ends_with(b"~2   ");
        assert_eq!(NewName::new(b"long name here", taken).unwrap().short, *b"LONGNA~3   ");
    }

    #[test]
    fn long_names_survive_their_slots() {
        for len in [1, 12, 13, 14, 25, 26, 27, 255] {
            let text = "é".repeat(len);
            let name = new(&text);
            let slots = name.long_slots();
            assert_eq!((slots.len(), name.slots()), (len.div_ceil(13), len.div_ceil(13) + 1));
            assert_eq!(slots[0][0], 0x40 | slots.len() as u8);
            let read: Vec<u16> =
                slots.iter().rev().flat_map(units).take_while(|&u| u != 0 && u != 0xffff).collect();
            assert_eq!(String::from_utf16(&read).unwrap(), text);
        }
    }
}
