//! Reading while others have the volume: it is asked where blocks lie, and what is not in memory, of the map as well, is fetched when it has been
//! let go, in several requests at once where the store answers late.
//!
//! Whoever reads in order is fetched for ahead. Nothing rests on that: what failed, or was forgotten again, the read fetches itself and tells
//! why it can't.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use super::cache::{Blocks, Key, Known};
use super::core::{Core, Plaintext};
use super::nodes::{Fetched, Lacks};
use super::objects::Objects;
use super::read::{Whereabouts, opens};
use super::{SealedVolume, VolumeError, extents};
use crate::format::{BLOCK_LEN, BLOCK_SEALED, ObjectCipher, Parts, Prelude, names, slot_offset};

/// Blocks that one request asks for, at most: 1 MiB.
const PIECE: u64 = 256;
/// Blocks from which on a run is read past the cache, where the store answers at once: as nobody waits for such a store, whoever wants them again
/// reads them again. What decrypts them then writes where the reader wants them.
const LONG: u64 = 8;
/// Blocks of such a run that are read together, at most: what was read must still be near the CPU when it is decrypted.
const LONG_PIECE: u64 = 64;
/// Blocks that are fetched ahead of whoever reads in order, at most: 8 MiB.
const AHEAD: u64 = 2048;
/// Streams that are told apart.
const STREAMS: usize = 8;
/// A read belongs to a stream if it is no further from its end than so many times its own length: requests of one client overtake each other.
const NEAR: u64 = 16;
/// How often the volume is asked for by who must not wait: some ten microseconds.
const SPINS: u32 = 200;
/// Reads in order after which blocks are fetched ahead.
const TRUST: u32 = 2;

/// How a volume is read at once.
pub(super) struct Warm {
    /// Requests that the store is asked at once. With one nothing is fetched ahead.
    parallel: usize,
    /// Blocks that are fetched ahead: they must be in the cache when the read comes for them.
    most: u64,
    streams: Mutex<[Stream; STREAMS]>,
    /// Requests that fetch ahead.
    ahead: Arc<AtomicUsize>,
}

/// Somebody who reads in order, or may.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Where the last read ended, in blocks.
    end: u64,
    /// Up to where it was fetched ahead.
    until: u64,
    /// Reads that belong to it.
    reads: u32,
    /// When the last one came, of all reads.
    used: u64,
}

impl Stream {
    /// Whether a read goes on with it.
    fn has(&self, first: u64, end: u64) -> bool {
        self.used > 0 && first.abs_diff(self.end) <= NEAR * (end - first)
    }

    /// It, with a read that ends there.
    fn with(self, end: u64) -> Self {
        let (end, reads) = (self.end.max(end), self.reads.saturating_add(1)); // intended: enough is enough.
        Self { end, until: self.until.max(end), reads, ..self }
    }

    /// Whether something is to be fetched ahead of it. Not each time a little: a request is as dear as what it brings.
    fn wants(&self, most: u64) -> bool {
        self.reads >= TRUST && self.until - self.end <= most / 2
    }
}

impl Warm {
    pub(super) fn new(parallel: usize, cached_blocks: usize) -> Self {
        let most = (cached_blocks as u64 / 2).min(AHEAD);
        Self { parallel, most, streams: Mutex::default(), ahead: Arc::default() }
    }

    /// Reads another volume on the store as this one is read.
    pub(super) fn with(&self, cached_blocks: usize) -> Self {
        Self::new(self.parallel, cached_blocks)
    }

    /// What is to be fetched ahead of whoever reads these blocks: none, unless it goes on where others have ended.
    fn ahead(&self, first: u64, end: u64) -> (u64, u64) {
        if self.parallel < 2 {
            return (end, end);
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner); // intended: each is whole.
        let now = streams.iter().map(|stream| stream.used).max().unwrap_or(0) + 1; // intended: none was used.
        let Some(stream) = streams.iter_mut().find(|stream| stream.has(first, end)) else {
            if let Some(oldest) = streams.iter_mut().min_by_key(|stream| stream.used) {
                *oldest = Stream { end, until: end, reads: 0, used: now };
            }
            return (end, end);
        };
        *stream = Stream { used: now, ..stream.with(end) };
        if !stream.wants(self.most) {
            return (end, end);
        }
        let from = stream.until;
        stream.until = stream.end + self.most;
        (from, stream.until)
    }

