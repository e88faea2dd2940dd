//! Checkpoints: the map as leaves, and a root that names them. Only of a state that is stored and anchored.

use std::collections::BTreeSet;

use super::VolumeError;
use super::core::Core;
use super::extents::{Extents, Place};
use crate::format::{Kind, LEAF_BLOCKS, Leaf, LeafEntry, LeafRef, Root, names, seal_leaf, seal_root};

impl Core {
    pub(crate) fn checkpoint(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        let number = self.state.head.number;
        if self.writer()?.checkpoints.last().is_some_and(|(newest, _)| *newest == number) {
            return Ok(());
        }
        let mut leaves = self.state.leaves.clone();
        for leaf in self.touched() {
            match self.store_leaf(leaf)? {
                Some(stored) => leaves.insert(leaf, stored),
                None => leaves.remove(&leaf),
            };
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
            blocks: state.blocks,
            leaves: leaves.values().copied().collect(),
            snapshots: state.snapshots.values().cloned().collect(),
        };
        let prelude = objects.prelude(&mut writer.random, Kind::Checkpoint, number, state.session)?;
        let (prelude, bytes) = seal_root(&objects.keys, prelude, &root)?;
        objects.put(&names::checkpoint(number), &bytes)?;
        state.leaves = leaves;
        state.recent.clear();
        writer.checkpoints.push((number, prelude.salt));
        if writer.checkpoints.len() > 2 {
            writer.checkpoints.remove(0);
        }
        writer.since_checkpoint = 0;
        Ok(())
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
