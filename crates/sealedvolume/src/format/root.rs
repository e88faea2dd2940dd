//! Checkpoints: prelude, root, root again, prelude again.

use core::fmt;

use atrest_codec::Reader;
use atrest_secret::{VolumeKey, wipe};

use super::log::{open_sealed, put_sealed};
use super::prelude::{PRELUDE_LEN, Prelude};
use super::{
    Aead, Chain, FormatError, FormatId, JournalMark, Keys, Kind, MOST_BLOCKS, MOST_KEYS, MOST_LEVEL,
    MOST_NODE, MOST_NUMBER, MOST_ROOT, MOST_SNAPSHOTS, MOST_WINDOW, Part, TAG_LEN, summary,
};

/// Flag of a root: the volume was made with a trusted store.
const TRUSTED: u8 = 1;
/// Flag of a root: a journal is in use.
const JOURNAL: u8 = 2;

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
    /// The journal that is in use.
    pub journal: Option<JournalMark>,
    /// The highest node of the map, the first of its level. Without one all blocks read as zeros, as those behind it do.
    pub map: Option<Prelude>,
    /// Keys of objects that the volume's present key has not made, by their volume and epoch.
    pub keys: Vec<OtherKey>,
    /// The snapshots, by their identifiers.
    pub snapshots: Vec<SnapshotRef>,
}

/// A key with which objects were made that a volume needs: one that it had before, or that of the volume that it is a clone of.
#[derive(PartialEq, Eq)]
pub struct OtherKey {
    /// The volume that has made the objects.
    pub format: FormatId,
    /// Which of that volume's keys it is.
    pub epoch: u32,
    /// The volume key, of 32 bytes.
    pub key: VolumeKey,
    /// Where the objects are, as whoever opens volumes names stores; nothing for the volume's own store.
    pub place: String,
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
    /// Volumes that are clones of it, and need what it needs.
    pub clones: Vec<FormatId>,
}

impl fmt::Debug for OtherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OtherKey");
        shown.field("format", &self.format).field("epoch", &self.epoch).field("place", &self.place);
        shown.finish_non_exhaustive()
    }
}

impl Clone for OtherKey {
    fn clone(&self) -> Self {
        let key = VolumeKey::copy_from(self.key.expose());
        Self { format: self.format, epoch: self.epoch, key, place: self.place.clone() }
    }
}

/// Seals a root. The prelude's lengths and number are set here.
///
/// # Errors
/// [`FormatError::Limit`] if it is longer than the format allows.
pub fn seal_root(keys: &Keys, mut prelude: Prelude, root: &Root) -> Result<(Prelude, Vec<u8>), FormatError> {
    let clear = encode(root)?;
    prelude.kind = Kind::Checkpoint;
    prelude.epoch = keys.epoch();
    prelude.slots = 0;
    prelude.number = root.number;
    let clear = &clear.0;
    prelude.summary_len = u32::try_from(clear.len()).map_err(|_| FormatError::Limit)?;
    if prelude.summary_len > MOST_ROOT {
        return Err(FormatError::Limit);
    }
    let (cipher, front) = keys.seal(&prelude);
    let mut bytes = front.to_vec();
    put_sealed(&mut bytes, &cipher, Part::RootA, clear)?;
    put_sealed(&mut bytes, &cipher, Part::RootB, clear)?;
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
    let clear = Clear(clear);
    Ok((prelude, decode(&clear.0, number)?))
}

/// A root as bytes. There may be keys in it: they are wiped when it goes.
struct Clear(Vec<u8>);

