//! A cipher under two keys, of which the epoch of a block names one.

use atrest_cipher::KeyError;
use atrest_cipher::aead::{Aead, OpenError, SealError};

use super::serial::{self, SERIAL_LEN};

/// The cipher of a volume whose key is rotated: blocks begun before the rotation are opened with the old key.
pub struct TwoKeys<A> {
    pub(crate) new: A,
    pub(crate) old: Option<A>,
    /// Epochs from this serial on are under the new key.
    pub(crate) from: u64,
}

impl<A> TwoKeys<A> {
    /// The key of the block that this is in. Its epoch ends the associated data.
    fn of(&self, associated: &[u8]) -> &A {
        let epoch = associated.last_chunk::<SERIAL_LEN>().map(|bytes| serial::from_bytes(*bytes));
        match &self.old {
            Some(old) if epoch.is_some_and(|epoch| epoch < self.from) => old,
            _ => &self.new,
        }
    }
}

impl<A: Aead> Aead for TwoKeys<A> {
    const NAME: &'static str = A::NAME;
    const KEY_LEN: usize = A::KEY_LEN;

    type Nonce = A::Nonce;
    type Tag = A::Tag;

    /// Under one key, as after a rotation.
    fn new(key: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { new: A::new(key)?, old: None, from: 0 })
    }

    fn seal(&self, nonce: &A::Nonce, associated: &[u8], data: &mut [u8]) -> Result<A::Tag, SealError> {
        self.of(associated).seal(nonce, associated, data)
    }

    fn open(
        &self,
        nonce: &A::Nonce,
        associated: &[u8],
        data: &mut [u8],
        tag: &A::Tag,
    ) -> Result<(), OpenError> {
        self.of(associated).open(nonce, associated, data, tag)
    }
}
