//! The journal: what was flushed is kept on a local device until log objects hold it (FORMATS.md, "Journal of a sealed volume").

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atrest_device::{BlockDevice, Cause};
use atrest_secret::Random;

use super::VolumeError;
use super::takeover::Place;
use crate::format::{
    Aead, BLOCK_LEN, Chain, Extent, FormatError, JOURNAL_HEAD, JournalHead, JournalKeys, JournalMark,
    JournalPoint, JournalRecord, MOST_RECORDS, half, most_room,
};

pub(super) const HEAD: u64 = JOURNAL_HEAD as u64;
/// Bytes of a half that flushes leave for the empty records of openings.
const RESERVE: u64 = 64 << 10;

/// A journal, and how it is worked with.
pub struct JournalSettings {
    /// Where it is. All of the device belongs to it, and to it alone.
    pub device: Arc<dyn BlockDevice>,
    /// What was flushed is stored after so much time at the latest, or a flush waits for that.
    pub max_lag: Duration,
}

impl JournalSettings {
    /// Bytes that a device must have, for log objects that are sealed after so many blocks.
    pub fn least_size(batch: usize) -> u64 {
        // intended: more than any device has.
        most_room(batch).saturating_add(HEAD + RESERVE).saturating_mul(2)
    }
}

impl fmt::Debug for JournalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalSettings").field("max_lag", &self.max_lag).finish_non_exhaustive()
    }
}

/// The journal of an opening for writing.
pub(crate) struct Journal {
    pub(crate) synced: Arc<Synced>,
    pub(crate) id: NonZeroU32,
    /// The last record whose changes are all in sealed objects.
    pub(crate) covered: Point,
    /// The last record whose changes are all in the batch or in sealed objects.
    pub(crate) applied: Point,
    /// A log object with changes that no record has: a flush waits until it is stored, and records until it is anchored.
    pub(crate) owed: Option<u64>,
    /// A half was begun anew: what is in the batch is to be stored soon, so that the other half is free when this one is full.
    pub(crate) is_half_full: bool,
    pub(super) keys: JournalKeys,
    pub(super) half_len: u64,
    /// Which half is written, the number of its first record, and from which of its bytes on.
    pub(super) half: u64,
    pub(super) first: u64,
    pub(super) at: u64,
    /// Number of the last record in the other half. That half is begun anew when stored objects cover it.
    pub(super) other_last: u64,
    pub(super) last: Point,
    /// Where the last record lies, and what is before it, if it is empty.
    pub(super) empty: Option<(u64, Point)>,
    /// Log objects that may not be stored yet, with what they cover.
    pub(super) sealed: VecDeque<(u64, u64)>,
    /// Number of the last record that stored objects cover.
    pub(super) stored: u64,
}

/// A record, and the journal's chain value after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) number: u64,
    pub(crate) chain: Chain,
}

/// What of a journal is durable. Whoever flushes has it, beside whoever writes.
pub(crate) struct Synced {
    device: Arc<dyn BlockDevice>,
    /// The newest record.
    appended: Mutex<Point>,
    /// The newest that is durable.
    durable: Mutex<Point>,
}

impl Synced {
    pub(super) fn new(device: Arc<dyn BlockDevice>, newest: Point) -> Self {
        Self { device, appended: Mutex::new(newest), durable: Mutex::new(newest) }
    }

    /// Makes everything durable that was appended up to a record. Those who wait here share one flush.
    pub(crate) fn reach(&self, number: u64) -> Result<(), VolumeError> {
        let mut durable = lock(&self.durable);
        if durable.number >= number {
            return Ok(());
        }
        let newest = *lock(&self.appended);
        self.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *durable = newest;
        Ok(())
    }

