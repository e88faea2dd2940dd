//! dm-integrity in user space: data units and their tags on media, and how both get there together.
//!
//! The layout is the kernel's (`atrest_format::integrity`), and so are the ways to write:
//!
//! * **Journal**: units and tags go to the journal first, and to their places once the journal is durable. After a crash the next
//!   opening does it again, whoever that is: the kernel or this program.
//! * **Direct**: units and tags go to their places. A crash between the two leaves units whose tags are wrong.
//! * **Bitmap**: as direct, in regions that are marked before. The next opening computes the tags of marked regions.
//!
//! What is acknowledged and flushed survives a crash. A unit whose tag is wrong is an error for that unit ([`Cause::Tag`]), and never
//! data.

mod batch;
mod begin;
mod bitmap;
mod commit;
mod create;
mod error;
mod missing;
mod open;
mod places;
mod replay;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod volume;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atrest_cipher::{DataUnitIndex, Tagged};
use atrest_device::{Cause, DeviceError, Operation};
use atrest_secret::{OsRandom, Random};

pub use atrest_format::integrity::{Flags, Layout, NewLayout, Superblock};
use begin::Change;
use bitmap::Marks;
use commit::{Journal, JournalMac};
pub use create::{NewIntegrity, create};
pub use error::IntegrityError;
use missing::Missing;
pub use open::{Mode, OpenOptions, Recalculate, read_superblock};
use places::Places;
pub use volume::{lay_out, wipe_volume};

use crate::disk::units::Units;

/// Bytes that are read under one lock, at most.
const AT_ONCE: usize = 1 << 20;

/// Data units with tags on media, open.
pub struct Integrity {
    shared: Arc<Shared>,
    /// Commits, or clears marks.
    keeper: Mutex<Option<JoinHandle<()>>>,
    recalculating: Mutex<Option<JoinHandle<()>>>,
    superblock: Superblock,
}

/// What the threads share with everybody else.
struct Shared {
    places: Places,
    tagged: Box<dyn Tagged>,
    /// Reading a unit and its tag from their places shares, writing both excludes.
    home: Units,
    way: Way,
    mac: Option<Arc<JournalMac>>,
    missing: Missing,
    /// As it is on the media.
    superblock: Mutex<Superblock>,
    read_only: bool,
}

/// How units and tags get to their places.
enum Way {
    Journal(Journal),
    Direct,
    Bitmap(Marks),
}

impl Integrity {
    fn new(shared: Arc<Shared>) -> Self {
        let superblock = *shared.superblock();
        Self { shared, keeper: Mutex::new(None), recalculating: Mutex::new(None), superblock }
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.superblock.provided
    }

    /// The superblock, as it was when this was opened.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Bytes in a data unit.
    pub fn data_unit(&self) -> usize {
        self.shared.unit()
    }

    /// Whether nothing can be written.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// Reads whole data units from byte `at` on, no more than 1 MiB.
    ///
    /// # Errors
    /// [`Cause::Tag`] for the first unit whose tag is wrong: `run` holds nothing of use then. The error of the media otherwise.
    pub fn read(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let shared = &*self.shared;
        let first = shared.check(Operation::Read, at, run.len())?;
        let mut tags = vec![0; shared.tags_len(run.len())];
        let checked = {
            let _shared = shared.home.share(at, run.len());
            shared.places.read(first, run, &mut tags)?;
            shared.overlay(first, run, &mut tags);
            shared.checked(first, run.len())
        };
        shared.unseal(at, run, &tags, &checked)
    }

