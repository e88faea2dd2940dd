//! Space: blocks that are moved out of objects that are mostly dead, and objects that nothing needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::batch::runs;
use super::core::{Core, Plaintext};
use super::extents::Extents;
use super::map::Each;
use super::snapshots::{root, snapshot_root};
use super::state::State;
use super::{SealedVolume, VolumeError, open};
use crate::format::{BLOCK_LEN, Kind, Prelude, names};

/// Objects that nothing needs, as they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    names: Vec<String>,
    /// The session that has found them.
    session: [u8; 32],
}

impl Garbage {
    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// How much of what is stored is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Blocks that the volume has stored, as it is now.
    pub live: u64,
    /// Blocks in the log objects that those lie in, live or dead.
    pub stored: u64,
}

impl SealedVolume {
    /// Counts the blocks that are in use, and those in the objects that they lie in.
    ///
    /// # Errors
    /// What reading the map fails with.
    pub fn usage(&self) -> Result<Usage, VolumeError> {
        let mut usage = Usage::default();
        for (live, object) in self.settled()?.live()?.into_values() {
            usage.live += live;
            usage.stored += u64::from(object.slots);
        }
        Ok(usage)
    }

    /// Writes the live blocks of log objects anew if at most `most_live` of a hundred blocks in them are, so that the objects become
    /// garbage with the next two checkpoints. Objects that a snapshot needs stay. Returns how many blocks it wrote, `most` or few more.
    ///
    /// # Errors
    /// What reading the map or a flush fails with. Blocks that can't be read stay where they are.
    pub fn compact(&self, most_live: u8, most: u64) -> Result<u64, VolumeError> {
        self.settled()?.compact(most_live, most)
    }

    /// Stores a log object that changes nothing, so that the next checkpoint is another one than the last.
    ///
    /// # Errors
    /// What a flush fails with.
    pub fn touch(&self) -> Result<(), VolumeError> {
        self.settled()?.touch()
    }

    /// Writes a checkpoint, and finds what nothing needs: neither this state nor the newest two checkpoints nor a snapshot.
    ///
    /// # Errors
    /// [`VolumeError`], also if anything that is needed to know it can't be read.
    pub fn garbage(&self) -> Result<Garbage, VolumeError> {
        self.settled()?.garbage()
    }

    /// Deletes what [`garbage`](Self::garbage) has found, after another log object has shown that nobody else has written since.
    ///
    /// # Errors
    /// [`VolumeError::Fenced`] before anything is deleted, if somebody has. [`VolumeError::NotFoundHere`] if another opening has found
    /// it. A delete that the store refuses is told at the end; what stays is found again.
    pub fn collect(&self, garbage: Garbage) -> Result<(), VolumeError> {
        let mut core = self.settled()?;
        if garbage.names.is_empty() {
            return Ok(());
        }
        // Objects of a writer in between were garbage to the opening that it had fenced, and are not now.
        if garbage.session != core.state.session {
            return Err(VolumeError::NotFoundHere);
        }
        core.touch()?;
        let mut refused = Ok(());
        for name in garbage.names {
            if let Err(error) = core.objects.again(|| core.objects.store.delete(&name), |_| true) {
                refused = Err(error.into());
            }
        }
        refused
    }
}

impl Core {
    fn compact(&mut self, most_live: u8, most: u64) -> Result<u64, VolumeError> {
        self.flush(false)?;
        let kept = self.of_snapshots()?;
        let mut sparse = self.live()?;
        sparse.retain(|_, (count, object)| {
            *count * 100 <= u64::from(object.slots) * u64::from(most_live) && !kept.contains(&object.number)
        });
        let mut moved = 0;
        // More than once only where something can't be read, and stays.
        while moved < most && !sparse.is_empty() {
            let (mut chosen, mut blocks) = (BTreeMap::new(), moved);
            while blocks < most
                && let Some((salt, (count, object))) = sparse.pop_first()
            {
                blocks += count;
                chosen.insert(salt, (object, Vec::new()));
            }
            self.find(&mut chosen)?;
            for (object, runs) in chosen.into_values() {
                moved += self.relocate(&object, &runs)?;
            }
        }
        self.flush(false)?;
        Ok(moved)
    }

    /// How many live blocks each log object has that has some. Where they are is not kept: a large volume has a great many.
    fn live(&mut self) -> Result<BySalt<(u64, Arc<Prelude>)>, VolumeError> {
        let own = self.objects.keys.format();
        let mut live = BySalt::<(u64, Arc<Prelude>)>::new();
        self.each_stored(&mut |_, len, object, _| {
            if object.format == own {
                live.entry(object.salt).or_insert_with(|| (0, Arc::clone(object))).0 += len;
            }
        })?;
        Ok(live)
    }

    /// Where the live blocks of some log objects are.
    fn find(&mut self, chosen: &mut BySalt<(Arc<Prelude>, Runs)>) -> Result<(), VolumeError> {
        self.each_stored(&mut |block, len, object, slot| {
            if let Some((_, runs)) = chosen.get_mut(&object.salt) {
                runs.push((block, len, slot));
            }
        })
    }

    /// Goes through all runs that are stored.
    pub(super) fn each_stored(&mut self, with: &mut Each<'_>) -> Result<(), VolumeError> {
        let State { map, recent, .. } = &mut self.state;
        let top = map.top;
        map.walk(&self.objects, top.as_ref(), recent, &mut BTreeSet::new(), with)
    }

