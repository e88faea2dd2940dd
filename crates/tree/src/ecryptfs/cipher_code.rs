//! The ciphers of a lower file, by the numbers that its packets store: those of OpenPGP (RFC 4880, section 9.2) and
//! one of the kernel's own for CAST6.

use core::fmt;

/// A cipher and the length of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileCipher {
    /// AES with 16, 24 or 32 bytes.
    Aes128,
    /// See [`Self::Aes128`].
    Aes192,
    /// See [`Self::Aes128`].
    Aes256,
    /// Blowfish with 16 to 56 bytes, as the mount says; the number alone does not tell.
    Blowfish,
    /// CAST5 with 5 to 16 bytes.
    Cast5,
    /// CAST6 with 16 to 32 bytes.
    Cast6,
    /// Triple DES with 24 bytes.
    Des3Ede,
    /// Twofish with 16 to 32 bytes.
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
}
