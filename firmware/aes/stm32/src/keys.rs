//! The two keys of XTS. The peripherals keep none: every call loads one.

use atrest_cipher::{KeyError, XtsKey};
use atrest_secret::{SecretArray, constant_time_eq};

/// Keys of `K` bytes each: 16 or 32. Wiped when dropped.
pub(crate) struct Keys<const K: usize> {
    data: SecretArray<K>,
    tweak: SecretArray<K>,
}

impl<const K: usize> Keys<K> {
    pub(crate) fn new(key: &[u8]) -> Result<Self, KeyError> {
        let halves =
            key.split_at_checked(K).and_then(|(data, tweak)| Some((data.as_array()?, tweak.as_array()?)));
        let (data, tweak): (&[u8; K], &[u8; K]) = halves.ok_or(KeyError::Length { len: key.len() })?;
        if constant_time_eq(data, tweak) {
            return Err(KeyError::EqualXtsHalves);
        }
        Ok(Self { data: SecretArray::new(*data), tweak: SecretArray::new(*tweak) })
    }

    pub(crate) fn of(&self, key: XtsKey) -> &[u8; K] {
        match key {
            XtsKey::Data => &self.data,
            XtsKey::Tweak => &self.tweak,
        }
    }
}

/// Cipher blocks that are copied at a time: the drivers read from one place and write to another.
pub(crate) const PIECE: usize = 8;
