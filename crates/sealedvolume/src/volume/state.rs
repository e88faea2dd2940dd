//! What an opening knows of a volume: where in the history it stands, and where every block lies.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Head, VolumeError};
use crate::format::{
    Extent, LEAF_BLOCKS, LeafRef, LogObject, Operation, Prelude, Root, SnapshotRef, names, open_leaf,
};
use crate::volume::extents::{Extents, Place};
use crate::volume::lru::Lru;
use crate::volume::objects::Objects;

/// A state of the volume: a checkpoint, and what the log says behind it.
pub(crate) struct State {
    pub(crate) head: Head,
    pub(crate) successor: u64,
    pub(crate) session: [u8; 32],
    pub(crate) ordinal: u64,
    pub(crate) window: u64,
    /// The volume was made with a trusted store.
    pub(crate) trusted: bool,
    pub(crate) blocks: u64,
    pub(crate) leaves: BTreeMap<u64, LeafRef>,
    pub(crate) snapshots: BTreeMap<u64, SnapshotRef>,
    /// What was written behind the checkpoint.
    pub(crate) recent: Extents,
    /// Leaves that have been read, by their salts.
    cache: Lru<[u8; 16], Arc<Extents>>,
}

impl State {
    pub(crate) fn of(root: Root, cached_entries: usize) -> Self {
        Self {
            head: Head { number: root.number, chain: root.chain },
            successor: root.successor,
            session: root.session,
            ordinal: root.ordinal,
            window: root.window.into(),
            trusted: root.trusted,
            blocks: root.blocks,
            leaves: root.leaves.into_iter().map(|leaf| (leaf.number, leaf)).collect(),
            snapshots: root.snapshots.into_iter().map(|snapshot| (snapshot.id, snapshot)).collect(),
            recent: Extents::default(),
            cache: Lru::new(cached_entries),
        }
    }

    /// Whether a log object is the next one of this history.
    pub(crate) fn is_followed_by(&self, object: &LogObject) -> bool {
        let (prelude, summary) = (&object.prelude, &object.summary);
        let next = if summary.begin {
            Some(summary.ordinal) == self.ordinal.checked_add(1)
                && summary.successor == prelude.number + self.window
        } else {
            summary.ordinal == self.ordinal
                && prelude.session == self.session
                && summary.successor == prelude.number + 1
        };
        next && prelude.number == self.successor
            && summary.before == self.head.number
            && summary.before_chain == self.head.chain
            && summary.blocks == self.blocks
    }

    /// Goes on to the next log object.
    pub(crate) fn step(&mut self, object: &LogObject) {
        let (prelude, summary) = (&object.prelude, &object.summary);
        let shared = Arc::new(*prelude);
        let mut slot = 0;
        for Extent { start, len, trim } in &summary.extents {
            if *trim {
                self.recent.insert(*start, *len, Place::Hole);
            } else {
                self.recent.insert(*start, *len, Place::Stored(Arc::clone(&shared), slot));
                slot += *len as u32; // the summary was made or read with as many slots as its extents have blocks
            }
        }
        for operation in &summary.operations {
            match operation.clone() {
                Operation::SnapshotAdded { id, name, checkpoint, salt } => {
                    self.snapshots.insert(id, SnapshotRef { id, name, checkpoint, salt });
                }
                Operation::SnapshotRemoved { id } => {
                    self.snapshots.remove(&id);
                }
                Operation::Resized { blocks } => {
                    // What was behind the end must not come back when the volume grows again.
                    if let Some(gone) = self.blocks.checked_sub(blocks) {
                        self.recent.insert(blocks, gone, Place::Hole);
                    }
                    self.blocks = blocks;
                }
            }
        }
        self.head = Head { number: prelude.number, chain: object.chain };
        self.successor = summary.successor;
        self.session = prelude.session;
        self.ordinal = summary.ordinal;
    }

    /// Where a block lies, and how many from it on lie one behind the other.
    pub(crate) fn place(&mut self, objects: &Objects, block: u64) -> Result<(u64, Place), VolumeError> {
        let unknown = match self.recent.find(block) {
            Ok(known) => return Ok(known),
            Err(unknown) => unknown,
        };
        let number = block / LEAF_BLOCKS;
        let here = unknown.min((number + 1) * LEAF_BLOCKS - block);
        let Some(leaf) = self.leaves.get(&number).copied() else { return Ok((here, Place::Hole)) };
        match self.leaf(objects, &leaf)?.find(block) {
            Ok((len, place)) => Ok((len.min(here), place)),
            Err(len) => Ok((len.min(here), Place::Hole)),
        }
    }

    /// A leaf of the map, verified. One that is not what was written is fetched once more.
    pub(crate) fn leaf(&mut self, objects: &Objects, leaf: &LeafRef) -> Result<Arc<Extents>, VolumeError> {
        if let Some(extents) = self.cache.find(&leaf.salt) {
            return Ok(extents);
        }
        let prelude = leaf.prelude(objects.keys.format());
        let failed = VolumeError::Map { block: leaf.number * LEAF_BLOCKS };
        for _ in 0..2 {
            let Some(bytes) = objects.get(&names::map(&leaf.salt))? else { continue };
            let Ok(read) = open_leaf(&objects.keys, &prelude, &bytes) else { continue };
            let mut shared = BTreeMap::<[u8; 16], Arc<Prelude>>::new();
            let mut extents = Extents::default();
            for entry in read.entries {
                let object = shared.entry(entry.object.salt).or_insert_with(|| Arc::new(entry.object));
                extents.insert(entry.start, entry.len, Place::Stored(Arc::clone(object), entry.slot));
            }
            let extents = Arc::new(extents);
            self.cache.keep(leaf.salt, extents.len().max(1), Arc::clone(&extents));
            return Ok(extents);
        }
        Err(failed)
    }
}
