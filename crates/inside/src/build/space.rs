//! Taking blocks: always the next free ones, so that files and directories lie one behind the other.

use atrest_device::BlockDevice;

use super::groups::{Groups, clear, group_len, group_start, is_set, set};
use super::superblock::Superblock;
use super::{BuildError, Unexpected};

/// Adjoining blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) len: u64,
}

/// The filesystem's blocks, of which more and more are in use.
pub(super) struct Space<'a> {
    pub(super) device: &'a dyn BlockDevice,
    pub(super) sb: &'a Superblock,
    pub(super) groups: Groups,
    pub(super) free_blocks: u64,
    /// Where the next free block is looked for.
    group: u64,
    bit: u64,
}

impl<'a> Space<'a> {
    pub(super) fn new(device: &'a dyn BlockDevice, sb: &'a Superblock) -> Result<Self, BuildError> {
        let groups = Groups::read(device, sb)?;
        Ok(Self { device, sb, groups, free_blocks: sb.free_blocks, group: 0, bit: 0 })
    }

    /// Takes 1 to `want` adjoining blocks.
    pub(super) fn take(&mut self, want: u64) -> Result<Run, BuildError> {
        while self.group < self.sb.groups {
            let (group, len) = (self.group, group_len(self.sb, self.group));
            // A full group's bitmap need not be read.
            if self.bit > 0 || self.groups.descriptor(group)?.free_blocks() > 0 {
                let bitmap = self.groups.block_bitmap(self.device, self.sb, group)?;
                let mut bit = self.bit;
                while bit < len && is_set(bitmap, bit) {
                    bit += 1;
                }
                let first = bit;
                while bit < len && bit - first < want && !is_set(bitmap, bit) {
                    set(bitmap, bit);
                    bit += 1;
                }
                self.bit = bit;
                let taken = bit - first;
                if taken > 0 {
                    self.groups.count_blocks(group, taken as i64)?;
                    // The superblock counts what the groups do.
                    let free = self.free_blocks.checked_sub(taken);
                    self.free_blocks = free.ok_or(BuildError::NotFresh(Unexpected::Superblock))?;
                    return Ok(Run { first: group_start(self.sb, group) + first, len: taken });
                }
            }
            self.group += 1;
            self.bit = 0;
        }
        Err(BuildError::NoSpace { size: self.sb.blocks * self.sb.block_size as u64 })
    }

    /// Gives back blocks that mke2fs had taken.
    pub(super) fn give_back(&mut self, run: Run) -> Result<(), BuildError> {
        for block in run.first..run.first + run.len {
            let index = block.checked_sub(self.sb.first_data_block);
            let index = index.ok_or(BuildError::NotFresh(Unexpected::Superblock))?;
            let group = index / self.sb.blocks_per_group;
            let bitmap = self.groups.block_bitmap(self.device, self.sb, group)?;
            clear(bitmap, index % self.sb.blocks_per_group);
            self.groups.count_blocks(group, -1)?;
            self.free_blocks += 1;
        }
        Ok(())
    }

    /// Writes whole blocks.
    pub(super) fn write(&self, block: u64, data: &[u8]) -> Result<(), BuildError> {
        Ok(self.device.write_at(block * self.sb.block_size as u64, data)?)
    }
}
