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
