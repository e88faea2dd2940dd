//! Checkpoints: the map as nodes, and a root that names the highest. Only of a state that is stored and anchored.
//!
//! What a checkpoint takes up is frozen first, and then it is made while others read and write. Whatever else needs the whole map waits for it.

use std::mem::take;
use std::sync::{Arc, MutexGuard};
use std::thread;

use super::core::{Core, PendingCheckpoint, Writer};
use super::map::{Making, Map};
use super::objects::Objects;
use super::random::Shared;
use super::{SealedVolume, VolumeError};
use crate::format::{Kind, Prelude, Root, names, seal_root};

/// Log objects that come between two tries to make a checkpoint, at most: so many and those of one that is due.
const MOST_DELAY: u64 = 4096;

/// A checkpoint that is to be made.
pub(super) struct Plan {
    objects: Arc<Objects>,
    random: Shared,
    /// One that the store may have or not: it is put before anything else.
    pending: Option<PendingCheckpoint>,
    /// Number of the newest one that is stored.
    newest: Option<u64>,
    map: Map,
    newer: Arc<super::extents::Extents>,
    /// All but the map.
    root: Root,
    /// Runs that a branch of the map holds, at most.
    most: usize,
    /// The map is made anew, as far as another key or another volume has made it.
    whole: bool,
    /// Log objects since the newest checkpoint.
    since: u64,
}

/// A checkpoint that is stored.
struct Stored {
    number: u64,
    salt: [u8; 16],
    map: Option<Prelude>,
}

/// What became of a plan.
pub(super) struct Outcome {
    /// The pending one, which is stored now.
    settled: Option<PendingCheckpoint>,
    /// The new one; `None` where the newest one was of this state.
    made: Result<Option<Stored>, VolumeError>,
    /// One that the store may have or not.
    pending: Option<PendingCheckpoint>,
    since: u64,
}

impl Plan {
    pub(super) fn number(&self) -> u64 {
        self.root.number
    }

    /// Makes the checkpoint. The state is stored and anchored.
    pub(super) fn make(mut self) -> Outcome {
        let (since, mut settled) = (self.since, None);
        if let Some(pending) = self.pending.take() {
            // Until the store has it, nothing else is made: it may count at the next opening, with all that it needs.
            if let Err(error) = self.objects.put(&names::checkpoint(pending.number), &pending.bytes) {
                return Outcome { settled, made: Err(error), pending: Some(pending), since };
            }
            // What the log has said since lies over this map, and over itself as it was then.
            self.map.top = pending.map;
            self.newest = Some(pending.number);
            settled = Some(pending);
        }
        if self.newest == Some(self.root.number) {
            return Outcome { settled, made: Ok(None), pending: None, since };
        }
        let (made, pending) = match self.new_map() {
            Ok((map, stored)) => self.put_root(map, &stored),
            Err(error) => (Err(error), None),
        };
        Outcome { settled, made: made.map(Some), pending, since }
    }

