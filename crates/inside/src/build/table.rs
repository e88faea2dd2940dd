//! The inode table, written one block after the other.

use atrest_device::BlockDevice;

use super::groups::{Groups, inode_place};
use super::inode::FIELDS;
use super::superblock::Superblock;
use super::{BuildError, Unexpected};

/// The block of the table that is being filled.
#[derive(Default)]
pub(super) struct Table {
    block: u64,
    bytes: Vec<u8>,
}

impl Table {
    /// The bytes of an inode: its fields, and the space for attributes behind them.
    pub(super) fn get(
        &mut self,
        device: &dyn BlockDevice,
        sb: &Superblock,
        groups: &Groups,
        number: u32,
    ) -> Result<(&mut [u8; FIELDS], &mut [u8]), BuildError> {
        let (group, index) = inode_place(sb, number);
        let at = u64::from(index) * sb.inode_size as u64;
        let size = sb.block_size as u64;
        let block = groups.descriptor(group)?.inode_table() + at / size;
        if block != self.block {
            self.write(device, sb)?;
            self.bytes.resize(sb.block_size, 0);
            device.read_at(block * size, &mut self.bytes)?;
            self.block = block;
        }
        let at = (at % size) as usize;
        let raw = self.bytes.get_mut(at..at + sb.inode_size).and_then(|raw| raw.split_first_chunk_mut());
        raw.ok_or(BuildError::NotFresh(Unexpected::Inode(number)))
    }

    /// Writes what is still held. Block 0 holds no inodes: nothing is held at first.
    pub(super) fn write(&mut self, device: &dyn BlockDevice, sb: &Superblock) -> Result<(), BuildError> {
        if self.block != 0 {
            device.write_at(self.block * sb.block_size as u64, &self.bytes)?;
        }
        Ok(())
    }
}
