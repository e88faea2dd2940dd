//! dm-integrity in user space: data units and their tags on media, and how both get there together.
//!
//! The layout is the kernel's (`atrest_format::integrity`), and so are the ways to write:
//!
//! * **Journal**: units and tags go to the journal first, and to their places once the journal is durable. After a crash the next
//!   opening does it again, whoever that is: the kernel or this program.
//! * **Direct**: units and tags go to their places. A crash between the two leaves units whose tags are wrong.
//!
//! What is acknowledged and flushed survives a crash. A unit whose tag is wrong is an error for that unit ([`Cause::Tag`]), and never
//! data.

mod batch;
mod commit;
mod create;
mod error;
mod open;
mod places;
mod replay;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod volume;

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atrest_cipher::{DataUnitIndex, Tagged};
use atrest_device::{Cause, DeviceError, Operation};
use atrest_secret::{OsRandom, Random};

pub use atrest_format::integrity::{Flags, NewLayout, Superblock};
use commit::Journal;
pub use create::{NewIntegrity, create};
pub use error::IntegrityError;
pub use open::{Mode, OpenOptions, read_superblock};
use places::Places;
pub use volume::{lay_out, wipe_volume};

use crate::disk::units::Units;

/// Bytes that are read under one lock, at most.
const AT_ONCE: usize = 1 << 20;

/// Data units with tags on media, open.
pub struct Integrity {
    shared: Arc<Shared>,
    committer: std::sync::Mutex<Option<JoinHandle<()>>>,
    superblock: Superblock,
}

/// What the thread that commits shares with everybody else.
struct Shared {
    places: Places,
    tagged: Box<dyn Tagged>,
    /// Reading a unit and its tag from their places shares, writing both excludes.
    home: Units,
    /// `None` where nothing is journaled.
    journal: Option<Journal>,
    /// Units from here on have no tags yet.
    unchecked_from: u64,
    read_only: bool,
}

impl Integrity {
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
        {
            let _shared = shared.home.share(at, run.len());
            shared.places.read(first, run, &mut tags)?;
            shared.overlay(first, run, &mut tags);
        }
        shared.unseal(at, run, &tags)
    }

    /// Reads like [`read`](Self::read) what needs no waiting. False if something does: `run` holds nothing of use then.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_if_cached(&self, at: u64, run: &mut [u8]) -> Result<bool, DeviceError> {
        let shared = &*self.shared;
        let first = shared.check(Operation::Read, at, run.len())?;
        let mut tags = vec![0; shared.tags_len(run.len())];
        {
            let Some(_shared) = shared.home.try_share(at, run.len()) else { return Ok(false) };
            if !shared.places.read_if_cached(first, run, &mut tags)? {
                return Ok(false);
            }
            shared.overlay(first, run, &mut tags);
        }
        shared.unseal(at, run, &tags).map(|()| true)
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
        match &shared.journal {
            None => {
                let _alone = shared.home.exclude(at, run.len());
                shared.places.write(first, run, &tags)
            }
            Some(journal) => {
                journal.append(shared, first, run, &tags)?;
                self.start_committer();
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
        match &self.shared.journal {
            Some(journal) => journal.flush(&self.shared),
            None => self.shared.places.flush(),
        }
    }

    /// Has the media read ahead.
    pub fn prefetch(&self, at: u64, len: u64) {
        let unit = self.shared.unit() as u64;
        self.shared.places.prefetch(at / unit, len.div_ceil(unit));
    }

    /// The thread is started with the first write, so that whoever opens can still go to the background.
    fn start_committer(&self) {
        let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
        if committer.is_none() {
            let shared = Arc::clone(&self.shared);
            let work = move || {
                if let Some(journal) = &shared.journal {
                    journal.commit_in_time(&shared);
                }
            };
            // Without the thread, what is written waits for a flush or for the journal to fill.
            *committer = std::thread::Builder::new().name("integrity".into()).spawn(work).ok();
        }
    }
}

/// What was written is committed. An error here nobody hears: who wants to know flushes before.
impl Drop for Integrity {
    fn drop(&mut self) {
        let Some(journal) = &self.shared.journal else { return };
        journal.stop();
        let committer = self.committer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(committer) = committer.take() {
            // intended: a thread that panicked has nothing more to do.
            let _ = committer.join();
        }
        let _ = journal.flush(&self.shared);
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
        if let Some(journal) = &self.journal {
            journal.overlay(first, run, tags);
        }
    }

    fn unseal(&self, at: u64, run: &mut [u8], tags: &[u8]) -> Result<(), DeviceError> {
        let (unit, tag) = (self.unit(), self.places.layout.tag_len());
        let first = at / unit as u64;
        let len = run.len();
        // intended: a run behind that place has no unit that is checked.
        let checked = self.unchecked_from.saturating_sub(first).min((len / unit) as u64) as usize;
        let mut forged = None;
        let opened = self.tagged.open(
            DataUnitIndex(first),
            &mut run[..checked * unit],
            &tags[..checked * tag],
            &mut |DataUnitIndex(number)| {
                forged.get_or_insert(number);
            },
        );
        if opened.is_err() {
            return Err(DeviceError::new(Operation::Read, at, len as u64, Cause::Unsupported));
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
