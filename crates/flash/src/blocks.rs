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
    ///
    /// # Errors
    /// [`CardSetupError::BounceTooSmall`] if `N` is 0, [`CardSetupError::Granularity`] if a block is no
    /// multiple of what the cipher takes at least, or of its own alignment.
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::vec::Vec;

    use aligned::A4;

    use super::*;
    use crate::stub::Stub;

    /// Notes what is written, and fails if it is told to.
    #[derive(Default)]
    struct Notes<const SIZE: usize> {
        written: Vec<(u64, u8)>,
        fails: bool,
    }

    impl<const SIZE: usize> BlockDevice<SIZE> for Notes<SIZE> {
        type Error = u8;
        type Align = A4;

        async fn read(&mut self, _: u32, data: &mut [Aligned<A4, [u8; SIZE]>]) -> Result<(), u8> {
            data.iter_mut().for_each(|block| block.fill(0x55));
            if self.fails { Err(3) } else { Ok(()) }
        }

        async fn write(&mut self, at: u32, data: &[Aligned<A4, [u8; SIZE]>]) -> Result<(), u8> {
            self.written.extend(data.iter().zip(u64::from(at)..).map(|(block, at)| (at, block[0])));
            if self.fails { Err(4) } else { Ok(()) }
        }

        async fn size(&mut self) -> Result<u64, u8> {
            if self.fails { Err(5) } else { Ok(9 * SIZE as u64) }
        }
    }

    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    const PLAIN: Aligned<A4, [u8; 512]> = Aligned([0xaa; 512]);

    #[test]
    fn a_run_that_the_cipher_refuses_is_not_written_and_its_plaintext_not_kept() {
        let cipher = Stub { refuses: Some(9), ..Stub::of(512, 512) };
        let mut blocks = CryptBlocks::<_, _, 512, 4>::new(Notes::default(), cipher).expect("a device");
        let data: Vec<_> = (0..8).map(|_| PLAIN).collect();
        assert_eq!(ready(blocks.write(5, &data)), Err(CardError::Cipher(Stub::REFUSAL)));
        assert!(blocks.bounce.iter().all(|block| !block.contains(&0xaa)), "plaintext is kept");
        let mut read = [PLAIN; 2];
        assert_eq!(ready(blocks.read(8, &mut read)), Err(CardError::Cipher(Stub::REFUSAL)));
        assert_eq!(blocks.into_device().written, [(5, 0xff), (6, 0xff), (7, 0xff), (8, 0xff)]);
    }

    #[test]
    fn what_a_device_says_is_passed_on_and_blocks_are_numbered_up_to_the_last() {
        let device = |fails| {
            let notes = Notes { fails, ..Notes::default() };
            CryptBlocks::<_, _, 512, 1>::new(notes, Stub::of(512, 512)).expect("a device")
        };
        assert_eq!(ready(device(true).read(0, &mut [PLAIN])), Err(CardError::Card(3)));
        assert_eq!(ready(device(true).write(0, &[PLAIN])), Err(CardError::Card(4)));
        assert_eq!(ready(device(true).size()), Err(CardError::Card(5)));
        assert_eq!(ready(device(false).size()), Ok(9 * 512));
        let mut last = device(false);
        let outside = Err(CardError::OutOfBounds { block: 1 << 32 });
        assert_eq!(ready(last.write(u32::MAX, &[PLAIN, PLAIN])), outside);
        assert_eq!(last.into_device().written, [(u64::from(u32::MAX), 0xff)]);
        assert_eq!((address(7, 512), address(u64::MAX, 2)), (Some(3584), None));
    }

    #[test]
    fn a_cipher_or_a_size_of_blocks_that_do_not_go_together_is_refused() {
        for (data_unit, granularity, taken) in [
            (512, 512, true),
            (4096, 16, true),
            (512, 0, false),
            (1024, 1024, false),
            (512, 384, false),
            (0, 16, false),
        ] {
            let cipher = Stub::of(data_unit, granularity);
            let made = CryptBlocks::<_, _, 512, 1>::new(Notes::default(), cipher).map(drop);
            let refused = Err(CardSetupError::Granularity { granularity, block: 512 });
            assert_eq!(made, if taken { Ok(()) } else { refused }, "{data_unit}, {granularity}");
        }
        let made = CryptBlocks::<_, _, 512, 0>::new(Notes::default(), Stub::of(512, 512)).map(drop);
        assert_eq!(made, Err(CardSetupError::BounceTooSmall { needs: 512, has: 0 }));
        // Between blocks of 510 bytes that begin at multiples of 4 there would be gaps.
        let made = CryptBlocks::<_, _, 510, 1>::new(Notes::default(), Stub::of(510, 1)).map(drop);
        assert_eq!(made, Err(CardSetupError::Granularity { granularity: 1, block: 510 }));
    }
}
