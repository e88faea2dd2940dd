//! The AES peripheral.

use core::fmt;

use atrest_cipher::{AesEngine, AsyncAesEngine, Direction, KeyError, XtsKey};
use atrest_secret::SecretArray;
use embassy_stm32::aes::{self, Aes, AesEcb, Cipher, CipherSized, Error, IVSized, Instance};
use embassy_stm32::mode::Mode;

use crate::keys::{Keys, PIECE};

/// Both keys of AES-XTS, of `K` bytes each (16 or 32), and the peripheral that they are loaded into.
///
/// embassy-stm32 has no transfers by DMA for it: the asynchronous engine is ready when it returns.
pub struct AesPeripheral<'d, T: Instance, M: Mode, const K: usize> {
    aes: Aes<'d, T, M>,
    keys: Keys<K>,
}

impl<'d, T: Instance, M: Mode, const K: usize> AesPeripheral<'d, T, M, K> {
    /// Takes a volume key: that of the data, then one of the same length for the tweaks.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] unless there are two times `K` bytes. [`KeyError::EqualXtsHalves`] if both halves are the same.
    pub fn new(aes: Aes<'d, T, M>, key: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { aes, keys: Keys::new(key)? })
    }

    /// Gives the peripheral back.
    pub fn into_peripheral(self) -> Aes<'d, T, M> {
        self.aes
    }
}

impl<T: Instance, M: Mode, const K: usize> AesEngine for AesPeripheral<'_, T, M, K>
where
    for<'c> AesEcb<'c, K>: Cipher<'c> + CipherSized + IVSized,
{
    /// The CPU moves the words.
    const ALIGNMENT: usize = 1;

    type Error = Error;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Error> {
        let direction = match direction {
            Direction::Encrypt => aes::Direction::Encrypt,
            Direction::Decrypt => aes::Direction::Decrypt,
        };
        let cipher = AesEcb::new(self.keys.of(key));
        let mut context = self.aes.start(&cipher, direction);
        let mut copy = SecretArray::<{ 16 * PIECE }>::zeroed();
        for piece in blocks.chunks_mut(PIECE) {
            let piece = piece.as_flattened_mut();
            let from = &mut copy[..piece.len()];
            from.copy_from_slice(piece);
            self.aes.payload_blocking(&mut context, from, piece, false)?;
        }
        self.aes.finish_blocking(context).map(|_no_tag| ())
    }
}

impl<T: Instance, M: Mode, const K: usize> AsyncAesEngine for AesPeripheral<'_, T, M, K>
where
    for<'c> AesEcb<'c, K>: Cipher<'c> + CipherSized + IVSized,
{
    const ALIGNMENT: usize = <Self as AesEngine>::ALIGNMENT;

    type Error = Error;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Error> {
        AesEngine::apply(self, key, direction, blocks)
    }
}

impl<T: Instance, M: Mode, const K: usize> fmt::Debug for AesPeripheral<'_, T, M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesPeripheral(..)")
    }
}
