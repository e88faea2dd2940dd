//! An encrypted card or disk for executors: block-device-driver's `BlockDevice` over another one.

use core::fmt;

use aligned::Aligned;
use atrest_cipher::DataUnitCipher;
use block_device_driver::{BlockDevice, blocks_to_slice_mut};

use crate::place::{CardError, CardSetupError, Placed};

/// A [`BlockDevice`] that stores ciphertext on another one. Every block is written where the file system writes it, once.
///
/// `N` blocks pass through a buffer of its own on their way to the device: a longer write takes several transfers. A
/// transfer is one run of the cipher.
pub struct CryptBlocks<B: BlockDevice<SIZE>, C, const SIZE: usize, const N: usize> {
    device: B,
    cipher: Placed<C>,
    bounce: [Aligned<B::Align, [u8; SIZE]>; N],
}

impl<B: BlockDevice<SIZE>, C: DataUnitCipher, const SIZE: usize, const N: usize> CryptBlocks<B, C, SIZE, N> {
    /// Encrypts what goes to `device`. The cipher takes a block or less at least.
    pub fn new(device: B, cipher: C) -> Result<Self, CardSetupError> {
        if N == 0 {
            return Err(CardSetupError::BounceTooSmall { needs: SIZE, has: 0 });
        }
        let granularity = cipher.granularity();
        let mismatch = CardSetupError::Granularity { granularity, block: SIZE };
        // A block is a whole number of its alignment too, or blocks would not lie behind each other without gaps.
        let aligned = SIZE.is_multiple_of(align_of::<Aligned<B::Align, [u8; SIZE]>>());
        if granularity == 0 || !SIZE.is_multiple_of(granularity) || !aligned {
            return Err(mismatch);
        }
        let cipher = Placed::new(cipher).ok_or(mismatch)?;
        Ok(Self { device, cipher, bounce: core::array::from_fn(|_| Aligned([0; SIZE])) })
    }

    /// Gives the device back.
    pub fn into_device(self) -> B {
        self.device
    }
}

impl<B: BlockDevice<SIZE>, C: DataUnitCipher, const SIZE: usize, const N: usize> BlockDevice<SIZE>
    for CryptBlocks<B, C, SIZE, N>
{
    type Error = CardError<B::Error>;
    type Align = B::Align;

    async fn read(
        &mut self,
        block_address: u32,
        data: &mut [Aligned<Self::Align, [u8; SIZE]>],
    ) -> Result<(), Self::Error> {
        self.device.read(block_address, data).await.map_err(CardError::Card)?;
        let address = address(block_address.into(), SIZE)
            .ok_or(CardError::OutOfBounds { block: block_address.into() })?;
        self.cipher.decrypt(address, blocks_to_slice_mut(data)).map_err(CardError::Cipher)
    }

    async fn write(
        &mut self,
        block_address: u32,
        data: &[Aligned<Self::Align, [u8; SIZE]>],
    ) -> Result<(), Self::Error> {
        let mut first = u64::from(block_address);
        for part in data.chunks(N) {
            let at = u32::try_from(first).map_err(|_| CardError::OutOfBounds { block: first })?;
            // A part has no more blocks than there is room for. Otherwise nothing would be written.
            let run = self.bounce.get_mut(..part.len()).ok_or(CardError::OutOfBounds { block: first })?;
            for (block, plain) in run.iter_mut().zip(part) {
                **block = **plain;
            }
            let address = address(first, SIZE).ok_or(CardError::OutOfBounds { block: first })?;
            let bytes = blocks_to_slice_mut(&mut *run);
            if let Err(error) = self.cipher.encrypt(address, bytes) {
                bytes.fill(0);
                return Err(CardError::Cipher(error));
            }
            self.device.write(at, run).await.map_err(CardError::Card)?;
            // cannot overflow: a slice is shorter than 2^63 bytes, and the numbers have 32 bits.
            first = first.saturating_add(part.len() as u64);
        }
        Ok(())
    }

    async fn size(&mut self) -> Result<u64, Self::Error> {
        self.device.size().await.map_err(CardError::Card)
    }
}

/// Byte address of a block. There is none for blocks of gigabytes.
fn address(block: u64, size: usize) -> Option<u64> {
    block.checked_mul(size as u64)
}

impl<B: BlockDevice<SIZE>, C, const SIZE: usize, const N: usize> fmt::Debug for CryptBlocks<B, C, SIZE, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CryptBlocks(..)")
    }
}
