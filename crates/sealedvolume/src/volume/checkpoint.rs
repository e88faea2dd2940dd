//! Checkpoints: the map as nodes, and a root that names the highest. Only of a state that is stored and anchored.

use super::VolumeError;
use super::core::{Core, PendingCheckpoint, Writer};
use super::map::Making;
use crate::format::{Kind, Prelude, Root, names, seal_root};

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
        let made = self.settle().and_then(|()| self.new_checkpoint(false));
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
        let Some(PendingCheckpoint { number, salt, map, .. }) = writer.pending.take() else {
            return Ok(());
        };
        // What the log has said since lies over this map, and over itself as it was then.
        state.map.top = map;
        writer.is_stored(number, salt);
        Ok(())
    }

    /// A checkpoint whose map is made anew, as far as another key or another volume has made it.
    pub(super) fn renew(&mut self) -> Result<(), VolumeError> {
        self.touch()?;
        self.settle()?;
        self.new_checkpoint(true)
    }

    fn new_checkpoint(&mut self, whole: bool) -> Result<(), VolumeError> {
        let number = self.state.head.number;
        if self.writer()?.checkpoints.last().is_some_and(|(newest, _)| *newest == number) {
            return Ok(());
        }
        let (map, stored_now) = self.new_map(whole)?;
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
            map,
            keys: state.keys.clone(),
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
            writer.pending = Some(PendingCheckpoint { number, salt, bytes, map });
            return Err(error);
        }
        state.map.top = map;
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

    /// Stores the map of the present state, and returns its highest node and the salts of the nodes that are new. `whole`: of nodes that this
    /// session makes, in place of all that another key or another volume has made.
    fn new_map(&mut self, whole: bool) -> Result<(Option<Prelude>, Vec<[u8; 16]>), VolumeError> {
        let Self { objects, state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let (most, session) = (writer.map_buffer, state.session);
        let mut making = Making { objects, random: &mut writer.random, session, most, stored: Vec::new() };
        let map = match whole {
            false => state.map.with(&mut making, &state.recent),
            true => state.map.renewed(&mut making, &state.recent),
        };
        let stored = making.stored;
        match map {
            Ok(map) => Ok((map, stored)),
            Err(error) => {
                self.forget(&stored);
                Err(error)
            }
        }
    }
}
