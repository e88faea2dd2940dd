//! Writing: the batch, log objects and their order, flushes and the record.

use std::sync::Arc;
use std::time::Instant;

use super::anchor::Anchor;
use super::batch::Batch;
use super::core::{Core, Writer};
use super::journal::Journal;
use super::takeover::Place;
use super::uploads::Uploads;
use super::{Head, LocalJournal, SealedVolume, VolumeError};
use crate::format::{BLOCK_LEN, Extent, JournalRecord, Kind, Operation, Summary, seal_log};

impl SealedVolume {
    /// Changes the volume. Before, others may go on while this one waits until there is room for what it seals; afterwards it stores that,
    /// where nobody else does.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut Core) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Some((uploads, _)) = &self.uploads else { return Err(VolumeError::ReadOnly) };
        self.wait_for_checkpoint()?;
        self.or_fail(uploads.wait_for_room())?;
        let (changed, is_due) = {
            let mut core = self.core()?;
            let changed = change(&mut core);
            (changed, core.writer().is_ok_and(|writer| writer.is_due()))
        };
        self.or_fail(uploads.step())?;
        changed?;
        // What was written since the last checkpoint is in memory, and there is a bound to that.
        if is_due { self.checkpoint_if_due() } else { Ok(()) }
    }

    /// Makes everything that was written until now durable, and by policy anchors it. While this waits for the store or the trusted store, others read
    /// and write. Those who flush while enough is under way wait for their turn, and what all of them have written becomes one object.
    pub(super) fn make_durable(&self) -> Result<(), VolumeError> {
        let Some((uploads, anchor)) = &self.uploads else { return Ok(()) };
        if let Some(journal) = &self.journal
            && self.keep_in_journal(journal, uploads, anchor)?
        {
            // Where something waits to be stored a checkpoint would wait for it, too: whoever writes makes one.
            return if uploads.oldest().is_none() { self.checkpoint_if_due() } else { Ok(()) };
        }
        let (number, is_sealed) = self.core()?.flush_target()?;
        if !is_sealed {
            self.or_fail(uploads.wait_for_turn(number))?;
            let mut core = self.core()?;
            core.writer()?;
            // Unless somebody else has, with all that was written before this began.
            if core.state.head.number < number {
                core.seal_batch()?;
            }
        }
        self.make_durable_up_to(number, false)?;
        self.checkpoint_if_due()
    }

    /// Makes everything durable in the journal that was written until now, and by policy anchors it. `false` where that is not enough: the journal
    /// has no room, or something waits to be stored for too long.
    fn keep_in_journal(
        &self,
        journal: &LocalJournal,
        uploads: &Uploads,
        anchor: &Anchor,
    ) -> Result<bool, VolumeError> {
        let (number, oldest) = {
            let mut core = self.core()?;
            let is_recorded = core.record_batch(uploads)?;
            if let Some(journal) = &mut core.writer()?.journal
                && journal.is_half_full
                && uploads.has_room()
            {
                journal.is_half_full = false;
                core.seal_batch()?;
            }
            let writer = core.writer()?;
            let oldest = [uploads.oldest(), writer.batch.since()].into_iter().flatten().min();
            match &writer.journal {
                Some(journal) if is_recorded => (journal.number(), oldest),
                _ => return Ok(false),
            }
        };
        // Somebody else may write since.
        self.or_fail(uploads.step())?;
        if oldest.is_some_and(|oldest| oldest.elapsed() > journal.max_lag) {
            return Ok(false);
        }
        self.or_fail(journal.synced.reach(number))?;
        self.or_fail(anchor.reach(|| uploads.stored(), false))?;
        Ok(true)
    }

    /// Waits until all log objects up to a number are stored, and by policy or by `force` anchors that.
    pub(super) fn make_durable_up_to(&self, number: u64, force: bool) -> Result<(), VolumeError> {
        let Some((uploads, anchor)) = &self.uploads else { return Ok(()) };
        self.or_fail(uploads.wait_for(number))?;
        self.or_fail(anchor.reach(|| uploads.stored(), force))
    }

    /// What can't be stored ends the session: nothing more is acknowledged.
    fn or_fail(&self, stored: Result<(), VolumeError>) -> Result<(), VolumeError> {
        if stored.is_err() {
            self.core()?.fail();
        }
        stored
    }
}

impl Core {
    /// What writes, unless it must not.
    pub(crate) fn writer(&mut self) -> Result<&mut Writer, VolumeError> {
        let writer = self.writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        if writer.failed { Err(VolumeError::EarlierFlushFailed) } else { Ok(writer) }
    }

    /// Whether a range lies inside the volume as it is now: whoever has waited until here may have met another size before.
    fn check_size(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let size = self.state.blocks * BLOCK_LEN as u64;
        match offset.checked_add(len).is_some_and(|end| end <= size) {
            true => Ok(()),
            // Sealed, it would end the log for whoever opens the volume next.
            false => Err(VolumeError::OutOfBounds { size }),
        }
    }

