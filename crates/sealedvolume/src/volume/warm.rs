//! Reading from a store that answers late: what a read needs is fetched before, while nobody waits for the volume, in several requests at once.
//!
//! What comes is put into the cache, and the read finds it there. Nothing rests on it: what failed, or was forgotten again, the read
//! fetches itself and tells why it can't.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::core::{Core, Plaintext};
use super::read::Whereabouts;
use super::{SealedVolume, VolumeError, extents};
use crate::format::{BLOCK_LEN, BLOCK_SEALED, ObjectCipher, Prelude, names, open_block, slot_offset};
use crate::store::ObjectStore;

/// Blocks that one request asks for, at most: 1 MiB.
const PIECE: u64 = 256;
/// Blocks that are read ahead where somebody reads in order: 4 MiB.
const AHEAD: u64 = 1024;
/// Streams that are told apart.
const STREAMS: usize = 4;

/// How a volume is read at once.
pub(super) struct Warm {
    /// Requests that the store is asked at once. With one nothing is fetched before.
    parallel: usize,
    /// Blocks that are fetched before for one read: they must be in the cache when the read comes for them.
    most: u64,
    /// Where the last reads ended, in blocks.
    ends: [AtomicU64; STREAMS],
}

impl Warm {
    pub(super) fn new(parallel: usize, cached_blocks: usize) -> Self {
        let ends = [const { AtomicU64::new(u64::MAX) }; STREAMS];
        Self { parallel, most: cached_blocks as u64 / 2, ends }
    }

    /// Reads another volume on the store as this one is read.
    pub(super) fn with(&self, cached_blocks: usize) -> Self {
        Self::new(self.parallel, cached_blocks)
    }

    /// Whether a read goes on where another one has ended.
    fn goes_on(&self, first: u64, end: u64) -> bool {
        let load = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        match self.ends.iter().find(|slot| load(slot) == first || load(slot) == first + 1) {
            Some(slot) => {
                slot.store(end, Ordering::Relaxed);
                true
            }
            None => {
                // cannot fail: there is a slot for each number below the modulus.
                self.ends[first as usize % STREAMS].store(end, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Blocks that lie in neighbouring slots of an object.
struct Piece {
    store: Arc<dyn ObjectStore>,
    cipher: ObjectCipher,
    object: Arc<Prelude>,
    slot: u32,
    block: u64,
    blocks: u64,
}

impl Piece {
    /// The blocks that come, and are what was written.
    fn fetch(&self) -> Vec<(u32, Arc<Plaintext>)> {
        let len = self.blocks as usize * BLOCK_SEALED;
        let Ok(offset) = slot_offset(&self.object, self.slot) else { return Vec::new() };
        let sealed = self.store.get_range(&names::log(self.object.number), offset, len);
        let Ok(Some(sealed)) = sealed else { return Vec::new() };
        let whole = sealed.as_chunks::<BLOCK_SEALED>().0.iter();
        let open = |((slot, block), sealed)| {
            // Where it is decrypted it stays: what is moved leaves a copy that nobody wipes.
            let mut out = Arc::new(Plaintext([0; BLOCK_LEN]));
            let place = Arc::get_mut(&mut out)?;
            open_block(&self.cipher, slot, block, sealed, &mut place.0).ok()?;
            Some((slot, out))
        };
        (self.slot..).zip(self.block..).zip(whole).filter_map(open).collect()
    }
}

impl SealedVolume {
    /// Fetches what a read of `len` bytes from `offset` on will need.
    pub(super) fn warm(&self, offset: u64, len: u64) {
        let warm = &self.warm;
        if warm.parallel < 2 || len == 0 {
            return;
        }
        let (first, end) = (offset / BLOCK_LEN as u64, (offset + len).div_ceil(BLOCK_LEN as u64));
        let goes_on = warm.goes_on(first, end);
        if end - first > warm.most {
            return;
        }
        let Ok(mut core) = self.core() else { return };
        let Ok(mut pieces) = core.missing(first, end) else { return };
        if pieces.is_empty() {
            return;
        }
        if goes_on {
            let until = (end + AHEAD).min(first + warm.most).min(core.state.blocks);
            // intended: what lies ahead is not asked for yet.
            pieces.extend(core.missing(end, until).unwrap_or_default());
        }
        drop(core);
        let next = AtomicU64::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                found.extend(piece.fetch().into_iter().map(|(slot, data)| (piece.object.salt, slot, data)));
            }
            found
        };
        let found = thread::scope(|scope| {
            // intended: where no more threads can be made, those that there are do it.
            let spawned = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..warm.parallel.min(pieces.len())).map_while(spawned).collect();
            let mut found = work();
            // intended: a thread that panicked has found nothing.
            others.into_iter().for_each(|other| found.extend(other.join().unwrap_or_default()));
            found
        });
        let Ok(mut core) = self.core() else { return };
        for (salt, slot, data) in found {
            core.cache.keep((salt, slot), 1, data);
        }
    }
}

impl Core {
    /// What of some blocks is neither in memory nor a hole.
    fn missing(&mut self, first: u64, end: u64) -> Result<Vec<Piece>, VolumeError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut block = first;
        while block < end {
            let (len, place) = self.place(block)?;
            let len = len.min(end - block);
            if let Whereabouts::Placed(extents::Place::Stored(object, slot)) = place
                && !self.is_queued(&object)
            {
                for (block, slot) in (block..block + len).zip(slot..) {
                    if self.cache.find(&(object.salt, slot)).is_some() {
                        continue;
                    }
                    match pieces.last_mut() {
                        Some(last)
                            if last.object.salt == object.salt
                                && last.blocks < PIECE
                                && last.block + last.blocks == block
                                && u64::from(last.slot) + last.blocks == u64::from(slot) =>
                        {
                            last.blocks += 1;
                        }
                        _ => {
                            let store = self.objects.store_of(&object).clone();
                            let cipher = self.objects.keys.known(&object)?;
                            pieces.push(Piece {
                                store,
                                cipher,
                                object: Arc::clone(&object),
                                slot,
                                block,
                                blocks: 1,
                            });
                        }
                    }
                }
            }
            block += len;
        }
        Ok(pieces)
    }

    /// Whether an object waits to be stored.
    fn is_queued(&self, object: &Prelude) -> bool {
        let mut queue = self.writer.iter().flat_map(|writer| &writer.queue);
        queue.any(|queued| queued.object.prelude == *object)
    }
}
