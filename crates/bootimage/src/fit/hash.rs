//! The hashes in a FIT. They tell a damaged image from a whole one; whoever changes the image changes them, too.

use std::fmt;

use sha2::{Digest, Sha256, Sha384, Sha512};

/// A hash that U-Boot knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// A checksum of 4 bytes, as in gzip.
    Crc32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl HashKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Crc32, Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// The name in a FIT.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// By its name in a FIT.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The hash of `data`.
    pub fn of(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Crc32 => crc32(&[data]).to_be_bytes().to_vec(),
            Self::Sha1 => sha1::Sha1::digest(data).to_vec(),
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha384 => Sha384::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The CRC of gzip, over parts one behind the other.
pub(super) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = flate2::Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.sum()
}
