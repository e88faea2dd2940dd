//! Map objects. Each is a leaf: where the blocks of one range of addresses lie. Whoever reads one has its identity from a root, so
//! that nothing of what stands before it is believed.

use std::collections::HashMap;

use atrest_codec::Reader;

use super::log::{open_sealed, put_sealed};
use super::prelude::{PRELUDE_LEN, Prelude};
use super::{
    Aead, FormatError, Keys, Kind, LEAF_BLOCKS, MOST_LEAF, MOST_NUMBER, MOST_SLOTS, MOST_SUMMARY, Part,
    counts,
};

/// The entries of a leaf, by address. What is in none reads as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// Runs of addresses that do not overlap, in ascending order.
    pub entries: Vec<LeafEntry>,
}

/// Neighbouring blocks that lie in neighbouring slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// The first block.
    pub start: u64,
    /// Blocks.
    pub len: u64,
    /// The log object.
    pub object: Prelude,
    /// The first slot.
    pub slot: u32,
}

/// Seals a leaf. The prelude's lengths are set here; its number says which leaf of the map it is.
///
/// # Errors
/// [`FormatError::Limit`] if it is longer than the format allows.
pub fn seal_leaf(keys: &Keys, mut prelude: Prelude, leaf: &Leaf) -> Result<(Prelude, Vec<u8>), FormatError> {
    let clear = encode(leaf, prelude.number)?;
    prelude.kind = Kind::Map;
    prelude.slots = 0;
    prelude.summary_len = u32::try_from(clear.len()).map_err(|_| FormatError::Limit)?;
    if prelude.summary_len > MOST_LEAF {
        return Err(FormatError::Limit);
    }
    let (cipher, front) = keys.seal(&prelude);
    let mut bytes = front.to_vec();
    put_sealed(&mut bytes, &cipher, Part::Leaf, &clear)?;
    Ok((prelude, bytes))
}

/// Reads the leaf that has this identity from all its bytes.
///
/// # Errors
/// [`FormatError::Length`], [`FormatError::Tag`], [`FormatError::Layout`] or [`FormatError::Limit`].
pub fn open_leaf(keys: &Keys, prelude: &Prelude, bytes: &[u8]) -> Result<Leaf, FormatError> {
    let (_, sealed) = bytes.split_at_checked(PRELUDE_LEN).ok_or(FormatError::Length)?;
    let clear = open_sealed(&keys.known(prelude), Part::Leaf, sealed)?;
    decode(&clear, prelude)
}

fn encode(leaf: &Leaf, number: u64) -> Result<Vec<u8>, FormatError> {
    let mut objects: Vec<&Prelude> = Vec::new();
    let mut known: HashMap<&Prelude, u64> = HashMap::new();
    for entry in &leaf.entries {
        known.entry(&entry.object).or_insert_with(|| {
            objects.push(&entry.object);
            (objects.len() as u64).wrapping_sub(1) // one was pushed
        });
    }
    let mut out = Vec::new();
    counts::put(&mut out, objects.len() as u64);
    for object in &objects {
        out.extend_from_slice(&object.number.to_le_bytes());
        out.extend_from_slice(&object.session);
        out.extend_from_slice(&object.salt);
        out.extend_from_slice(&object.slots.to_le_bytes());
        out.extend_from_slice(&object.summary_len.to_le_bytes());
        out.push(object.aead.number());
    }
    counts::put(&mut out, leaf.entries.len() as u64);
    let mut end = first_block(number)?;
    for entry in &leaf.entries {
        let index = known.get(&entry.object).ok_or(FormatError::Limit)?;
        counts::put(&mut out, entry.start.checked_sub(end).ok_or(FormatError::Limit)?);
        counts::put(&mut out, entry.len);
        counts::put(&mut out, *index);
        counts::put(&mut out, entry.slot.into());
        end = entry.start.checked_add(entry.len).ok_or(FormatError::Limit)?;
    }
    Ok(out)
}

fn decode(clear: &[u8], prelude: &Prelude) -> Result<Leaf, FormatError> {
    let mut reader = Reader::new(clear);
    let mut objects = Vec::new();
    for _ in 0..counts::take(&mut reader)? {
        objects.push(object(&mut reader, prelude)?);
    }
    let (mut end, mut entries) = (first_block(prelude.number)?, Vec::new());
    let last = end.checked_add(LEAF_BLOCKS).ok_or(FormatError::Limit)?;
    for _ in 0..counts::take(&mut reader)? {
        let start = end.checked_add(counts::take(&mut reader)?).ok_or(FormatError::Limit)?;
        let len = counts::take(&mut reader)?;
        let index = usize::try_from(counts::take(&mut reader)?).map_err(|_| FormatError::Limit)?;
        let object = *objects.get(index).ok_or(FormatError::Layout)?;
        let slot = u32::try_from(counts::take(&mut reader)?).map_err(|_| FormatError::Limit)?;
        end = start.checked_add(len).ok_or(FormatError::Limit)?;
        let slots = u64::from(slot).checked_add(len).ok_or(FormatError::Limit)?;
        if len == 0 || end > last || slots > object.slots.into() {
            return Err(FormatError::Limit);
        }
        entries.push(LeafEntry { start, len, object, slot });
    }
    reader.finish()?;
    Ok(Leaf { entries })
}

fn object(reader: &mut Reader<'_>, leaf: &Prelude) -> Result<Prelude, FormatError> {
    let (number, session, salt) = (reader.le64()?, reader.array()?, reader.array()?);
    let (slots, summary_len) = (reader.le32()?, reader.le32()?);
    let aead = Aead::from_number(reader.u8()?).ok_or(FormatError::Layout)?;
    if number > MOST_NUMBER || slots > MOST_SLOTS || summary_len > MOST_SUMMARY {
        return Err(FormatError::Limit);
    }
    Ok(Prelude { kind: Kind::Log, aead, slots, summary_len, number, format: leaf.format, session, salt })
}

fn first_block(number: u64) -> Result<u64, FormatError> {
    number.checked_mul(LEAF_BLOCKS).ok_or(FormatError::Limit)
}
