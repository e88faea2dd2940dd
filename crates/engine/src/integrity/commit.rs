//! The journal while it is written.
//!
//! Writes gather in an *open* batch, which is acknowledged from memory as a disk's cache would. A commit takes the batch whole: it writes
//! sections of the journal, flushes, and then puts units and tags in their places. Meanwhile the next batch gathers. So everybody
//! who flushes at once waits for one commit, and a commit costs one flush: it also makes durable what the commit before put in its place,
//! and the sections of that one are free then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use atrest_device::DeviceError;
use atrest_format::integrity::{JOURNAL_MAC_LEN, Layout, SUPERBLOCK_LEN, Sections};
use atrest_volume::integrity::Hash;

use super::batch::Batch;
use super::{COMMIT_TIME, Shared};

/// Bytes of a batch, unless the journal is shorter.
const BATCH: u64 = 8 << 20;

/// The journal, and what is on its way through it.
pub struct Journal {
    state: Mutex<State>,
    /// A commit ended, or there is something to do for the thread that commits in time.
    changed: Condvar,
    /// Whether anything is not in its place.
    pending: AtomicBool,
    /// Units of a batch at most.
    capacity: usize,
    mac: Option<Arc<JournalMac>>,
}

/// The keyed hash of sections, and what it begins with.
#[derive(Debug)]
pub struct JournalMac {
    pub hash: Hash,
    /// The salt, where keyed hashes begin with it. Then the section's number follows.
    pub salt: Option<[u8; 16]>,
}

pub(super) struct State {
    open: Batch,
    /// When the first unit of it came.
    since: Option<Instant>,
    /// What is being committed, or could not be.
    pub(super) committing: Option<Arc<Batch>>,
    /// Commits that began and that ended, since the journal was opened.
    begun: u64,
    ended: u64,
    ring: Ring,
    failed: Option<DeviceError>,
    stopping: bool,
}

/// Where the next section goes.
#[derive(Clone, Copy)]
pub struct Ring {
    pub section: u32,
    pub round: u8,
    /// Sections before it that must not be overwritten before the next flush.
    pub held: u32,
}

impl Journal {
    pub fn new(layout: &Layout, ring: Ring, mac: Option<Arc<JournalMac>>) -> Self {
        let sections = u64::from(layout.sections());
        // Two batches fit, so that the second one waits for nothing.
        let most = (BATCH / layout.section_len()).clamp(1, (sections / 2).max(1));
        let state = State {
            open: Batch::new(layout.data_unit(), layout.tag_len()),
            since: None,
            committing: None,
            begun: 0,
            ended: 0,
            ring,
            failed: None,
            stopping: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            pending: AtomicBool::new(false),
            capacity: (most * layout.entries()) as usize,
            mac,
        }
    }

    /// A journal that nobody writes, and what of it is not in its place.
    pub fn of_reader(layout: &Layout, pending: Batch) -> Self {
        let journal = Self::new(layout, Ring { section: 0, round: 0, held: 0 }, None);
        journal.pending.store(!pending.is_empty(), Ordering::Release);
        journal.lock().committing = Some(Arc::new(pending));
        journal
    }

    /// Takes units, and waits for room if there is none.
    pub fn append(
        &self,
        shared: &Shared,
        mut first: u64,
        mut run: &[u8],
        mut tags: &[u8],
    ) -> Result<(), DeviceError> {
        let (unit, tag) = (shared.unit(), shared.places.layout.tag_len());
        let mut state = self.lock();
        while !run.is_empty() {
            if let Some(error) = state.failed {
                return Err(error);
            }
            let room = self.capacity - state.open.len().min(self.capacity); // intended: a full one has none
            if room == 0 {
                state = self.commit_or_wait(shared, state);
                continue;
            }
            let units = (run.len() / unit).min(room);
            let (now, later) = run.split_at(units * unit);
            let (now_tags, later_tags) = tags.split_at(units * tag);
            let was_empty = state.open.is_empty();
            state.open.put(first, now, now_tags);
            self.pending.store(true, Ordering::Release);
            if was_empty {
                state.since = Some(Instant::now());
                self.changed.notify_all();
            }
            (run, tags, first) = (later, later_tags, first + units as u64);
        }
        Ok(())
    }

    pub fn overlay(&self, first: u64, run: &mut [u8], tags: &mut [u8]) {
        if !self.pending.load(Ordering::Acquire) {
            return;
        }
        let state = self.lock();
        if let Some(committing) = &state.committing {
            committing.overlay(first, run, tags);
        }
        state.open.overlay(first, run, tags);
    }

    /// Commits what was written before this call.
    pub fn flush(&self, shared: &Shared) -> Result<(), DeviceError> {
        if shared.read_only {
            return Ok(());
        }
        let mut state = self.lock();
        let wanted = state.begun + u64::from(!state.open.is_empty());
        loop {
            if let Some(error) = state.failed {
                return Err(error);
            }
            if state.ended >= wanted {
                return Ok(());
            }
            state = self.commit_or_wait(shared, state);
        }
    }

