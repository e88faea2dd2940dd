//! Engines that encrypt alone: peripherals without decryption, and keys that never leave the chip. Modes that never decrypt a cipher block
//! are enough for authentication and, by CCM, for authenticated encryption.

use core::convert::Infallible;
use core::fmt;

use atrest_secret::{constant_time_eq, wipe};

use crate::backend::PortableAes;
use crate::block::{Block, BlockCipher, Direction};
use crate::key_error::KeyError;

/// Something that encrypts cipher blocks under one AES key: a peripheral with a key that was loaded into it, or that nobody can read.
pub trait AesEncrypt {
    /// Why it could not.
    type Error;

    /// Encrypts each block on its own, in place.
    ///
    /// # Errors
    ///
    /// The engine's own error. What is in the blocks does not count then.
    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), Self::Error>;
}

/// An [`AesEncrypt`] into which any key can be loaded.
pub trait LoadAesKey: AesEncrypt + Sized {
    /// Takes an AES key. The caller wipes its copy.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the engine takes no key of this length.
    /// * [`KeyError::Engine`] if the engine is not there.
    fn load(key: &[u8]) -> Result<Self, KeyError>;
}

/// AES in constant-time code for any CPU, as an engine: for chips that have none, and what others are compared with.
pub struct SoftwareAes(PortableAes);

impl AesEncrypt for SoftwareAes {
    type Error = Infallible;

    fn encrypt(&mut self, blocks: &mut [Block]) -> Result<(), Infallible> {
        self.0.apply(Direction::Encrypt, blocks);
        Ok(())
    }
}

impl LoadAesKey for SoftwareAes {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        let mut aes = PortableAes::EMPTY;
        aes.expand(key).ok_or(KeyError::Length { len: key.len() })?;
        Ok(Self(aes))
    }
}

impl fmt::Debug for SoftwareAes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SoftwareAes(..)")
    }
}

/// Blocks that are compared when a key is loaded.
const COMPARED: usize = 16;

/// Loads a key into an engine, and into software, and compares what both make of some blocks.
///
/// # Errors
///
/// Those of loading, and [`KeyError::Engine`] if the engine fails or computes something else than AES.
pub(super) fn load_checked<E: LoadAesKey>(key: &[u8]) -> Result<E, KeyError> {
    let mut software = SoftwareAes::load(key)?;
    let mut engine = E::load(key)?;
    // Blocks of all values, and no two alike.
    let mut blocks: [Block; COMPARED] =
        core::array::from_fn(|block| core::array::from_fn(|byte| (16 * block + byte) as u8));
    let mut expected = blocks;
    let Ok(()) = software.encrypt(&mut expected);
    let encrypted = engine.encrypt(&mut blocks);
    let is_right = constant_time_eq(blocks.as_flattened(), expected.as_flattened());
    wipe(blocks.as_flattened_mut());
    wipe(expected.as_flattened_mut());
    if encrypted.is_err() || !is_right {
        return Err(KeyError::Engine);
    }
    Ok(engine)
}
