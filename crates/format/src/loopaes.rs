//! loop-AES: a key file of text lines, each of which is hashed to a key. On the device there is nothing but the data.
//!
//! Source: README of loop-AES 3.8. One line is its first version, 64 lines that take turns the second, and 65, the last of which seeds the IVs, the
//! third.

use alloc::vec::Vec;
use core::fmt;

/// Bytes of a key file that is read.
pub const MAX_KEY_FILE: usize = 1 << 20;
/// Characters in a line: random text of less is no key.
const LINE: core::ops::RangeInclusive<usize> = 20..=1024;

/// How the keys of a file are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One key.
    One,
    /// 64 keys that take turns.
    Two,
    /// 64 keys that take turns, and one more that seeds the IVs.
    Three,
}

/// The lines of a key file.
pub struct KeyFile<'a> {
    lines: Vec<&'a [u8]>,
    version: Version,
}

/// Why a file is no key file of loop-AES.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFileError {
    /// It is encrypted by GnuPG.
    Encrypted,
    /// It has not 1, 64 or 65 lines.
    Lines(usize),
    /// This line, counted from 1, is shorter than 20 characters or longer than 1024.
    Length {
        /// Its number.
        line: usize,
    },
    /// This line, counted from 1, is not as long as the first.
    Uneven {
        /// Its number.
        line: usize,
    },
    /// The last line has no end: the file is cut off.
    CutOff,
}

impl<'a> KeyFile<'a> {
    /// Finds the lines.
    ///
    /// # Errors
    /// [`KeyFileError`] unless there are 1, 64 or 65, all of one length, each with its end.
    pub fn parse(file: &'a [u8]) -> Result<Self, KeyFileError> {
        if is_pgp(file) {
            return Err(KeyFileError::Encrypted);
        }
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let lines: Vec<&[u8]> = file.split(is_end).filter(|line| !line.is_empty()).collect();
        let version = match lines.len() {
            1 => Version::One,
            64 => Version::Two,
            65 => Version::Three,
            count => return Err(KeyFileError::Lines(count)),
        };
        let first = lines.first().map_or(0, |line| line.len()); // cannot be none: there are some
        for (line, number) in lines.iter().zip(1..) {
            if !LINE.contains(&line.len()) {
                return Err(KeyFileError::Length { line: number });
            }
            if line.len() != first {
                return Err(KeyFileError::Uneven { line: number });
            }
        }
        match file.last().is_some_and(is_end) {
            true => Ok(Self { lines, version }),
            false => Err(KeyFileError::CutOff),
        }
    }

    /// The lines, without their ends.
    pub fn lines(&self) -> &[&'a [u8]] {
        &self.lines
    }

    /// How they are used.
    pub fn version(&self) -> Version {
        self.version
    }
}

/// Whether a file is a message of OpenPGP: with its armour, or one that begins with a packet of an encrypted session key.
pub fn is_pgp(file: &[u8]) -> bool {
    const ARMOUR: &[u8] = b"-----BEGIN PGP MESSAGE";
    let beginning = file.get(..file.len().min(1024)).unwrap_or(file); // cannot miss: not longer than the file
    let armoured = beginning.windows(ARMOUR.len()).any(|part| part == ARMOUR);
    // Tags 1 and 3, in the old form of a packet's header and in the new one. No text begins so.
    let packet = matches!(file.first(), Some(0x84..=0x86 | 0x8c..=0x8e | 0xc1 | 0xc3));
    armoured || packet
}

impl Version {
    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Three => 3,
        }
    }

    /// What is changed in the first byte of each key, so that one line makes other keys in each version.
    pub fn marks_with(self) -> u8 {
        match self {
            Self::One => 0,
            Self::Two => 0x55,
            Self::Three => 0xf4,
        }
    }
}

impl fmt::Debug for KeyFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFile(..)")
    }
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encrypted => f.write_str("the key file is encrypted by GnuPG"),
            Self::Lines(count) => {
                write!(f, "the key file has {count} lines; one of loop-AES has 1, 64 or 65")
            }
            Self::Length { line } => write!(f, "line {line} of the key file is not of 20 to 1024 characters"),
            Self::Uneven { line } => write!(f, "line {line} of the key file is not as long as the first"),
            Self::CutOff => f.write_str("the last line of the key file has no end: the file is cut off"),
        }
    }
}

impl core::error::Error for KeyFileError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> Vec<u8> {
        (0..lines).flat_map(|line| alloc::format!("a line of the key {line:02}\n").into_bytes()).collect()
    }

    #[test]
    fn the_number_of_lines_is_the_version() {
        let version = |lines| KeyFile::parse(&file(lines)).map(|parsed| parsed.version());
        assert_eq!(
            (version(1), version(64), version(65)),
            (Ok(Version::One), Ok(Version::Two), Ok(Version::Three))
        );
        for lines in [0, 2, 63, 66] {
            assert_eq!(version(lines), Err(KeyFileError::Lines(lines)));
        }
        let dos: Vec<u8> = file(64)
            .iter()
            .flat_map(|byte| if *byte == b'\n' { b"\r\n".to_vec() } else { [*byte].to_vec() })
            .collect();
        assert_eq!(
            KeyFile::parse(&dos).expect("lines").lines(),
            KeyFile::parse(&file(64)).expect("lines").lines()
        );
    }

    #[test]
    fn lines_that_no_key_file_has_are_refused_by_their_number() {
        let parse = |file: &[u8]| KeyFile::parse(file).map(|_| ());
        let whole = file(64);
        assert_eq!(parse(&whole[..whole.len() - 1]), Err(KeyFileError::CutOff));
        let mut uneven = file(63);
        uneven.extend(b"a line of another length\n");
        assert_eq!(parse(&uneven), Err(KeyFileError::Uneven { line: 64 }));
        assert_eq!(parse(b"nineteen characters\n"), Err(KeyFileError::Length { line: 1 }));
        assert_eq!(parse(b"twenty characters it\n"), Ok(()));
        assert_eq!(parse(&[&[b'x'; 1024][..], b"\n"].concat()), Ok(()));
        assert_eq!(parse(&[&[b'x'; 1025][..], b"\n"].concat()), Err(KeyFileError::Length { line: 1 }));
    }

    #[test]
    fn what_gnupg_encrypted_is_told_from_lines() {
        let armoured = b"\n-----BEGIN PGP MESSAGE-----\n\njA0ECQMC\n-----END PGP MESSAGE-----\n";
        assert_eq!(KeyFile::parse(armoured).err(), Some(KeyFileError::Encrypted));
        for packet in [0x85, 0x8c, 0xc1, 0xc3] {
            assert_eq!(KeyFile::parse(&[packet, 0x0d, 4, 9, 3, 2]).err(), Some(KeyFileError::Encrypted));
        }
        assert!(!is_pgp(&file(65)) && !is_pgp(b""));
    }
}
