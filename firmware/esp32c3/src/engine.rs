//! The AES peripheral behind [`AesEngine`]: a whole run of cipher blocks in one call of esp-hal's.

use atrest_cipher::{AesEngine, Direction, XtsKey};
use atrest_secret::constant_time_eq;
use esp_hal::aes::cipher_modes::Ecb;
use esp_hal::aes::{AesContext, Error, Key, Operation};

/// Both keys of AES-XTS, for whatever works on esp-hal's queue of AES operations: [`AesDmaBackend`](esp_hal::aes::dma::AesDmaBackend),
/// to which a run is one DMA transfer, or [`AesBackend`](esp_hal::aes::AesBackend), whose CPU hands the peripheral block after
/// block. One of them has been started, or the engine waits for ever.
///
/// The contexts wipe their copies of the keys when they are dropped.
pub struct Engine {
    encrypt: AesContext,
    decrypt: AesContext,
    tweak: AesContext,
}

/// Why a key is not one for this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKeyError {
    /// The peripheral has AES-128 and AES-256: keys of 32 and 64 bytes.
    Length,
    /// Its two halves are the same, with which XTS is insecure.
    EqualHalves,
}

impl Engine {
    /// For a volume key: that of the data, then one of the same length for the tweaks.
    pub fn new(key: &[u8]) -> Result<Self, EngineKeyError> {
        let (data, tweak) = key.split_at(key.len() / 2);
        if constant_time_eq(data, tweak) {
            return Err(EngineKeyError::EqualHalves);
        }
        Ok(Self {
            encrypt: AesContext::new(Ecb, Operation::Encrypt, half(data)?),
            decrypt: AesContext::new(Ecb, Operation::Decrypt, half(data)?),
            tweak: AesContext::new(Ecb, Operation::Encrypt, half(tweak)?),
        })
    }
}

/// Half a key of XTS: a key of AES.
fn half(key: &[u8]) -> Result<Key, EngineKeyError> {
    if let Ok(key) = <[u8; 16]>::try_from(key) {
        return Ok(Key::from(key));
    }
    <[u8; 32]>::try_from(key).map(Key::from).map_err(|_| EngineKeyError::Length)
}

impl AesEngine for Engine {
    /// DMA to and from internal RAM, the only one that this chip has, begins anywhere.
    const ALIGNMENT: usize = 1;

    type Error = Error;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Error> {
        let context = match (key, direction) {
            (XtsKey::Data, Direction::Encrypt) => &mut self.encrypt,
            (XtsKey::Data, Direction::Decrypt) => &mut self.decrypt,
            (XtsKey::Tweak, _) => &mut self.tweak,
        };
        context.process_in_place(blocks.as_flattened_mut())?.wait_blocking();
        Ok(())
    }
}
