//! Extended attributes, in the inode behind its fields and in one block of its own:
//! kernel Documentation/filesystems/ext4, "Extended Attributes".

use atrest_codec::{Le, RecordMut, WriteError, Writer, crc32c, encode};

const MAGIC: u32 = 0xea02_0000;
/// An entry without its name.
const ENTRY: usize = 16;
const BLOCK_HEADER: usize = 32;
/// The four zero bytes behind the last entry.
const END: usize = 4;

/// One attribute: its namespace's number, its name in there, and its value as ext4 stores it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    pub(super) space: u8,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Attribute {
    /// The context that says how an inode is encrypted.
    pub(super) fn context(value: Vec<u8>) -> Self {
        Self { space: 9, name: b"c".to_vec(), value }
    }

    fn entry_len(&self) -> usize {
        (ENTRY + self.name.len()).next_multiple_of(4)
    }

    fn value_len(&self) -> usize {
        self.value.len().next_multiple_of(4)
    }

    fn len(&self) -> usize {
        self.entry_len() + self.value_len()
    }

    /// A hash of name and value, by which the kernel finds equal blocks.
    fn hash(&self) -> u32 {
        let name = self.name.iter().fold(0_u32, |hash, byte| hash.rotate_left(5) ^ u32::from(*byte));
        let (words, last) = self.value.as_chunks::<4>();
        // A value that is no multiple of four bytes is padded with zeros.
        let last = match *last {
            [] => None,
            [a] => Some([a, 0, 0, 0]),
            [a, b] => Some([a, b, 0, 0]),
            [a, b, c] => Some([a, b, c, 0]),
            [a, b, c, d, ..] => Some([a, b, c, d]),
        };
        let words = words.iter().copied().chain(last).map(u32::from_le_bytes);
        words.fold(name, |hash, word| hash.rotate_left(16) ^ word)
    }
}

/// Which attributes go into the inode and which into a block.
pub(super) struct Placed {
    inside: Vec<Attribute>,
    block: Vec<Attribute>,
}

impl Placed {
    /// Places attributes, the first ones in the inode as long as `room` bytes behind the inode's fields last. `None` if the
    /// others do not fit into a block.
    pub(super) fn new(attributes: Vec<Attribute>, room: usize, block_size: usize) -> Option<Self> {
        let (mut inside, mut block) = (Vec::new(), Vec::new());
        // intended: without room for one, none is placed there.
        let mut left = room.saturating_sub(4 + END);
        for attribute in attributes {
            match left.checked_sub(attribute.len()) {
                Some(rest) => {
                    left = rest;
                    inside.push(attribute);
                }
                None => block.push(attribute),
            }
        }
        // Looked up in this order by the kernel.
        block.sort_by(|a, b| (a.space, a.name.len(), &a.name).cmp(&(b.space, b.name.len(), &b.name)));
        let needs: usize = block.iter().map(Attribute::len).sum();
        (BLOCK_HEADER + END + needs <= block_size).then_some(Self { inside, block })
    }

    pub(super) fn needs_block(&self) -> bool {
        !self.block.is_empty()
    }

    /// Fills the space behind the fields of an inode, which is zeros.
    pub(super) fn write_inside(&self, space: &mut [u8]) -> Result<(), WriteError> {
        if self.inside.is_empty() {
            return Ok(());
        }
        let (magic, space) = space.split_first_chunk_mut().ok_or(WriteError::Full)?;
        *magic = MAGIC.to_le_bytes();
        entries(space, 0, &self.inside, false)
    }

    /// The block for the others, to lie at `block`. `seed` is the filesystem's.
    pub(super) fn block(&self, block: u64, seed: u32, block_size: usize) -> Result<Vec<u8>, WriteError> {
        let mut out = vec![0; block_size];
        let hash = self.block.iter().fold(0_u32, |hash, attribute| hash.rotate_left(16) ^ attribute.hash());
        entries(&mut out, BLOCK_HEADER, &self.block, true)?;
        let header = out.first_chunk_mut::<BLOCK_HEADER>().ok_or(WriteError::Full)?;
        // One inode refers to it, and it is one block long.
        let fields = (Le(MAGIC), Le(1_u32), Le(1_u32), Le(hash), Le(0_u32), [0; 12]);
        *header = encode(fields);
        let sum = crc32c(crc32c(seed, &block.to_le_bytes()), &out);
        let header = out.first_chunk_mut::<BLOCK_HEADER>().ok_or(WriteError::Full)?;
        RecordMut::new(header).set_le32::<16>(sum);
        Ok(out)
    }
}

/// Writes entries from byte `at` of `space` on, and their values from its end downwards.
fn entries(space: &mut [u8], at: usize, attributes: &[Attribute], hashed: bool) -> Result<(), WriteError> {
    let mut end = space.len();
    let mut places = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        end = end.checked_sub(attribute.value_len()).ok_or(WriteError::Full)?;
        let value = end.checked_add(attribute.value.len()).and_then(|behind| space.get_mut(end..behind));
        value.ok_or(WriteError::Full)?.copy_from_slice(&attribute.value);
        places.push(if attribute.value.is_empty() { 0 } else { end });
    }
    // The entries and the zeros that end them do not reach the values.
    let free = space.get_mut(at..end).ok_or(WriteError::Full)?;
    let mut writer = Writer::new(free);
    for (attribute, place) in attributes.iter().zip(places) {
        let name_len = u8::try_from(attribute.name.len()).map_err(|_| WriteError::Full)?;
        let place = u16::try_from(place).map_err(|_| WriteError::Full)?;
        let value_len = u32::try_from(attribute.value.len()).map_err(|_| WriteError::Full)?;
        let hash = if hashed { attribute.hash() } else { 0 };
        writer.field(([name_len, attribute.space], Le(place), Le(0_u32), Le(value_len), Le(hash)))?;
        writer.bytes(&attribute.name)?;
        writer.zeros(attribute.entry_len() - ENTRY - attribute.name.len())?;
    }
    writer.zeros(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, len: usize) -> Attribute {
        Attribute { space: 1, name: name.into(), value: vec![7; len] }
    }

    #[test]
    fn what_no_inode_and_block_hold_is_refused() {
        let fits = |lengths: &[usize]| {
            let list = lengths.iter().map(|len| attribute("a", *len)).collect();
            Placed::new(list, 96, 4096).map(|placed| placed.needs_block())
        };
        // An entry takes 20 bytes here; the header and the end 8 of an inode's 96, and 36 of a block's 4096.
        assert_eq!(fits(&[]), Some(false));
        assert_eq!(fits(&[68]), Some(false));
        assert_eq!(fits(&[69]), Some(true));
        assert_eq!(fits(&[4040]), Some(true));
        assert_eq!(fits(&[4041]), None);
        assert_eq!(fits(&[68, 2000, 2020]), Some(true));
        assert_eq!(fits(&[68, 2000, 2024]), None);
    }
}
