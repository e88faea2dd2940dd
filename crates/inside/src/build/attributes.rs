//! Extended attributes, in the inode behind its fields and in one block of its own:
//! kernel Documentation/filesystems/ext4, "Extended Attributes".

use super::put;
use crate::bytes::{Fields, crc32c};

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
        self.value.chunks(4).fold(name, |hash, word| hash.rotate_left(16) ^ Fields(&padded(word)).le32(0))
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

    /// Fills the space behind the fields of an inode.
    pub(super) fn write_inside(&self, space: &mut [u8]) {
        if !self.inside.is_empty() {
            put::le32(space, 0, MAGIC);
            entries(space.get_mut(4..).unwrap_or(&mut []), 0, &self.inside, false);
        }
    }

    /// The block for the others, to lie at `block`. `seed` is the filesystem's.
    pub(super) fn block(&self, block: u64, seed: u32, block_size: usize) -> Vec<u8> {
        let mut out = vec![0; block_size];
        put::le32(&mut out, 0, MAGIC);
        // One inode refers to it, and it is one block long.
        put::le32(&mut out, 4, 1);
        put::le32(&mut out, 8, 1);
        let hash = self.block.iter().fold(0_u32, |hash, attribute| hash.rotate_left(16) ^ attribute.hash());
        put::le32(&mut out, 12, hash);
        entries(&mut out, BLOCK_HEADER, &self.block, true);
        let sum = crc32c(crc32c(seed, &block.to_le_bytes()), &out);
        put::le32(&mut out, 16, sum);
        out
    }
}

/// Writes entries from byte `at` of `space` on, and their values from its end downwards.
fn entries(space: &mut [u8], mut at: usize, attributes: &[Attribute], hashed: bool) {
    let mut end = space.len();
    for attribute in attributes {
        end = end.saturating_sub(attribute.value_len());
        put::bytes(space, at, &[attribute.name.len() as u8, attribute.space]);
        put::le16(space, at + 2, if attribute.value.is_empty() { 0 } else { end as u16 });
        put::le32(space, at + 8, attribute.value.len() as u32);
        put::le32(space, at + 12, if hashed { attribute.hash() } else { 0 });
        put::bytes(space, at + ENTRY, &attribute.name);
        put::bytes(space, end, &attribute.value);
        at += attribute.entry_len();
    }
}

fn padded(word: &[u8]) -> [u8; 4] {
    Fields(word).0.iter().zip(0..4_usize).fold([0; 4], |mut bytes, (byte, i)| {
        put::bytes(&mut bytes, i, &[*byte]);
        bytes
    })
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
