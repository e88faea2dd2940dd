//! AES on one block at a time, for what is no mode of encryption: wrapping keys.

use core::fmt;

use crate::backend::PortableAes;
use crate::block::BlockCipher;
use crate::key_error::KeyError;
use crate::run::without_traces_by_depth;

/// AES (FIPS 197) on single blocks, in constant-time code for any CPU. Wipes itself on drop.
pub struct AesBlock(PortableAes);

impl AesBlock {
    /// Expands a key of 16, 24 or 32 bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] if AES takes no key of this length.
    pub fn new(key: &[u8]) -> Result<Self, KeyError> {
        PortableAes::new(key).map(Self).ok_or(KeyError::Length { len: key.len() })
    }

    /// Without a key, for [`AesBlock::expand`].
    pub const fn empty() -> Self {
        Self(PortableAes::EMPTY)
    }

    /// Expands a key of 16, 24 or 32 bytes in place: no part of it is ever elsewhere on the stack. After an error there is no key.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] if AES takes no key of this length.
    pub fn expand(&mut self, key: &[u8]) -> Result<(), KeyError> {
        self.0.expand(key).ok_or_else(|| {
            self.0.wipe();
            KeyError::Length { len: key.len() }
        })
    }

    /// Encrypts a block in place.
    pub fn encrypt(&self, block: &mut [u8; 16]) {
        without_traces_by_depth(true, || self.0.encrypt(core::slice::from_mut(block)));
    }

    /// Decrypts a block in place.
    pub fn decrypt(&self, block: &mut [u8; 16]) {
        without_traces_by_depth(true, || self.0.decrypt(core::slice::from_mut(block)));
    }
}

impl fmt::Debug for AesBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesBlock(..)")
    }
}
