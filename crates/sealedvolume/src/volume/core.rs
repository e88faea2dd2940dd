//! An opening of a volume, which one thread at a time has.

use std::ops::Deref;
use std::sync::Arc;

use super::Observer;
use super::anchor::Anchor;
use super::batch::Batch;
use super::cache::Blocks;
use super::journal::Journal;
use super::objects::Objects;
use super::random::Shared;
use super::state::State;
use super::uploads::Uploads;
use crate::format::{BLOCK_LEN, Prelude};

pub(crate) struct Core {
    pub(crate) objects: Arc<Objects>,
    pub(crate) state: State,
    /// Blocks that have been read.
    pub(crate) cache: Arc<Blocks>,
    /// What an opening to read does not have.
    pub(crate) writer: Option<Writer>,
}

pub(crate) struct Writer {
    pub(crate) random: Shared,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) batch: Batch,
    pub(crate) batch_blocks: usize,
    /// Sealed, and not known to be stored.
    pub(crate) uploads: Arc<Uploads>,
    /// Nothing more is written or acknowledged.
    pub(crate) failed: bool,
    pub(crate) anchor: Arc<Anchor>,
    /// Where flushes are kept until they are stored.
    pub(crate) journal: Option<Journal>,
    /// The newest two checkpoints: number and salt.
    pub(crate) checkpoints: Vec<(u64, [u8; 16])>,
    pub(crate) checkpoint_every: u64,
    /// Runs in a branch of the map, at most.
    pub(crate) map_buffer: usize,
    /// Log objects since the newest of them.
    pub(crate) since_checkpoint: u64,
    /// Log objects that are waited for beyond those, after checkpoints that failed.
    pub(crate) checkpoint_delay: u64,
    /// One is being made while others have the volume.
    pub(crate) is_checkpointing: bool,
    /// Log objects that the one takes up that is being made.
    pub(crate) taken_up: u64,
    /// Those who wait for the volume without a checkpoint being made: until they have had it, none is begun.
    pub(crate) settling: usize,
    /// A checkpoint that the store may have or not.
    pub(crate) pending: Option<PendingCheckpoint>,
}

/// A checkpoint of which the store did not say that it is stored. It is put again, the same bytes, until the store has it.
pub(crate) struct PendingCheckpoint {
    pub(crate) number: u64,
    pub(crate) salt: [u8; 16],
    pub(crate) bytes: Vec<u8>,
    pub(crate) map: Option<Prelude>,
}

/// What a block holds, which is wiped when it goes.
pub(crate) struct Plaintext(pub(crate) [u8; BLOCK_LEN]);

impl Deref for Plaintext {
    type Target = [u8; BLOCK_LEN];

    fn deref(&self) -> &[u8; BLOCK_LEN] {
        &self.0
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        atrest_secret::wipe(&mut self.0);
    }
}