impl Drop for Clear {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Bytes that a root has at most. Where they are there from the start, the vector never grows, which would leave keys where it was.
fn most_len(root: &Root) -> Option<usize> {
    const FIXED: usize = 256;
    let keys =
        root.keys.iter().try_fold(0_usize, |sum, key| sum.checked_add(54)?.checked_add(key.place.len()));
    root.snapshots.iter().try_fold(keys?.checked_add(FIXED)?, |sum, snapshot| {
        let clones = snapshot.clones.len().checked_mul(16)?;
        sum.checked_add(34)?.checked_add(snapshot.name.len())?.checked_add(clones)
    })
}

fn encode(root: &Root) -> Result<Clear, FormatError> {
    let count = |len: usize| u32::try_from(len).map(u32::to_le_bytes).map_err(|_| FormatError::Limit);
    let lengths = root.keys.iter().all(|other| other.key.len() == 32);
    if !lengths || root.keys.len() > MOST_KEYS as usize || root.snapshots.len() > MOST_SNAPSHOTS as usize {
        return Err(FormatError::Limit);
    }
    let most = most_len(root).ok_or(FormatError::Limit)?;
    let mut clear = Clear(Vec::with_capacity(most));
    let out = &mut clear.0;
    out.extend_from_slice(&root.number.to_le_bytes());
    out.extend_from_slice(&root.chain);
    out.extend_from_slice(&root.successor.to_le_bytes());
    out.extend_from_slice(&root.session);
    out.extend_from_slice(&root.ordinal.to_le_bytes());
    out.push(root.window);
    out.push(u8::from(root.trusted) | if root.journal.is_some() { JOURNAL } else { 0 });
    out.extend_from_slice(&root.blocks.to_le_bytes());
    if root.journal.is_some() {
        let (id, covered) = JournalMark::encode(root.journal);
        out.extend_from_slice(&id);
        out.extend_from_slice(&covered);
    }
    match &root.map {
        None => out.push(0),
        Some(node) => {
            out.push(1);
            out.push(u8::try_from(node.slots).map_err(|_| FormatError::Limit)?);
            out.push(node.aead.number());
            out.extend_from_slice(&node.summary_len.to_le_bytes());
            out.extend_from_slice(&node.format);
            out.extend_from_slice(&node.session);
            out.extend_from_slice(&node.salt);
            out.extend_from_slice(&node.epoch.to_le_bytes());
        }
    }
    out.extend_from_slice(&count(root.keys.len())?);
    for other in &root.keys {
        out.extend_from_slice(&other.format);
        out.extend_from_slice(&other.epoch.to_le_bytes());
        out.extend_from_slice(other.key.expose());
        out.extend_from_slice(
            &u16::try_from(other.place.len()).map_err(|_| FormatError::Limit)?.to_le_bytes(),
        );
        out.extend_from_slice(other.place.as_bytes());
    }
    out.extend_from_slice(&count(root.snapshots.len())?);
    for snapshot in &root.snapshots {
        out.extend_from_slice(&snapshot.id.to_le_bytes());
        out.extend_from_slice(&snapshot.checkpoint.to_le_bytes());
        out.extend_from_slice(&snapshot.salt);
        out.push(u8::try_from(snapshot.name.len()).map_err(|_| FormatError::Limit)?);
        out.extend_from_slice(snapshot.name.as_bytes());
        out.push(u8::try_from(snapshot.clones.len()).map_err(|_| FormatError::Limit)?);
        snapshot.clones.iter().for_each(|clone| out.extend_from_slice(clone));
    }
    if out.len() > most {
        return Err(FormatError::Limit); // cannot happen
    }
    Ok(clear)
}

fn decode(clear: &[u8], number: u64) -> Result<Root, FormatError> {
    let mut reader = Reader::new(clear);
    let stated = reader.le64()?;
    let (chain, successor, session, ordinal) =
        (reader.array()?, reader.le64()?, reader.array()?, reader.le64()?);
    let window = reader.u8()?;
    let flags = reader.u8()?;
    if flags & !(TRUSTED | JOURNAL) != 0 {
        return Err(FormatError::Layout);
    }
    let trusted = flags & TRUSTED != 0;
    let blocks = reader.le64()?;
    let journal = match flags & JOURNAL {
        0 => None,
        _ => {
            let id = reader.le32()?;
            Some(JournalMark::decode(id, &reader.array()?)?.ok_or(FormatError::Layout)?)
        }
    };
    if stated != number || successor <= number || successor > MOST_NUMBER {
        return Err(FormatError::Limit);
    }
    if window == 0 || window > MOST_WINDOW || blocks > MOST_BLOCKS {
        return Err(FormatError::Limit);
    }
    let map = match reader.u8()? {
        0 => None,
        1 => Some(top(&mut reader)?),
        _ => return Err(FormatError::Layout),
    };
    let keys = other_keys(&mut reader)?;
    let mut snapshots = Vec::<SnapshotRef>::new();
    let count = reader.le32()?;
    if count > MOST_SNAPSHOTS {
        return Err(FormatError::Limit);
    }
    for _ in 0..count {
        let (id, checkpoint, salt) = (reader.le64()?, reader.le64()?, reader.array()?);
        let name = summary::name(&mut reader)?;
        let clones = (0..reader.u8()?).map(|_| reader.array()).collect::<Result<_, _>>()?;
        let snapshot = SnapshotRef { id, name, checkpoint, salt, clones };
        if checkpoint > number || snapshots.last().is_some_and(|last| last.id >= id) {
            return Err(FormatError::Limit);
        }
        snapshots.push(snapshot);
    }
    reader.finish()?;
    Ok(Root {
        number,
        chain,
        successor,
        session,
        ordinal,
        window,
        trusted,
        blocks,
        journal,
        map,
        keys,
        snapshots,
    })
}

fn top(reader: &mut Reader<'_>) -> Result<Prelude, FormatError> {
    let (level, aead) =
        (u32::from(reader.u8()?), Aead::from_number(reader.u8()?).ok_or(FormatError::Layout)?);
    let summary_len = reader.le32()?;
    let (format, session, salt, epoch) = (reader.array()?, reader.array()?, reader.array()?, reader.le32()?);
    if level > MOST_LEVEL || summary_len > MOST_NODE {
        return Err(FormatError::Limit);
    }
    let (kind, slots, number) = (Kind::Map, level, 0);
    Ok(Prelude { kind, aead, slots, summary_len, number, format, session, salt, epoch })
}

fn other_keys(reader: &mut Reader<'_>) -> Result<Vec<OtherKey>, FormatError> {
    let mut keys = Vec::<OtherKey>::new();
    let count = reader.le32()?;
    if count > MOST_KEYS {
        return Err(FormatError::Limit);
    }
    for _ in 0..count {
        let (format, epoch) = (reader.array()?, reader.le32()?);
        let key = VolumeKey::copy_from(reader.bytes(32)?);
        let len = reader.le16()?;
        let place = core::str::from_utf8(reader.bytes(len.into())?).map_err(|_| FormatError::Layout)?;
        if keys.last().is_some_and(|last| (last.format, last.epoch) >= (format, epoch)) {
            return Err(FormatError::Layout);
        }
        keys.push(OtherKey { format, epoch, key, place: place.to_owned() });
    }
    Ok(keys)
}
