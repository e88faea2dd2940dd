//! A flash device as littlefs2's `Storage`. Specification: `struct lfs_config` in littlefs's `lfs.h`.
#![allow(deprecated, reason = "littlefs2 stands on this version of generic-array")]

use core::fmt;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use generic_array::typenum::Unsigned;
use generic_array::{ArrayLength, GenericArray};
use littlefs2::driver::Storage;
use littlefs2::io;

/// What littlefs2 wants to know when the program is compiled. Implemented for a type that has no values.
#[allow(non_camel_case_types, reason = "littlefs2's own names")]
pub trait LittlefsGeometry {
    /// Bytes read at least.
    const READ_SIZE: usize;
    /// Bytes programmed at least.
    const PROG_SIZE: usize;
    /// Bytes in an erase block.
    const BLOCK_SIZE: usize;
    /// Erase blocks that the file system uses, from the first on.
    const BLOCK_COUNT: usize;
    /// Erases after which littlefs moves a metadata block, or -1 for never.
    const BLOCK_CYCLES: isize = -1;
    /// Bytes in each of littlefs's caches, as a type of `littlefs2::consts`: a multiple of what is read and programmed at
    /// least, of which an erase block is a multiple.
    ///
    /// On media that refuse to read a torn unit (flash with error-correcting words, NAND) all three have to be the same:
    /// littlefs reads ahead into its cache, and one unit that can't be read then takes synced ones with it.
    type CACHE_SIZE: ArrayLength<u8>;
    /// Bits for free blocks in units of 64, as a type of `littlefs2::consts`.
    type LOOKAHEAD_SIZE: ArrayLength<u64>;
}

/// A [`FlashDevice`] below littlefs.
///
/// littlefs2 takes what it has written for durable and has no call that makes it so. So the device is synced after every
/// program and erase, which costs nothing where nothing is cached.
///
/// Before a program the device is asked whether the units are blank. littlefs2 0.8 writes littlefs's on-disk version 2.0,
/// which takes what a torn program has left behind a commit for erased, and would program it a second time.
///
/// Units that are not blank, a block that has gone bad and what cannot be read are reported as corrupt, whereupon littlefs
/// writes elsewhere; every other error is an I/O error, tampering too.
pub struct LittlefsStorage<D, G: LittlefsGeometry> {
    device: D,
    /// For the blank query.
    scratch: GenericArray<u8, G::CACHE_SIZE>,
}

/// Why littlefs can't use a device.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LittlefsError {
    /// The sizes that were compiled in are not those of the device, or multiples of them; or it has fewer blocks.
    OtherGeometry {
        /// That of the device.
        device: FlashGeometry,
    },
    /// littlefs2 counts bytes in `usize`, which is too small for this device.
    TooLarge {
        /// Bytes of the file system.
        size: u64,
    },
}

impl<D: FlashDevice, G: LittlefsGeometry> LittlefsStorage<D, G> {
    /// Looks whether the device has the sizes of `G`.
    ///
    /// # Errors
    /// [`LittlefsError::OtherGeometry`] if the device has other sizes or fewer blocks,
    /// [`LittlefsError::TooLarge`] if littlefs2 can't count its bytes here.
    pub fn new(device: D) -> Result<Self, LittlefsError> {
        let sizes = device.geometry();
        let whole = |compiled: usize, unit: u32| compiled != 0 && compiled.is_multiple_of(unit as usize);
        let fits = whole(G::READ_SIZE, sizes.read_size())
            && whole(G::PROG_SIZE, sizes.prog_size())
            && whole(G::CACHE_SIZE::USIZE, sizes.prog_size())
            && G::BLOCK_SIZE == sizes.erase_size() as usize
            && G::BLOCK_COUNT as u64 <= sizes.block_count();
        if !fits {
            return Err(LittlefsError::OtherGeometry { device: sizes });
        }
        // cannot overflow: the device, which is at least as large, has a size of 64 bits.
        let size = (G::BLOCK_COUNT as u64).saturating_mul(G::BLOCK_SIZE as u64);
        if usize::try_from(size).is_err() {
            return Err(LittlefsError::TooLarge { size });
        }
        Ok(Self { device, scratch: GenericArray::default() })
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to use past the file system.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives the device back.
    pub fn into_device(self) -> D {
        self.device
    }
}

#[allow(non_camel_case_types, reason = "littlefs2's own names")]
impl<D: FlashDevice, G: LittlefsGeometry> Storage for LittlefsStorage<D, G> {
    const READ_SIZE: usize = G::READ_SIZE;
    const WRITE_SIZE: usize = G::PROG_SIZE;
    const BLOCK_SIZE: usize = G::BLOCK_SIZE;
    const BLOCK_COUNT: usize = G::BLOCK_COUNT;
    const BLOCK_CYCLES: isize = G::BLOCK_CYCLES;
    type CACHE_SIZE = G::CACHE_SIZE;
    type LOOKAHEAD_SIZE = G::LOOKAHEAD_SIZE;

