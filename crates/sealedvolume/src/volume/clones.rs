//! Clones: volumes that begin with what a snapshot of another one holds, and read there what they have not written themselves.

use atrest_secret::VolumeKey;

use super::snapshots::snapshot_root;
use super::{SealedVolume, VolumeError};
use crate::format::{FormatError, FormatId, Operation, OtherKey, Prelude};

/// Clones of one snapshot, at most.
const MOST_CLONES: usize = 255;

/// What a clone begins with.
pub struct Origin {
    pub(super) blocks: u64,
    pub(super) map: Option<Prelude>,
    pub(super) keys: Vec<OtherKey>,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl SealedVolume {
    /// What a clone of a snapshot begins with. `key` is the volume's own, which the clone needs and keeps sealed; `place` is where its objects are.
    ///
    /// # Errors
    /// [`VolumeError::NoSuchSnapshot`], [`VolumeError::WrongKey`], [`VolumeError::Snapshot`], or [`VolumeError::Unreachable`].
    pub fn origin(&self, id: u64, key: &VolumeKey, place: &str) -> Result<Origin, VolumeError> {
        let core = self.core()?;
        let snapshot = core.state.snapshots.get(&id).ok_or(VolumeError::NoSuchSnapshot)?;
        let present = &core.objects.keys;
        if !present.are_of(key) {
            return Err(VolumeError::WrongKey);
        }
        if place.is_empty() || place.len() > usize::from(u16::MAX) {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        let root = snapshot_root(&core.objects, snapshot)?;
        let (format, epoch, key) = (present.format(), present.epoch(), VolumeKey::copy_from(key.expose()));
        let mut keys = core.state.keys.clone();
        keys.push(OtherKey { format, epoch, key, place: String::new() });
        for own in keys.iter_mut().filter(|key| key.place.is_empty()) {
            own.place = place.to_owned();
        }
        keys.sort_by_key(|key| (key.format, key.epoch));
        Ok(Origin { blocks: root.blocks, map: root.map, keys })
    }

    /// Keeps a snapshot for a clone that is to be made of it, the volume with this identifier, until [`release`](Self::release).
    ///
    /// # Errors
    /// [`VolumeError::NoSuchSnapshot`], [`VolumeError::Limit`] if there are 255 clones, or what a flush fails with.
    pub fn keep_for(&self, id: u64, clone: FormatId) -> Result<(), VolumeError> {
        let mut core = self.settled()?;
        let snapshot = core.state.snapshots.get(&id).ok_or(VolumeError::NoSuchSnapshot)?;
        if snapshot.clones.len() >= MOST_CLONES {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        core.operation(Operation::SnapshotCloned { id, clone })
    }

    /// No longer keeps any snapshot for a clone: it was flattened or deleted, or never made. Returns of how many snapshots it was one.
    ///
    /// # Errors
    /// What a flush fails with.
    pub fn release(&self, clone: FormatId) -> Result<usize, VolumeError> {
        let mut core = self.settled()?;
        let held = core.state.snapshots.values().filter(|snapshot| snapshot.clones.contains(&clone));
        let held: Vec<u64> = held.map(|snapshot| snapshot.id).collect();
        for id in &held {
            core.operation(Operation::CloneGone { id: *id, clone })?;
        }
        Ok(held.len())
    }

    /// Identifiers of the volumes that are clones of a snapshot.
    ///
    /// # Errors
    /// [`VolumeError::NoSuchSnapshot`] or [`VolumeError::Broken`].
    pub fn clones(&self, id: u64) -> Result<Vec<FormatId>, VolumeError> {
        let core = self.core()?;
        Ok(core.state.snapshots.get(&id).ok_or(VolumeError::NoSuchSnapshot)?.clones.clone())
    }

    /// The volumes that this one needs objects of: identifier and place.
    ///
    /// # Errors
    /// [`VolumeError::Broken`].
    pub fn origins(&self) -> Result<Vec<(FormatId, String)>, VolumeError> {
        let core = self.core()?;
        let others = core.state.keys.iter().filter(|key| !key.place.is_empty());
        let mut origins: Vec<_> = others.map(|key| (key.format, key.place.clone())).collect();
        origins.dedup();
        Ok(origins)
    }
}
