//! How the data is encrypted.

/// A cipher of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// AES-128 in CBC, with the Elephant diffuser.
    Elephant128,
    /// AES-256 in CBC, with the Elephant diffuser.
    Elephant256,
    /// AES-128 in CBC.
    Cbc128,
    /// AES-256 in CBC.
    Cbc256,
    /// AES-128 in XTS.
    Xts128,
    /// AES-256 in XTS.
    Xts256,
}

impl Method {
    /// The one that has this number in the metadata.
    pub fn numbered(number: u16) -> Option<Self> {
        Some(match number {
            0x8000 => Self::Elephant128,
            0x8001 => Self::Elephant256,
            0x8002 => Self::Cbc128,
            0x8003 => Self::Cbc256,
            0x8004 => Self::Xts128,
            0x8005 => Self::Xts256,
            _ => return None,
        })
    }

    /// Bytes in the data's key: with a diffuser or XTS, of both keys.
    pub fn key_len(self) -> usize {
        match self {
            Self::Cbc128 => 16,
            Self::Elephant128 | Self::Cbc256 | Self::Xts128 => 32,
            Self::Elephant256 | Self::Xts256 => 64,
        }
    }

    /// Where the keys lie in what the metadata stores, which has so many bytes: `None` for another length.
    pub fn key(self, stored: &[u8]) -> Option<[&[u8]; 2]> {
        match (self, stored.len()) {
            // The keys of a diffuser have 32 bytes each, of which those for AES-128 use half.
            (Self::Elephant128, 64) => Some([stored.get(..16)?, stored.get(32..48)?]),
            (Self::Elephant256, 64) => Some([stored, &[]]),
            (Self::Cbc128 | Self::Cbc256 | Self::Xts128 | Self::Xts256, len) if len == self.key_len() => {
                Some([stored, &[]])
            }
            _ => None,
        }
    }

    /// The mode and the IVs, by dm-crypt's name behind `aes-`.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Elephant128 | Self::Elephant256 => "cbc-elephant",
            Self::Cbc128 | Self::Cbc256 => "cbc-eboiv",
            Self::Xts128 | Self::Xts256 => "xts-plain64",
        }
    }
}
