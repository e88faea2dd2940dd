//! Re-encryption in place: the data moves from its old form to the new one, zone by zone, on every core.
//!
//! [`atrest_volume::luks2::reencrypt`] says which zone comes next and keeps the header; here data is read, hashed, decrypted,
//! encrypted and written. Inside a zone each core works on a part of its own, 256 KiB at a time while it is in the core's
//! cache. A zone that is protected by hashes is read twice, the second time from the page cache; only a journal is kept in
//! memory whole. So memory is bounded: a journal or the hashes of a zone, both of which fit in the keyslots area (128 MiB at most).

mod luks1;
mod luks1_kept;
mod online;
mod transform;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atrest_device::{DeviceError, Operation};
use atrest_volume::luks2::reencrypt::{Protection, ReencryptError, Rewriting, Zone};

use crate::ReencryptionLock;
use crate::bulk::Progress;
use crate::disk::parallel::Helpers;
pub use luks1::{Luks1Error, begin_luks1, end_luks1};
pub use luks1_kept::{KEPT_SIZE, begin_kept, end_kept, keep_luks1};
pub use online::Online;
use transform::Transform;

/// Largest zone, unless the caller says otherwise: long enough that the header's six flushes don't count.
const ZONE: u64 = 128 << 20;

/// How much a run stands back behind the clients of the volume.
const NICE: i32 = 10;

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RewriteOptions<'a> {
    /// Threads; 0 stands for one on every core.
    pub threads: usize,
    /// Bytes in a zone at most; 0 stands for 128 MiB. Zones are shorter if what protects them has less room.
    pub zone: u64,
    /// Set by somebody else to end the run early, between two zones.
    pub cancel: Option<&'a AtomicBool>,
    /// What serves the volume meanwhile.
    pub online: Option<&'a dyn Served>,
    /// Where the bytes are counted that are written, for somebody who looks meanwhile. What is in a zone counts before the zone is done.
    pub written: Option<&'a AtomicU64>,
}

/// Who has the volume open while it is rewritten.
pub trait Served: std::fmt::Debug + Sync {
    /// Shuts out of a zone whoever reads or writes where it lies, and makes durable what was written there. What is read from the media
    /// then stays as it is until [`leave`](Self::leave).
    ///
    /// # Errors
    /// The zone is as it was, and the rewriting ends.
    fn enter(&self, rewriting: &Rewriting<'_>, zone: &Zone) -> Result<(), RewriteError>;

    /// The zone is done, and the header says so.
    ///
    /// # Errors
    /// The rewriting ends.
    fn leave(&self) -> Result<(), RewriteError>;

    /// The rewriting has failed, perhaps in the middle of a zone.
    fn fail(&self);

    /// Whether the volume is served by somebody else than this process, who waits as a whole while a zone is rewritten: the kernel. Then
    /// the rewriting has no reason to stand back, and reads nothing ahead, which would be dropped before it is used.
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// What a finished run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Bytes of data, those of earlier runs included.
    pub bytes: u64,
    /// Bytes that earlier runs had done.
    pub resumed_from: u64,
    /// Whether a zone had to be recovered first.
    pub recovered: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a run did not finish. What is done is done; the run can be resumed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// The header, or what it says.
    State(Box<ReencryptError>),
    /// Reading, writing or flushing the data failed, at an offset on the data device.
    Data(DeviceError),
    /// The run was cancelled.
    Cancelled {
        /// Bytes that are done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Another process goes on with it.
    Running,
    /// Whoever has the volume open did not let go of a zone, or did not take it again. It knows why.
    Served,
}

impl std::fmt::Display for RewriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Cancelled { done, total } => write!(f, "stopped after {done} of {total} bytes"),
            Self::Running => f.write_str("another process goes on with the re-encryption"),
            Self::Served => f.write_str("whoever has the volume open was not told of a zone"),
        }
    }
}

impl std::error::Error for RewriteError {}

impl From<ReencryptError> for RewriteError {
    fn from(error: ReencryptError) -> Self {
        Self::State(Box::new(error))
    }
}

impl From<DeviceError> for RewriteError {
    fn from(error: DeviceError) -> Self {
        Self::Data(error)
    }
}

/// Does what is left of a re-encryption: first the zone that was hot when the last run stopped, then all others.
///
/// Returns when everything is durable and the header describes an ordinary volume again.
///
/// # Errors
/// [`RewriteError::State`] if the header can't be written, or what it says is not acceptable,
/// [`RewriteError::Data`] if the data can't be read or written, [`RewriteError::Cancelled`]. After each of
/// them the next run goes on, and nothing is lost.
pub fn run(
    rewriting: &mut Rewriting<'_>,
    options: RewriteOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Rewritten, RewriteError> {
    let _lock = only_one(rewriting)?;
    let mut unfinished = Unfinished(options.online);
    let result = run_all(rewriting, options, progress);
    if matches!(result, Ok(_) | Err(RewriteError::Cancelled { .. })) {
        unfinished.0 = None;
    }
    result
}

/// Keeps other processes from going on with it, and from opening the volume as it is for a moment.
fn only_one(rewriting: &Rewriting<'_>) -> Result<ReencryptionLock, RewriteError> {
    let lock = ReencryptionLock::take(rewriting.volume().uuid())
        .map_err(|cause| DeviceError::new(Operation::Lock, 0, 0, cause))?;
    lock.ok_or(RewriteError::Running)
}

/// Whoever waits for a zone must not wait for one that is never done, also after a panic.
struct Unfinished<'a>(Option<&'a dyn Served>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(online) = self.0 {
            online.fail();
        }
    }
}