    /// Stores the map, and returns its highest node and the salts of the nodes that are new.
    fn new_map(&mut self) -> Result<(Option<Prelude>, Vec<[u8; 16]>), VolumeError> {
        let Self { objects, random, map, newer, root, most, whole, .. } = self;
        let (most, session) = (*most, root.session);
        let mut making = Making { objects, random, session, most, stored: Vec::new() };
        let map = match whole {
            false => map.with(&mut making, newer),
            true => map.renewed(&mut making, newer),
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

    fn put_root(
        &mut self,
        map: Option<Prelude>,
        stored: &[[u8; 16]],
    ) -> (Result<Stored, VolumeError>, Option<PendingCheckpoint>) {
        self.root.map = map;
        let Self { objects, random, root, .. } = self;
        let number = root.number;
        let sealed = objects
            .prelude(random, Kind::Checkpoint, number, root.session)
            .map_err(VolumeError::from)
            .and_then(|prelude| Ok(seal_root(&objects.keys, prelude, root)?));
        let (prelude, bytes) = match sealed {
            Ok(sealed) => sealed,
            Err(error) => {
                self.forget(stored);
                return (Err(error), None);
            }
        };
        let salt = prelude.salt;
        match objects.put(&names::checkpoint(number), &bytes) {
            Ok(()) => (Ok(Stored { number, salt, map }), None),
            Err(error) => (Err(error), Some(PendingCheckpoint { number, salt, bytes, map })),
        }
    }

    /// Takes nodes away that no checkpoint has named.
    fn forget(&self, salts: &[[u8; 16]]) {
        for salt in salts {
            // intended: what stays is garbage, and found as such.
            let _ = self.objects.store.delete(&names::map(salt));
        }
    }
}

impl Writer {
    /// The newest checkpoint is this one. `since`: log objects that lie over it no more.
    fn is_stored(&mut self, number: u64, salt: [u8; 16], since: u64) {
        self.checkpoints.push((number, salt));
        if self.checkpoints.len() > 2 {
            self.checkpoints.remove(0);
        }
        self.since_checkpoint = self.since_checkpoint.saturating_sub(since); // intended: two of one plan are stored.
    }

    /// Whether a checkpoint is to be made beside others.
    pub(super) fn is_due(&self) -> bool {
        !self.is_checkpointing && self.settling == 0 && self.is_late()
    }

    /// Whether a checkpoint is to be made by whoever has the volume alone.
    fn is_late(&self) -> bool {
        // cannot overflow: it counts objects of one session.
        self.since_checkpoint >= self.checkpoint_every + self.checkpoint_delay
    }

    /// Whether so much was written since a checkpoint was begun that it must end first, or those must have had the volume who wait for
    /// that: what no checkpoint takes up is in memory.
    fn is_far_ahead(&self) -> bool {
        // intended: what was taken up is no longer counted once it is stored.
        let behind = self.since_checkpoint.saturating_sub(self.taken_up);
        (self.is_checkpointing || self.settling > 0) && behind > self.checkpoint_every
    }
}

impl SealedVolume {
    /// The volume while no checkpoint of it is being made.
    pub(super) fn settled(&self) -> Result<MutexGuard<'_, Core>, VolumeError> {
        let mut core = self.core()?;
        let Some(writer) = core.writer.as_mut().filter(|writer| writer.is_checkpointing) else {
            return Ok(core);
        };
        writer.settling += 1;
        let wait = self.checkpointed.wait_while(core, |core| core.is_checkpointing());
        let mut core = wait.map_err(|_| VolumeError::Broken)?;
        if let Some(writer) = &mut core.writer {
            writer.settling -= 1;
        }
        // Whoever was too far ahead to let this one pass.
        self.checkpointed.notify_all();
        Ok(core)
    }

    /// Waits for a checkpoint that the volume is too far ahead of.
    pub(super) fn wait_for_checkpoint(&self) -> Result<(), VolumeError> {
        let mut core = self.core()?;
        core.writer()?;
        let is_far_ahead = |core: &mut Core| {
            core.writer.as_ref().is_some_and(|writer| !writer.failed && writer.is_far_ahead())
        };
        let wait = self.checkpointed.wait_while(core, is_far_ahead);
        wait.map(drop).map_err(|_| VolumeError::Broken)
    }

    /// Writes a checkpoint if one is due. That one fails is no failure of whoever has to do it.
    pub(super) fn checkpoint_if_due(&self) -> Result<(), VolumeError> {
        let plan = {
            let mut core = self.core()?;
            if !core.writer()?.is_due() {
                return Ok(());
            }
            let plan = core.plan(false)?;
            let writer = core.writer()?;
            (writer.is_checkpointing, writer.taken_up) = (true, plan.since);
            plan
        };
        let making = Checkpointing(self);
        let made = self.make_durable_up_to(plan.number(), true).map(|()| plan.make());
        let mut core = self.core()?;
        let done = match made {
            Ok(outcome) => core.take_over(outcome),
            Err(error) => Err(error),
        };
        let done = core.told_if_it_failed(done);
        drop(core);
        drop(making);
        done
    }
}

/// A checkpoint is being made. However that ends, nobody waits for it for ever.
struct Checkpointing<'a>(&'a SealedVolume);