    /// Writes at byte `offset`.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8]) -> Result<(), VolumeError> {
        self.writer()?;
        self.check_size(offset, data.len() as u64)?;
        let (mut block, mut within) = (offset / BLOCK_LEN as u64, (offset % BLOCK_LEN as u64) as usize);
        while !data.is_empty() {
            if within == 0
                && let Some((whole, rest)) = data.split_first_chunk::<BLOCK_LEN>()
            {
                // Zeros are a hole: nothing is stored of them.
                match whole.iter().all(|byte| *byte == 0) {
                    true => self.writer()?.batch.trim(block, 1),
                    false => self.writer()?.batch.write(block, whole),
                }
                data = rest;
            } else {
                let len = data.len().min(BLOCK_LEN - within);
                let mut edge = [0; BLOCK_LEN];
                self.read(block * BLOCK_LEN as u64, &mut edge)?;
                edge[within..within + len].copy_from_slice(&data[..len]);
                self.writer()?.batch.write(block, &edge);
                atrest_secret::wipe(&mut edge);
                data = &data[len..];
            }
            (block, within) = (block + 1, 0);
            self.seal_full()?;
        }
        Ok(())
    }

    /// Blocks read as zeros from now on.
    pub(crate) fn trim(&mut self, start: u64, len: u64) -> Result<(), VolumeError> {
        self.writer()?;
        self.check_size(start * BLOCK_LEN as u64, len * BLOCK_LEN as u64)?;
        self.writer()?.batch.trim(start, len);
        self.seal_full()
    }

    fn seal_full(&mut self) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        if writer.batch.len() < writer.batch_blocks {
            return Ok(());
        }
        self.seal_batch()
    }

    /// Seals what is in the batch. Where there is a journal it is recorded there first: a flush may then rest on it.
    pub(super) fn seal_batch(&mut self) -> Result<(), VolumeError> {
        self.make_room()?;
        let number = self.state.successor;
        let uploads = self.uploads()?;
        let is_recorded = self.record_batch(&uploads)?;
        let writer = self.writer()?;
        let batch = match &mut writer.journal {
            None => std::mem::take(&mut writer.batch),
            Some(journal) => {
                if !is_recorded {
                    journal.owed = Some(number);
                }
                journal.covered = journal.applied;
                std::mem::replace(&mut writer.batch, Batch::recorded())
            }
        };
        let since = batch.since().unwrap_or_else(Instant::now); // intended: without a journal nobody asks.
        let sealed = self.seal_since(batch.extents(), Vec::new(), &blocks_of(&batch), since);
        if sealed.is_err() {
            // Nothing was sealed, and what was to be is given up: no later flush may say that it is stored.
            self.fail();
        }
        sealed
    }

    /// Appends to the journal what is in the batch and in no record. `false` where there is no room for that, or something that no record has
    /// waits to be stored and anchored.
    fn record_batch(&mut self, uploads: &Uploads) -> Result<bool, VolumeError> {
        let aead = self.objects.aead;
        let Writer { journal, batch, random, anchor, .. } = self.writer()?;
        let Some(journal) = journal else { return Ok(true) };
        let stored = uploads.stored().number;
        // Behind what has no record there is none, until nobody can take it back: it would be there without what came before it.
        journal.owed = journal.owed.filter(|owed| *owed > anchor.reached(stored));
        let mut recorded = Ok(journal.owed.is_none());
        if journal.owed.is_none() && !batch.is_recorded() {
            let (extents, blocks) = batch.unrecorded();
            recorded = journal.append(random, aead, (&extents, &blocks), stored);
        }
        if let Ok(true) = recorded {
            batch.is_now_recorded();
        }
        recorded.inspect_err(|_| self.fail())
    }

    /// Seals the next log object, which waits then to be stored. The caller has made room.
    pub(crate) fn seal(
        &mut self,
        extents: Vec<Extent>,
        operations: Vec<Operation>,
        blocks: &[(u64, &[u8; BLOCK_LEN])],
    ) -> Result<(), VolumeError> {
        self.seal_since(extents, operations, blocks, Instant::now())
    }

    fn seal_since(
        &mut self,
        extents: Vec<Extent>,
        operations: Vec<Operation>,
        blocks: &[(u64, &[u8; BLOCK_LEN])],
        since: Instant,
    ) -> Result<(), VolumeError> {
        let Self { objects, state, writer, .. } = self;
        let writer = writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        let number = state.successor;
        let prelude = objects.prelude(&mut writer.random, Kind::Log, number, state.session)?;
        let summary = Summary {
            begin: false,
            ordinal: state.ordinal,
            before: state.head.number,
            before_chain: state.head.chain,
            successor: number + 1,
            tags: [0; 32],
            blocks: state.blocks,
            journal: writer.journal.as_ref().map(Journal::mark),
            extents,
            operations,
        };
        let sealed = seal_log(&objects.keys, prelude, summary, blocks)?;
        state.step(&sealed.object);
        if let Some(observer) = &writer.observer {
            observer.sealed(&sealed.object);
        }
        if let Some(journal) = &mut writer.journal {
            journal.sealed(number);
        }
        writer.uploads.add(sealed, since);
        writer.since_checkpoint += 1;
        Ok(())
    }

    /// Waits until another number may be under way.
    pub(crate) fn make_room(&mut self) -> Result<(), VolumeError> {
        let uploads = self.uploads()?;
        uploads.wait_for_room().inspect_err(|_| self.fail())
    }

    fn uploads(&mut self) -> Result<Arc<Uploads>, VolumeError> {
        Ok(Arc::clone(&self.writer()?.uploads))
    }

    pub(super) fn fail(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.failed = true;
            writer.uploads.stop();
            writer.anchor.stop();
        }
    }

    /// The number up to which everything that was written is to be stored, and whether the object of that number is sealed.
    fn flush_target(&mut self) -> Result<(u64, bool), VolumeError> {
        match self.writer()?.batch.is_empty() {
            true => Ok((self.state.head.number, true)),
            false => Ok((self.state.successor, false)),
        }
    }

    /// Seals what is not sealed, and returns the number up to which everything is to be stored.
    fn sealed(&mut self) -> Result<u64, VolumeError> {
        if !self.writer()?.batch.is_empty() {
            self.seal_batch()?;
        }
        Ok(self.state.head.number)
    }

    /// Makes everything that was written durable, and by policy anchors it, while nobody else has the volume. `force`: whatever the policy says.
    pub(crate) fn flush(&mut self, force: bool) -> Result<(), VolumeError> {
        let number = self.sealed()?;
        let uploads = self.uploads()?;
        uploads.wait_for(number).inspect_err(|_| self.fail())?;
        self.anchor_stored(force)
    }

    /// By policy, or by `force`, anchors what is stored without a gap.
    fn anchor_stored(&mut self, force: bool) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        let (anchor, uploads) = (Arc::clone(&writer.anchor), Arc::clone(&writer.uploads));
        anchor.reach(|| uploads.stored(), force).inspect_err(|_| self.fail())
    }

    /// Flushes, and writes a checkpoint if one is due. That one fails is no failure of the flush.
    pub(crate) fn flush_for_user(&mut self) -> Result<(), VolumeError> {
        self.flush(false)?;
        self.checkpoint_while_alone_if_due()
    }

    /// Writes the record of a point of this session. All of the history up to it is stored.
    pub(crate) fn anchor(&self, head: Head, closed: bool) -> Result<(), VolumeError> {
        self.writer.as_ref().ok_or(VolumeError::ReadOnly)?.anchor.write(head, closed)
    }

    pub(crate) fn close(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        self.end_journal()?;
        let checkpoint = self.checkpoint();
        self.writer()?;
        let closed = self.anchor(self.state.head, true);
        self.fail();
        checkpoint.and(closed)
    }
}

