//! Checkpoints: prelude, root, root again, prelude again.

use atrest_codec::Reader;

use super::log::{open_sealed, put_sealed};
use super::prelude::{PRELUDE_LEN, Prelude};
use super::{
    Aead, Chain, FormatError, Keys, Kind, LEAF_BLOCKS, MOST_BLOCKS, MOST_LEAF, MOST_NUMBER, MOST_ROOT,
    MOST_SNAPSHOTS, MOST_WINDOW, Part, TAG_LEN, summary,
};

/// The state of a volume after a log object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Number of the log object.
    pub number: u64,
    /// Chain value after it.
    pub chain: Chain,
    /// Number of the one behind it.
    pub successor: u64,
    /// The session that wrote it.
    pub session: [u8; 32],
    /// Counts the openings for writing.
    pub ordinal: u64,
    /// Numbers that a session may have under way at once, 1 to 64. It never changes.
    pub window: u8,
    /// The volume was made with a trusted store, and is not written without one.
    pub trusted: bool,
    /// Size of the volume in blocks.
    pub blocks: u64,
    /// The leaves of the map, by their number. What has no leaf reads as zeros.
    pub leaves: Vec<LeafRef>,
    /// The snapshots, by their identifiers.
    pub snapshots: Vec<SnapshotRef>,
}

/// A leaf of the map: its identity but for the volume's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRef {
    /// Which leaf.
    pub number: u64,
    /// The session that made it.
    pub session: [u8; 32],
    /// Its salt.
    pub salt: [u8; 16],
    /// Bytes in it, without the tag.
    pub len: u32,
    /// How it is sealed.
    pub aead: Aead,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// Its identifier.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Number of the checkpoint that it is.
    pub checkpoint: u64,
    /// Salt of that checkpoint.
    pub salt: [u8; 16],
}

impl LeafRef {
    /// The prelude of the leaf.
    pub fn prelude(&self, format: [u8; 16]) -> Prelude {
        Prelude {
            kind: Kind::Map,
            aead: self.aead,
            slots: 0,
            summary_len: self.len,
            number: self.number,
            format,
            session: self.session,
            salt: self.salt,
        }
    }
}

/// Seals a root. The prelude's lengths and number are set here.
///
/// # Errors
/// [`FormatError::Limit`] if it is longer than the format allows.
pub fn seal_root(keys: &Keys, mut prelude: Prelude, root: &Root) -> Result<(Prelude, Vec<u8>), FormatError> {
    let clear = encode(root)?;
    prelude.kind = Kind::Checkpoint;
    prelude.slots = 0;
    prelude.number = root.number;
    prelude.summary_len = u32::try_from(clear.len()).map_err(|_| FormatError::Limit)?;
    if prelude.summary_len > MOST_ROOT {
        return Err(FormatError::Limit);
    }
    let (cipher, front) = keys.seal(&prelude);
    let mut bytes = front.to_vec();
    put_sealed(&mut bytes, &cipher, Part::RootA, &clear)?;
    put_sealed(&mut bytes, &cipher, Part::RootB, &clear)?;
    bytes.extend_from_slice(&front);
    Ok((prelude, bytes))
}

