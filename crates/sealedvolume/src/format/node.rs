//! Map objects. Each is a node of the tree that says where the blocks of a volume lie. Whoever reads one has its identity from the root or
//! from the node above it, so that nothing of what stands before it is believed. It stands twice in its object: a flipped bit costs nothing.

use std::collections::HashMap;

use atrest_codec::Reader;

use super::log::{open_sealed, put_sealed};
use super::prelude::{PRELUDE_LEN, Prelude};
use super::{
    Aead, FormatError, FormatId, Keys, Kind, LEAF_BLOCKS, MOST_LEVEL, MOST_NODE, MOST_NUMBER, MOST_SLOTS,
    MOST_SUMMARY, Part, TAG_LEN, counts,
};

/// Nodes below a branch, at most, as a number of bits.
const FANOUT_BITS: u32 = 6;
/// Nodes below a branch, at most.
pub const FANOUT: u64 = 1 << FANOUT_BITS;

/// A node of the map. Where a run is, it counts; where none is, the node below; where none is either, the blocks read as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The nodes below, in ascending order. A leaf has none.
    pub children: Vec<Prelude>,
    /// Runs of addresses that do not overlap, in ascending order. A leaf has no holes.
    pub runs: Vec<Run>,
}

/// Neighbouring blocks that lie in neighbouring slots, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub start: u64,
    /// Blocks.
    pub len: u64,
    /// The log object and the first slot; `None` for zeros.
    pub place: Option<(Prelude, u32)>,
}

/// Blocks that a node of this level describes. A leaf has level 0.
pub fn span(level: u32) -> u64 {
    // cannot overflow: 2^48 for the highest level.
    LEAF_BLOCKS.wrapping_shl(FANOUT_BITS.wrapping_mul(level.min(MOST_LEVEL)))
}

/// Where the first or the second copy of a node lies in its object: the first byte, and how many.
///
/// # Errors
/// [`FormatError::Limit`] if that does not fit.
pub fn node_place(prelude: &Prelude, second: bool) -> Result<(u64, usize), FormatError> {
    let len = usize::try_from(prelude.summary_len).ok().and_then(|len| len.checked_add(TAG_LEN));
    let len = len.ok_or(FormatError::Limit)?;
    let before = if second { PRELUDE_LEN.checked_add(len).ok_or(FormatError::Limit)? } else { PRELUDE_LEN };
    Ok((before as u64, len))
}

/// Seals a node. The prelude's length is set here; its number says which node of its level it is.
///
/// # Errors
/// [`FormatError::Limit`] if it is longer than the format allows.
pub fn seal_node(keys: &Keys, mut prelude: Prelude, node: &Node) -> Result<(Prelude, Vec<u8>), FormatError> {
    prelude.kind = Kind::Map;
    prelude.epoch = keys.epoch();
    let clear = encode(node, &prelude)?;
    prelude.summary_len = u32::try_from(clear.len()).map_err(|_| FormatError::Limit)?;
    if prelude.summary_len > MOST_NODE {
        return Err(FormatError::Limit);
    }
    let (cipher, front) = keys.seal(&prelude);
    let mut bytes = front.to_vec();
    put_sealed(&mut bytes, &cipher, Part::NodeA, &clear)?;
    put_sealed(&mut bytes, &cipher, Part::NodeB, &clear)?;
    Ok((prelude, bytes))
}

/// Reads the node that has this identity from one copy, as it lies at [`node_place`].
///
/// # Errors
/// [`FormatError::Key`] if there is no key for it, [`FormatError::Tag`], [`FormatError::Layout`] or [`FormatError::Limit`].
pub fn open_node(keys: &Keys, prelude: &Prelude, second: bool, sealed: &[u8]) -> Result<Node, FormatError> {
    let part = if second { Part::NodeB } else { Part::NodeA };
    let clear = open_sealed(&keys.known(prelude)?, part, sealed)?;
    decode(&clear, prelude)
}

/// What identifies the session that made an object: the volume, the session's salt, and which of the volume's keys it had.
type Maker = (FormatId, [u8; 32], u32);

fn maker(object: &Prelude) -> Maker {
    (object.format, object.session, object.epoch)
}

/// Things in the order in which they came first, each once.
struct Table<T> {
    all: Vec<T>,
    known: HashMap<T, u64>,
}

impl<T: Copy + Eq + core::hash::Hash> Table<T> {
    fn new() -> Self {
        Self { all: Vec::new(), known: HashMap::new() }
    }

    fn index(&mut self, thing: T) -> u64 {
        let next = self.all.len() as u64;
        let index = *self.known.entry(thing).or_insert(next);
        if index == next {
            self.all.push(thing);
        }
        index
    }
}

