//! The CRYP peripheral.

use core::convert::Infallible;
use core::fmt;

use atrest_cipher::{AesEngine, AsyncAesEngine, Direction, KeyError, XtsKey};
use atrest_secret::SecretArray;
use embassy_stm32::cryp::{self, AesEcb, Cipher, CipherSized, Cryp, IVSized, Instance};
use embassy_stm32::mode::{Async, Blocking, Mode};

use crate::keys::{Keys, PIECE};

/// Both keys of AES-XTS, of `K` bytes each (16 or 32), and the peripheral that they are loaded into.
///
/// With DMA ([`Async`]) it is an [`AsyncAesEngine`], and the blocks lie in memory that DMA reaches: on an STM32H7 not in the tightly coupled
/// one. A future that is dropped stops the transfers.
pub struct CrypPeripheral<'d, T: Instance, M: Mode, const K: usize> {
    cryp: Cryp<'d, T, M>,
    keys: Keys<K>,
}

impl<'d, T: Instance, M: Mode, const K: usize> CrypPeripheral<'d, T, M, K> {
    /// Takes a volume key: that of the data, then one of the same length for the tweaks.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] unless there are two times `K` bytes. [`KeyError::EqualXtsHalves`] if both halves are the same.
    pub fn new(cryp: Cryp<'d, T, M>, key: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { cryp, keys: Keys::new(key)? })
    }

    /// Gives the peripheral back.
    pub fn into_peripheral(self) -> Cryp<'d, T, M> {
        self.cryp
    }
}

fn direction(direction: Direction) -> cryp::Direction {
    match direction {
        Direction::Encrypt => cryp::Direction::Encrypt,
        Direction::Decrypt => cryp::Direction::Decrypt,
    }
}

impl<T: Instance, const K: usize> AesEngine for CrypPeripheral<'_, T, Blocking, K>
where
    for<'c> AesEcb<'c, K>: Cipher<'c> + CipherSized + IVSized,
{
    /// The CPU moves the words.
    const ALIGNMENT: usize = 1;

    type Error = Infallible;

    fn apply(&mut self, key: XtsKey, way: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Infallible> {
        let cipher = AesEcb::new(self.keys.of(key));
        let mut context = self.cryp.start_blocking(&cipher, direction(way));
        let mut copy = SecretArray::<{ 16 * PIECE }>::zeroed();
        for piece in blocks.chunks_mut(PIECE) {
            let piece = piece.as_flattened_mut();
            let from = &mut copy[..piece.len()];
            from.copy_from_slice(piece);
            self.cryp.payload_blocking(&mut context, from, piece, false);
        }
        Ok(())
    }
}

impl<T: Instance, const K: usize> AsyncAesEngine for CrypPeripheral<'_, T, Async, K>
where
    for<'c> AesEcb<'c, K>: Cipher<'c> + CipherSized + IVSized,
{
    /// DMA moves bytes.
    const ALIGNMENT: usize = 1;

    type Error = Infallible;

    async fn apply(
        &mut self,
        key: XtsKey,
        way: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Infallible> {
        let cipher = AesEcb::new(self.keys.of(key));
        let mut context = self.cryp.start(&cipher, direction(way)).await;
        let mut copy = SecretArray::<{ 16 * PIECE }>::zeroed();
        for piece in blocks.chunks_mut(PIECE) {
            let piece = piece.as_flattened_mut();
            let from = &mut copy[..piece.len()];
            from.copy_from_slice(piece);
            self.cryp.payload(&mut context, from, piece, false).await;
        }
        Ok(())
    }
}

impl<T: Instance, M: Mode, const K: usize> fmt::Debug for CrypPeripheral<'_, T, M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrypPeripheral(..)")
    }
}