    /// Whether [`ahead`](Self::ahead) has something to be fetched when it is told of these blocks.
    fn is_to_fetch(&self, first: u64, end: u64) -> bool {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner); // intended: each is whole.
        let stream = streams.iter().find(|stream| stream.has(first, end));
        self.parallel > 1 && stream.is_some_and(|stream| stream.with(end).wants(self.most))
    }

    /// Blocks up to `until` were to be fetched ahead, but nothing from `at` on is.
    fn stop_ahead(&self, until: u64, at: u64) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner); // intended: each is whole.
        if let Some(stream) = streams.iter_mut().find(|stream| stream.until == until) {
            stream.until = at.max(stream.end);
        }
    }
}

/// Blocks that lie in neighbouring slots of an object, and that this thread is to fetch.
struct Piece {
    cipher: Arc<ObjectCipher>,
    object: Arc<Prelude>,
    slot: u32,
    block: u64,
    blocks: u64,
}

/// Those of them that are what was written, by their slots, in their order.
type Found = Vec<(u32, Arc<Plaintext>)>;

impl Piece {
    fn keys(&self) -> impl Iterator<Item = Key> {
        let salt = self.object.salt;
        (self.slot..).take(self.blocks as usize).map(move |slot| (salt, slot))
    }

    /// Asks for sealed blocks from a slot on, once or for as long as patience lasts.
    fn ask(&self, objects: &Objects, slot: u32, blocks: u64, patient: bool) -> Result<Vec<u8>, VolumeError> {
        let (offset, len) = (slot_offset(&self.object, slot)?, blocks as usize * BLOCK_SEALED);
        let (store, name) = (objects.store_of(&self.object), names::log(self.object.number));
        let found = match patient {
            true => objects.again(|| store.get_range(&name, offset, len), |_| true)?,
            false => store.get_range(&name, offset, len)?,
        };
        found.ok_or(VolumeError::Missing { block: self.block })
    }

    fn block_in(&self, slot: u32) -> u64 {
        self.block + u64::from(slot - self.slot)
    }

    fn opens(&self, parts: Parts<'_>, slot: u32, sealed: Option<&[u8]>, out: &mut [u8; BLOCK_LEN]) -> bool {
        opens(parts, slot, self.block_in(slot), sealed, out)
    }

    fn open(&self, parts: Parts<'_>, slot: u32, sealed: Option<&[u8]>) -> Option<Arc<Plaintext>> {
        // Where it is decrypted it stays: what is moved leaves a copy that nobody wipes.
        let mut out = Arc::new(Plaintext([0; BLOCK_LEN]));
        let place = Arc::get_mut(&mut out)?;
        self.opens(parts, slot, sealed, &mut place.0).then_some(out)
    }

    fn damaged(&self, slot: u32) -> VolumeError {
        VolumeError::Damaged { block: self.block_in(slot) }
    }

    /// All blocks: one that comes wrong is asked for once more, as the way there may have damaged it.
    fn fetch(&self, objects: &Objects) -> Result<Found, VolumeError> {
        let sealed = self.ask(objects, self.slot, self.blocks, true)?;
        let mut opened = Vec::with_capacity(self.blocks as usize);
        self.cipher.several(|parts| {
            let mut sealed = sealed.chunks(BLOCK_SEALED);
            opened.extend(self.keys().map(|(_, slot)| (slot, self.open(parts, slot, sealed.next()))));
        });
        let again = |slot| {
            let again = self.ask(objects, slot, 1, true)?;
            let opened = self.cipher.several(|parts| self.open(parts, slot, Some(&again)));
            opened.ok_or(self.damaged(slot))
        };
        let whole = |(slot, block): (u32, Option<_>)| Ok((slot, block.map_or_else(|| again(slot), Ok)?));
        opened.into_iter().map(whole).collect()
    }

