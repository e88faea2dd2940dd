//! All metadata of a littlefs, read by its specification and held against it: what the C library must not be given
//! unseen. File contents are not read; the library checks the references to them as it goes.

mod log;
mod tags;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use atrest_device::FlashDevice;

use crate::{MAX_ATTRIBUTE_LEN, MAX_FILE_LEN, MAX_NAME_LEN, MountError};
use log::{CheckFailure, Log, NULL, Pair};
use tags::Contents;

/// What is wrong with the metadata, and where.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Neither block of a pair holds a commit whose checksum is right.
    NoCommit {
        /// The blocks.
        pair: [u32; 2],
    },
    /// There is no superblock in the first pair of blocks, or behind it.
    NoSuperblock,
    /// A limit in the superblock is 0 or more than the format has.
    Limit {
        /// The stored value.
        value: u32,
    },
    /// A tag that no littlefs writes, or that does not fit what is before it.
    Tag {
        /// The block.
        block: u32,
        /// Byte in it.
        at: usize,
        /// Type of the tag.
        kind: u16,
    },
    /// The list of all directories runs in a circle.
    EndlessList {
        /// The pair that comes again.
        pair: [u32; 2],
    },
    /// A directory is not in the list of all directories.
    LostDirectory {
        /// Its blocks.
        pair: [u32; 2],
    },
    /// A directory is in two places, one of which may be inside it.
    SharedDirectory {
        /// Its blocks.
        pair: [u32; 2],
    },
    /// Two entries of a directory have one name: whoever walks by names sees one of them twice, and never the other.
    SameName {
        /// The blocks of the second one.
        pair: [u32; 2],
    },
    /// A place in a directory has no name, or a name without contents.
    Gap {
        /// The block.
        block: u32,
        /// The place, counted from 0.
        id: usize,
    },
    /// A directory goes on in blocks that hold no entry.
    EmptyContinuation {
        /// The blocks.
        pair: [u32; 2],
    },
    /// A move is under way of something that does not exist.
    Move {
        /// From this directory.
        pair: [u32; 2],
    },
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Version of the on-disk format, major in the upper 16 bits.
    pub version: u32,
    /// Bytes in an erase block.
    pub block_size: u32,
    /// Erase blocks.
    pub block_count: u32,
    /// Longest name.
    pub name_max: u32,
    /// Directories, the root included.
    pub directories: usize,
    /// Files.
    pub files: usize,
    /// Something was interrupted, which the first change will put in order.
    pub interrupted: bool,
}

/// Reads all metadata. Nothing is written.
///
/// # Errors
/// [`MountError::Damaged`] for what no littlefs writes, [`MountError::OtherGeometry`] and [`MountError::Version`] for one that is
/// not for this device or not for this library, [`MountError::Flash`] when the medium fails.
pub fn check<D: FlashDevice>(device: &mut D) -> Result<Summary, MountError> {
    walk(device).map_err(|failure| match failure {
        Failure::Check(CheckFailure::Flash(error)) => MountError::Flash(error),
        Failure::Check(CheckFailure::Damage(damage)) => MountError::Damaged(damage),
        Failure::Mount(error) => error,
    })
}

enum Failure {
    Check(CheckFailure),
    Mount(MountError),
}

impl From<CheckFailure> for Failure {
    fn from(failure: CheckFailure) -> Self {
        Self::Check(failure)
    }
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        Self::Check(damage.into())
    }
}

/// A directory: the pairs that its entries are in, and the directories among those.
#[derive(Default)]
struct Directory {
    pairs: Vec<Pair>,
    names: BTreeSet<Vec<u8>>,
    children: Vec<Child>,
}

/// An entry that is a directory.
struct Child {
    pair: Pair,
    /// The pair of blocks that it lies in, and its place there.
    inside: Pair,
    id: usize,
}