/// Reads checkpoint `number` from all its bytes: by whichever copy of prelude and root is whole.
///
/// # Errors
/// Why neither copy is.
pub fn open_root(keys: &Keys, number: u64, bytes: &[u8]) -> Result<(Prelude, Root), FormatError> {
    let mut why = None;
    for prelude in [bytes.first_chunk::<PRELUDE_LEN>(), bytes.last_chunk::<PRELUDE_LEN>()] {
        match open_by(keys, number, bytes, prelude.ok_or(FormatError::Length)?) {
            Ok(opened) => return Ok(opened),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or(FormatError::Length)) // cannot be reached without a reason: both copies were tried
}

fn open_by(
    keys: &Keys,
    number: u64,
    bytes: &[u8],
    prelude: &[u8; PRELUDE_LEN],
) -> Result<(Prelude, Root), FormatError> {
    let (cipher, prelude) = keys.open(prelude)?;
    if (prelude.kind, prelude.number) != (Kind::Checkpoint, number) {
        return Err(FormatError::AnotherObject);
    }
    let sealed = usize::try_from(prelude.summary_len).ok().and_then(|len| len.checked_add(TAG_LEN));
    let sealed = sealed.ok_or(FormatError::Limit)?;
    let mut reader = Reader::at(bytes, PRELUDE_LEN)?;
    let (first, second) = (reader.bytes(sealed)?, reader.bytes(sealed)?);
    reader.bytes(PRELUDE_LEN)?;
    reader.finish().map_err(|_| FormatError::Length)?;
    let clear =
        open_sealed(&cipher, Part::RootA, first).or_else(|_| open_sealed(&cipher, Part::RootB, second))?;
    Ok((prelude, decode(&clear, number)?))
}

fn encode(root: &Root) -> Result<Vec<u8>, FormatError> {
    let count = |len: usize| u32::try_from(len).map(u32::to_le_bytes).map_err(|_| FormatError::Limit);
    if root.snapshots.len() > MOST_SNAPSHOTS as usize {
        return Err(FormatError::Limit);
    }
    let mut out = Vec::new();
    out.extend_from_slice(&root.number.to_le_bytes());
    out.extend_from_slice(&root.chain);
    out.extend_from_slice(&root.successor.to_le_bytes());
    out.extend_from_slice(&root.session);
    out.extend_from_slice(&root.ordinal.to_le_bytes());
    out.push(root.window);
    out.push(root.trusted.into());
    out.extend_from_slice(&root.blocks.to_le_bytes());
    out.extend_from_slice(&count(root.leaves.len())?);
    for leaf in &root.leaves {
        out.extend_from_slice(&leaf.number.to_le_bytes());
        out.extend_from_slice(&leaf.session);
        out.extend_from_slice(&leaf.salt);
        out.extend_from_slice(&leaf.len.to_le_bytes());
        out.push(leaf.aead.number());
    }
    out.extend_from_slice(&count(root.snapshots.len())?);
    for snapshot in &root.snapshots {
        out.extend_from_slice(&snapshot.id.to_le_bytes());
        out.extend_from_slice(&snapshot.checkpoint.to_le_bytes());
        out.extend_from_slice(&snapshot.salt);
        out.push(u8::try_from(snapshot.name.len()).map_err(|_| FormatError::Limit)?);
        out.extend_from_slice(snapshot.name.as_bytes());
    }
    Ok(out)
}

fn decode(clear: &[u8], number: u64) -> Result<Root, FormatError> {
    let mut reader = Reader::new(clear);
    let stated = reader.le64()?;
    let (chain, successor, session, ordinal) =
        (reader.array()?, reader.le64()?, reader.array()?, reader.le64()?);
    let window = reader.u8()?;
    let trusted = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(FormatError::Layout),
    };
    let blocks = reader.le64()?;
    if stated != number || successor <= number || successor > MOST_NUMBER {
        return Err(FormatError::Limit);
    }
    if window == 0 || window > MOST_WINDOW || blocks > MOST_BLOCKS {
        return Err(FormatError::Limit);
    }
    let mut leaves = Vec::<LeafRef>::new();
    for _ in 0..reader.le32()? {
        let leaf = leaf(&mut reader)?;
        let first = leaf.number.checked_mul(LEAF_BLOCKS).ok_or(FormatError::Limit)?;
        let ordered = leaves.last().is_none_or(|last| last.number < leaf.number);
        if first >= blocks || leaf.len > MOST_LEAF || !ordered {
            return Err(FormatError::Limit);
        }
        leaves.push(leaf);
    }
    let mut snapshots = Vec::<SnapshotRef>::new();
    let count = reader.le32()?;
    if count > MOST_SNAPSHOTS {
        return Err(FormatError::Limit);
    }
    for _ in 0..count {
        let (id, checkpoint, salt) = (reader.le64()?, reader.le64()?, reader.array()?);
        let snapshot = SnapshotRef { id, checkpoint, salt, name: summary::name(&mut reader)? };
        if checkpoint > number || snapshots.last().is_some_and(|last| last.id >= id) {
            return Err(FormatError::Limit);
        }
        snapshots.push(snapshot);
    }
    reader.finish()?;
    Ok(Root { number, chain, successor, session, ordinal, window, trusted, blocks, leaves, snapshots })
}

fn leaf(reader: &mut Reader<'_>) -> Result<LeafRef, FormatError> {
    let (number, session, salt, len) = (reader.le64()?, reader.array()?, reader.array()?, reader.le32()?);
    let aead = Aead::from_number(reader.u8()?).ok_or(FormatError::Layout)?;
    Ok(LeafRef { number, session, salt, len, aead })
}