    /// Commits what nobody flushed for a while, until [`stop`](Self::stop).
    pub fn commit_in_time(&self, shared: &Shared) {
        let mut state = self.lock();
        while !state.stopping && state.failed.is_none() {
            state = match state.since {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(since) => match COMMIT_TIME.checked_sub(since.elapsed()) {
                    Some(left) if !left.is_zero() => {
                        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                    }
                    _ => self.commit_or_wait(shared, state),
                },
            };
        }
    }

    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Commits the open batch, or waits for somebody who commits the one before.
    fn commit_or_wait<'a>(
        &'a self,
        shared: &Shared,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        if state.committing.is_some() {
            return self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let layout = &shared.places.layout;
        let open = std::mem::replace(&mut state.open, Batch::new(layout.data_unit(), layout.tag_len()));
        let batch = Arc::new(open);
        state.committing = Some(Arc::clone(&batch));
        state.since = None;
        state.begun += 1;
        let ring = state.ring;
        drop(state);
        let outcome = self.commit(shared, &batch, ring);
        let mut state = self.lock();
        match outcome {
            Ok(ring) => {
                state.ring = ring;
                state.committing = None;
                state.ended += 1;
                self.pending.store(!state.open.is_empty(), Ordering::Release);
            }
            // What could not be committed stays readable, and nothing more is acknowledged.
            Err(error) => state.failed = Some(error),
        }
        self.changed.notify_all();
        state
    }

    /// Writes a batch to the journal, flushes, and puts it in its places.
    fn commit(&self, shared: &Shared, batch: &Batch, mut ring: Ring) -> Result<Ring, DeviceError> {
        let places = &shared.places;
        let entries = places.layout.entries() as usize;
        let needed = batch.len().div_ceil(entries) as u32;
        if ring.held + needed > places.layout.sections() {
            places.flush()?;
        }
        let mut units = batch.units();
        let mut section = vec![0; places.layout.section_len() as usize];
        for _ in 0..needed {
            self.compose(&places.layout, ring, units.by_ref().take(entries), &mut section);
            places.write_section(ring.section, &mut section)?;
            ring.advance(places.layout.sections());
        }
        places.flush()?;
        ring.held = needed;
        batch.runs(|first, run, tags| {
            let _alone = shared.home.exclude(first * shared.unit() as u64, run.len());
            places.write(first, run, tags)
        })?;
        Ok(ring)
    }

    fn compose<'u>(
        &self,
        layout: &Layout,
        ring: Ring,
        units: impl Iterator<Item = (u64, &'u [u8], &'u [u8])>,
        section: &mut [u8],
    ) {
        let sections = Sections(layout);
        let composed = sections.compose(ring.section, ring.round, units, section);
        debug_assert!(composed.is_some(), "a section has room for its entries");
        if let Some(mac) = &self.mac {
            mac.set(layout, ring.section, section);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    pub fn advance(&mut self, sections: u32) {
        self.section += 1;
        if self.section >= sections {
            self.section = 0;
            self.round = (self.round + 1) & 3;
        }
    }
}

impl JournalMac {
    /// The keyed hash of a section.
    pub fn of(&self, layout: &Layout, number: u32, section: &[u8]) -> [u8; JOURNAL_MAC_LEN] {
        let mut hashed = Vec::new();
        if let Some(salt) = &self.salt {
            hashed.extend_from_slice(salt);
            hashed.extend_from_slice(&u64::from(number).to_le_bytes());
        }
        let all = Sections(layout).hashed(section, |sector| hashed.extend_from_slice(sector));
        debug_assert!(all.is_some(), "a whole section");
        let mut mac = [0; JOURNAL_MAC_LEN];
        self.hash.digest(&[&hashed], &mut mac);
        mac
    }

    /// Puts the hash of a superblock at the end of its sector, where superblocks have one.
    pub fn seal(&self, superblock: &mut [u8; SUPERBLOCK_LEN]) {
        if self.salt.is_some() {
            let (hashed, hash) = superblock[..512].split_at_mut(512 - self.hash.spec().digest_len());
            self.hash.digest(&[hashed], hash);
        }
    }

    /// Whether a superblock's sector is what was written there.
    pub fn fits(&self, sector: &[u8; 512]) -> bool {
        let (hashed, stored) = sector.split_at(512 - self.hash.spec().digest_len());
        let mut hash = vec![0; stored.len()];
        self.hash.digest(&[hashed], &mut hash);
        self.salt.is_none() || atrest_secret::constant_time_eq(&hash, stored)
    }

    pub fn set(&self, layout: &Layout, number: u32, section: &mut [u8]) {
        let mac = self.of(layout, number, section);
        let set = Sections(layout).set_mac(&mac, section);
        debug_assert!(set.is_some(), "a whole section");
    }
}
