//! Writing: the batch, log objects and their order, flushes and the record.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::batch::Batch;
use super::core::{Core, Writer};
use super::objects::Objects;
use super::{Head, VolumeError, open};
use crate::format::{BLOCK_LEN, Extent, Kind, Operation, Record, SealedLog, Summary, names, seal_log};
use crate::store::{Put, StoreError};

/// Bytes that wait to be stored, at most.
const WAITING: usize = 64 << 20;

impl Core {
    /// What writes, unless it must not.
    pub(crate) fn writer(&mut self) -> Result<&mut Writer, VolumeError> {
        let writer = self.writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        if writer.failed { Err(VolumeError::EarlierFlushFailed) } else { Ok(writer) }
    }

    /// Writes at byte `offset`, which the caller has checked.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8]) -> Result<(), VolumeError> {
        self.writer()?;
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
        self.writer()?.batch.trim(start, len);
        self.seal_full()
    }

    fn seal_full(&mut self) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        if writer.batch.len() < writer.batch_blocks {
            return Ok(());
        }
        self.seal_batch()?;
        if !self.writer()?.waits_for_more() {
            self.push()?;
        }
        // What was written since the last checkpoint is in memory, and there is a bound to that.
        self.checkpoint_if_due()
    }

    fn seal_batch(&mut self) -> Result<(), VolumeError> {
        self.make_room()?;
        let batch = std::mem::take(&mut self.writer()?.batch);
        let sealed = self.seal(batch.extents(), Vec::new(), &blocks_of(&batch));
        if sealed.is_err() {
            // Nothing was sealed, and what was to be is given up: no later flush may say that it is stored.
            self.fail();
        }
        sealed
    }

    /// Seals the next log object, which waits then to be stored. The caller has made room.
    pub(crate) fn seal(
        &mut self,
        extents: Vec<Extent>,
        operations: Vec<Operation>,
        blocks: &[(u64, &[u8; BLOCK_LEN])],
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
            extents,
            operations,
        };
        let sealed = seal_log(&objects.keys, prelude, summary, blocks)?;
        state.step(&sealed.object);
        if let Some(observer) = &writer.observer {
            observer.sealed(&sealed.object);
        }
        writer.queue.push(sealed);
        writer.since_checkpoint += 1;
        Ok(())
    }

    /// Waits until another number may be under way: so many behind the oldest that is not stored, however many of them are.
    pub(crate) fn make_room(&mut self) -> Result<(), VolumeError> {
        let (next, window) = (self.state.successor, self.state.window);
        let has_room = move |writer: &Writer| {
            let waiting: usize = writer.queue.iter().map(|sealed| sealed.bytes.len()).sum();
            let oldest = writer.queue.first().map(|sealed| sealed.object.prelude.number);
            waiting < WAITING && oldest.is_none_or(|oldest| next < oldest + window)
        };
        self.push_until(has_room)
    }

    /// Stores what waits, again and again, until `enough`; patience ends with a failed volume.
    fn push_until(&mut self, enough: impl Fn(&Writer) -> bool) -> Result<(), VolumeError> {
        let patience = self.objects.patience;
        let mut tries = 0;
        let mut last = StoreError::Silent;
        loop {
            if enough(self.writer()?) {
                return Ok(());
            }
            if tries == patience.tries.get() {
                self.fail();
                return Err(last.into());
            }
            if tries > 0 {
                thread::sleep(patience.pause(tries));
            }
            if let Some(error) = self.push()? {
                last = error;
            }
            tries += 1;
        }
    }

    /// Tries once to store each object that waits: the same bytes under the same number, or the volume is fenced. Returns why the
    /// last one of those that still wait does.
    fn push(&mut self) -> Result<Option<StoreError>, VolumeError> {
        let Self { objects, writer, .. } = self;
        let Some(writer) = writer else { return Ok(None) };
        let kept = store_all(objects, &writer.queue, writer.parallel);
        let (mut error, mut fence, mut kept) = (None, None, kept.into_iter());
        writer.queue.retain(|sealed| match kept.next() {
            Some(Ok(Kept::Stored)) => false,
            Some(Ok(Kept::Another)) => {
                fence = Some(sealed.object.prelude.number);
                true
            }
            Some(Err(why)) => {
                error = Some(why);
                true
            }
            // cannot happen: each has an answer.
            None => true,
        });
        match fence {
            Some(number) => {
                self.fail();
                Err(VolumeError::Fenced { number })
            }
            None => Ok(error),
        }
    }

    pub(super) fn fail(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.failed = true;
        }
    }

    /// Makes everything that was written durable, and by policy anchors it. `force`: whatever the policy says.
    pub(crate) fn flush(&mut self, force: bool) -> Result<(), VolumeError> {
        if !self.writer()?.batch.is_empty() {
            self.seal_batch()?;
        }
        self.push_until(|writer| writer.queue.is_empty())?;
        let head = self.state.head;
        let writer = self.writer()?;
        if writer.trusted.is_some() && writer.anchored != Some(head) {
            writer.flushes = writer.flushes.wrapping_add(1);
            if force || writer.flushes.is_multiple_of(writer.anchor_every.get()) {
                self.anchor(false).inspect_err(|_| self.fail())?;
            }
        }
        Ok(())
    }

    /// Flushes, and writes a checkpoint if one is due. That one fails is no failure of the flush.
    pub(crate) fn flush_for_user(&mut self) -> Result<(), VolumeError> {
        self.flush(false)?;
        self.checkpoint_if_due()
    }

    fn checkpoint_if_due(&mut self) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        // cannot overflow: the delay is bounded.
        if writer.since_checkpoint < writer.checkpoint_every + writer.checkpoint_delay {
            return Ok(());
        }
        match self.checkpoint() {
            // By the store or the record, nothing can be acknowledged any more: then this flush is no exception.
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

    /// Writes the record of the present head. All of the history up to it is stored.
    pub(crate) fn anchor(&mut self, closed: bool) -> Result<(), VolumeError> {
        let Head { number, chain } = self.state.head;
        let session = open::first_of(&self.state.session);
        let record = Record { closed, format: self.objects.keys.format(), number, chain, session };
        let writer = self.writer.as_mut().ok_or(VolumeError::ReadOnly)?;
        if let Some(trusted) = &mut writer.trusted {
            trusted.store(&record.encode())?;
        }
        writer.anchored = Some(self.state.head);
        Ok(())
    }

    pub(crate) fn close(&mut self) -> Result<(), VolumeError> {
        self.flush(true)?;
        let checkpoint = self.checkpoint();
        self.writer()?;
        let closed = self.anchor(true);
        self.fail();
        checkpoint.and(closed)
    }
}

