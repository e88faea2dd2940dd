//! Directories: an index of names, sorted. Its top lies in the record, and the rest in blocks, which a bitmap says are in use.
//!
//! The blocks are read one after another rather than along the tree: none is read twice, so no damage makes that endless.

use atrest_codec::Record;
use atrest_filetree::TreeError;

use super::boot::Volume;
use super::inode::{Inode, flag, kind};
use super::record::restore;
use super::value::Value;
use crate::fault::Damage;
use atrest_filetree::Kind;

/// The name of a directory's index, "$I30", in 16-bit units.
const NAME: &[u8] = b"$\0I\x003\x000\0";
/// Bytes of the blocks of a directory that is read: some million names, as for ext4.
const MAX_SIZE: u64 = 512 << 20;
/// Names for DOS, which stand beside others of the same file.
const DOS: u8 = 2;

/// One name in a directory.
pub(super) struct Name<'a> {
    /// The file: its record's number, and above it how often that was used.
    pub(super) reference: u64,
    /// Number of the directory.
    pub(super) parent: u64,
    /// 16-bit units, as bytes.
    pub(super) name: &'a [u8],
    /// What it is; `None` if only its record tells.
    pub(super) kind: Option<Kind>,
}

/// Hands over every name in a directory, but those for DOS.
pub(super) fn each(
    volume: &Volume,
    directory: &Inode,
    with: &mut dyn FnMut(Name<'_>) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let number = directory.number;
    let bad = |at: u64| TreeError::from(Damage::Directory { inode: number, at });
    let Some(Value::Resident(root)) = directory.attribute(kind::INDEX_ROOT, NAME) else { return Err(bad(0)) };
    let header = root.first_chunk().map(Record::<16>::new).ok_or_else(|| bad(0))?;
    let block = usize::try_from(header.le32::<8>()).ok();
    let entries = root.get(16..).and_then(inside).ok_or_else(|| bad(0))?;
    names(entries, number, with)?;
    let Some(allocation) = directory.attribute(kind::INDEX_ALLOCATION, NAME) else { return Ok(()) };
    let block = block.filter(|size| matches!(size, 512..=65536) && size.is_power_of_two());
    let block = block.ok_or_else(|| bad(0))?;
    let bitmap = directory.attribute(kind::BITMAP, NAME).ok_or_else(|| bad(0))?;
    // A directory can't be larger than the volume, and what is kept of it has a bound on a large one, too.
    if allocation.size() > volume.size {
        return Err(bad(0));
    }
    if allocation.size() > MAX_SIZE {
        return Err(TreeError::TooLarge { limit: MAX_SIZE });
    }
    // cannot divide by zero: a block has 512 bytes at least.
    let blocks = allocation.size().checked_div(block as u64).unwrap_or(0);
    let mut bytes = vec![0; block];
    let mut bits = Bits { bitmap, volume, number, piece: Vec::new(), from: 0 };
    for place in 0..blocks {
        if !bits.is_set(place)? {
            continue;
        }
        // cannot overflow: it lies in the allocation.
        let at = place.saturating_mul(block as u64);
        allocation.read(volume, number, at, &mut bytes)?;
        restore(&mut bytes, b"INDX").ok_or_else(|| bad(at))?;
        let entries = bytes.get(24..).and_then(inside).ok_or_else(|| bad(at))?;
        names(entries, number, with)?;
    }
    Ok(())
}

/// The bitmap of blocks in use, of which a piece is at hand.
struct Bits<'a> {
    bitmap: &'a Value,
    volume: &'a Volume,
    number: u64,
    piece: Vec<u8>,
    from: u64,
}

impl Bits<'_> {
    fn is_set(&mut self, bit: u64) -> Result<bool, TreeError> {
        let byte = bit / 8;
        if byte >= self.bitmap.size() {
            return Err(Damage::Directory { inode: self.number, at: byte }.into());
        }
        // cannot be less: blocks are asked for in order.
        let mut at = usize::try_from(byte.saturating_sub(self.from)).unwrap_or(usize::MAX);
        if at >= self.piece.len() {
            // cannot be less: checked above.
            let left = usize::try_from(self.bitmap.size().saturating_sub(byte)).unwrap_or(usize::MAX);
            self.piece.resize(left.min(4096), 0);
            self.bitmap.read(self.volume, self.number, byte, &mut self.piece)?;
            (self.from, at) = (byte, 0);
        }
        let byte = self.piece.get(at).copied().ok_or(Damage::Directory { inode: self.number, at: byte })?;
        Ok(byte & (1 << (bit % 8)) != 0)
    }
}

/// The entries behind an index header, whose offset is counted from that header.
fn inside(node: &[u8]) -> Option<&[u8]> {
    let header = Record::<16>::new(node.first_chunk()?);
    let (first, end) = (usize::try_from(header.le32::<0>()).ok()?, usize::try_from(header.le32::<4>()).ok()?);
    node.get(first..end)
}

/// Hands over the names in a list of entries.
fn names(
    mut entries: &[u8],
    number: u64,
    with: &mut dyn FnMut(Name<'_>) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    const LAST: u16 = 2;
    loop {
        let bad = || TreeError::from(Damage::Directory { inode: number, at: 0 });
        let header = entries.first_chunk().map(Record::<16>::new).ok_or_else(bad)?;
        let (reference, len) = (header.le64::<0>(), usize::from(header.le16::<8>()));
        if header.le16::<12>() & LAST != 0 {
            return Ok(());
        }
        let (entry, rest) = entries.split_at_checked(len.max(16)).ok_or_else(bad)?;
        let key = entry.get(16..).and_then(|rest| rest.get(..usize::from(header.le16::<10>())));
        let (name, space) = parse(key.ok_or_else(bad)?, number, reference).ok_or_else(bad)?;
        if space != DOS {
            with(name)?;
        }
        entries = rest;
    }
}

/// A name and its name space, by the key of an entry.
fn parse(key: &[u8], parent: u64, reference: u64) -> Option<(Name<'_>, u8)> {
    let header = Record::<66>::new(key.first_chunk()?);
    let [len, space] = *header.array::<64, 2>();
    let name = key.get(66..)?.get(..usize::from(len).checked_mul(2)?)?;
    let flags = header.le32::<56>();
    let kind = match flags {
        // Links are files or directories, and look like them.
        _ if flags & (flag::REPARSE_POINT | flag::SYSTEM) != 0 => None,
        _ if flags & flag::DIRECTORY != 0 => Some(Kind::Directory),
        _ => Some(Kind::File),
    };
    Some((Name { reference, parent, name, kind }, space))
}
