//! A volume that is served while it is re-encrypted.
//!
//! Every byte is in one of two disks: all data as it was, and all data as it will be. Which of them has it follows from how far
//! the re-encryption is. The zone that is being rewritten is in neither, so:
//!
//! 1. Writes to it wait until it is done. First of all they are shut out, and what was written before is flushed: the hashes that
//!    protect the zone are of what is on the media after a power loss, too.
//! 2. Its plaintext is read into memory. From then on reads of it come from there: they wait for nothing.
//! 3. It is rewritten. The boundary moves over it, and the writes that waited go on.
//!
//! If the rewriting fails, the device fails as after a failed flush: nothing is written any more, and everything can be read.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use atrest_device::{BlockDevice, Cause, DeviceError, Durability, Geometry, Operation};
use atrest_secret::SecretBytes;
use atrest_volume::luks2::reencrypt::{Rewriting, Zone};

use super::{RewriteError, Served};
use crate::disk::{Disk, DiskError, DiskOptions};

/// The plaintext of a volume, whatever part of it has been rewritten.
pub struct Online {
    old: Disk,
    new: Disk,
    media: Arc<dyn BlockDevice>,
    size: u64,
    unit: u32,
    read_only: bool,
    place: RwLock<Place>,
    /// Counts zones that were done, for those that wait for one.
    done: Mutex<u64>,
    cooled: Condvar,
    durability: Durability,
    /// Kept open for its lock.
    header: Option<Arc<dyn BlockDevice>>,
}

/// How far the rewriting is.
struct Place {
    /// What is in the disk of the old form; all else, but for the zone, is in the new one.
    old: Range<u64>,
    hot: Option<Hot>,
    failed: bool,
}

/// A zone that is being rewritten.
struct Hot {
    zone: Range<u64>,
    /// Its plaintext, once it is in memory. Before that the old form is as it was.
    plaintext: Option<SecretBytes>,
}

/// Who has a run of bytes.
enum Source<'a> {
    Old,
    New,
    /// The zone: plaintext in memory, of which the run begins here.
    Memory(&'a SecretBytes, usize),
}

impl Online {
    /// The volume whose re-encryption goes on by `rewriting`. No zone may be half-written: recover it first.
    ///
    /// `None` if data moves, or if another was made of the same `rewriting`.
    ///
    /// # Errors
    /// As [`Disk::new`].
    pub fn new(
        media: Arc<dyn BlockDevice>,
        rewriting: &mut Rewriting<'_>,
        done: u64,
        options: &DiskOptions,
    ) -> Result<Option<Self>, DiskError> {
        let (size, unit) = (rewriting.total(), rewriting.alignment());
        let Some(sides) = rewriting.take_sides() else { return Ok(None) };
        let old = match rewriting.is_backward() {
            true => 0..size - done,
            false => done..size,
        };
        let disk = |segment| Disk::of_segments(media.clone(), vec![segment], options.clone());
        let (before, after) = (disk(sides.old)?, disk(sides.new)?);
        Ok(Some(Self {
            old: before,
            new: after,
            size,
            unit,
            read_only: options.read_only || media.is_read_only(),
            media,
            place: RwLock::new(Place { old, hot: None, failed: false }),
            done: Mutex::new(0),
            cooled: Condvar::new(),
            durability: Durability::new(),
            header: None,
        }))
    }

    /// Keeps open the device that a detached header lies on, and with it the use lock.
    #[must_use]
    pub fn with_header(mut self, header: Arc<dyn BlockDevice>) -> Self {
        self.header = Some(header);
        self
    }

    /// What tells the old form of the data from others, as [`Disk::likeness`] does.
    ///
    /// # Errors
    /// As [`Disk::likeness`].
    pub fn likeness_before(&self) -> Result<Vec<u8>, DeviceError> {
        self.old.likeness()
    }

    fn take_in(&self, zone: &Zone) -> Result<(), DeviceError> {
        let range = zone.offset..zone.offset + zone.len;
        self.change().hot = Some(Hot { zone: range, plaintext: None });
        let mut plaintext = SecretBytes::zeroed(zone.len as usize);
        self.old.read_alone(zone.offset, &mut plaintext)?;
        self.flush()?;
        if let Some(hot) = &mut self.change().hot {
            hot.plaintext = Some(plaintext);
        }
        Ok(())
    }

    fn wake(&self) {
        *self.done() += 1;
        self.cooled.notify_all();
    }