/// Completes the zone that was hot when the last run stopped, if there was one, and nothing else. Returns whether that was the
/// end of the re-encryption.
///
/// # Errors
/// As [`run`].
pub fn recover_interrupted(rewriting: &mut Rewriting<'_>) -> Result<bool, RewriteError> {
    let _lock = only_one(rewriting)?;
    rewriting.bury_head()?;
    let Some(zone) = rewriting.interrupted()? else { return Ok(false) };
    recover(rewriting, &zone, &Helpers::new(0))?;
    Ok(rewriting.cool(&zone)?)
}

fn run_all(
    rewriting: &mut Rewriting<'_>,
    options: RewriteOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Rewritten, RewriteError> {
    let begun = Instant::now();
    let helpers = Helpers::new(options.threads);
    if options.online.is_some_and(|served| !served.is_elsewhere()) {
        // Whoever is served comes first. Where that can't be had, it only is slower.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
    let most = if options.zone == 0 { ZONE } else { options.zone };
    let (total, resumed_from) = (rewriting.total(), rewriting.done()?);
    progress.update(resumed_from, total);
    rewriting.bury_head()?;
    let interrupted = rewriting.interrupted()?;
    let reads_ahead = !options.online.is_some_and(Served::is_elsewhere);
    let mut ended = false;
    if let Some(zone) = &interrupted {
        ended = beside(rewriting, zone, options.online, |rewriting| {
            recover(rewriting, zone, &helpers)?;
            Ok(rewriting.cool(zone)?)
        })?;
    }
    while !ended {
        let done = rewriting.done()?;
        progress.update(done, total);
        if let Some(written) = options.written {
            written.store(done, Ordering::Relaxed);
        }
        if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire)) {
            return Err(RewriteError::Cancelled { done, total });
        }
        ended = match rewriting.next(most)? {
            Some(zone) => beside(rewriting, &zone, options.online, |rewriting| {
                rewrite(rewriting, &zone, &helpers, reads_ahead, options.written)
            })?,
            // It stopped between the last zone and the end.
            None => {
                rewriting.finish()?;
                true
            }
        };
    }
    progress.update(total, total);
    Ok(Rewritten { bytes: total, resumed_from, recovered: interrupted.is_some(), elapsed: begun.elapsed() })
}

/// Does something with a zone while nobody else reads or writes there.
fn beside(
    rewriting: &mut Rewriting<'_>,
    zone: &Zone,
    served: Option<&dyn Served>,
    rewrite: impl FnOnce(&mut Rewriting<'_>) -> Result<bool, RewriteError>,
) -> Result<bool, RewriteError> {
    if let Some(served) = served {
        served.enter(rewriting, zone)?;
    }
    let ended = rewrite(rewriting)?;
    if let Some(served) = served {
        served.leave()?;
    }
    Ok(ended)
}

/// One zone. Returns whether it was the last.
fn rewrite(
    rewriting: &mut Rewriting<'_>,
    zone: &Zone,
    helpers: &Helpers,
    reads_ahead: bool,
    written: Option<&AtomicU64>,
) -> Result<bool, RewriteError> {
    let transform = Transform::new(rewriting, zone, helpers);
    let mut journal = None;
    match rewriting.protection(zone) {
        Protection::None | Protection::Elsewhere => rewriting.heat(zone, &[])?,
        Protection::Checksum { hash, sector } => {
            rewriting.heat(zone, &transform.hashes(hash, sector as usize)?)?;
        }
        Protection::Journal => rewriting.heat(zone, journal.insert(transform.read_whole()?))?,
    }
    let transform = Transform::new(rewriting, zone, helpers).counting(written);
    if reads_ahead {
        transform.prefetch_behind();
    }
    match &mut journal {
        None => transform.rewrite()?,
        Some(journal) => transform.rewrite_read(journal)?,
    }
    rewriting.data().flush()?;
    Ok(rewriting.cool(zone)?)
}

/// Completes a zone that may be half-written.
fn recover(rewriting: &Rewriting<'_>, zone: &Zone, helpers: &Helpers) -> Result<(), RewriteError> {
    let transform = Transform::new(rewriting, zone, helpers);
    match rewriting.protection(zone) {
        // The source is as it was.
        Protection::Elsewhere => transform.rewrite()?,
        Protection::Journal => transform.rewrite_journal(rewriting)?,
        Protection::Checksum { hash, sector } => {
            transform.where_unchanged(rewriting, hash, sector as usize)?
        }
        Protection::None => {
            return Err(ReencryptError::Unprotected { offset: zone.offset, len: zone.len }.into());
        }
    }
    Ok(rewriting.data().flush()?)
}
