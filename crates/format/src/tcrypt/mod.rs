//! TCRYPT: headers of TrueCrypt and VeraCrypt, the ciphers that they may have been encrypted with, and where the data lies.
//!
//! Nothing outside the ciphertext shows that a volume exists. A header is one if it decrypts to four letters and two right checksums.
//! Sources: "TrueCrypt User's Guide" 7.1a and "VeraCrypt Documentation", chapter "VeraCrypt Volume Format Specification".

mod chain;
mod header;
mod place;
#[cfg(test)]
mod tests;

pub use chain::{CHAINS, Chain, Mode};
pub use header::{Header, HeaderError, Magic};
pub use place::{Layout, LayoutError, Place};

/// Bytes of a header: the salt in clear, and the rest of it encrypted.
pub const HEADER_LEN: usize = 512;
/// Bytes of salt in front.
pub const SALT_LEN: usize = 64;
/// Bytes behind the salt, which are encrypted.
pub const ENCRYPTED_LEN: usize = HEADER_LEN - SALT_LEN;
/// Bytes at the beginning of a device, and at its end, that hold a normal header and a hidden one.
pub const GROUP_LEN: usize = 131_072;
/// Bytes at the end of a header that hold the keys of the data.
pub const KEYS_LEN: usize = 256;
