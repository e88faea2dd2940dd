//! Checkpoints: the map as leaves, and a root that names them. Only of a state that is stored and anchored.

use std::collections::BTreeSet;

use super::VolumeError;
use super::core::{Core, PendingCheckpoint, Writer};
use super::extents::{Extents, Place};
use crate::format::{Kind, LEAF_BLOCKS, Leaf, LeafEntry, LeafRef, Root, names, seal_leaf, seal_root};

/// Log objects that a checkpoint waits for at most after others have failed.
const MOST_DELAY: u64 = 4096;

impl Writer {
    /// The newest checkpoint is this one.
    fn is_stored(&mut self, number: u64, salt: [u8; 16]) {
        self.checkpoints.push((number, salt));
        if self.checkpoints.len() > 2 {
            self.checkpoints.remove(0);
        }
        self.since_checkpoint = 0;
    }
}

impl Core {
    pub(crate) fn checkpoint(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        let made = self.settle().and_then(|()| self.new_checkpoint());
        let since = self.writer()?.since_checkpoint;
        let writer = self.writer()?;
        writer.checkpoint_delay = match made {
            Ok(()) => 0,
            // Each try costs the store as much as one that succeeds: the next one waits for as long as this one did.
            // cannot overflow: it counts objects of one session.
            Err(_) => (2 * since).min(MOST_DELAY),
        };
        made
    }

    /// Puts a checkpoint that the store did not confirm once more. Until it has it, nothing else is made: it may count at the next
    /// opening, with all that it needs.
    fn settle(&mut self) -> Result<(), VolumeError> {
        let Self { objects, state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let Some(pending) = &writer.pending else { return Ok(()) };
        objects.put(&names::checkpoint(pending.number), &pending.bytes)?;
        let Some(PendingCheckpoint { number, salt, leaves, .. }) = writer.pending.take() else {
            return Ok(());
        };
        // What the log has said since lies over these leaves, and over itself as it was then.
        state.leaves = leaves;
        writer.is_stored(number, salt);
        Ok(())
    }

    fn new_checkpoint(&mut self) -> Result<(), VolumeError> {
        let number = self.state.head.number;
        if self.writer()?.checkpoints.last().is_some_and(|(newest, _)| *newest == number) {
            return Ok(());
        }
        let mut leaves = self.state.leaves.clone();
        let mut stored_now = Vec::new();
        for leaf in self.touched() {
            match self.store_leaf(leaf) {
                Ok(Some(stored)) => {
                    stored_now.push(stored.salt);
                    leaves.insert(leaf, stored);
                }
                Ok(None) => {
                    leaves.remove(&leaf);
                }
                Err(error) => {
                    self.forget(&stored_now);
                    return Err(error);
                }
            }
        }
        let Self { objects, state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let root = Root {
            number,
            chain: state.head.chain,
            successor: state.successor,
            session: state.session,
            ordinal: state.ordinal,
            window: state.window as u8, // it came from a root
            trusted: state.trusted,
            blocks: state.blocks,
            leaves: leaves.values().copied().collect(),
            snapshots: state.snapshots.values().cloned().collect(),
        };
        let prelude = objects.prelude(&mut writer.random, Kind::Checkpoint, number, state.session)?;
        let (prelude, bytes) = match seal_root(&objects.keys, prelude, &root) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.forget(&stored_now);
                return Err(error.into());
            }
        };
        let salt = prelude.salt;
        if let Err(error) = objects.put(&names::checkpoint(number), &bytes) {
            writer.pending = Some(PendingCheckpoint { number, salt, bytes, leaves });
            return Err(error);
        }
        state.leaves = leaves;
        state.recent.clear();
        writer.is_stored(number, salt);
        Ok(())
    }

    /// Takes leaves away that no checkpoint has named.
    fn forget(&self, salts: &[[u8; 16]]) {
        for salt in salts {
            // intended: what stays is garbage, and found as such.
            let _ = self.objects.store.delete(&names::map(salt));
        }
    }

    /// Leaves that differ from those of the last checkpoint. What was trimmed and has no leaf needs none.
    fn touched(&self) -> BTreeSet<u64> {
        let mut touched = BTreeSet::new();
        for (start, len, place) in self.state.recent.iter() {
            let leaves = start / LEAF_BLOCKS..(start + len).div_ceil(LEAF_BLOCKS);
            match place {
                Place::Stored(..) => touched.extend(leaves),
                Place::Hole => touched.extend(self.state.leaves.range(leaves).map(|(leaf, _)| *leaf)),
            }
        }
        touched
    }

    /// Stores a leaf as it is now. `None` if there is nothing in it.
    fn store_leaf(&mut self, number: u64) -> Result<Option<LeafRef>, VolumeError> {
        let (start, end) = (number * LEAF_BLOCKS, (number + 1) * LEAF_BLOCKS);
        let mut extents = match self.state.leaves.get(&number).copied() {
            Some(leaf) => Extents::clone(&*self.state.leaf(&self.objects, &leaf)?),
            None => Extents::default(),
        };
        for (start, len, place) in self.state.recent.within(start, end) {
            extents.insert(start, len, place);
        }
        let mut entries = Vec::new();
        for (start, len, place) in extents.iter() {
            if let Place::Stored(object, slot) = place {
                entries.push(LeafEntry { start, len, object: **object, slot: *slot });
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let session = self.state.session;
        let writer = self.writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let prelude = self.objects.prelude(&mut writer.random, Kind::Map, number, session)?;
        let (prelude, bytes) = seal_leaf(&self.objects.keys, prelude, &Leaf { entries })?;
        self.objects.put(&names::map(&prelude.salt), &bytes)?;
        let (session, salt) = (prelude.session, prelude.salt);
        Ok(Some(LeafRef { number, session, salt, len: prelude.summary_len, aead: prelude.aead }))
    }
}