    fn change(&self) -> std::sync::RwLockWriteGuard<'_, Place> {
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> RwLockReadGuard<'_, Place> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, u64> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place, once no byte of the range is being rewritten.
    fn settled(&self, range: &Range<u64>) -> RwLockReadGuard<'_, Place> {
        loop {
            let seen = *self.done();
            let place = self.look();
            let waits = place.hot.as_ref().is_some_and(|hot| overlap(&hot.zone, range).is_some());
            if !waits || place.failed {
                return place;
            }
            drop(place);
            let done = self.done();
            let waited = self.cooled.wait_while(done, |done| *done == seen);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Does `each` with every part of a range that one disk has, as (disk, offset, bytes).
    fn each_part(
        &self,
        place: &Place,
        range: Range<u64>,
        mut each: impl FnMut(&Disk, u64, u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut at = range.start;
        while at < range.end {
            let (source, end) = place.source(at, range.end);
            match source {
                Source::Old => each(&self.old, at, end - at)?,
                Source::New => each(&self.new, at, end - at)?,
                // After a failure alone, which is told before.
                Source::Memory(..) => {
                    return Err(DeviceError::new(Operation::Write, at, end - at, Cause::EarlierFlushFailed));
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Changes a range by `each`, as [`each_part`](Self::each_part) does.
    fn alter(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        each: impl FnMut(&Disk, u64, u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        if self.read_only {
            return Err(DeviceError::new(operation, offset, len, Cause::ReadOnly));
        }
        self.check_range(operation, offset, len)?;
        let range = offset..offset + len;
        let units = range.start / u64::from(self.unit) * u64::from(self.unit)
            ..range.end.next_multiple_of(self.unit.into());
        let place = self.settled(&units);
        self.durability.check(operation, offset, len)?;
        self.each_part(&place, range, each)?;
        drop(place);
        self.durability.check(operation, offset, len)
    }
}

impl Served for Online {
    /// Shuts writes out of a zone, makes durable what was written to it, and takes its plaintext into memory.
    fn enter(&self, _: &Rewriting<'_>, zone: &Zone) -> Result<(), RewriteError> {
        Ok(self.take_in(zone)?)
    }

    fn leave(&self) -> Result<(), RewriteError> {
        let mut place = self.change();
        if let Some(hot) = place.hot.take() {
            match hot.zone.start == place.old.start {
                true => place.old.start = hot.zone.end,
                false => place.old.end = hot.zone.start,
            }
        }
        drop(place);
        self.wake();
        Ok(())
    }

    /// Nothing is written any more.
    fn fail(&self) {
        let error = DeviceError::new(Operation::Write, 0, 0, Cause::EarlierFlushFailed);
        // It returns the error that it is given.
        let _ = self.durability.flush(|| Err(error));
        let mut place = self.change();
        place.failed = true;
        // As it was: nothing of the zone has been written.
        place.hot.take_if(|hot| hot.plaintext.is_none());
        drop(place);
        self.wake();
    }
}

impl Place {
    /// Who has byte `at`, and where the run that begins there ends: at `end` at the latest.
    fn source(&self, at: u64, end: u64) -> (Source<'_>, u64) {
        if let Some(Hot { zone, plaintext: Some(plaintext) }) = &self.hot {
            if zone.contains(&at) {
                return (Source::Memory(plaintext, (at - zone.start) as usize), zone.end.min(end));
            }
            if at < zone.start {
                let (source, run) = self.cold(at, end);
                return (source, run.min(zone.start));
            }
        }
        self.cold(at, end)
    }

    fn cold(&self, at: u64, end: u64) -> (Source<'_>, u64) {
        match at {
            _ if self.old.contains(&at) => (Source::Old, self.old.end.min(end)),
            _ if at < self.old.start => (Source::New, self.old.start.min(end)),
            _ => (Source::New, end),
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (both.start < both.end).then_some(both)
}

impl BlockDevice for Online {
    fn size(&self) -> u64 {
        self.size
    }

    fn geometry(&self) -> Geometry {
        let (old, new) = (self.old.geometry(), self.new.geometry());
        Geometry {
            logical_block: old.logical_block.max(new.logical_block),
            physical_block: old.physical_block.max(new.physical_block),
            optimal_alignment: old.optimal_alignment.max(new.optimal_alignment),
            alignment_offset: 0,
        }
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let place = self.look();
        let (mut at, end) = (offset, offset + buf.len() as u64);
        while at < end {
            let (source, run) = place.source(at, end);
            let piece = &mut buf[(at - offset) as usize..(run - offset) as usize];
            match source {
                Source::Old => self.old.read_at(at, piece)?,
                Source::New => self.new.read_at(at, piece)?,
                Source::Memory(plaintext, skip) => {
                    piece.copy_from_slice(&plaintext[skip..skip + piece.len()]);
                }
            }
            at = run;
        }
        Ok(())
    }

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let Ok(place) = self.place.try_read() else { return Ok(false) };
        let end = offset + buf.len() as u64;
        match place.source(offset, end) {
            (_, run) if run < end => Ok(false),
            (Source::Old, _) => self.old.read_if_cached(offset, buf),
            (Source::New, _) => self.new.read_if_cached(offset, buf),
            (Source::Memory(plaintext, skip), _) => {
                buf.copy_from_slice(&plaintext[skip..skip + buf.len()]);
                Ok(true)
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.alter(Operation::Write, offset, data.len() as u64, |disk, at, len| {
            let skip = (at - offset) as usize;
            disk.write_at(at, &data[skip..skip + len as usize])
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.durability.flush(|| self.media.flush())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.alter(Operation::Discard, offset, len, |disk, at, len| disk.discard(at, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.alter(Operation::Write, offset, len, |disk, at, len| disk.write_zeroes(at, len))
    }
}

impl std::fmt::Debug for Online {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.look();
        f.debug_struct("Online")
            .field("size", &self.size)
            .field("old", &place.old)
            .field("hot", &place.hot.as_ref().map(|hot| &hot.zone))
            .field("has_detached_header", &self.header.is_some())
            .finish_non_exhaustive()
    }
}
