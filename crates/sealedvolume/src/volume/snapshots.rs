//! Snapshots: a checkpoint that the log names, so that it is as fresh as the log.

use super::cache::Cache;
use super::core::Core;
use super::objects::Objects;
use super::state::State;
use super::{SealedVolume, VolumeError};
use crate::format::{FormatError, MOST_SNAPSHOTS, Operation, Root, SnapshotRef, names, open_root};
use crate::store::StoreError;

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its identifier, which no other one of the volume has had.
    pub id: u64,
    /// The name that it was given.
    pub name: String,
    /// How many other volumes are clones of it.
    pub clones: usize,
}

/// What a snapshot's cache may hold.
const CACHED_BLOCKS: usize = 256;
const CACHED_MAP: usize = 4 << 20;

impl SealedVolume {
    /// Keeps the present state under a name of at most 255 bytes. Everything written before is in it. Returns its identifier.
    ///
    /// # Errors
    /// [`VolumeError::Limit`] if the name is too long or there are 65,536 snapshots; what [`checkpoint`](Self::checkpoint) fails with.
    pub fn add_snapshot(&self, name: &str) -> Result<u64, VolumeError> {
        if name.len() > 255 {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        let mut core = self.settled()?;
        // What the log says has to fit into a root.
        if core.state.snapshots.len() >= MOST_SNAPSHOTS as usize {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        core.checkpoint()?;
        let (checkpoint, salt) = *core.writer()?.checkpoints.last().ok_or(VolumeError::NoSuchSnapshot)?;
        let id = core.state.successor;
        let added = Operation::SnapshotAdded { id, name: name.to_owned(), checkpoint, salt };
        core.operation(added)?;
        Ok(id)
    }

    /// Gives a snapshot up. What it alone needs goes when garbage is collected.
    ///
    /// # Errors
    /// [`VolumeError::NoSuchSnapshot`], [`VolumeError::Cloned`], or what a flush fails with.
    pub fn remove_snapshot(&self, id: u64) -> Result<(), VolumeError> {
        let mut core = self.settled()?;
        let snapshot = core.state.snapshots.get(&id).ok_or(VolumeError::NoSuchSnapshot)?;
        if !snapshot.clones.is_empty() {
            return Err(VolumeError::Cloned { clones: snapshot.clones.len() });
        }
        core.operation(Operation::SnapshotRemoved { id })
    }

    /// The snapshots, from the oldest to the newest.
    ///
    /// # Errors
    /// [`VolumeError::Broken`].
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, VolumeError> {
        let core = self.core()?;
        Ok(core
            .state
            .snapshots
            .values()
            .map(|snapshot| Snapshot {
                id: snapshot.id,
                name: snapshot.name.clone(),
                clones: snapshot.clones.len(),
            })
            .collect())
    }

    /// A snapshot as a volume that can be read, also while this one is written.
    ///
    /// # Errors
    /// [`VolumeError::NoSuchSnapshot`], [`VolumeError::Snapshot`], or [`VolumeError::Unreachable`].
    pub fn snapshot(&self, id: u64) -> Result<SealedVolume, VolumeError> {
        let core = self.core()?;
        let snapshot = core.state.snapshots.get(&id).ok_or(VolumeError::NoSuchSnapshot)?;
        let state = State::of(snapshot_root(&core.objects, snapshot)?, CACHED_MAP);
        let objects = core.objects.clone();
        let warm = self.warm.with(CACHED_BLOCKS);
        Ok(Self::of(Core { objects, state, cache: Cache::new(CACHED_BLOCKS), writer: None }, warm))
    }
}

impl Core {
    /// Flushes, and has the log say so.
    pub(crate) fn operation(&mut self, operation: Operation) -> Result<(), VolumeError> {
        self.flush(true)?;
        self.make_room()?;
        self.seal(Vec::new(), vec![operation], &[])?;
        self.flush(true)
    }
}

/// The checkpoint that a snapshot is. Its salt stands in the log, and no other checkpoint has it.
pub(super) fn snapshot_root(objects: &Objects, snapshot: &SnapshotRef) -> Result<Root, VolumeError> {
    root(objects, snapshot.checkpoint, &snapshot.salt)?.ok_or(VolumeError::Snapshot { id: snapshot.id })
}

/// The checkpoint with this number and salt, if the store shows it.
pub(super) fn root(objects: &Objects, number: u64, salt: &[u8; 16]) -> Result<Option<Root>, StoreError> {
    for _ in 0..2 {
        let bytes = match objects.get(&names::checkpoint(number)) {
            Ok(bytes) => bytes,
            Err(StoreError::TooLong) => None,
            Err(error) => return Err(error),
        };
        if let Some(bytes) = bytes
            && let Ok((prelude, root)) = open_root(&objects.keys, number, &bytes)
            && prelude.salt == *salt
        {
            return Ok(Some(root));
        }
    }
    Ok(None)
}
