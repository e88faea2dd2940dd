//! A key wrapped by another one: AES-256-CTR under a random IV, then HMAC-SHA256 of IV and ciphertext, each under a key of its
//! own that HKDF-SHA256 (RFC 5869, without salt and info) makes of the wrapping key.

use atrest_cipher::AesBlock;
use atrest_secret::{SecretArray, SecretBytes, constant_time_eq, with_wiped_stack};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::record::PROTECTOR_KEY;

const HASH: usize = 32;

/// A wrapped key as it lies in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    pub(super) iv: [u8; 16],
    pub(super) encrypted: Vec<u8>,
    pub(super) hmac: [u8; HASH],
}

/// The wrapping key is another one, or the record was changed; which of them nobody can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAuthentic;

impl WrappedKey {
    /// The key in it. Nothing is decrypted unless the HMAC is right, which is compared in constant time.
    pub(super) fn unwrap_with(&self, wrapping: &[u8; PROTECTOR_KEY]) -> Result<SecretBytes, NotAuthentic> {
        with_wiped_stack(|| {
            let mut pseudorandom = SecretArray::<HASH>::zeroed();
            hmac_sha256(&[0; HASH], &[wrapping], &mut pseudorandom);
            let (mut cipher_key, mut mac_key) =
                (SecretArray::<HASH>::zeroed(), SecretArray::<HASH>::zeroed());
            hmac_sha256(&pseudorandom, &[&[1]], &mut cipher_key);
            hmac_sha256(&pseudorandom, &[&cipher_key[..], &[2]], &mut mac_key);
            let mut hmac = [0; HASH];
            hmac_sha256(&mac_key, &[&self.iv, &self.encrypted], &mut hmac);
            if !constant_time_eq(&hmac, &self.hmac) {
                return Err(NotAuthentic);
            }
            let mut key = SecretBytes::copy_from(&self.encrypted);
            ctr(&cipher_key, self.iv, &mut key);
            Ok(key)
        })
    }
}

/// AES-256 in counter mode (SP 800-38A) with a counter of 128 bits, big-endian.
fn ctr(key: &[u8; HASH], iv: [u8; 16], data: &mut [u8]) {
    let mut cipher = AesBlock::empty();
    let expanded = cipher.expand(key);
    assert!(expanded.is_ok(), "AES takes keys of 32 bytes");
    let mut counter = u128::from_be_bytes(iv);
    for chunk in data.chunks_mut(16) {
        let mut pad = SecretArray::new(counter.to_be_bytes());
        cipher.encrypt(&mut pad);
        for (byte, pad) in chunk.iter_mut().zip(pad.iter()) {
            *byte ^= pad;
        }
        counter = counter.wrapping_add(1);
    }
}

fn hmac_sha256(key: &[u8; HASH], parts: &[&[u8]], out: &mut [u8; HASH]) {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    assert!(mac.is_ok(), "HMAC takes keys of any length");
    if let Ok(mut mac) = mac {
        for part in parts {
            mac.update(part);
        }
        out.copy_from_slice(&mac.finalize().into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
        text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    /// NIST SP 800-38A, F.5.5.
    #[test]
    fn counter_mode_is_the_one_of_the_standard() {
        let key = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
        let iv = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
        let mut data = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        ctr(&key.try_into().expect("32 bytes"), iv.try_into().expect("16 bytes"), &mut data);
        assert_eq!(data, hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"));
    }

    #[test]
    fn the_counter_carries_through_all_of_its_bytes() {
        let key = [7; 32];
        let mut wrapped = [0; 32];
        ctr(&key, [0xff; 16], &mut wrapped);
        let mut first = [0; 16];
        ctr(&key, [0; 16], &mut first);
        assert_eq!(wrapped[16..], first);
    }

    /// Computed with Python: `hmac`, `hashlib` and AES of `cryptography` (OpenSSL), wrapping key 00 to 1f, IV 30 to 3f.
    #[test]
    fn a_key_is_unwrapped_if_every_bit_of_its_record_is_right() {
        let wrapping: [u8; 32] = std::array::from_fn(|i| i as u8);
        let record = WrappedKey {
            iv: std::array::from_fn(|i| 0x30 + i as u8),
            encrypted: hex(
                "39cd0d8e9b7277f579915110de961b2644255434304d11ecfda3c57f0b34235023534914b534e429f0b5d944534eca1fd587c4cb4b93ebf58ae875ca27f9a3a9",
            ),
            hmac: hex("0e00f4f65a5a20f7072a8544a03eb380aae5a0aca4f3d83671a15d51dd50b082")
                .try_into()
                .expect("32 bytes"),
        };
        let key: Vec<u8> = (0x80..0xc0).collect();
        assert_eq!(record.unwrap_with(&wrapping).map(|found| found.to_vec()), Ok(key));
        for bit in 0..8 * 16 {
            let mut bad = record.clone();
            bad.iv[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bad.unwrap_with(&wrapping).map(drop), Err(NotAuthentic), "IV, bit {bit}");
            let (mut bad, mut other) = (record.clone(), record.clone());
            bad.encrypted[bit / 2] ^= 1 << (bit % 8);
            assert_eq!(bad.unwrap_with(&wrapping).map(drop), Err(NotAuthentic), "byte {}", bit / 2);
            other.hmac[bit / 4] ^= 1 << (bit % 8);
            assert_eq!(other.unwrap_with(&wrapping).map(drop), Err(NotAuthentic), "tag, byte {}", bit / 4);
        }
        let mut short = record.clone();
        short.encrypted.truncate(32);
        assert_eq!(short.unwrap_with(&wrapping).map(drop), Err(NotAuthentic));
        let mut other = wrapping;
        other[31] ^= 1;
        assert_eq!(record.unwrap_with(&other).map(drop), Err(NotAuthentic));
    }
}
