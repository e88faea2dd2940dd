//! Whole volumes at once: a file or device encrypted into a volume, or a volume decrypted into one.
//!
//! Every core runs a worker with a buffer of its own that reads a chunk, changes it in place and writes it; the only
//! thing workers share is a counter of chunks. While a worker is busy with one chunk, the media is told to read the
//! ones that come next. Memory is bounded: 512 KiB for each of at most 64 workers, 33 MiB with everything
//! else.
//!
//! An interrupted run can be resumed from its checkpoint, see [`checkpoint_path`].

mod checkpoint;
mod compare;
mod destination;
mod error;
mod stream;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod workers;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use atrest_device::{BlockDevice, DeviceError};

use checkpoint::{Binding, Checkpoint, Direction};
pub use checkpoint::{Mismatch, checkpoint_path};
pub use compare::compare;
pub use destination::Destination;
pub use error::BulkError;
pub use stream::{StreamError, decrypt_sequence, decrypt_stream, encrypt_stream};
use workers::Job;

use crate::Disk;

/// Bytes that a worker handles at a time.
const CHUNK: usize = 512 << 10;
/// More workers than this only fight for memory bandwidth.
const MAX_WORKERS: usize = 64;

/// Hears how far a run has come, some ten times a second.
pub trait Progress {
    /// `done` of `total` bytes are written. After a resumption it begins at what was done before.
    fn update(&mut self, done: u64, total: u64);
}

impl<F: FnMut(u64, u64)> Progress for F {
    fn update(&mut self, done: u64, total: u64) {
        self(done, total);
    }
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BulkOptions<'a> {
    /// Workers; 0 stands for one on every core.
    pub threads: usize,
    /// Where checkpoints are kept; without one the run can't be resumed. [`checkpoint_path`] names the usual place.
    pub checkpoint: Option<&'a Path>,
    /// Keep none, and only remove what an earlier run may have left at `checkpoint`.
    pub without_checkpoint: bool,
    /// Go on where the checkpoint says instead of starting again.
    pub resume: bool,
    /// When the source was last written, if that is known: a resumed run refuses a source that changed since.
    pub source_modified: Option<SystemTime>,
    /// Bytes after which a checkpoint is made. Each waits until the data before it is durable.
    pub checkpoint_every: u64,
    /// Leave out zeros. For a destination that was created for this run and reads as zeros where it isn't written.
    pub sparse: bool,
    /// Set by somebody else to end the run early.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for BulkOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 0,
            checkpoint: None,
            without_checkpoint: false,
            resume: false,
            source_modified: None,
            checkpoint_every: 1 << 30,
            sparse: false,
            cancel: None,
        }
    }
}

/// What a finished run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of plaintext, those of an earlier, resumed run included.
    pub bytes: u64,
    /// Bytes that an earlier run had done.
    pub resumed_from: u64,
    /// How long it took until everything was written.
    pub written: Duration,
    /// How long it took until everything was durable, too.
    pub elapsed: Duration,
}

