//! What the tags of one log may say, and the entries that they add up to.

use atrest_device::FlashGeometry;

use super::Damage;
use super::log::{Log, NULL, Pair, Tag};
use crate::{MAX_FILE_LEN, MAX_NAME_LEN};

/// Ids count from 0; this one stands for "none".
const NO_ID: u16 = 0x3ff;

/// What a directory block holds.
#[derive(Default)]
pub(super) struct Contents {
    /// Ids and pairs of the directories in it.
    pub directories: Vec<(usize, Pair)>,
    /// Files in it.
    pub files: usize,
    /// Names of both.
    pub names: Vec<Vec<u8>>,
    /// Entries of any kind.
    pub count: usize,
    /// The next pair in the list of all; whether it continues this directory.
    pub tail: Option<(Pair, bool)>,
    /// This pair's share of the global state.
    pub state: [u32; 3],
    /// The superblock's words, if it is here: version, block size, block count, limits of names, files and attributes.
    pub superblock: Option<[u32; 6]>,
}

/// One entry while the log is followed.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Kind of its name tag.
    name: u16,
    /// The name itself.
    text: Option<Tag>,
    /// Its structure.
    structure: Option<Tag>,
}

/// Holds every tag against the specification and returns the entries.
pub(super) fn check(log: &Log, geometry: FlashGeometry) -> Result<Contents, Damage> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut contents = Contents::default();
    for tag in &log.tags {
        let wrong = Damage::Tag { block: log.block, at: tag.at, kind: tag.kind };
        let id = usize::from(tag.id);
        let valid = match tag.kind {
            0x001 | 0x002 | 0x0ff => name(log, tag, &mut entries),
            0x200..=0x202 => {
                structure(log, tag, geometry) && {
                    let entry = entries.get_mut(id);
                    entry.map(|entry| entry.structure = Some(*tag)).is_some()
                }
            }
            0x300..=0x3ff => id < entries.len(),
            0x401 => {
                tag.len == 0 && id <= entries.len() && entries.len() < usize::from(NO_ID) && {
                    entries.insert(id, Entry::default());
                    true
                }
            }
            0x4ff => {
                id < entries.len() && {
                    entries.remove(id);
                    true
                }
            }
            0x500..=0x57f => tag.len >= 4,
            0x5ff => tag.len == 8,
            0x600 | 0x601 => log.words(tag).is_some_and(|pair| {
                contents.tail = (pair != [NULL; 2]).then_some((pair, tag.kind == 0x601));
                contents.tail.is_none() || in_range(pair, geometry)
            }),
            0x7ff => log.words(tag).map(|state| contents.state = state).is_some(),
            // Among them those that the library uses in memory only, with pointers for data: 0x100 to 0x1ff.
            _ => false,
        };
        if !valid {
            return Err(wrong);
        }
    }
    contents.count = entries.len();
    for (id, entry) in entries.into_iter().enumerate() {
        // Each commit of littlefs that makes an entry gives it both. With gaps, few bytes hold up to 1023 places. The library
        // divides a directory by its places: what it writes then has blocks without entries, in which it gets lost.
        let (Some(text), Some(tag)) = (entry.text, entry.structure) else {
            return Err(Damage::Gap { block: log.block, id });
        };
        let wrong = Damage::Tag { block: log.block, at: tag.at, kind: tag.kind };
        match (entry.name, tag.kind) {
            (0x002, 0x200) => contents.directories.push((id, log.words(&tag).ok_or(wrong)?)),
            // cannot overflow: a block has fewer entries than bytes.
            (0x001, 0x201 | 0x202) => contents.files = contents.files.saturating_add(1),
            (0x0ff, 0x201) => contents.superblock = Some(log.words(&tag).ok_or(wrong)?),
            _ => return Err(wrong),
        }
        if matches!(entry.name, 0x001 | 0x002) {
            contents.names.push(log.data(&text).to_vec());
        }
    }
    Ok(contents)
}

/// A name belongs to an entry that is there, or makes one at the end: a compacted log has names in the order in which they
/// were given, and fills the gaps later.
fn name(log: &Log, tag: &Tag, entries: &mut Vec<Entry>) -> bool {
    let text = log.data(tag);
    let valid = if tag.kind == 0x0ff {
        text == b"littlefs"
    } else {
        let length = (1..=MAX_NAME_LEN).contains(&text.len());
        length && text != b"." && text != b".." && !text.iter().any(|byte| matches!(byte, 0 | b'/'))
    };
    let id = usize::from(tag.id);
    if id >= entries.len() && tag.id < NO_ID {
        // cannot overflow: an id has ten bits.
        entries.resize(id.saturating_add(1), Entry::default());
    }
    valid && entries.get_mut(id).map(|entry| (entry.name, entry.text) = (tag.kind, Some(*tag))).is_some()
}

fn structure(log: &Log, tag: &Tag, geometry: FlashGeometry) -> bool {
    match tag.kind {
        0x200 => log.words(tag).is_some_and(|pair| in_range(pair, geometry)),
        0x202 => log.words(tag).is_some_and(|[head, size]| {
            let fits = u64::from(size) <= geometry.size().min(MAX_FILE_LEN);
            fits && (size == 0 || u64::from(head) < geometry.block_count())
        }),
        _ => !tag.deletes,
    }
}

fn in_range(pair: Pair, geometry: FlashGeometry) -> bool {
    let [a, b] = pair;
    a != b && pair.iter().all(|block| u64::from(*block) < geometry.block_count())
}
