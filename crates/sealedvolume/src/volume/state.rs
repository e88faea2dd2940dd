//! What an opening knows of a volume: where in the history it stands, and where every block lies.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::extents::{Extents, Place};
use super::map::Map;
use super::nodes::{Fetched, Lacks};
use super::objects::Objects;
use super::{Head, VolumeError};
use crate::format::{Extent, JournalMark, LogObject, Operation, OtherKey, Root, SnapshotRef};

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
    /// The journal that is in use, and what the log covers of it.
    pub(crate) journal: Option<JournalMark>,
    /// Where everything lay at the checkpoint.
    pub(crate) map: Map,
    /// Keys of objects that others than the present key have made.
    pub(crate) keys: Vec<OtherKey>,
    pub(crate) snapshots: BTreeMap<u64, SnapshotRef>,
    /// What a checkpoint that is being made takes up.
    pub(crate) frozen: Arc<Extents>,
    /// What was written behind that, or behind the checkpoint.
    pub(crate) recent: Extents,
}

impl State {
    pub(crate) fn of(root: Root, cached_map: usize) -> Self {
        Self {
            head: Head { number: root.number, chain: root.chain },
            successor: root.successor,
            session: root.session,
            ordinal: root.ordinal,
            window: root.window.into(),
            trusted: root.trusted,
            blocks: root.blocks,
            journal: root.journal,
            map: Map::new(root.map, cached_map),
            keys: root.keys,
            snapshots: root.snapshots.into_iter().map(|snapshot| (snapshot.id, snapshot)).collect(),
            frozen: Arc::default(),
            recent: Extents::default(),
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
                    let clones = Vec::new();
                    self.snapshots.insert(id, SnapshotRef { id, name, checkpoint, salt, clones });
                }
                Operation::SnapshotRemoved { id } => {
                    self.snapshots.remove(&id);
                }
                Operation::SnapshotCloned { id, clone } => {
                    if let Some(snapshot) = self.snapshots.get_mut(&id) {
                        snapshot.clones.push(clone);
                    }
                }
                Operation::CloneGone { id, clone } => {
                    if let Some(snapshot) = self.snapshots.get_mut(&id) {
                        snapshot.clones.retain(|held| *held != clone);
                    }
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
        self.journal = summary.journal;
    }

    /// Where a block lies, and how many from it on lie one behind the other.
    pub(crate) fn place(&self, objects: &Objects, block: u64) -> Result<(u64, Place), VolumeError> {
        self.place_by(block, || self.map.find(objects, block))
    }

    /// [`place`](Self::place) by what of the map is in memory.
    pub(crate) fn place_here(&self, fetched: &Fetched, block: u64) -> Result<(u64, Place), Lacks> {
        self.place_by(block, || self.map.find_here(fetched, block))
    }

    fn place_by<E>(
        &self,
        block: u64,
        find: impl FnOnce() -> Result<(u64, Place), E>,
    ) -> Result<(u64, Place), E> {
        let mut unknown = u64::MAX;
        for newer in [&self.recent, &*self.frozen] {
            match newer.find(block) {
                Ok((len, place)) => return Ok((len.min(unknown), place)),
                Err(further) => unknown = unknown.min(further),
            }
        }
        let (len, place) = find()?;
        Ok((len.min(unknown), place))
    }
}