    /// Seals the live blocks of an object anew. They are current: nothing is written while this thread has the volume.
    fn relocate(&mut self, object: &Arc<Prelude>, runs_of: &[(u64, u64, u32)]) -> Result<u64, VolumeError> {
        let mut blocks = Vec::new();
        for (start, len, slot) in runs_of {
            let mut data = vec![0; *len as usize * BLOCK_LEN];
            let read = self.read_stored(object, *slot, *start, &mut data);
            if read.is_ok() {
                let whole = data.as_chunks::<BLOCK_LEN>().0.iter();
                blocks.extend((*start..).zip(whole.map(|block| Box::new(Plaintext(*block)))));
            }
            atrest_secret::wipe(&mut data);
            match read {
                Ok(()) => {}
                Err(VolumeError::Damaged { .. } | VolumeError::Missing { .. }) => return Ok(0),
                Err(error) => return Err(error),
            }
        }
        blocks.sort_by_key(|(block, _)| *block);
        self.make_room()?;
        let extents = runs(blocks.iter().map(|(block, _)| *block));
        let refs: Vec<_> = blocks.iter().map(|(block, data)| (*block, &***data)).collect();
        self.seal(extents, Vec::new(), &refs)?;
        Ok(blocks.len() as u64)
    }

    /// Numbers of the log objects that snapshots need.
    fn of_snapshots(&mut self) -> Result<BTreeSet<u64>, VolumeError> {
        let snapshots: Vec<_> = self.state.snapshots.values().cloned().collect();
        let mut needed = Needed::default();
        for snapshot in snapshots {
            let root = snapshot_root(&self.objects, &snapshot)?;
            self.needs(root.map.as_ref(), &Extents::default(), &mut needed)?;
        }
        Ok(needed.logs)
    }

    /// Adds what a map needs, with newer runs over it. What lies under others in it is not needed: whoever reads meets the others first.
    fn needs(
        &mut self,
        top: Option<&Prelude>,
        newer: &Extents,
        needed: &mut Needed,
    ) -> Result<(), VolumeError> {
        let own = self.objects.keys.format();
        let Needed { maps, logs, known, .. } = needed;
        if let Some(top) = top {
            self.state.map.nodes(&self.objects, top, maps)?;
        }
        self.state.map.walk(&self.objects, top, newer, known, &mut |_, _, object, _| {
            if object.format == own {
                logs.insert(object.number);
            }
        })
    }

    fn garbage(&mut self) -> Result<Garbage, VolumeError> {
        self.checkpoint()?;
        let checkpoints = self.writer()?.checkpoints.clone();
        let [(low, _), (_, _)] = checkpoints[..] else { return Ok(Garbage::default()) };
        let mut needed = Needed::default();
        let mut listed = Vec::new();
        for kind in [Kind::Log, Kind::Map, Kind::Checkpoint] {
            listed.extend(self.objects.list(kind)?);
        }
        for (number, salt) in checkpoints {
            let Some(root) = root(&self.objects, number, &salt)? else { return Ok(Garbage::default()) };
            self.needs(root.map.as_ref(), &Extents::default(), &mut needed)?;
        }
        let snapshots: Vec<_> = self.state.snapshots.values().cloned().collect();
        for snapshot in snapshots {
            let root = snapshot_root(&self.objects, &snapshot)?;
            needed.checkpoints.insert(snapshot.checkpoint);
            self.needs(root.map.as_ref(), &Extents::default(), &mut needed)?;
        }
        let (top, recent) = (self.state.map.top, self.state.recent.clone());
        self.needs(top.as_ref(), &recent, &mut needed)?;
        let mut dead = Vec::new();
        for name in listed {
            let is_dead = match (names::kind(&name), names::number(&name)) {
                (Some(Kind::Map), _) => names::salt(&name).is_some_and(|salt| !needed.maps.contains(&salt)),
                // The older checkpoint, and the log behind it, are what is left if the newer one is damaged.
                (Some(Kind::Checkpoint), Some(number)) => {
                    number < low && !needed.checkpoints.contains(&number)
                }
                (Some(Kind::Log), Some(number)) => {
                    number <= low && !needed.logs.contains(&number) && self.is_no_begin(number)?
                }
                _ => false,
            };
            if is_dead {
                dead.push(name);
            }
        }
        Ok(Garbage { names: dead, session: self.state.session })
    }

    /// Whether a log object is known not to begin a session. A writer that has slept since before one must meet it, however late.
    fn is_no_begin(&self, number: u64) -> Result<bool, VolumeError> {
        Ok(open::log_object(&self.objects, number)?.is_some_and(|object| !object.summary.begin))
    }
}

/// Something of each of some log objects, by their salts.
type BySalt<T> = BTreeMap<[u8; 16], T>;

/// Runs of live blocks of a log object: address, length and slot.
type Runs = Vec<(u64, u64, u32)>;

/// What something needs.
#[derive(Default)]
struct Needed {
    maps: BTreeSet<[u8; 16]>,
    logs: BTreeSet<u64>,
    checkpoints: BTreeSet<u64>,
    /// Nodes below which everything is in `logs`.
    known: BTreeSet<[u8; 16]>,
}