    fn read(&mut self, off: usize, buf: &mut [u8]) -> io::Result<usize> {
        self.device.read(off as u64, buf).map_err(reported)?;
        Ok(buf.len())
    }

    fn write(&mut self, off: usize, data: &[u8]) -> io::Result<usize> {
        match self.device.is_blank(off as u64, data.len() as u64, &mut self.scratch) {
            Ok(false) => return Err(io::Error::CORRUPTION),
            // Media without a notion of blank units can be overwritten.
            Ok(true) | Err(FlashError { cause: FlashCause::Unsupported, .. }) => {}
            Err(error) => return Err(reported(error)),
        }
        self.device.prog(off as u64, data).and_then(|()| self.device.sync()).map_err(reported)?;
        Ok(data.len())
    }

    fn erase(&mut self, off: usize, len: usize) -> io::Result<usize> {
        self.device.erase(off as u64, len as u64).and_then(|()| self.device.sync()).map_err(reported)?;
        Ok(len)
    }
}

fn reported(error: FlashError) -> io::Error {
    match error.cause {
        FlashCause::BadBlock { .. }
        | FlashCause::Uncorrectable
        | FlashCause::AlreadyProgrammed { .. }
        | FlashCause::Void { .. }
        | FlashCause::Closed { .. }
        | FlashCause::OutOfOrder { .. } => io::Error::CORRUPTION,
        // Tampering above all: littlefs answers corruption in one half of a metadata pair by using the other half, which is older.
        _ => io::Error::IO,
    }
}

impl<D, G: LittlefsGeometry> fmt::Debug for LittlefsStorage<D, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LittlefsStorage(..)")
    }
}

impl fmt::Display for LittlefsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGeometry { device } => write!(
                f,
                "the file system was compiled for other sizes than {} blocks of {} bytes, read by {} and programmed by {}",
                device.block_count(),
                device.erase_size(),
                device.read_size(),
                device.prog_size()
            ),
            Self::TooLarge { size } => {
                write!(f, "littlefs2 cannot address {size} bytes on this processor")
            }
        }
    }
}

