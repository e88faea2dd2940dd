//! Data that a root hash protects, as a block device that is only read.

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};

use super::error::VerityError;
use super::hasher::Digest;
use super::layout::{Layout, Parts};
use super::trusted::{BlockPlace, Repaired, Trusted};
use crate::disk::parallel::Helpers;

/// Data of dm-verity. Each block that is read is hashed, and so are the blocks of the tree up to the root hash; those
/// that were checked are remembered, up to 16 MiB of them. A block that fails is an error with
/// [`Cause::WrongHash`], never data. With error correction it is repaired first, if that gives a block with the right hash.
pub struct VerityDevice {
    trusted: Trusted,
    helpers: Helpers,
    /// The hash of a block of zeros, if such blocks are not to be read.
    zero: Option<Digest>,
}

/// How such a device is read.
#[derive(Default)]
#[non_exhaustive]
pub struct VerityOptions {
    /// Threads for a large read; 0 stands for one on every core.
    pub threads: usize,
    /// Blocks whose hash is that of zeros are not read: they are zeros.
    pub ignore_zero_blocks: bool,
    /// Hears of each block that was repaired.
    pub repaired: Option<Box<Repaired>>,
}

impl VerityDevice {
    /// Joins data, its tree and the root hash. The top of the tree is checked when it is first read.
    ///
    /// # Errors
    /// [`VerityError::RootHashLen`] if the root hash can't be one of this tree, [`VerityError::TooShort`] if a device is.
    pub fn new(
        parts: Parts,
        layout: Layout,
        root: &[u8],
        options: VerityOptions,
    ) -> Result<Self, VerityError> {
        let zeros = vec![0; layout.parameters.data_block() as usize];
        let zero = options.ignore_zero_blocks.then(|| layout.hasher.digest(&zeros));
        let trusted = Trusted::new(parts, layout, root, options.repaired)?;
        Ok(Self { trusted, helpers: Helpers::new(options.threads), zero })
    }

    /// How many times a block was repaired since the device was opened.
    pub fn repaired(&self) -> u64 {
        self.trusted.repaired()
    }

    fn block(&self) -> usize {
        self.trusted.layout.parameters.data_block() as usize
    }

    /// Reads whole blocks. `offset` is that of a block.
    fn read_blocks(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let size = self.block();
        // Where that fails for any block, each is read alone.
        let read = self.zero.is_none() && self.trusted.parts.data.read_at(offset, buf).is_ok();
        for (at, block) in buf.chunks_exact_mut(size).enumerate() {
            let at = offset + (at * size) as u64;
            let number = at / size as u64;
            let checked = match (read, self.zero) {
                (true, _) => self.trusted.check_data(number, block),
                (false, Some(zero)) => match self.trusted.expected(BlockPlace { height: 0, block: number }) {
                    Ok(expected) if expected == zero => {
                        block.fill(0);
                        Ok(())
                    }
                    _ => self.trusted.data(number, block),
                },
                (false, None) => self.trusted.data(number, block),
            };
            checked.map_err(|error| error.at(at, size as u64))?;
        }
        Ok(())
    }

    /// Reads a part of one block.
    fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let size = self.block() as u64;
        // cannot be cut off: less than a block.
        let skip = (offset % size) as usize;
        let mut block = vec![0; self.block()];
        self.read_blocks(offset - skip as u64, &mut block)?;
        buf.copy_from_slice(&block[skip..skip + buf.len()]);
        Ok(())
    }
}

impl BlockDevice for VerityDevice {
    fn size(&self) -> u64 {
        self.trusted.layout.parameters.data_len()
    }

    fn geometry(&self) -> Geometry {
        let below = self.trusted.parts.data.geometry();
        let block = self.trusted.layout.parameters.data_block();
        Geometry {
            logical_block: below.logical_block.max(block.min(4096)),
            physical_block: below.physical_block.max(block),
            optimal_alignment: below.optimal_alignment.max(block),
            alignment_offset: below.alignment_offset,
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let size = self.block();
        let (mut offset, mut buf) = (offset, buf);
        // cannot be cut off: less than a block.
        let skip = (offset % size as u64) as usize;
        if skip != 0 {
            let (head, rest) = buf.split_at_mut((size - skip).min(buf.len()));
            self.read_part(offset, head)?;
            offset += head.len() as u64;
            buf = rest;
        }
        let (blocks, tail) = buf.split_at_mut(buf.len() - buf.len() % size);
        let read = |skip: usize, piece: &mut [u8]| self.read_blocks(offset + skip as u64, piece);
        if !blocks.is_empty() {
            self.helpers.split_mut(blocks, size, read)?;
        }
        match tail.is_empty() {
            true => Ok(()),
            false => self.read_part(offset + blocks.len() as u64, tail),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::new(Operation::Write, offset, data.len() as u64, Cause::ReadOnly))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.trusted.parts.data.prefetch(offset, len);
    }
}
