//! The encryption modes, by the numbers that policies store (kernel, `include/uapi/linux/fscrypt.h`).

use core::fmt;

/// Far from the numbers that the kernel gives out one by one, so that it refuses the policy for good.
const CHACHA20: u8 = 240;

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
    /// ChaCha20 as a stream cipher: contents. An experiment of ours that no kernel opens, after a patch that was proposed in 2017 for CPUs without
    /// instructions for AES, and not taken. Whoever sees a file's ciphertext before and after it was written again learns how its
    /// plaintext changed ([`EncryptionMode::is_single_snapshot`]).
    ChaCha20,
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
            CHACHA20 => Self::ChaCha20,
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
            Self::ChaCha20 => CHACHA20,
        }
    }

    /// Bytes of key that the mode takes.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes256Xts => 64,
            Self::Aes256Cts | Self::Adiantum | Self::Aes256Hctr2 | Self::ChaCha20 => 32,
            Self::Aes128CbcEssiv | Self::Aes128Cts => 16,
        }
    }

    /// Whether it keeps contents secret from somebody who sees one snapshot of the medium only. What is so encrypts only after
    /// [`Keyring::acknowledge_single_snapshot`](super::Keyring::acknowledge_single_snapshot), and always decrypts.
    pub fn is_single_snapshot(self) -> bool {
        self == Self::ChaCha20
    }
}

impl fmt::Display for EncryptionMode {
    /// Writes the name that `fscrypt` and the kernel's log have for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes256Xts => "AES-256-XTS",
            Self::Aes256Cts => "AES-256-CBC-CTS",
            Self::Aes128CbcEssiv => "AES-128-CBC-ESSIV",
            Self::Aes128Cts => "AES-128-CBC-CTS",
            Self::Adiantum => "Adiantum",
            Self::Aes256Hctr2 => "AES-256-HCTR2",
            Self::ChaCha20 => "ChaCha20-experiment",
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
        assert_eq!(known, [1, 4, 5, 6, 9, 10, 240]);
        for number in known {
            assert_eq!(EncryptionMode::from_number(number).map(EncryptionMode::number), Some(number));
        }
    }
}