/// What became of an object that was to be stored.
#[derive(Clone, Copy)]
enum Kept {
    Stored,
    /// Another object has its number.
    Another,
}

/// Tries once to store each object, so many at once. The answers are in their order.
fn store_all(objects: &Objects, queue: &[SealedLog], parallel: usize) -> Vec<Result<Kept, StoreError>> {
    let store = |sealed: &SealedLog| {
        let name = names::log(sealed.object.prelude.number);
        match objects.store.put_new(&name, &sealed.bytes)? {
            Put::Stored => Ok(Kept::Stored),
            Put::Exists if objects.holds(&name, &sealed.bytes)? => Ok(Kept::Stored),
            Put::Exists => Ok(Kept::Another),
        }
    };
    let threads = parallel.min(queue.len());
    if threads < 2 {
        return queue.iter().map(store).collect();
    }
    let answers: Vec<_> = queue.iter().map(|_| Mutex::new(Err(StoreError::Silent))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((sealed, answer)) =
            queue.iter().zip(&answers).nth(next.fetch_add(1, Ordering::Relaxed))
        {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = store(sealed); // intended: nobody else has it.
        }
    };
    thread::scope(|scope| {
        // intended: this thread is one of them, and where no more can be made, those that there are do it.
        let _ = (1..threads).try_for_each(|_| thread::Builder::new().spawn_scoped(scope, work).map(drop));
        work();
    });
    let told = |answer: Mutex<_>| answer.into_inner().unwrap_or_else(PoisonError::into_inner); // intended: it is whole.
    answers.into_iter().map(told).collect()
}

fn blocks_of(batch: &Batch) -> Vec<(u64, &[u8; BLOCK_LEN])> {
    batch.data.iter().map(|(block, data)| (*block, &**data)).collect()
}