fn walk<D: FlashDevice>(device: &mut D) -> Result<Summary, Failure> {
    let geometry = device.geometry();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut directories: Vec<Directory> = Vec::new();
    let (mut superblock, mut root) = (None, 0);
    let (mut state, mut files) = ([0_u32; 3], 0_usize);
    let mut counts: BTreeMap<Pair, usize> = BTreeMap::new();
    let (mut next, mut continues) = (Some([0, 1]), false);
    while let Some(pair) = next {
        // A block has one place in the list.
        if !pair.into_iter().all(|block| seen.insert(block)) {
            return Err(Damage::EndlessList { pair }.into());
        }
        let contents = contents(device, pair)?;
        if !continues {
            directories.push(Directory::default());
        } else if contents.count == 0 {
            // littlefs takes such a pair out of the list in the commit that removes its last entry. Without an entry
            // `lfs_dir_read` gets lost in it: it looks at entry 0 before it compares with their number, and counts on up to
            // the id of the root. It then lists a directory `/`, and as a path that leads to the same directory again.
            return Err(Damage::EmptyContinuation { pair }.into());
        }
        if let Some(found) = contents.superblock {
            superblock = Some(found);
            // cannot overflow: a pair continues a directory, and the first one begins one.
            root = directories.len().saturating_sub(1);
        }
        let Some(directory) = directories.last_mut() else { break };
        directory.pairs.push(pair);
        let child = |&(id, own): &(usize, Pair)| Child { pair: own, inside: pair, id };
        directory.children.extend(contents.directories.iter().map(child));
        if !contents.names.into_iter().all(|name| directory.names.insert(name)) {
            return Err(Damage::SameName { pair }.into());
        }
        // cannot overflow: a medium has fewer entries than bytes.
        files = files.saturating_add(contents.files);
        counts.insert(sorted(pair), contents.count);
        for (sum, part) in state.iter_mut().zip(contents.state) {
            *sum ^= part;
        }
        continues = contents.tail.is_some_and(|(_, hard)| hard);
        next = contents.tail.map(|(pair, _)| pair);
    }
    let [version, block_size, block_count, name_max, file_max, attr_max] =
        superblock.ok_or(Damage::NoSuperblock)?;
    limits(name_max, file_max, attr_max)?;
    if version >> 16 != 2 || version & 0xffff > 1 {
        return Err(Failure::Mount(MountError::Version { version }));
    }
    if block_size != geometry.erase_size() || u64::from(block_count) != geometry.block_count() {
        return Err(Failure::Mount(MountError::OtherGeometry { block_size, block_count, device: geometry }));
    }
    let heads = heads(&directories);
    let strays = strays(device, &directories, &heads)?;
    let moved = pending_move(state, &counts)?;
    each_in_one_place(&directories, &heads, root, moved)?;
    let interrupted = !strays.is_empty() || state.iter().any(|word| *word != 0);
    // cannot overflow: the root is one of them.
    let count = directories.len().saturating_sub(root);
    Ok(Summary { version, block_size, block_count, name_max, directories: count, files, interrupted })
}

fn contents<D: FlashDevice>(device: &mut D, pair: Pair) -> Result<Contents, CheckFailure> {
    let geometry = device.geometry();
    Ok(tags::check(&Log::of_pair(device, pair)?, geometry)?)
}

fn limits(name_max: u32, file_max: u32, attr_max: u32) -> Result<(), Damage> {
    let limits =
        [(name_max, MAX_NAME_LEN as u64), (file_max, MAX_FILE_LEN), (attr_max, MAX_ATTRIBUTE_LEN as u64)];
    match limits.into_iter().find(|(value, most)| *value == 0 || u64::from(*value) > *most) {
        Some((value, _)) => Err(Damage::Limit { value }),
        None => Ok(()),
    }
}

/// Which directory each block begins.
fn heads(directories: &[Directory]) -> Heads {
    let firsts =
        directories.iter().enumerate().filter_map(|(i, directory)| Some((i, directory.pairs.first()?)));
    firsts.flat_map(|(i, pair)| pair.map(|block| (block, i))).filter(|(block, _)| *block != NULL).collect()
}

/// Directories by their blocks; a block has one place in the list of all directories.
type Heads = BTreeMap<u32, usize>;

/// The directory whose first pair this is, or was: one block of two is enough.
fn head(heads: &Heads, pair: Pair) -> Option<usize> {
    pair.iter().filter_map(|block| heads.get(block)).min().copied()
}