    /// Reads like [`read`](Self::read) what needs no waiting. False if something does: `run` holds nothing of use then.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_if_cached(&self, at: u64, run: &mut [u8]) -> Result<bool, DeviceError> {
        let shared = &*self.shared;
        let first = shared.check(Operation::Read, at, run.len())?;
        let mut tags = vec![0; shared.tags_len(run.len())];
        let checked = {
            let Some(_shared) = shared.home.try_share(at, run.len()) else { return Ok(false) };
            if !shared.places.read_if_cached(first, run, &mut tags)? {
                return Ok(false);
            }
            shared.overlay(first, run, &mut tags);
            shared.checked(first, run.len())
        };
        shared.unseal(at, run, &tags, &checked).map(|()| true)
    }

    /// Writes whole data units from byte `at` on, no more than 1 MiB. Afterwards `run` holds nothing of use.
    ///
    /// # Errors
    /// The error of the media, of this write or of an earlier one that was acknowledged before it was in the journal.
    pub fn write(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let shared = &*self.shared;
        let first = shared.check(Operation::Write, at, run.len())?;
        if shared.read_only {
            return Err(DeviceError::new(Operation::Write, at, run.len() as u64, Cause::ReadOnly));
        }
        let tags = shared.seal(at, run)?;
        match &shared.way {
            Way::Direct => {
                let _alone = shared.home.exclude(at, run.len());
                shared.places.write(first, run, &tags)
            }
            Way::Journal(journal) => {
                journal.append(shared, first, run, &tags)?;
                self.start_keeper();
                Ok(())
            }
            Way::Bitmap(marks) => {
                marks.write(shared, first, run, &tags)?;
                self.start_keeper();
                Ok(())
            }
        }
    }

    /// Reads whole data units as they are stored, without a check.
    pub(crate) fn stored(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let shared = &*self.shared;
        for (run, at) in run.chunks_mut(AT_ONCE).zip((at..).step_by(AT_ONCE)) {
            let first = shared.check(Operation::Read, at, run.len())?;
            let mut tags = vec![0; shared.tags_len(run.len())];
            let _shared = shared.home.share(at, run.len());
            shared.places.read(first, run, &mut tags)?;
            shared.overlay(first, run, &mut tags);
        }
        Ok(())
    }

    /// What would be stored of whole data units if each random IV were zeros. This is never written.
    pub(crate) fn ciphertext(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let shared = &*self.shared;
        let first = shared.check(Operation::Write, at, run.len())?;
        let mut tags = vec![0; shared.tags_len(run.len())];
        let len = run.len() as u64;
        let sealed = shared.tagged.seal(DataUnitIndex(first), run, &mut tags);
        sealed.map_err(|_| DeviceError::new(Operation::Write, at, len, Cause::Unsupported))
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// The error of the media, also one that came while something earlier was committed.
    pub fn flush(&self) -> Result<(), DeviceError> {
        match &self.shared.way {
            Way::Journal(journal) => journal.flush(&self.shared),
            Way::Direct | Way::Bitmap(_) => self.shared.places.flush(),
        }
    }

    /// Waits until no tag is missing.
    ///
    /// # Errors
    /// The error of the media that ended their computation.
    pub fn wait_until_recalculated(&self) -> Result<(), DeviceError> {
        self.shared.missing.wait()
    }

    /// Has the media read ahead.
    pub fn prefetch(&self, at: u64, len: u64) {
        let unit = self.shared.unit() as u64;
        self.shared.places.prefetch(at / unit, len.div_ceil(unit));
    }

    /// The thread is started with the first write.
    fn start_keeper(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() {
            let shared = Arc::clone(&self.shared);
            let work = move || match &shared.way {
                Way::Journal(journal) => journal.commit_in_time(&shared),
                Way::Bitmap(marks) => marks.settle_in_time(&shared),
                Way::Direct => {}
            };
            // Without the thread, what is written waits for a flush or for the journal to fill, and marks wait for the end.
            *keeper = std::thread::Builder::new().name("integrity".into()).spawn(work).ok();
        }
    }

    fn start_recalculating(&self) {
        if !self.shared.missing.any() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let work = move || shared.missing.recalculate(&shared);
        // Without the thread tags stay missing until the next opening.
        let thread = std::thread::Builder::new().name("recalculate".into()).spawn(work).ok();
        *self.recalculating.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }
}

/// What was written is committed. An error here nobody hears: who wants to know flushes before.
impl Drop for Integrity {
    fn drop(&mut self) {
        let shared = &*self.shared;
        shared.missing.stop();
        ended(&mut self.recalculating);
        match &shared.way {
            Way::Journal(journal) => {
                journal.stop();
                ended(&mut self.keeper);
                let _ = journal.flush(shared);
            }
            Way::Bitmap(marks) => {
                marks.stop();
                ended(&mut self.keeper);
                // What could not be settled stays marked.
                let _ = marks.settle(shared).and_then(|()| shared.leave_bitmap());
            }
            Way::Direct => {}
        }
    }
}

fn ended(thread: &mut Mutex<Option<JoinHandle<()>>>) {
    if let Some(thread) = thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
        // intended: a thread that panicked has nothing more to do.
        let _ = thread.join();
    }
}

