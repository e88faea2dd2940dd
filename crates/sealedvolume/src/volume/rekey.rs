//! Another volume key, and objects that are made anew: under the present key and by this volume.

use std::sync::Arc;

use atrest_device::Cause;
use atrest_secret::VolumeKey;

use super::batch::runs;
use super::core::{Core, Plaintext};
use super::extents::Place;
use super::state::State;
use super::{SealedVolume, VolumeError};
use crate::format::{BLOCK_LEN, FormatError, Keys, OtherKey, Prelude};

/// Blocks that become one log object.
const AT_ONCE: u64 = 2048;

/// What became of blocks that another key or another volume had made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Blocks that were sealed anew.
    pub blocks: u64,
    /// Blocks that can't be read, and stay where they are.
    pub left: u64,
}

impl SealedVolume {
    /// Gives the volume another key. `header` stores the header that holds it, in place of the one that holds `old`. Objects that there are keep their
    /// keys until [`rewrite`](Self::rewrite). The new key is drawn for this: a key that had been tried before must not come again.
    ///
    /// A crash before the header is stored leaves the volume with the old key, one after it with the new.
    ///
    /// # Errors
    /// [`VolumeError::JournalInUse`]. [`VolumeError::WrongKey`] for a key of another length or an `old` that is not the volume's. What a checkpoint fails with, or
    /// [`VolumeError::Header`]: then nothing more is written, and the next opening goes on with the key that the header holds.
    pub fn rekey(
        &self,
        old: &VolumeKey,
        new: &VolumeKey,
        header: impl FnOnce() -> Result<(), Cause>,
    ) -> Result<(), VolumeError> {
        let mut core = self.settled()?;
        // Its records are sealed with the old key.
        if core.writer()?.journal.is_some() {
            return Err(VolumeError::JournalInUse);
        }
        let present = core.objects.keys.clone();
        if !present.are_of(old) || present.are_of(new) {
            return Err(VolumeError::WrongKey);
        }
        let epoch = present.epoch().checked_add(1).ok_or(VolumeError::Limit(FormatError::Limit))?;
        let keys = Keys::at_epoch(new, present.format(), epoch).map_err(|_| VolumeError::WrongKey)?;
        core.checkpoint()?;
        core.touch()?; // so that the next checkpoint is another one
        let (format, epoch, key) = (present.format(), present.epoch(), VolumeKey::copy_from(old.expose()));
        core.state.keys.push(OtherKey { format, epoch, key, place: String::new() });
        core.state.keys.sort_by_key(|key| (key.format, key.epoch));
        let keys = keys.with(&core.state.keys).map_err(|_| VolumeError::WrongKey)?;
        Arc::make_mut(&mut core.objects).keys = keys;
        // From here on nothing is acknowledged until others open the volume with the new key.
        if let Err(error) = core.checkpoint() {
            core.fail();
            return Err(error);
        }
        if let Err(cause) = header() {
            core.fail();
            return Err(VolumeError::Header(cause));
        }
        // A second one, so that the volume opens if the first is damaged.
        core.touch()?;
        core.checkpoint()
    }

    /// Seals every block anew that another key or another volume has made, and the map. Checkpoints and snapshots that there are keep what they need.
    ///
    /// # Errors
    /// What reading the map, a flush or a checkpoint fails with. What was done until then is kept.
    pub fn rewrite(&self) -> Result<Rewritten, VolumeError> {
        let mut core = self.settled()?;
        let rewritten = core.rewrite()?;
        core.renew()?;
        core.touch()?;
        core.checkpoint()?;
        Ok(rewritten)
    }

    /// Forgets the keys and the volumes that nothing needs any more, and returns how many keys are left. While there are snapshots all are. Of log
    /// objects that garbage collection has not taken, it is not known then whether they begin a session: they stay.
    ///
    /// # Errors
    /// What reading the map, a flush or a checkpoint fails with.
    pub fn forget_keys(&self) -> Result<usize, VolumeError> {
        let mut core = self.settled()?;
        core.flush(true)?;
        if core.state.keys.is_empty() || !core.state.snapshots.is_empty() || !core.is_its_own()? {
            return Ok(core.state.keys.len());
        }
        core.state.keys.clear();
        // So that neither of the two checkpoints that count names a key.
        for _ in 0..2 {
            core.touch()?;
            core.checkpoint()?;
        }
        let keys = core.objects.keys.with(&[]).map_err(|_| VolumeError::WrongKey)?;
        Arc::make_mut(&mut core.objects).keys = keys;
        Ok(0)
    }
}

impl Core {
    /// Stores a log object that changes nothing.
    pub(super) fn touch(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        self.make_room()?;
        self.seal(Vec::new(), Vec::new(), &[])?;
        self.flush(true)
    }

    fn rewrite(&mut self) -> Result<Rewritten, VolumeError> {
        self.flush(true)?;
        let (mut done, mut at, mut waiting) = (Rewritten::default(), 0, Vec::new());
        let mut blocks = 0;
        while at < self.state.blocks {
            let (len, place) = self.state.place(&self.objects, at)?;
            let mut len = len.min(self.state.blocks - at);
            if let Place::Stored(object, slot) = place
                && !self.objects.made(&object)
            {
                len = len.min(AT_ONCE - blocks);
                blocks += len;
                waiting.push((at, len, object, slot));
            }
            at += len;
            if blocks == AT_ONCE || at == self.state.blocks {
                self.seal_anew(&waiting, &mut done)?;
                waiting.clear();
                blocks = 0;
                self.flush_for_user()?;
            }
        }
        Ok(done)
    }

    /// Seals blocks anew. They are current: nothing is written while this thread has the volume.
    fn seal_anew(
        &mut self,
        waiting: &[(u64, u64, Arc<Prelude>, u32)],
        done: &mut Rewritten,
    ) -> Result<(), VolumeError> {
        let mut blocks: Vec<(u64, Box<Plaintext>)> = Vec::new();
        for (start, len, object, slot) in waiting {
            for (block, slot) in (*start..start + len).zip(*slot..) {
                let mut data = Box::new(Plaintext([0; BLOCK_LEN]));
                match self.read_stored(object, slot, block, &mut data.0) {
                    Ok(()) => blocks.push((block, data)),
                    Err(VolumeError::Damaged { .. } | VolumeError::Missing { .. }) => done.left += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        let extents = runs(blocks.iter().map(|(block, _)| *block));
        let refs: Vec<_> = blocks.iter().map(|(block, data)| (*block, &***data)).collect();
        self.seal(extents, Vec::new(), &refs)?;
        done.blocks += blocks.len() as u64;
        Ok(())
    }

    /// Whether neither a block nor a node of the map is another key's or another volume's.
    fn is_its_own(&mut self) -> Result<bool, VolumeError> {
        let (objects, mut own) = (self.objects.clone(), true);
        self.each_stored(&mut |_, _, object, _| own &= objects.made(object))?;
        let State { map, .. } = &mut self.state;
        Ok(own && map.is_made(&objects)?)
    }
}