    /// All blocks, into `out` and past the cache.
    fn fetch_into(&self, objects: &Objects, out: &mut [u8]) -> Result<(), VolumeError> {
        let each = (self.slot..).step_by(LONG_PIECE as usize);
        for (from, out) in each.zip(out.chunks_mut(LONG_PIECE as usize * BLOCK_LEN)) {
            let out = out.as_chunks_mut::<BLOCK_LEN>().0;
            let sealed = self.ask(objects, from, out.len() as u64, true)?;
            let mut wrong = Vec::new();
            self.cipher.several(|parts| {
                let mut sealed = sealed.chunks(BLOCK_SEALED);
                for (at, (slot, out)) in (from..).zip(out.iter_mut()).enumerate() {
                    if !self.opens(parts, slot, sealed.next(), out) {
                        wrong.push((at, slot));
                    }
                }
            });
            for (at, slot) in wrong {
                let again = self.ask(objects, slot, 1, true)?;
                if !self.cipher.several(|parts| self.opens(parts, slot, Some(&again), &mut out[at])) {
                    return Err(self.damaged(slot));
                }
            }
        }
        Ok(())
    }

    /// Those that come at once.
    fn fetch_ahead(&self, objects: &Objects) -> Found {
        let Ok(sealed) = self.ask(objects, self.slot, self.blocks, false) else { return Vec::new() };
        let mut found = Vec::with_capacity(self.blocks as usize);
        self.cipher.several(|parts| {
            let whole = self.keys().zip(sealed.chunks(BLOCK_SEALED));
            found.extend(
                whole.filter_map(|((_, slot), sealed)| Some((slot, self.open(parts, slot, Some(sealed))?))),
            );
        });
        found
    }

    fn land(&self, cache: &Blocks, found: &Found) {
        for (slot, block) in found {
            cache.keep((self.object.salt, *slot), 1, Arc::clone(block));
        }
        cache.land(self.keys());
    }
}

/// Pieces that were taken on. Whatever becomes of this thread, nobody waits for them for ever.
struct Taken<'a> {
    cache: &'a Blocks,
    pieces: Vec<Piece>,
    /// Long runs that go past the cache. `None` where none does.
    long: Option<Vec<Piece>>,
    /// Blocks that others fetch, and that are waited for.
    others: Vec<(u64, Key)>,
}

impl<'a> Taken<'a> {
    fn none(cache: &'a Blocks) -> Self {
        Self { cache, pieces: Vec::new(), long: None, others: Vec::new() }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pieces.iter().for_each(|piece| self.cache.land(piece.keys()));
    }
}

