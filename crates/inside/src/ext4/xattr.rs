//! Extended attributes: kernel Documentation/filesystems/ext4, "Extended Attributes". They lie behind the inode's fields, and in
//! a block that several inodes may share.

use super::Blocks;
use super::inode::Inode;
use super::superblock::Superblock;
use crate::bytes::{Fields, crc32c};
use crate::error::{Damage, TreeError};

const MAGIC: u32 = 0xea02_0000;
/// Bytes before the first entry of a block.
const BLOCK_HEADER: usize = 32;
/// Where in it the checksum lies.
const CHECKSUM: usize = 16;
/// An entry without its name.
const ENTRY: usize = 16;

/// Namespaces, by the numbers that entries store.
pub(super) mod namespace {
    pub(crate) const SYSTEM: u8 = 7;
    pub(crate) const ENCRYPTION: u8 = 9;
}

/// The value of an attribute of an inode; none if it has no such attribute.
pub(super) fn get(
    sb: &Superblock,
    blocks: &Blocks,
    inode: &Inode,
    (namespace, name): (u8, &[u8]),
) -> Result<Option<Vec<u8>>, TreeError> {
    let bad = || TreeError::Corrupt(Damage::Inode(inode.number.into()));
    if let Some(value) = in_inode(inode, (namespace, name)).map_err(|Damaged| bad())? {
        return Ok(Some(value.to_vec()));
    }
    let number = inode.attribute_block();
    if number == 0 {
        return Ok(None);
    }
    let block = blocks.read(number)?;
    let fields = Fields(&block);
    // One block always: the header has room for more, but nobody ever wrote that.
    if fields.le32(0) != MAGIC || fields.le32(8) != 1 {
        return Err(bad());
    }
    if let Some(seed) = sb.checksum_seed {
        let mut crc = crc32c(seed, &number.to_le_bytes());
        crc = crc32c(crc, fields.slice(0, CHECKSUM));
        crc = crc32c(crc, &[0; 4]);
        crc = crc32c(crc, fields.slice(CHECKSUM.saturating_add(4), block.len()));
        if crc != fields.le32(CHECKSUM) {
            return Err(bad());
        }
    }
    let entries = block.get(BLOCK_HEADER..).unwrap_or(&[]);
    let value = find(entries, &block, (namespace, name)).map_err(|Damaged| bad())?;
    Ok(value.map(<[u8]>::to_vec))
}

/// The value of an attribute that lies in the inode itself.
pub(super) fn in_inode<'a>(inode: &'a Inode, name: (u8, &[u8])) -> Result<Option<&'a [u8]>, Damaged> {
    let space = inode.attribute_space();
    if Fields(space).le32(0) != MAGIC {
        return Ok(None);
    }
    let space = space.get(4..).unwrap_or(&[]);
    find(space, space, name)
}

/// Entries or values lie where none can.
pub(super) struct Damaged;

/// Looks through entries, whose values lie at offsets in `values`.
fn find<'a>(
    mut entries: &'a [u8],
    values: &'a [u8],
    (namespace, name): (u8, &[u8]),
) -> Result<Option<&'a [u8]>, Damaged> {
    // Entries end with four zero bytes, or where there is no room for another.
    while entries.len() >= ENTRY && Fields(entries).le32(0) != 0 {
        let entry = Fields(entries);
        let name_len = usize::from(entry.u8(0));
        if entry.u8(1) == namespace && entry.slice(ENTRY, name_len) == name {
            // The value of a large one lies in an inode of its own: none that is asked for here is so large.
            if entry.le32(4) != 0 {
                return Err(Damaged);
            }
            let start = usize::from(entry.le16(2));
            let len = usize::try_from(entry.le32(8)).map_err(|_| Damaged)?;
            let end = start.checked_add(len).ok_or(Damaged)?;
            return values.get(start..end).map(Some).ok_or(Damaged);
        }
        let next = ENTRY.saturating_add(name_len).next_multiple_of(4);
        entries = entries.get(next..).ok_or(Damaged)?;
    }
    Ok(None)
}
