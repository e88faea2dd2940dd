//! The encryption modes, by the numbers that policies store (kernel, `include/uapi/linux/fscrypt.h`).

use core::fmt;

/// What contents or names are encrypted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionMode {
    /// AES-256-XTS: contents.
    Aes256Xts,
    /// AES-256-CBC-CTS: names.
    Aes256Cts,
    /// AES-128-CBC-ESSIV: contents.
    Aes128CbcEssiv,
    /// AES-128-CBC-CTS: names.
    Aes128Cts,
    /// Adiantum-XChaCha12: contents and names.
    Adiantum,
    /// AES-256-HCTR2: names.
    Aes256Hctr2,
}

impl EncryptionMode {
    /// The mode of this number, if it is one that we have a cipher for (SM4 is not).
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Aes256Xts,
            4 => Self::Aes256Cts,
            5 => Self::Aes128CbcEssiv,
            6 => Self::Aes128Cts,
            9 => Self::Adiantum,
            10 => Self::Aes256Hctr2,
            _ => return None,
        })
    }

    /// The number that a policy stores.
    pub fn number(self) -> u8 {
        match self {
            Self::Aes256Xts => 1,
            Self::Aes256Cts => 4,
            Self::Aes128CbcEssiv => 5,
            Self::Aes128Cts => 6,
            Self::Adiantum => 9,
            Self::Aes256Hctr2 => 10,
        }
    }

    /// Bytes of key that the mode takes.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes256Xts => 64,
            Self::Aes256Cts | Self::Adiantum | Self::Aes256Hctr2 => 32,
            Self::Aes128CbcEssiv | Self::Aes128Cts => 16,
        }
    }
}

impl fmt::Display for EncryptionMode {
    /// As `fscrypt` and the kernel's log write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes256Xts => "AES-256-XTS",
            Self::Aes256Cts => "AES-256-CBC-CTS",
            Self::Aes128CbcEssiv => "AES-128-CBC-ESSIV",
            Self::Aes128Cts => "AES-128-CBC-CTS",
            Self::Adiantum => "Adiantum",
            Self::Aes256Hctr2 => "AES-256-HCTR2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_the_mode_that_stores_it_and_no_other() {
        let known: Vec<u8> =
            (0..=255).filter(|number| EncryptionMode::from_number(*number).is_some()).collect();
        assert_eq!(known, [1, 4, 5, 6, 9, 10]);
        for number in known {
            assert_eq!(EncryptionMode::from_number(number).map(EncryptionMode::number), Some(number));
        }
    }
}