fn encode(node: &Node, prelude: &Prelude) -> Result<Vec<u8>, FormatError> {
    let (mut makers, mut objects) = (Table::new(), Table::new());
    let mut children = Vec::new();
    let (first, _) = bounds(prelude)?;
    let first_child = first_child(prelude)?;
    for child in &node.children {
        let index = child.number.checked_sub(first_child).filter(|index| *index < FANOUT);
        children.push(index.ok_or(FormatError::Limit)? as u8); // it is below FANOUT
        counts::put(&mut children, makers.index(maker(child)));
        children.extend_from_slice(&child.salt);
        counts::put(&mut children, child.summary_len.into());
        children.push(child.aead.number());
    }
    let mut runs = Vec::new();
    let mut end = first;
    for run in &node.runs {
        counts::put(&mut runs, run.start.checked_sub(end).ok_or(FormatError::Limit)?);
        counts::put(&mut runs, run.len);
        match &run.place {
            None => counts::put(&mut runs, 0),
            Some((object, slot)) => {
                let index = objects.index(*object).checked_add(1).ok_or(FormatError::Limit)?;
                counts::put(&mut runs, index);
                counts::put(&mut runs, (*slot).into());
            }
        }
        end = run.start.checked_add(run.len).ok_or(FormatError::Limit)?;
    }
    let mut described = Vec::new();
    for object in &objects.all {
        counts::put(&mut described, makers.index(maker(object)));
        counts::put(&mut described, object.number);
        described.extend_from_slice(&object.salt);
        counts::put(&mut described, object.slots.into());
        counts::put(&mut described, object.summary_len.into());
        described.push(object.aead.number());
    }
    let mut out = Vec::new();
    counts::put(&mut out, makers.all.len() as u64);
    for (format, session, epoch) in &makers.all {
        out.extend_from_slice(format);
        out.extend_from_slice(session);
        out.extend_from_slice(&epoch.to_le_bytes());
    }
    for (count, bytes) in
        [(node.children.len(), children), (objects.all.len(), described), (node.runs.len(), runs)]
    {
        counts::put(&mut out, count as u64);
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

fn decode(clear: &[u8], prelude: &Prelude) -> Result<Node, FormatError> {
    let mut reader = Reader::new(clear);
    // Nothing is set aside for what a count promises: each thing takes bytes of what is there.
    let mut makers = Vec::new();
    for _ in 0..counts::take(&mut reader)? {
        makers.push((reader.array()?, reader.array()?, reader.le32()?));
    }
    let first_child = first_child(prelude)?;
    let mut children = Vec::<Prelude>::new();
    for _ in 0..counts::take(&mut reader)? {
        let child = child(&mut reader, &makers, prelude, first_child)?;
        if children.last().is_some_and(|last| last.number >= child.number) {
            return Err(FormatError::Layout);
        }
        children.push(child);
    }
    let mut objects = Vec::new();
    for _ in 0..counts::take(&mut reader)? {
        objects.push(object(&mut reader, &makers)?);
    }
    let ((mut end, last), mut runs) = (bounds(prelude)?, Vec::new());
    for _ in 0..counts::take(&mut reader)? {
        let start = end.checked_add(counts::take(&mut reader)?).ok_or(FormatError::Limit)?;
        let len = counts::take(&mut reader)?;
        let place = match counts::take(&mut reader)?.checked_sub(1) {
            None if prelude.slots == 0 => return Err(FormatError::Layout),
            None => None,
            Some(index) => {
                let index = usize::try_from(index).map_err(|_| FormatError::Limit)?;
                let object = *objects.get(index).ok_or(FormatError::Layout)?;
                let slot = u32::try_from(counts::take(&mut reader)?).map_err(|_| FormatError::Limit)?;
                let slots = u64::from(slot).checked_add(len).ok_or(FormatError::Limit)?;
                if slots > object.slots.into() {
                    return Err(FormatError::Limit);
                }
                Some((object, slot))
            }
        };
        end = start.checked_add(len).ok_or(FormatError::Limit)?;
        if len == 0 || end > last {
            return Err(FormatError::Limit);
        }
        runs.push(Run { start, len, place });
    }
    reader.finish()?;
    Ok(Node { children, runs })
}

fn made_by(reader: &mut Reader<'_>, makers: &[Maker]) -> Result<Maker, FormatError> {
    let index = usize::try_from(counts::take(reader)?).map_err(|_| FormatError::Limit)?;
    makers.get(index).copied().ok_or(FormatError::Layout)
}

fn child(
    reader: &mut Reader<'_>,
    makers: &[Maker],
    above: &Prelude,
    first: u64,
) -> Result<Prelude, FormatError> {
    let index = u64::from(reader.u8()?);
    let (format, session, epoch) = made_by(reader, makers)?;
    let salt = reader.array()?;
    let summary_len = short(counts::take(reader)?, MOST_NODE)?;
    let aead = Aead::from_number(reader.u8()?).ok_or(FormatError::Layout)?;
    let level = above.slots.checked_sub(1).ok_or(FormatError::Layout)?;
    let number = first.checked_add(index).filter(|_| index < FANOUT).ok_or(FormatError::Limit)?;
    Ok(Prelude { kind: Kind::Map, aead, slots: level, summary_len, number, format, session, salt, epoch })
}

fn object(reader: &mut Reader<'_>, makers: &[Maker]) -> Result<Prelude, FormatError> {
    let (format, session, epoch) = made_by(reader, makers)?;
    let (number, salt) = (counts::take(reader)?, reader.array()?);
    let slots = short(counts::take(reader)?, MOST_SLOTS)?;
    let summary_len = short(counts::take(reader)?, MOST_SUMMARY)?;
    let aead = Aead::from_number(reader.u8()?).ok_or(FormatError::Layout)?;
    if number > MOST_NUMBER {
        return Err(FormatError::Limit);
    }
    Ok(Prelude { kind: Kind::Log, aead, slots, summary_len, number, format, session, salt, epoch })
}

fn short(number: u64, most: u32) -> Result<u32, FormatError> {
    u32::try_from(number).ok().filter(|number| *number <= most).ok_or(FormatError::Limit)
}

/// The blocks that a node describes: the first, and the first behind them.
fn bounds(prelude: &Prelude) -> Result<(u64, u64), FormatError> {
    let span = span(prelude.slots);
    let first = prelude.number.checked_mul(span).ok_or(FormatError::Limit)?;
    Ok((first, first.checked_add(span).ok_or(FormatError::Limit)?))
}

fn first_child(prelude: &Prelude) -> Result<u64, FormatError> {
    prelude.number.checked_mul(FANOUT).ok_or(FormatError::Limit)
}
