//! The ciphers of a lower file, by the numbers that its packets store: those of OpenPGP (RFC 4880, section 9.2) and
//! one of the kernel's own for CAST6.

use core::fmt;

use atrest_cipher::CbcCipher;

/// A cipher and the length of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileCipher {
    /// AES with 16, 24 or 32 bytes.
    Aes128,
    /// See [`Self::Aes128`].
    Aes192,
    /// See [`Self::Aes128`].
    Aes256,
    /// Blowfish with 8 to 56 bytes, as the mount says; the number alone does not tell.
    Blowfish,
    /// CAST5 with 8 or 16 bytes.
    Cast5,
    /// CAST6 with 16 or 32 bytes.
    Cast6,
    /// Triple DES with 24 bytes.
    Des3Ede,
    /// Twofish with 16 or 32 bytes.
    Twofish,
}

impl FileCipher {
    /// The cipher of this number, if the kernel's module ever had it.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x02 => Self::Des3Ede,
            0x03 => Self::Cast5,
            0x04 => Self::Blowfish,
            0x07 => Self::Aes128,
            0x08 => Self::Aes192,
            0x09 => Self::Aes256,
            0x0a => Self::Twofish,
            0x0b => Self::Cast6,
            _ => return None,
        })
    }

    /// The number that packets store.
    pub fn code(self) -> u8 {
        match self {
            Self::Des3Ede => 0x02,
            Self::Cast5 => 0x03,
            Self::Blowfish => 0x04,
            Self::Aes128 => 0x07,
            Self::Aes192 => 0x08,
            Self::Aes256 => 0x09,
            Self::Twofish => 0x0a,
            Self::Cast6 => 0x0b,
        }
    }

    /// The cipher that the mount option `ecryptfs_cipher` names so, with a key of this length.
    pub fn named(name: &str, key_len: usize) -> Option<Self> {
        let cipher = match (name, key_len) {
            ("aes", 16) => Self::Aes128,
            ("aes", 24) => Self::Aes192,
            ("aes", 32) => Self::Aes256,
            ("blowfish", _) => Self::Blowfish,
            ("cast5", _) => Self::Cast5,
            ("cast6", _) => Self::Cast6,
            ("des3_ede", _) => Self::Des3Ede,
            ("twofish", _) => Self::Twofish,
            _ => return None,
        };
        cipher.takes_key_of(key_len).then_some(cipher)
    }

    /// Whether a file's key can have this length. A key is wrapped in whole cipher blocks and fills them, but for AES with 24
    /// bytes, which are padded.
    pub fn takes_key_of(self, len: usize) -> bool {
        self.key_lens().contains(&len)
    }

    /// The lengths of a file's key, the usual one first.
    pub fn key_lens(self) -> &'static [usize] {
        match self {
            Self::Aes128 => &[16],
            Self::Aes192 | Self::Des3Ede => &[24],
            Self::Aes256 => &[32],
            Self::Blowfish => &[16, 8, 24, 32, 40, 48, 56],
            Self::Cast5 => &[16, 8],
            Self::Cast6 | Self::Twofish => &[32, 16],
        }
    }

    /// Bytes that a wrapped key of this length takes.
    pub(super) fn wrapped_len(self, key_len: usize) -> usize {
        if self == Self::Aes192 { 32 } else { key_len }
    }

    /// The cipher itself.
    pub(super) fn block_cipher(self) -> CbcCipher {
        match self {
            Self::Aes128 | Self::Aes192 | Self::Aes256 => CbcCipher::Aes,
            Self::Blowfish => CbcCipher::Blowfish,
            Self::Cast5 => CbcCipher::Cast5,
            Self::Cast6 => CbcCipher::Cast6,
            Self::Des3Ede => CbcCipher::Des3Ede,
            Self::Twofish => CbcCipher::Twofish,
        }
    }
}

impl fmt::Display for FileCipher {
    /// As the mount option `ecryptfs_cipher` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128 | Self::Aes192 | Self::Aes256 => "aes",
            Self::Blowfish => "blowfish",
            Self::Cast5 => "cast5",
            Self::Cast6 => "cast6",
            Self::Des3Ede => "des3_ede",
            Self::Twofish => "twofish",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_names_the_cipher_that_stores_it_and_no_other() {
        let known: Vec<u8> = (0..=255).filter(|code| FileCipher::from_code(*code).is_some()).collect();
        assert_eq!(known, [2, 3, 4, 7, 8, 9, 10, 11]);
        for code in known {
            assert_eq!(FileCipher::from_code(code).map(FileCipher::code), Some(code));
        }
    }

    #[test]
    fn a_cipher_takes_keys_of_its_lengths_and_of_no_others() {
        for (name, lens) in [
            ("aes", &[16, 24, 32][..]),
            ("blowfish", &[8, 16, 24, 32, 40, 48, 56]),
            ("cast5", &[8, 16]),
            ("cast6", &[16, 32]),
            ("des3_ede", &[24]),
            ("twofish", &[16, 32]),
            ("AES", &[]),
            ("serpent", &[]),
        ] {
            for len in 0..=64 {
                let cipher = FileCipher::named(name, len);
                assert_eq!(cipher.is_some(), lens.contains(&len), "{name} {len}");
                let Some(cipher) = cipher else { continue };
                assert!(cipher.takes_key_of(len));
                assert_eq!(cipher.to_string(), name);
                let wrapped = if (name, len) == ("aes", 24) { 32 } else { len };
                assert_eq!(cipher.wrapped_len(len), wrapped, "{name} {len}");
            }
        }
        for (cipher, lens) in [(FileCipher::Aes128, 16), (FileCipher::Aes192, 24), (FileCipher::Aes256, 32)] {
            assert!((0..64).all(|len| cipher.takes_key_of(len) == (len == lens)), "{cipher:?}");
        }
    }

    #[test]
    fn the_usual_length_comes_first() {
        let all: Vec<_> =
            (0..=255).filter_map(FileCipher::from_code).map(|cipher| cipher.key_lens()[0]).collect();
        assert_eq!(all, [24, 16, 16, 16, 24, 32, 32, 32]);
    }
}
