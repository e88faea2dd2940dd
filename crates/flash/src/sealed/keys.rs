//! The keys of a sealed volume, and what is computed with them: HKDF (RFC 5869), and HMAC as pseudorandom function, both with
//! SHA-256.

use atrest_cipher::KeyError;
use atrest_cipher::aead::Aead;
use atrest_kdf::Prf;

use super::layout::SealedLayout;
use super::record::{BODY, Stamp};
#[cfg(feature = "rotate")]
use super::serial::Epoch;
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
    /// What a rotation adds to each sum: it names the old key, and where the new one begins. 0 without one.
    #[cfg(feature = "rotate")]
    pub(crate) rotation: u128,
}

impl<A> Keys<A> {
    /// What a block adds to the sum: nothing if it is void.
    pub(crate) fn share(&self, stamp: Stamp) -> u128 {
        if stamp.fill == 0 {
            return 0;
        }
        u128::from_le_bytes(self.sum.tag(&[&stamp.to_bytes()]))
    }
}

impl<A: Aead> Keys<A> {
    pub(crate) fn derive(key: &SealedKey<'_>, layout: &SealedLayout) -> Result<Self, KeyError> {
        let expand = Prf::extract(key.uuid, key.volume_key);
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
            #[cfg(feature = "rotate")]
            rotation: 0,
        })
    }

    /// Authenticates a record together with the sum, which is never seen outside.
    pub(crate) fn anchor(&self, sum: u128, body: &[u8; BODY]) -> [u8; 16] {
        #[cfg(feature = "rotate")]
        let sum = sum.wrapping_add(self.rotation);
        self.anchor.tag(&[&sum.to_le_bytes(), body])
    }
}

/// No medium has so many blocks that one has this number.
#[cfg(feature = "rotate")]
const NO_BLOCK: u32 = u32::MAX;

#[cfg(feature = "rotate")]
impl<A> Keys<A> {
    /// The cipher, and the rest.
    pub(crate) fn into_parts(self) -> (A, Keys<()>) {
        let Self { cipher, sum, anchor, mark, rotation } = self;
        (cipher, Keys { cipher: (), sum, anchor, mark, rotation })
    }

    /// Of the old key: what the sums of a rotation have more, of which this is the first serial under the new key.
    pub(crate) fn rotated(&self, from: u64) -> u128 {
        let epoch = Epoch { serial: from, ..Epoch::default() };
        self.share(Stamp { block: NO_BLOCK, epoch, fill: 1 })
    }

    /// Exchanges all but the cipher.
    pub(crate) fn exchange(&mut self, other: &mut Keys<()>) {
        core::mem::swap(&mut self.sum, &mut other.sum);
        core::mem::swap(&mut self.anchor, &mut other.anchor);
        core::mem::swap(&mut self.mark, &mut other.mark);
    }
}

const LABEL: &[u8] = b"atrest sealed flash 2";
const LOG_LABEL: &[u8] = b"atrest sealed counter 2";

/// Authenticates the entries of a log that a counter vouches for.
pub(crate) fn log(key: &SealedKey<'_>) -> Prf {
    Prf::new(&Prf::extract(key.uuid, key.volume_key).whole(&[LOG_LABEL, &[1]]))
}