impl Core {
    /// Takes the journal out of use. Everything is stored.
    fn end_journal(&mut self) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        let Some(journal) = &mut writer.journal else { return Ok(()) };
        journal.end().inspect_err(|_| self.fail())?;
        let writer = self.writer()?;
        (writer.journal, writer.batch) = (None, Batch::default());
        // What is stored from here on says that nothing is owed. Only then the record does.
        self.make_room()?;
        self.seal(Vec::new(), Vec::new(), &[])?;
        self.writer()?.anchor.end_journal();
        self.flush(true)
    }

    /// Writes again what the journal holds and the log does not, as if it came now.
    pub(super) fn replay(&mut self, owed: &[Place]) -> Result<(), VolumeError> {
        for place in owed {
            let blocks = self.state.blocks;
            let Some(journal) = &self.writer()?.journal else { return Ok(()) };
            let record = journal.read(place, blocks)?;
            // A record has its blocks in the order of their places: half of one is a state that the volume never had.
            self.seal_before(parts_of(&record))?;
            let mut data = record.data.as_chunks::<BLOCK_LEN>().0.iter();
            let writer = self.writer()?;
            for Extent { start, len, trim } in &record.extents {
                if *trim {
                    writer.batch.trim(*start, *len);
                    continue;
                }
                for (block, data) in (*start..*start + *len).zip(&mut data) {
                    writer.batch.write(block, data);
                }
            }
            writer.batch.is_now_recorded();
            if let Some(journal) = &mut writer.journal {
                journal.applied = place.after;
            }
            self.seal_full()?;
        }
        if let Some(journal) = &mut self.writer()?.journal {
            journal.is_applied();
        }
        Ok(())
    }

    /// Seals what is in the batch, if so much more would be too much.
    fn seal_before(&mut self, parts: usize) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        if writer.batch.is_empty() || writer.batch.len() + parts <= writer.batch_blocks {
            return Ok(());
        }
        self.seal_batch()
    }
}

/// How much a record changes, as [`Batch::len`] counts.
fn parts_of(record: &JournalRecord) -> usize {
    record.data.len() / BLOCK_LEN + record.extents.iter().filter(|extent| extent.trim).count()
}

fn blocks_of(batch: &Batch) -> Vec<(u64, &[u8; BLOCK_LEN])> {
    batch.data.iter().map(|(block, data)| (*block, &**data)).collect()
}
