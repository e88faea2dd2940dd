//! Extended attributes: kernel Documentation/filesystems/ext4, "Extended Attributes". They lie behind the inode's fields, and in
//! a block that several inodes may share.

use atrest_codec::{Le, ReadError, Reader, Record, crc32c, crc32c_without};
use atrest_filetree::TreeError;

use super::Blocks;
use super::inode::Inode;
use super::superblock::Superblock;
use crate::fault::Damage;

const MAGIC: u32 = 0xea02_0000;
/// Bytes before the first entry of a block.
const BLOCK_HEADER: usize = 32;

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
    let bad = || TreeError::from(Damage::Inode(inode.number.into()));
    if let Some(value) = in_inode(inode, (namespace, name)).map_err(|Damaged| bad())? {
        return Ok(Some(value.to_vec()));
    }
    let number = inode.attribute_block();
    if number == 0 {
        return Ok(None);
    }
    let block = blocks.read(number)?;
    let (header, entries) = block.split_first_chunk::<BLOCK_HEADER>().ok_or_else(bad)?;
    let header = Record::new(header);
    // One block always: the header has room for more, but nobody ever wrote that.
    if header.le32::<0>() != MAGIC || header.le32::<8>() != 1 {
        return Err(bad());
    }
    if let Some(seed) = sb.checksum_seed {
        let sum = crc32c_without(crc32c(seed, &number.to_le_bytes()), &block, 16..20);
        if sum != Some(header.le32::<16>()) {
            return Err(bad());
        }
    }
    let value = find(entries, &block, (namespace, name)).map_err(|Damaged| bad())?;
    Ok(value.map(<[u8]>::to_vec))
}

/// The value of an attribute that lies in the inode itself.
pub(super) fn in_inode<'a>(inode: &'a Inode, name: (u8, &[u8])) -> Result<Option<&'a [u8]>, Damaged> {
    // No attributes, or no room for any.
    match inode.attribute_space().split_first_chunk() {
        Some((magic, space)) if u32::from_le_bytes(*magic) == MAGIC => find(space, space, name),
        _ => Ok(None),
    }
}

/// Entries or values lie where none can.
pub(super) struct Damaged;

impl From<ReadError> for Damaged {
    fn from(_: ReadError) -> Self {
        Self
    }
}

/// An entry without its name: length of the name, namespace, offset of the value, inode with the value, length and hash of
/// the value.
type Fields = ([u8; 2], Le<u16>, Le<u32>, Le<u32>, Le<u32>);

/// Looks through entries, whose values lie at offsets in `values`.
fn find<'a>(
    entries: &'a [u8],
    values: &'a [u8],
    (namespace, name): (u8, &[u8]),
) -> Result<Option<&'a [u8]>, Damaged> {
    let mut entries = Reader::new(entries);
    // Entries end with four zero bytes, or where there is no room for another.
    while entries.remaining() > 0 && entries.zeros(4).is_err() {
        let ([name_len, space], Le(start), Le(inode), Le(len), Le(_)) = entries.field::<Fields>()?;
        let found = entries.bytes(name_len.into())?;
        if (space, found) == (namespace, name) {
            // The value of a large one lies in an inode of its own: none that is asked for here is so large.
            if inode != 0 {
                return Err(Damaged);
            }
            let start = usize::from(start);
            let len = usize::try_from(len).map_err(|_| Damaged)?;
            let end = start.checked_add(len).ok_or(Damaged)?;
            return values.get(start..end).map(Some).ok_or(Damaged);
        }
        // Each entry begins at a multiple of four bytes.
        entries.bytes(usize::from(name_len).wrapping_neg() % 4)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: (u8, &[u8]) = (namespace::ENCRYPTION, b"c");

    /// An entry without a value, as long as its name says.
    fn entry(name_len: u8, name: &[u8]) -> Vec<u8> {
        let mut entry = vec![name_len, namespace::ENCRYPTION];
        entry.resize(16, 0);
        entry.extend_from_slice(name);
        entry
    }

    #[test]
    fn an_entry_that_is_cut_off_is_no_shorter_entry() {
        let whole = [entry(1, b"c\0\0\0"), vec![0; 4]].concat();
        assert!(matches!(find(&whole, &whole, CONTEXT), Ok(Some([]))));
        // A name of nine bytes, of which one is there, is not the name of that byte.
        let cut = entry(9, b"c");
        assert!(matches!(find(&cut, &cut, CONTEXT), Err(Damaged)));
        // Nor are the first bytes of an entry the end of the list.
        for len in 1..16 {
            let cut = [entry(1, b"x\0\0\0"), entry(1, b"c")[..len].to_vec()].concat();
            assert!(matches!(find(&cut, &cut, CONTEXT), Err(Damaged)), "{len} bytes");
        }
    }
}