/// Every directory is in the list. A power loss while one was moved to other blocks leaves it there under its old pair, which
/// shares a block with the new one: then the new pair is checked, too.
fn strays<D: FlashDevice>(
    device: &mut D,
    directories: &[Directory],
    heads: &Heads,
) -> Result<Vec<Pair>, Failure> {
    let listed: BTreeSet<u32> =
        directories.iter().flat_map(|directory| &directory.pairs).flatten().copied().collect();
    let mut strays = Vec::new();
    for pair in directories.iter().flat_map(|directory| &directory.children).map(|child| child.pair) {
        let Some(found) = head(heads, pair) else {
            return Err(Damage::LostDirectory { pair }.into());
        };
        let exact = directories.get(found).and_then(|directory| directory.pairs.first());
        if exact.is_none_or(|listed| sorted(*listed) != sorted(pair)) {
            let contents = contents(device, pair)?;
            let known = contents.directories.iter().all(|(_, child)| head(heads, *child).is_some());
            if !known || contents.superblock.is_some() {
                return Err(Damage::LostDirectory { pair }.into());
            }
            if let Some((tail, _)) = contents.tail
                && !tail.iter().any(|block| *block != NULL && listed.contains(block))
            {
                return Err(Damage::LostDirectory { pair: tail }.into());
            }
            strays.push(pair);
        }
    }
    Ok(strays)
}

/// No directory is below itself, and none is in two places. While one is being moved, its old entry does not count.
fn each_in_one_place(
    directories: &[Directory],
    heads: &Heads,
    root: usize,
    moved: Option<(Pair, usize)>,
) -> Result<(), Damage> {
    let mut entered: BTreeSet<usize> = BTreeSet::from([root]);
    let mut ahead = vec![root];
    while let Some(directory) = ahead.pop().and_then(|own| directories.get(own)) {
        for child in &directory.children {
            let is_moved = moved.is_some_and(|(pair, id)| shares(pair, child.inside) && id == child.id);
            let Some(found) = head(heads, child.pair).filter(|_| !is_moved) else { continue };
            if !entered.insert(found) {
                return Err(Damage::SharedDirectory { pair: child.pair });
            }
            ahead.push(found);
        }
    }
    Ok(())
}

/// The entry that was being moved, which is one of a directory in the list.
fn pending_move(state: [u32; 3], counts: &BTreeMap<Pair, usize>) -> Result<Option<(Pair, usize)>, Damage> {
    let [tag, a, b] = state;
    if tag & 0x7000_0000 == 0 {
        return Ok(None);
    }
    let id = (tag >> 10 & 0x3ff) as usize;
    let known = counts.iter().any(|(pair, count)| shares(*pair, [a, b]) && id < *count);
    if known && tag >> 20 & 0x7ff == 0x4ff {
        Ok(Some(([a, b], id)))
    } else {
        Err(Damage::Move { pair: [a, b] })
    }
}

fn sorted([a, b]: Pair) -> Pair {
    [a.min(b), a.max(b)]
}

fn shares(a: Pair, b: Pair) -> bool {
    a.iter().any(|block| *block != NULL && b.contains(block))
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommit { pair: [a, b] } => write!(f, "blocks {a} and {b} hold no metadata"),
            Self::NoSuperblock => f.write_str("there is no superblock"),
            Self::Limit { value } => write!(f, "the superblock has a limit of {value}"),
            Self::Tag { block, at, kind } => {
                write!(f, "block {block} has an impossible tag of type {kind:#x} at byte {at}")
            }
            Self::EndlessList { pair: [a, b] } => {
                write!(f, "the list of directories runs in a circle at blocks {a} and {b}")
            }
            Self::LostDirectory { pair: [a, b] } => {
                write!(f, "the directory in blocks {a} and {b} is not in the list of directories")
            }
            Self::SharedDirectory { pair: [a, b] } => {
                write!(f, "the directory in blocks {a} and {b} is in two places, or inside itself")
            }
            Self::SameName { pair: [a, b] } => {
                write!(f, "blocks {a} and {b} hold an entry whose name another one has")
            }
            Self::Gap { block, id } => {
                write!(f, "block {block} has no name or no contents for entry {id}")
            }
            Self::EmptyContinuation { pair: [a, b] } => {
                write!(f, "a directory goes on in blocks {a} and {b}, which hold no entry")
            }
            Self::Move { pair: [a, b] } => {
                write!(f, "a move out of blocks {a} and {b} was interrupted, where nothing could be moved")
            }
        }
    }
}

impl core::error::Error for Damage {}