impl SealedVolume {
    /// Fills `out` from byte `offset`, which the caller has checked.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), VolumeError> {
        let (block, len) = (BLOCK_LEN as u64, out.len() as u64);
        if len == 0 {
            return Ok(());
        }
        let (first, end) = (offset / block, (offset + len).div_ceil(block));
        if offset.is_multiple_of(block) && len.is_multiple_of(block) {
            return self.read_blocks(first, out);
        }
        let mut whole = vec![0; ((end - first) * block) as usize];
        let read = self.read_blocks(first, &mut whole);
        if read.is_ok() {
            let from = (offset - first * block) as usize;
            out.copy_from_slice(&whole[from..from + out.len()]);
        }
        atrest_secret::wipe(&mut whole);
        read
    }

    /// Fills `out` from byte `offset`, which the caller has checked, if that takes no waiting, and no fetching ahead either.
    pub(super) fn read_at_once(&self, offset: u64, out: &mut [u8]) -> bool {
        let (block, len) = (BLOCK_LEN as u64, out.len() as u64);
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) || len == 0 {
            return false;
        }
        let (first, end) = (offset / block, (offset + len) / block);
        // Whoever looks where something lies has the volume for a moment. Were that too long, those who are sent away would look, too, and
        // send away more.
        let Some(core) =
            (0..SPINS).find_map(|_| self.core.try_lock().inspect_err(|_| hint::spin_loop()).ok())
        else {
            return false;
        };
        if self.warm.is_to_fetch(first, end) {
            return false;
        }
        let Some(stored) = core.read_here(first, out) else { return false };
        let objects = Arc::clone(&core.objects);
        drop(core);
        let mut each = stored.into_iter();
        let here = each.all(|stored| stored.read_if_cached(&objects, out).is_some());
        if here {
            self.warm.ahead(first, end);
        }
        here
    }

    /// Fetches the blocks of which a write changes a part.
    pub(super) fn warm_edges(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let block = BLOCK_LEN as u64;
        for edge in [offset, offset + len] {
            if len > 0 && !edge.is_multiple_of(block) {
                let mut data = [0; BLOCK_LEN];
                let read = self.read_blocks(edge / block, &mut data);
                atrest_secret::wipe(&mut data);
                read?;
            }
        }
        Ok(())
    }

    fn read_blocks(&self, first: u64, out: &mut [u8]) -> Result<(), VolumeError> {
        let end = first + (out.len() / BLOCK_LEN) as u64;
        let (from, until) = self.warm.ahead(first, end);
        let (mut taken, mut at) = (Taken::none(&self.cache), first);
        taken.long = (self.warm.parallel == 1).then(Vec::new);
        let (ahead, lacking, objects) = self.with_map(|core, fetched| {
            core.take_on((&mut at, end), (first, Some(&mut *out)), &mut taken, fetched)?;
            let (mut ahead, mut at, mut lacking) = (Taken::none(&self.cache), from, None);
            // intended: what fails ahead is not asked for yet.
            if let Err(Lacks::Node(node)) =
                core.take_on((&mut at, until.min(core.state.blocks)), (from, None), &mut ahead, fetched)
            {
                self.warm.stop_ahead(until, at);
                lacking = Some(node);
            }
            Ok((ahead, lacking, Arc::clone(&core.objects)))
        })?;
        if let Some(node) = lacking {
            self.fetch_node_ahead(node, &objects);
        }
        self.fetch_ahead(ahead, &objects);
        match self.fetch(&mut taken, &objects, first, out) {
            // Its object may have been collected since: then it lies elsewhere now.
            Err(VolumeError::Missing { .. }) => {
                drop(taken);
                self.core()?.read(first * BLOCK_LEN as u64, out)
            }
            fetched => fetched,
        }
    }

    fn fetch(
        &self,
        taken: &mut Taken<'_>,
        objects: &Objects,
        first: u64,
        out: &mut [u8],
    ) -> Result<(), VolumeError> {
        let next = AtomicUsize::new(0);
        let pieces = &taken.pieces;
        let work = || {
            let mut all = Vec::new();
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let found = piece.fetch(objects);
                piece.land(&self.cache, found.as_ref().unwrap_or(&Vec::new())); // intended: nothing came.
                all.push((piece, found));
            }
            all
        };
        let threads = self.warm.parallel.min(pieces.len());
        let found = match threads {
            0 | 1 => work(),
            _ => thread::scope(|scope| {
                // intended: where no more threads can be made, those that there are do it.
                let spawned = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
                let others: Vec<_> = (1..threads).map_while(spawned).collect();
                let mut found = work();
                for other in others {
                    found.extend(other.join().map_err(|_| VolumeError::Broken)?);
                }
                Ok::<_, VolumeError>(found)
            })?,
        };
        for piece in taken.long.iter().flatten() {
            let at = (piece.block - first) as usize * BLOCK_LEN;
            piece.fetch_into(objects, &mut out[at..at + piece.blocks as usize * BLOCK_LEN])?;
        }
        let mut copy = |block: u64, data: &[u8; BLOCK_LEN]| {
            let at = (block - first) as usize * BLOCK_LEN;
            out[at..at + BLOCK_LEN].copy_from_slice(data);
        };
        for (piece, found) in found {
            for (slot, data) in found? {
                copy(piece.block + u64::from(slot - piece.slot), &data);
            }
        }
        let mut lost = Vec::new();
        for (block, key) in std::mem::take(&mut taken.others) {
            match self.cache.wait(&key) {
                Some(data) => copy(block, &data),
                None => lost.push(block),
            }
        }
        // As they lie together: one after the other each would be a request.
        for run in lost.chunk_by(|before, after| before + 1 == *after) {
            let at = (run[0] - first) as usize * BLOCK_LEN;
            self.read_again(run[0], &mut out[at..at + run.len() * BLOCK_LEN])?;
        }
        Ok(())
    }

    /// Blocks that somebody else was to fetch, and did not.
    fn read_again(&self, first: u64, out: &mut [u8]) -> Result<(), VolumeError> {
        let end = first + (out.len() / BLOCK_LEN) as u64;
        let (mut taken, mut at) = (Taken::none(&self.cache), first);
        let objects = self.with_map(|core, fetched| {
            core.take_on((&mut at, end), (first, Some(&mut *out)), &mut taken, fetched)?;
            Ok(Arc::clone(&core.objects))
        })?;
        self.fetch(&mut taken, &objects, first, out)
    }

    /// Has a node of the map fetched by a thread that nobody waits for, unless somebody fetches it.
    fn fetch_node_ahead(&self, node: Prelude, objects: &Arc<Objects>) {
        let Known::Nowhere = self.nodes.take_off(node.salt) else { return };
        let (objects, nodes) = (Arc::clone(objects), Arc::clone(&self.nodes));
        // intended: whoever needs it fetches it, and tells why it can't.
        let work = move || drop(nodes.fetch(&objects, &node));
        if thread::Builder::new().name("ahead".into()).spawn(work).is_err() {
            self.nodes.land(std::iter::once(node.salt));
        }
    }

    /// Has pieces fetched by threads that nobody waits for, as many as may run.
    fn fetch_ahead(&self, mut ahead: Taken<'_>, objects: &Arc<Objects>) {
        while let Some(piece) = ahead.pieces.pop() {
            let running = Running::begin(&self.warm.ahead);
            if self.warm.ahead.load(Ordering::Relaxed) > 2 * self.warm.parallel {
                ahead.pieces.push(piece); // it lands with those
                return;
            }
            let (objects, cache) = (Arc::clone(objects), Arc::downgrade(&self.cache));
            let keys: Vec<Key> = piece.keys().collect();
            let work = move || {
                let _running = running;
                let found = piece.fetch_ahead(&objects);
                // Whoever has closed the volume meanwhile wants nothing of it.
                if let Some(cache) = Weak::upgrade(&cache) {
                    piece.land(&cache, &found);
                }
            };
            if thread::Builder::new().name("ahead".into()).spawn(work).is_err() {
                self.cache.land(keys.into_iter());
            }
        }
    }
}

