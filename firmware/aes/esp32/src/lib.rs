//! The AES peripheral of an ESP32 behind [`AesEngine`] and [`AsyncAesEngine`] for XTS, and behind [`LoadAesKey`] for CCM and CMAC: a run of
//! cipher blocks is one call of esp-hal's.
//!
//! Checked for the ESP32-C3. esp-hal has the same types for the ESP32-S3 and others; those with an Xtensa core want a compiler of their
//! own, and are not compiled here. **Nothing of this has run on a board.** Put a [`CheckedEngine`](atrest_cipher::CheckedEngine) around it,
//! which compares its first results with software.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt;

use atrest_cipher::{AesEncrypt, AesEngine, AsyncAesEngine, Direction, KeyError, LoadAesKey, XtsKey};
use atrest_secret::constant_time_eq;
use esp_hal::aes::cipher_modes::Ecb;
use esp_hal::aes::{AesContext, AesHandle, Error, Key, Operation};

/// Both keys of AES-XTS, for whatever works on esp-hal's queue of AES operations: [`AesDmaBackend`](esp_hal::aes::dma::AesDmaBackend),
/// to which a run is one DMA transfer, or [`AesBackend`](esp_hal::aes::AesBackend), whose CPU hands the peripheral block after
/// block. One of them has been started, or the engine waits for ever.
///
/// A future that is dropped cancels its operation. The contexts wipe their copies of the keys when they are dropped.
pub struct Engine {
    encrypt: AesContext,
    decrypt: AesContext,
    tweak: AesContext,
}

impl Engine {
    /// Takes a volume key: that of the data, then one of the same length for the tweaks.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] unless there are 32 or 64 bytes: the peripheral has AES-128 and AES-256. [`KeyError::EqualXtsHalves`] if both
    /// halves are the same.
    pub fn new(key: &[u8]) -> Result<Self, KeyError> {
        let (data, tweak) = key.split_at(key.len() / 2);
        if constant_time_eq(data, tweak) {
            return Err(KeyError::EqualXtsHalves);
        }
        let half = |half| aes_key(half).ok_or(KeyError::Length { len: key.len() });
        Ok(Self {
            encrypt: AesContext::new(Ecb, Operation::Encrypt, half(data)?),
            decrypt: AesContext::new(Ecb, Operation::Decrypt, half(data)?),
            tweak: AesContext::new(Ecb, Operation::Encrypt, half(tweak)?),
        })
    }

    /// Puts a run into the queue.
    fn start<'a>(
        &'a mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &'a mut [[u8; 16]],
    ) -> Result<AesHandle<'a>, Error> {
        let context = match (key, direction) {
            (XtsKey::Data, Direction::Encrypt) => &mut self.encrypt,
            (XtsKey::Data, Direction::Decrypt) => &mut self.decrypt,
            (XtsKey::Tweak, _) => &mut self.tweak,
        };
        context.process_in_place(blocks.as_flattened_mut())
    }
}

/// A key of AES-128 or AES-256 that encrypts alone: for CCM ([`EngineCcm`](atrest_cipher::EngineCcm)), and CMAC. It needs a started backend
/// as [`Engine`] does.
pub struct Encryptor(AesContext);

impl LoadAesKey for Encryptor {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        let aes_key = aes_key(key).ok_or(KeyError::Length { len: key.len() })?;
        Ok(Self(AesContext::new(Ecb, Operation::Encrypt, aes_key)))
    }
}

impl AesEncrypt for Encryptor {
    type Error = Error;

    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), Error> {
        // Completed: only who has the handle can cancel.
        self.0.process_in_place(blocks.as_flattened_mut())?.wait_blocking();
        Ok(())
    }
}

fn aes_key(bytes: &[u8]) -> Option<Key> {
    if let Ok(key) = <[u8; 16]>::try_from(bytes) {
        return Some(Key::from(key));
    }
    <[u8; 32]>::try_from(bytes).map(Key::from).ok()
}

impl AesEngine for Engine {
    /// DMA to and from internal RAM begins anywhere. Chips with external RAM copy what begins elsewhere in a cache line.
    const ALIGNMENT: usize = 1;

    type Error = Error;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Error> {
        // Completed: only who has the handle can cancel.
        self.start(key, direction, blocks)?.wait_blocking();
        Ok(())
    }
}

impl AsyncAesEngine for Engine {
    const ALIGNMENT: usize = <Self as AesEngine>::ALIGNMENT;

    type Error = Error;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Error> {
        self.start(key, direction, blocks)?.wait().await;
        Ok(())
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine(..)")
    }
}

impl fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryptor(..)")
    }
}
