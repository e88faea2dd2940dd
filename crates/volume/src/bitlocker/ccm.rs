//! AES-256-CCM (NIST SP 800-38C) as BitLocker has it: nonces of 12 bytes, tags of 16, no associated data.

use atrest_cipher::AesBlock;
use atrest_secret::{SecretBytes, constant_time_eq, wipe};

/// Flags of the block that the tag begins with: tags of 16 bytes, lengths of 3.
const TAG_FLAGS: u8 = (16 - 2) / 2 * 8 + LENGTH_FLAGS;
/// Flags of the blocks that make the key stream.
const LENGTH_FLAGS: u8 = 3 - 1;

/// Flags, nonce, and a number of 24 bits.
fn block(flags: u8, nonce: &[u8; 12], number: u32) -> [u8; 16] {
    let [_, high, middle, low] = number.to_be_bytes();
    let [n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11] = *nonce;
    [flags, n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, high, middle, low]
}

fn xor(block: &mut [u8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

/// Decrypts; `None` if the tag is wrong, or for more than 64 KiB.
pub fn open(key: &[u8; 32], nonce: &[u8; 12], tag: &[u8; 16], ciphertext: &[u8]) -> Option<SecretBytes> {
    let len = u16::try_from(ciphertext.len()).ok()?;
    let cipher = AesBlock::new(key).ok()?;
    let mut plain = SecretBytes::copy_from(ciphertext);
    let mut mac = block(TAG_FLAGS, nonce, len.into());
    cipher.encrypt(&mut mac);
    for (chunk, number) in plain.chunks_mut(16).zip(1..) {
        let mut stream = block(LENGTH_FLAGS, nonce, number);
        cipher.encrypt(&mut stream);
        xor(chunk, &stream);
        xor(&mut mac, chunk);
        cipher.encrypt(&mut mac);
        wipe(&mut stream);
    }
    let mut first = block(LENGTH_FLAGS, nonce, 0);
    cipher.encrypt(&mut first);
    xor(&mut mac, &first);
    let is_right = constant_time_eq(&mac, tag);
    wipe(&mut mac);
    is_right.then_some(plain)
}
