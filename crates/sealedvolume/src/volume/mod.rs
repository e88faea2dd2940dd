//! The engine: a log of sealed objects that is a block device.

mod anchor;
mod batch;
mod cache;
mod checkpoint;
mod clones;
mod core;
mod device;
mod error;
mod extents;
mod journal;
mod keep_up;
mod map;
mod nodes;
mod objects;
mod open;
mod patience;
mod random;
mod read;
mod rekey;
mod snapshots;
mod space;
mod state;
mod takeover;
mod uploads;
mod warm;
mod write;

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use atrest_device::TrustedStore;
use atrest_secret::{OsRandom, Random};

pub use clones::Origin;
pub use error::{OpenError, VolumeError};
pub use journal::JournalSettings;
pub use patience::Patience;
pub use rekey::Rewritten;
pub use snapshots::Snapshot;
pub use space::{Garbage, Usage};

use self::anchor::Anchor;
use self::cache::Blocks;
use self::core::Core;
use self::keep_up::{Behind, LocalJournal};
use self::nodes::{Fetched, Lacks, Nodes};
use self::uploads::Uploads;
use self::warm::Warm;
use crate::format::{Aead, Chain, FormatError, LogObject, MOST_BLOCKS, Operation};
use crate::store::{ObjectStore, StoreError, Traffic};

/// Opens the stores of other volumes, by the places that checkpoints of clones name.
pub type Stores = Arc<dyn Fn(&str) -> Result<Arc<dyn ObjectStore>, StoreError> + Send + Sync>;

pub(crate) type RandomSource = Box<dyn Random + Send>;

/// A point in the history of a volume. Two heads are equal only if everything before them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// Number of the newest log object.
    pub number: u64,
    /// Chain value after it: it commits to every object up to there, and says nothing without the key.
    pub chain: Chain,
}

/// What tells the newest state from an older one.
pub enum Freshness {
    /// A store that nobody else can write. It belongs to this volume, and is held while the volume is open for writing.
    Record(Box<dyn TrustedStore + Send>),
    /// Nothing: an older state as a whole is not noticed. A volume that was made with a record is refused so.
    Nothing,
    /// A volume that has a record is read without it: an older state as a whole is not noticed, just this once.
    Unverified,
}

impl fmt::Debug for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record(_) => "Record(..)",
            Self::Nothing => "Nothing",
            Self::Unverified => "Unverified",
        })
    }
}

/// Whether a volume is opened to be read or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written to the store, or to the trusted store.
    Read,
    /// A session begins: whoever wrote before is fenced.
    Write,
}

/// Told of what a volume does.
pub trait Observer: Send + Sync {
    /// A log object was sealed, and is to be stored now.
    fn sealed(&self, object: &LogObject) {
        let _ = object;
    }

    /// A checkpoint that was due could not be written. The next flush tries it again.
    fn checkpoint_failed(&self, why: VolumeError) {
        let _ = why;
    }
}

/// How a volume is worked with. None of it is kept on the store.
pub struct Settings {
    /// How new objects are sealed.
    pub aead: Aead,
    /// Blocks after which a log object is sealed without a flush, 1 to 8192: 2048, which is 8 MiB.
    pub batch: usize,
    /// The record is written at every so many flushes. With more than 1, the flushes since may be taken back unnoticed.
    pub anchor_every: NonZeroU32,
    /// Log objects after which a checkpoint is written: 64.
    pub checkpoint_every: u64,
    /// Blocks in the cache of what was read: 2048.
    pub cached_blocks: usize,
    /// Bytes that the cache of the map takes: 16 MiB.
    pub cached_map: usize,
    /// Runs that a branch of the map holds before it hands them down: 8192. An object in which they lie counts as three.
    pub map_buffer: usize,
    /// Requests that the store is asked at once: 1. With more, so many log objects are stored together where nobody flushes, which is
    /// what a crash may lose; and reads fetch what they need together, and ahead of those who read in order.
    pub parallel: NonZeroUsize,
    /// Threads that store log objects while others write, at least: 1, which is whoever waits. There are as many as requests at once, and 2
    /// behind a journal.
    pub store_threads: NonZeroUsize,
    /// How long a store that does not answer is waited for.
    pub patience: Patience,
    /// A local device on which a flush is durable. What is flushed is stored behind it. Without one a flush waits for the store.
    pub journal: Option<JournalSettings>,
    /// What a journal holds that the store does not is given up.
    pub forgo_journal: bool,
    /// Where salts come from.
    pub random: RandomSource,
    /// Where the volumes are that this one is a clone of. Without it clones are not opened.
    pub stores: Option<Stores>,
    /// Who is told.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            aead: Aead::Aes256Gcm,
            batch: 2048,
            anchor_every: NonZeroU32::MIN,
            checkpoint_every: 64,
            cached_blocks: 2048,
            cached_map: 16 << 20,
            map_buffer: 8192,
            parallel: NonZeroUsize::MIN,
            store_threads: NonZeroUsize::MIN,
            patience: Patience::default(),
            journal: None,
            forgo_journal: false,
            random: Box::new(OsRandom),
            stores: None,
            observer: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("aead", &self.aead)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

/// An open sealed volume.
///
/// One thread at a time changes it. Whoever waits for the store, to read or to flush, keeps nobody else waiting, and neither does a
/// checkpoint. Dropping it stores nothing: what was
/// written since the last flush is lost then, as in a crash. [`close`](Self::close) keeps it.
pub struct SealedVolume {
    /// Ends before all else does.
    _behind: Option<Behind>,
    journal: Option<LocalJournal>,
    core: Arc<Mutex<Core>>,
    /// A checkpoint is no longer being made.
    checkpointed: Condvar,
    size: AtomicU64,
    read_only: bool,
    warm: Warm,
    cache: Arc<Blocks>,
    nodes: Arc<Nodes>,
    /// What an opening to read does not have.
    uploads: Option<(Arc<Uploads>, Arc<Anchor>)>,
    traffic: Arc<Traffic>,
}

impl SealedVolume {
    fn of(core: Core, warm: Warm) -> Self {
        let size = AtomicU64::new(core.state.blocks * crate::format::BLOCK_LEN as u64);
        let both = |writer: &core::Writer| (Arc::clone(&writer.uploads), Arc::clone(&writer.anchor));
        let uploads = core.writer.as_ref().map(both);
        let (cache, nodes) = (Arc::clone(&core.cache), Arc::clone(&core.state.map.nodes));
        let (traffic, read_only) = (Arc::clone(&core.objects.traffic), uploads.is_none());
        let (core, checkpointed) = (Arc::new(Mutex::new(core)), Condvar::new());
        Self {
            _behind: None,
            journal: None,
            size,
            read_only,
            core,
            checkpointed,
            warm,
            cache,
            nodes,
            uploads,
            traffic,
        }
    }