    /// The newest record that is durable.
    pub(crate) fn point(&self) -> JournalPoint {
        let Point { number, chain } = *lock(&self.durable);
        JournalPoint { number, chain: half(&chain) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // intended: what is in it is copied whole.
}

impl Journal {
    /// What the next log object says.
    pub(crate) fn mark(&self) -> JournalMark {
        JournalMark::new(self.id, self.covered.number, &self.covered.chain)
    }

    /// A record that is owed, read again.
    pub(crate) fn read(&self, place: &Place, blocks: u64) -> Result<JournalRecord, VolumeError> {
        let mut bytes = vec![0; place.len];
        read(&*self.synced.device, place.at, &mut bytes).map_err(VolumeError::Journal)?;
        let (record, _) =
            self.keys.open((self.id, place.after.number, &place.before.chain), &bytes, blocks)?;
        Ok(record)
    }

    /// A log object is sealed.
    pub(crate) fn sealed(&mut self, number: u64) {
        self.sealed.push_back((number, self.covered.number));
    }

    /// Appends a record, if there is room for it.
    pub(crate) fn append(
        &mut self,
        random: &mut dyn Random,
        aead: Aead,
        (extents, blocks): (&[Extent], &[&[u8; BLOCK_LEN]]),
        stored: u64,
    ) -> Result<bool, VolumeError> {
        while let Some((_, covered)) = self.sealed.pop_front_if(|(number, _)| *number <= stored) {
            self.stored = covered;
        }
        let (bytes, after) = self.sealed_record((random, aead), extents, blocks)?;
        if self.at + bytes.len() as u64 + RESERVE > self.half_len {
            if self.stored < self.other_last || HEAD + bytes.len() as u64 + RESERVE > self.half_len {
                return Ok(false);
            }
            self.begin_half()?;
            self.is_half_full = true;
        }
        self.put(&bytes, after)?;
        (self.applied, self.empty) = (after, None);
        Ok(true)
    }

    /// Appends an empty record: nothing that an earlier session left behind what it found can follow then, whoever restores it.
    pub(super) fn put_behind(
        &mut self,
        with: (&mut dyn Random, Aead),
        point: Option<JournalPoint>,
    ) -> Result<(), VolumeError> {
        if self.at + HEAD > self.half_len {
            match self.empty {
                _ if self.stored >= self.other_last => self.begin_half()?,
                // Openings that came to nothing have used up the room.
                Some((at, before)) if point.is_none_or(|point| point.number < self.last.number) => {
                    (self.at, self.last) = (at, before);
                }
                _ => return Err(VolumeError::Limit(FormatError::Limit)),
            }
        }
        let (bytes, after) = self.sealed_record(with, &[], &[])?;
        self.put(&bytes, after)
    }

    fn sealed_record(
        &self,
        (random, aead): (&mut dyn Random, Aead),
        extents: &[Extent],
        blocks: &[&[u8; BLOCK_LEN]],
    ) -> Result<(Vec<u8>, Point), VolumeError> {
        let mut salt = [0; 16];
        random.fill(&mut salt)?;
        let number = self.last.number + 1;
        let at = (self.id, number, &self.last.chain);
        let (bytes, chain) = self.keys.seal(at, (aead, salt), extents, blocks)?;
        Ok((bytes, Point { number, chain }))
    }

    fn put(&mut self, bytes: &[u8], after: Point) -> Result<(), VolumeError> {
        let at = self.half * self.half_len + self.at;
        let written = self.synced.device.write_at(at, bytes);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        self.at += bytes.len() as u64;
        self.last = after;
        *lock(&self.synced.appended) = after;
        Ok(())
    }

    /// Nothing is in it any more, and everything is stored.
    pub(crate) fn end(&mut self) -> Result<(), VolumeError> {
        self.begin_half()?;
        self.flush()?;
        // What is in the other half is covered, and nobody is to take it for what was left.
        let wiped = self.synced.device.write_at((1 - self.half) * self.half_len, &[0; JOURNAL_HEAD]);
        wiped.map_err(|error| VolumeError::Journal(error.cause))?;
        self.flush()
    }

    /// Begins the half that is not written, behind the last record, unless the one that is written has no record. All that is in it is covered.
    pub(crate) fn begin_half(&mut self) -> Result<(), VolumeError> {
        if self.first == self.last.number + 1 {
            return Ok(());
        }
        if self.last.number >= MOST_RECORDS - 2 {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        // The records before it must be there once the head is.
        self.flush()?;
        let which = 1 - self.half;
        let (epoch, id, first, before) = (self.keys.epoch(), self.id, self.last.number + 1, self.last.chain);
        let head = self.keys.encode_head(&JournalHead { epoch, id, first, before });
        let written = self.synced.device.write_at(which * self.half_len, &head);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        (self.half, self.first, self.at, self.other_last) = (which, first, HEAD, self.last.number);
        self.empty = None;
        Ok(())
    }

    /// Makes everything durable that was appended.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        let newest = self.last;
        self.synced.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *lock(&self.synced.durable) = newest;
        Ok(())
    }

    /// Number of the newest record.
    pub(crate) fn number(&self) -> u64 {
        self.last.number
    }

    /// All that it holds is in the batch or in sealed objects.
    pub(crate) fn is_applied(&mut self) {
        self.applied = self.last;
    }
}

pub(super) fn read(device: &dyn BlockDevice, at: u64, out: &mut [u8]) -> Result<(), Cause> {
    device.read_at(at, out).map_err(|error| error.cause)
}