impl core::error::Error for LittlefsError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use atrest_device::FlashOperation;
    use atrest_testkit::flash::{BadBlock, EmulatedFlash};
    use littlefs2::consts::{U1, U64};

    use super::*;

    struct Sizes;

    impl LittlefsGeometry for Sizes {
        const READ_SIZE: usize = 16;
        const PROG_SIZE: usize = 32;
        const BLOCK_SIZE: usize = 512;
        const BLOCK_COUNT: usize = 8;
        type CACHE_SIZE = U64;
        type LOOKAHEAD_SIZE = U1;
    }

    fn on(read: u32, prog: u32, erase: u32, blocks: u64) -> Result<(), LittlefsError> {
        let geometry = FlashGeometry::new(read, prog, erase, blocks).expect("a geometry");
        LittlefsStorage::<_, Sizes>::new(EmulatedFlash::new(geometry)).map(drop)
    }

    #[test]
    fn sizes_are_multiples_of_those_of_the_device_which_has_blocks_enough() {
        for (read, prog, erase, blocks) in
            [(16, 32, 512, 8), (8, 32, 512, 8), (1, 1, 512, 9), (16, 16, 512, 8)]
        {
            assert_eq!(on(read, prog, erase, blocks), Ok(()), "{read}, {prog}, {erase}, {blocks}");
        }
        for (read, prog, erase, blocks) in [
            (32, 32, 512, 8),
            (16, 64, 512, 8),
            (1, 128, 512, 8),
            (16, 32, 1024, 8),
            (16, 32, 256, 16),
            (16, 32, 512, 7),
        ] {
            let device = FlashGeometry::new(read, prog, erase, blocks).expect("a geometry");
            let refused = Err(LittlefsError::OtherGeometry { device });
            assert_eq!(on(read, prog, erase, blocks), refused, "{read}, {prog}, {erase}, {blocks}");
        }
    }

    /// littlefs goes on with the older half of its metadata where something is corrupt.
    #[test]
    fn what_is_not_a_matter_of_one_place_is_no_corruption() {
        let kind = |cause| reported(FlashError::new(FlashOperation::Read, 0, 0, cause));
        for cause in [
            FlashCause::BadBlock { block: 1 },
            FlashCause::Uncorrectable,
            FlashCause::AlreadyProgrammed { unit: 0 },
            FlashCause::Void { block: 1 },
            FlashCause::Closed { block: 1 },
            FlashCause::OutOfOrder { next: 1 },
        ] {
            assert_eq!(kind(cause), io::Error::CORRUPTION, "{cause:?}");
        }
        for cause in [
            FlashCause::Tampered { block: 1, unit: 0 },
            FlashCause::Stopped,
            FlashCause::WornOut,
            FlashCause::Cipher,
            FlashCause::ReadOnly,
            FlashCause::Driver(1),
            FlashCause::Unsupported,
            FlashCause::OutOfBounds { size: 1 },
        ] {
            assert_eq!(kind(cause), io::Error::IO, "{cause:?}");
        }
    }

    #[test]
    fn what_is_written_or_erased_is_durable_and_nothing_is_written_twice() {
        let geometry = FlashGeometry::new(16, 32, 512, 8).expect("a geometry");
        let mut storage = LittlefsStorage::<_, Sizes>::new(EmulatedFlash::new(geometry)).expect("the sizes");
        assert_eq!((storage.write(64, &[7; 32]), storage.device().wear().syncs), (Ok(32), 1));
        assert_eq!(storage.write(64, &[7; 32]), Err(io::Error::CORRUPTION));
        assert_eq!((storage.erase(0, 512), storage.device().wear().syncs), (Ok(512), 2));
        let programmed: Vec<u32> = storage.device().wear().programs.iter().copied().take(4).collect();
        assert_eq!(programmed, [0, 0, 1, 0]);
        assert_eq!(storage.write(64, &[7; 32]), Ok(32));
        let mut bytes = [0; 32];
        assert_eq!((storage.read(64, &mut bytes), bytes), (Ok(32), [7; 32]));
        // Neither what a medium refuses nor a failing sync is passed over.
        storage.device_mut().refusals().syncs = 2;
        assert_eq!(storage.write(96, &[7; 32]), Err(io::Error::IO));
        assert_eq!(storage.erase(512, 512), Err(io::Error::IO));
        storage.device_mut().break_block(2, BadBlock::ProgError);
        storage.device_mut().break_block(2, BadBlock::EraseError);
        storage.device_mut().break_block(3, BadBlock::ReadError);
        assert_eq!(storage.write(1024, &[7; 32]), Err(io::Error::CORRUPTION));
        assert_eq!(storage.erase(1024, 512), Err(io::Error::CORRUPTION));
        assert_eq!(storage.read(1536, &mut bytes), Err(io::Error::CORRUPTION));
        assert_eq!(
            storage.write(1536, &[7; 32]),
            Err(io::Error::CORRUPTION),
            "nobody knows whether it is blank"
        );
    }
}