impl Shared {
    fn unit(&self) -> usize {
        self.places.layout.data_unit()
    }

    fn tags_len(&self, run: usize) -> usize {
        run / self.unit() * self.places.layout.tag_len()
    }

    /// The first unit of a run that must be whole units.
    fn check(&self, operation: Operation, at: u64, len: usize) -> Result<u64, DeviceError> {
        let unit = self.unit();
        if !at.is_multiple_of(unit as u64) || !len.is_multiple_of(unit) {
            return Err(DeviceError::new(
                operation,
                at,
                len as u64,
                Cause::Misaligned { multiple: unit as u32 },
            ));
        }
        Ok(at / unit as u64)
    }

    /// Puts over what was read what is not in its place yet.
    fn overlay(&self, first: u64, run: &mut [u8], tags: &mut [u8]) {
        if let Way::Journal(journal) = &self.way {
            journal.overlay(first, run, tags);
        }
    }

    /// Which units of a run that is being read have tags.
    fn checked(&self, first: u64, len: usize) -> Vec<Range<u64>> {
        self.missing.checked(first..first + (len / self.unit()) as u64)
    }

    fn superblock(&self) -> MutexGuard<'_, Superblock> {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the superblock say how far the computation of tags is.
    fn save_progress(&self) -> Result<(), DeviceError> {
        let mut superblock = self.superblock();
        let mut change =
            Change { places: &self.places, mac: self.mac.as_deref(), superblock: &mut superblock };
        change.note(Some(self.missing.first()), self.places.layout.units());
        change.write()
    }

    /// Ends with an empty journal in the bitmap's place.
    fn leave_bitmap(&self) -> Result<(), DeviceError> {
        let mut superblock = self.superblock();
        let mut change =
            Change { places: &self.places, mac: self.mac.as_deref(), superblock: &mut superblock };
        change.lay_journal(self.missing.any())
    }

    fn unseal(
        &self,
        at: u64,
        run: &mut [u8],
        tags: &[u8],
        checked: &[Range<u64>],
    ) -> Result<(), DeviceError> {
        let (unit, tag) = (self.unit(), self.places.layout.tag_len());
        let first = at / unit as u64;
        let len = run.len();
        let mut forged = None;
        for units in checked {
            let (start, end) = ((units.start - first) as usize, (units.end - first) as usize);
            let opened = self.tagged.open(
                DataUnitIndex(units.start),
                &mut run[start * unit..end * unit],
                &tags[start * tag..end * tag],
                &mut |DataUnitIndex(number)| {
                    forged.get_or_insert(number);
                },
            );
            if opened.is_err() {
                return Err(DeviceError::new(Operation::Read, at, len as u64, Cause::Unsupported));
            }
        }
        match forged {
            None => Ok(()),
            Some(number) => {
                let cause = Cause::Tag { unit: number };
                Err(DeviceError::new(Operation::Read, number * unit as u64, unit as u64, cause))
            }
        }
    }

    /// Encrypts a run in place, where there is a cipher, and makes its tags.
    fn seal(&self, at: u64, run: &mut [u8]) -> Result<Vec<u8>, DeviceError> {
        let refused = |cause| DeviceError::new(Operation::Write, at, run.len() as u64, cause);
        let (unit, tag) = (self.unit(), self.places.layout.tag_len());
        let mut tags = vec![0; self.tags_len(run.len())];
        let random_len = self.tagged.random_len();
        if random_len > 0 {
            let mut random = vec![0; random_len * (run.len() / unit)];
            OsRandom.fill(&mut random).map_err(|_| refused(Cause::Unsupported))?;
            for (tag, random) in tags.chunks_exact_mut(tag).zip(random.chunks_exact(random_len)) {
                let end = tag.len() - random_len;
                tag[end..].copy_from_slice(random);
            }
        }
        let len = run.len() as u64;
        let sealed = self.tagged.seal(DataUnitIndex(at / unit as u64), run, &mut tags);
        sealed.map_err(|_| DeviceError::new(Operation::Write, at, len, Cause::Unsupported))?;
        Ok(tags)
    }
}

impl std::fmt::Debug for Integrity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Integrity")
            .field("superblock", &self.superblock)
            .field("read_only", &self.shared.read_only)
            .finish_non_exhaustive()
    }
}

/// How long written data waits for others before it is committed, as with the kernel.
const COMMIT_TIME: Duration = Duration::from_secs(10);