/// Encrypts all of `source` into the beginning of `disk`. What lies behind stays as it is.
///
/// Returns when everything is durable. On failure or cancellation what was done is made durable and noted in the
/// checkpoint, if one is kept.
///
/// # Errors
/// Before anything is written: [`BulkError::SourceTooLarge`], [`BulkError::Protected`], [`BulkError::ReadOnly`], and
/// [`BulkError::CheckpointFile`] if a checkpoint can't be kept. To resume: [`BulkError::NoCheckpoint`],
/// [`BulkError::CheckpointDamaged`] or [`BulkError::CheckpointMismatch`].
///
/// Later, [`BulkError::Read`], [`BulkError::Write`], [`BulkError::Flush`] and [`BulkError::Cancelled`]. What
/// the checkpoint names is durable then.
pub fn encrypt(
    source: &dyn BlockDevice,
    disk: &Disk,
    options: BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Summary, BulkError> {
    let (total, volume) = (source.size(), disk.size());
    if total > volume {
        return Err(BulkError::SourceTooLarge { source: total, volume });
    }
    if let Some(free) = disk.protected_from().filter(|free| total > *free) {
        return Err(BulkError::Protected { source: total, free });
    }
    if disk.is_read_only() {
        return Err(BulkError::ReadOnly);
    }
    let binding = || {
        let part = |offset, len: usize| {
            let mut plaintext = vec![0; len];
            source.read_at(offset, &mut plaintext)?;
            disk.ciphertext(offset, &plaintext)
        };
        Binding::new(Direction::Encrypt, total, disk, options.source_modified, part)
    };
    let start = begin(total, &binding, &options)?;
    let job = Job {
        total,
        read: &|offset, buf| source.read_at(offset, buf),
        write: &|offset, buf| disk.write_consuming(offset, buf),
        prefetch: &|offset, len| source.prefetch(offset, len),
        flush: &|| disk.flush(),
        written: &|offset, buf| disk.read_alone(offset, buf),
    };
    run(&job, start, options, progress)
}

/// Decrypts all of `disk` into the beginning of `destination`.
///
/// Returns when everything is durable; otherwise as [`encrypt`].
///
/// # Errors
/// [`BulkError::DestinationTooSmall`] if the plaintext does not fit. Otherwise it fails where [`encrypt`]
/// does.
pub fn decrypt(
    disk: &Disk,
    destination: &dyn BlockDevice,
    options: BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Summary, BulkError> {
    let (total, has) = (disk.size(), destination.size());
    if total > has {
        return Err(BulkError::DestinationTooSmall { needs: total, has });
    }
    if destination.is_read_only() {
        return Err(BulkError::ReadOnly);
    }
    let start = begin_decryption(disk, &options)?;
    decrypt_from(start, disk, destination, options, progress)
}

/// Decrypts all of `disk` into the beginning of a [`Destination`], otherwise like [`decrypt`].
///
/// A file is created or loses its contents once nothing is left that could refuse the run: a checkpoint can be kept, or the
/// one that is there fits.
///
/// # Errors
/// [`BulkError::Destination`] if a file can't be created or lose its contents. Otherwise it fails where
/// [`decrypt`] does.
pub fn decrypt_to(
    disk: &Disk,
    destination: Destination,
    options: BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Summary, BulkError> {
    if let Some(has) = destination.fixed_size().filter(|has| *has < disk.size()) {
        return Err(BulkError::DestinationTooSmall { needs: disk.size(), has });
    }
    let start = begin_decryption(disk, &options)?;
    if destination.is_new() && start.done > 0 {
        // What the checkpoint vouches for is gone.
        return Err(BulkError::CheckpointMismatch(Mismatch::Output { offset: 0 }));
    }
    let (destination, sparse) = match destination.open(disk.size()) {
        Ok(opened) => opened,
        Err(error) => {
            if let Some(checkpoint) = start.checkpoint.filter(|_| !options.resume) {
                // Nothing was begun. That it can't be removed changes nothing about the error.
                let _ = checkpoint.remove();
            }
            return Err(BulkError::Destination(error));
        }
    };
    decrypt_from(start, disk, &destination, BulkOptions { sparse, ..options }, progress)
}

fn begin_decryption<'a>(disk: &Disk, options: &BulkOptions<'a>) -> Result<Start<'a>, BulkError> {
    let binding = || {
        let part = |offset, len| disk.stored_ciphertext(offset, len);
        Binding::new(Direction::Decrypt, disk.size(), disk, options.source_modified, part)
    };
    begin(disk.size(), &binding, options)
}

fn decrypt_from(
    start: Start<'_>,
    disk: &Disk,
    destination: &dyn BlockDevice,
    options: BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Summary, BulkError> {
    let job = Job {
        total: disk.size(),
        read: &|offset, buf| disk.read_alone(offset, buf),
        write: &|offset, buf| match options.sparse {
            true => write_sparse(destination, offset, buf),
            false => destination.write_at(offset, buf),
        },
        prefetch: &|offset, len| disk.prefetch(offset, len),
        flush: &|| destination.flush(),
        written: &|offset, buf| destination.read_at(offset, buf),
    };
    run(&job, start, options, progress)
}

/// Where a run begins.
struct Start<'a> {
    begun: Instant,
    checkpoint: Option<Checkpoint<'a>>,
    /// Bytes that an earlier run did.
    done: u64,
}

/// Finds the checkpoint that a run goes on from, or makes a new one: before anything is overwritten, as a run that could
/// keep none would leave an output that is neither the old one nor can be completed. And one from an earlier run would
/// vouch for data that this one is about to replace.
fn begin<'a>(
    total: u64,
    binding: &dyn Fn() -> Result<Binding, DeviceError>,
    options: &BulkOptions<'a>,
) -> Result<Start<'a>, BulkError> {
    let begun = Instant::now();
    let Some(path) = options.checkpoint.filter(|_| options.resume || !options.without_checkpoint) else {
        return match (options.resume, options.checkpoint) {
            (true, _) => Err(BulkError::NoCheckpoint),
            (false, Some(old)) => checkpoint::remove(old),
            (false, None) => Ok(()),
        }
        .map(|()| Start { begun, checkpoint: None, done: 0 });
    };
    let checkpoint = Checkpoint::new(path, binding().map_err(BulkError::Read)?);
    let done = match options.resume {
        true => checkpoint.load(total)?,
        false => 0,
    };
    checkpoint.save(done)?;
    Ok(Start { begun, checkpoint: Some(checkpoint), done })
}

fn run(
    job: &Job<'_>,
    start: Start<'_>,
    options: BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Summary, BulkError> {
    let Start { begun, checkpoint, done } = start;
    check_last_written(job, done)?;
    let written = workers::run(job, done, checkpoint.as_ref(), &options, progress)?;
    if let Some(checkpoint) = checkpoint {
        checkpoint.remove()?;
    }
    Ok(Summary {
        bytes: job.total,
        resumed_from: done,
        written: written.duration_since(begun),
        elapsed: begun.elapsed(),
    })
}

/// Compares the last chunk that the checkpoint vouches for with its source: an output that was replaced meanwhile
/// must not be completed into a mixture.
fn check_last_written(job: &Job<'_>, done: u64) -> Result<(), BulkError> {
    let len = done.min(CHUNK as u64);
    let offset = done - len;
    let (mut source, mut written) = (vec![0; len as usize], vec![0; len as usize]);
    (job.read)(offset, &mut source).map_err(BulkError::Read)?;
    (job.written)(offset, &mut written).map_err(BulkError::Read)?;
    if source != written {
        return Err(BulkError::CheckpointMismatch(Mismatch::Output { offset }));
    }
    Ok(())
}

/// Writes what is not zeros, in steps that filesystems store as a whole.
fn write_sparse(destination: &dyn BlockDevice, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
    const STEP: usize = 64 << 10;
    for (index, piece) in data.chunks(STEP).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            destination.write_at(offset + (index * STEP) as u64, piece)?;
        }
    }
    Ok(())
}