/// A request that fetches ahead.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Blocks in neighbouring slots of an object that are not in memory in clear.
struct Stored {
    object: Arc<Prelude>,
    slot: u32,
    block: u64,
    /// Where they belong among those that are read.
    at: usize,
    blocks: usize,
}

impl Stored {
    fn goes_on(&self, object: &Prelude, slot: u32, at: usize) -> bool {
        self.object.salt == object.salt
            && self.slot as usize + self.blocks == slot as usize
            && self.at + self.blocks == at
    }

    /// Reads them where nobody has to wait. `None` if somebody has to, or must be told of an error.
    fn read_if_cached(&self, objects: &Objects, out: &mut [u8]) -> Option<()> {
        let offset = slot_offset(&self.object, self.slot).ok()?;
        let mut sealed = vec![0; self.blocks * BLOCK_SEALED];
        let store = objects.store_of(&self.object);
        store.read_if_cached(&names::log(self.object.number), offset, &mut sealed)?;
        let cipher = objects.cipher(&self.object).ok()?;
        let out = &mut out.as_chunks_mut::<BLOCK_LEN>().0[self.at..self.at + self.blocks];
        cipher.several(|parts| {
            let mut places = (self.slot..).zip(self.block..).zip(sealed.chunks(BLOCK_SEALED)).zip(out);
            places
                .all(|(((slot, block), sealed), out)| opens(parts, slot, block, Some(sealed), out))
                .then_some(())
        })
    }
}

