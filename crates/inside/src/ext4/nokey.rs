//! What names in a directory whose key is not here are shown as: the kernel's no-key names (`fs/crypto/fname.c`). They are unique
//! in their directory and made of what is stored alone: base64url of the name's hash, and the ciphertext or what stands for it.

use base64ct::{Base64UrlUnpadded, Encoding};
use sha2::{Digest, Sha256};

/// Ciphertext that is shown as it is; a hash stands for what is behind it.
const SHOWN: usize = 149;

/// The no-key name of a stored name, in a directory that hashes it to `hash`.
pub(super) fn name(hash: (u32, u32), stored: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    bytes.extend_from_slice(&hash.0.to_le_bytes());
    bytes.extend_from_slice(&hash.1.to_le_bytes());
    let (shown, rest) = stored.split_at(stored.len().min(SHOWN));
    bytes.extend_from_slice(shown);
    if !rest.is_empty() {
        bytes.extend_from_slice(&Sha256::digest(rest));
    }
    Base64UrlUnpadded::encode_string(&bytes).into_bytes()
}