    fn core(&self) -> Result<MutexGuard<'_, Core>, VolumeError> {
        self.core.lock().map_err(|_| VolumeError::Broken)
    }

    /// Asks something of the volume. What is not in memory of the map is fetched while others have the volume, and it is asked again.
    fn with_map<T>(
        &self,
        mut ask: impl FnMut(&mut Core, &Fetched) -> Result<T, Lacks>,
    ) -> Result<T, VolumeError> {
        let (mut fetched, mut failed) = (Fetched::default(), None);
        loop {
            let (node, objects) = {
                let mut core = self.core()?;
                match ask(&mut core, &fetched) {
                    Ok(answer) => return Ok(answer),
                    Err(Lacks::Error(error)) => return Err(error),
                    Err(Lacks::Node(node)) => (node, Arc::clone(&core.objects)),
                }
            };
            if let Some((salt, error)) = failed.take()
                && salt == node.salt
            {
                return Err(error);
            }
            match self.nodes.get(&objects, &node) {
                Ok(loaded) => fetched.add(&node, loaded),
                // It may have been replaced and collected since: then the volume lacks another one now.
                Err(error @ VolumeError::Map { .. }) => failed = Some((node.salt, error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The newest point of the history, stored or not.
    ///
    /// # Errors
    /// [`VolumeError::Broken`].
    pub fn head(&self) -> Result<Head, VolumeError> {
        Ok(self.core()?.state.head)
    }

    /// Gives the volume another number of blocks. What lies behind the new end is given up; snapshots keep their size.
    ///
    /// # Errors
    /// [`VolumeError::Limit`] for a size that no volume can have, or what a flush fails with.
    pub fn resize(&self, blocks: u64) -> Result<(), VolumeError> {
        if blocks == 0 || blocks > MOST_BLOCKS {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        let mut core = self.settled()?;
        core.operation(Operation::Resized { blocks })?;
        // While this thread has the volume: of two who change it, the size is that of the last.
        self.size.store(blocks * crate::format::BLOCK_LEN as u64, Ordering::Release);
        Ok(())
    }

    /// Whether the volume was made with a trusted store, without which it can't be written.
    ///
    /// # Errors
    /// [`VolumeError::Broken`].
    pub fn has_record(&self) -> Result<bool, VolumeError> {
        Ok(self.core()?.state.trusted)
    }

    /// Writes a checkpoint, so that the next opening reads less.
    ///
    /// # Errors
    /// What [`flush`](atrest_device::BlockDevice::flush) fails with. A checkpoint that the store does not take, or whose map can't
    /// be read, is an error too, but leaves the volume usable.
    pub fn checkpoint(&self) -> Result<(), VolumeError> {
        self.settled()?.checkpoint()
    }

    /// Flushes, writes a checkpoint, and says in the trusted store that this session has ended. Nothing can be written afterwards.
    ///
    /// # Errors
    /// [`VolumeError`] of the flush: then the session has not ended in good order, and the next opening takes what is stored.
    /// Without a checkpoint the volume is closed in good order all the same, and only that is told.
    pub fn close(&self) -> Result<(), VolumeError> {
        self.settled()?.close()
    }
}

impl fmt::Debug for SealedVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedVolume")
            .field("size", &self.size.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