impl Core {
    /// What of the blocks from `at` up to `end` is neither in memory nor a hole, and is to be fetched or waited for. What is in memory is put
    /// into `out`, which begins with block `first`. Where a node of the map is lacking, `at` is the first block that is not known.
    fn take_on(
        &mut self,
        (at, end): (&mut u64, u64),
        (first, mut out): (u64, Option<&mut [u8]>),
        taken: &mut Taken<'_>,
        fetched: &Fetched,
    ) -> Result<(), Lacks> {
        while *at < end {
            let block = *at;
            let (len, place) = self.place_here(fetched, block)?;
            let len = len.min(end - block);
            let range = |from: u64, len: u64| {
                let at = (from - first) as usize * BLOCK_LEN;
                at..at + len as usize * BLOCK_LEN
            };
            match place {
                Whereabouts::Here(data) => {
                    if let Some(out) = &mut out {
                        out[range(block, 1)].copy_from_slice(&**data);
                    }
                }
                Whereabouts::Placed(extents::Place::Hole) => {
                    if let Some(out) = &mut out {
                        out[range(block, len)].fill(0);
                    }
                }
                Whereabouts::Placed(extents::Place::Stored(object, slot)) if self.is_queued(&object) => {
                    if let Some(out) = &mut out {
                        self.read_stored(&object, slot, block, &mut out[range(block, len)])?;
                    }
                }
                Whereabouts::Placed(extents::Place::Stored(object, slot))
                    if let Some(long) = &mut taken.long
                        && len >= LONG =>
                {
                    let cipher = self.objects.cipher(&object).map_err(VolumeError::from)?;
                    long.push(Piece { cipher, object, slot, block, blocks: len });
                }
                Whereabouts::Placed(extents::Place::Stored(object, slot)) => {
                    for (block, slot) in (block..block + len).zip(slot..) {
                        match taken.cache.take_off((object.salt, slot)) {
                            Known::Here(data) => {
                                if let Some(out) = &mut out {
                                    out[range(block, 1)].copy_from_slice(&**data);
                                }
                            }
                            Known::Flying if out.is_some() => taken.others.push((block, (object.salt, slot))),
                            Known::Flying => {}
                            Known::Nowhere => self.add_to(taken, &object, slot, block)?,
                        }
                    }
                }
            }
            *at = block + len;
        }
        Ok(())
    }

    /// Fills `out` with blocks from one on, as far as they are in memory in clear, and tells which of the others lie where. `None` if the
    /// map is not in memory that says so, or if they are not stored yet.
    fn read_here(&self, first: u64, out: &mut [u8]) -> Option<Vec<Stored>> {
        let (fetched, mut stored) = (Fetched::default(), Vec::<Stored>::new());
        let (blocks, mut at) = (out.as_chunks_mut::<BLOCK_LEN>().0, 0);
        while at < blocks.len() {
            let block = first + at as u64;
            let (len, place) = self.place_here(&fetched, block).ok()?;
            let end = blocks.len().min(at + len as usize);
            match place {
                Whereabouts::Here(data) => blocks[at] = **data,
                Whereabouts::Placed(extents::Place::Hole) => blocks[at..end].as_flattened_mut().fill(0),
                Whereabouts::Placed(extents::Place::Stored(object, slot)) => {
                    for (at, slot) in (at..end).zip(slot..) {
                        match self.cache.find(&(object.salt, slot)) {
                            Some(data) => blocks[at] = **data,
                            None if self.is_queued(&object) => return None,
                            None => match stored.last_mut() {
                                Some(last) if last.goes_on(&object, slot, at) => last.blocks += 1,
                                _ => stored.push(Stored {
                                    object: Arc::clone(&object),
                                    slot,
                                    block: first + at as u64,
                                    at,
                                    blocks: 1,
                                }),
                            },
                        }
                    }
                }
            }
            at = end;
        }
        Some(stored)
    }

    /// A block that is to be fetched: with its neighbours, or alone.
    fn add_to(
        &self,
        taken: &mut Taken<'_>,
        object: &Arc<Prelude>,
        slot: u32,
        block: u64,
    ) -> Result<(), VolumeError> {
        if let Some(last) = taken.pieces.last_mut()
            && last.object.salt == object.salt
            && last.blocks < PIECE
            && last.block + last.blocks == block
            && u64::from(last.slot) + last.blocks == u64::from(slot)
        {
            last.blocks += 1;
            return Ok(());
        }
        let cipher = match self.objects.cipher(object) {
            Ok(cipher) => cipher,
            Err(error) => {
                taken.cache.land(std::iter::once((object.salt, slot)));
                return Err(error.into());
            }
        };
        taken.pieces.push(Piece { cipher, object: Arc::clone(object), slot, block, blocks: 1 });
        Ok(())
    }

    /// Whether an object waits to be stored.
    fn is_queued(&self, object: &Prelude) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.uploads.find(object).is_some())
    }
}