impl Drop for Checkpointing<'_> {
    fn drop(&mut self) {
        // Whoever meets a volume that a panic has broken is told so.
        if let Ok(mut core) = self.0.core() {
            core.state.unfreeze();
            if thread::panicking() {
                // One that the store may have or not is forgotten with the plan: what it needs might be collected.
                core.fail();
            }
            if let Some(writer) = &mut core.writer {
                (writer.is_checkpointing, writer.taken_up) = (false, 0);
            }
        }
        self.0.checkpointed.notify_all();
    }
}

impl Core {
    fn is_checkpointing(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_checkpointing)
    }

    /// Writes a checkpoint while nobody else has the volume.
    pub(crate) fn checkpoint(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        let outcome = self.plan(false)?.make();
        self.take_over(outcome)
    }

    /// A checkpoint whose map is made anew, as far as another key or another volume has made it.
    pub(super) fn renew(&mut self) -> Result<(), VolumeError> {
        self.touch()?;
        let outcome = self.plan(true)?.make();
        self.take_over(outcome)
    }

    pub(super) fn checkpoint_while_alone_if_due(&mut self) -> Result<(), VolumeError> {
        if !self.writer()?.is_late() {
            return Ok(());
        }
        let done = self.checkpoint();
        self.told_if_it_failed(done)
    }

    /// By the store or the record nothing can be acknowledged any more: that is told to whoever makes a checkpoint. All else is told to the observer.
    fn told_if_it_failed(&mut self, done: Result<(), VolumeError>) -> Result<(), VolumeError> {
        match done {
            Err(error) if self.writer().is_err() => Err(error),
            Err(error) => {
                if let Some(observer) = self.writer()?.observer.as_ref() {
                    observer.checkpoint_failed(error);
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Freezes the present state, of which a checkpoint is to be made.
    fn plan(&mut self, whole: bool) -> Result<Plan, VolumeError> {
        self.writer()?;
        let Self { objects, state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        state.freeze();
        let root = Root {
            number: state.head.number,
            chain: state.head.chain,
            successor: state.successor,
            session: state.session,
            ordinal: state.ordinal,
            window: state.window as u8, // it came from a root
            trusted: state.trusted,
            blocks: state.blocks,
            journal: state.journal,
            map: None,
            keys: state.keys.clone(),
            snapshots: state.snapshots.values().cloned().collect(),
        };
        Ok(Plan {
            objects: Arc::clone(objects),
            random: writer.random.clone(),
            pending: writer.pending.take(),
            newest: writer.checkpoints.last().map(|(number, _)| *number),
            map: Map { top: state.map.top, nodes: Arc::clone(&state.map.nodes) },
            newer: Arc::clone(&state.frozen),
            root,
            most: writer.map_buffer,
            whole,
            since: writer.since_checkpoint,
        })
    }

    /// Takes over what became of a plan.
    fn take_over(&mut self, outcome: Outcome) -> Result<(), VolumeError> {
        let Self { state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let Outcome { settled, made, pending, since } = outcome;
        writer.pending = pending;
        if let Some(PendingCheckpoint { number, salt, map, .. }) = settled {
            state.map.top = map;
            writer.is_stored(number, salt, since);
        }
        let done = match made {
            Ok(Some(Stored { number, salt, map })) => {
                state.map.top = map;
                state.frozen = Arc::default();
                writer.is_stored(number, salt, since);
                Ok(())
            }
            made => made.map(drop),
        };
        state.unfreeze();
        writer.checkpoint_delay = match done {
            Ok(()) => 0,
            // Each try costs the store as much as one that succeeds: the next one waits for as many objects again, which are counted
            // on from those that this one has not taken up. cannot overflow: it counts objects of one session.
            Err(_) => writer.since_checkpoint + writer.since_checkpoint.min(MOST_DELAY),
        };
        done
    }
}

impl super::state::State {
    /// What was written behind the last checkpoint is taken up by the next one, whatever comes over it meanwhile.
    fn freeze(&mut self) {
        self.unfreeze();
        self.frozen = Arc::new(take(&mut self.recent));
    }

    /// What a checkpoint was to take up, and has not, lies behind the last one as before.
    fn unfreeze(&mut self) {
        if !self.frozen.is_empty() {
            let mut all = Arc::unwrap_or_clone(take(&mut self.frozen));
            all.extend(take(&mut self.recent).iter().map(|(start, len, place)| (start, len, place.clone())));
            self.recent = all;
        }
    }
}
