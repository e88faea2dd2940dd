//! Blocks that the root hash vouches for. Nothing comes out of here that has not been hashed and compared up to the root.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_device::{Cause, DeviceError};

use super::cache::Cache;
use super::covered::Covered;
use super::error::{Part, VerityError};
use super::hasher::Digest;
use super::layout::{Layout, Parts};

/// A block: of the data at height 0, of a level of the tree above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockPlace {
    /// 0 for the data; level `n` of the tree has height `n + 1`.
    pub height: u8,
    /// Which block of that height.
    pub block: u64,
}

/// Why there is no such block.
#[derive(Clone, Copy, Debug)]
pub enum Untrusted {
    /// It has the wrong hash, and can't be repaired.
    Wrong(BlockPlace),
    /// It can't be read, nor repaired.
    Unreadable(Part, DeviceError),
}

/// Hears of each block that error correction has repaired, whenever it is read.
pub type Repaired = dyn Fn(BlockPlace) + Send + Sync;

pub struct Trusted {
    pub parts: Parts,
    pub layout: Layout,
    root: Digest,
    cache: Cache,
    repaired: AtomicU64,
    listener: Option<Box<Repaired>>,
}

impl Trusted {
    /// # Errors
    /// [`VerityError::RootHashLen`] or [`VerityError::TooShort`].
    pub fn new(
        parts: Parts,
        layout: Layout,
        root: &[u8],
        listener: Option<Box<Repaired>>,
    ) -> Result<Self, VerityError> {
        let needed = layout.hasher.len();
        let wrong = VerityError::RootHashLen { bytes: root.len(), needed };
        let root = Digest::new(root).filter(|root| root.as_bytes().len() == needed).ok_or(wrong)?;
        layout.check_sizes(&parts)?;
        let cache = Cache::new(layout.tree.block(), layout.tree.blocks());
        Ok(Self { parts, layout, root, cache, repaired: AtomicU64::new(0), listener })
    }

    /// How many times a block was repaired.
    pub fn repaired(&self) -> u64 {
        self.repaired.load(Ordering::Relaxed)
    }

    /// Fills `buf` with a block of the data.
    pub fn data(&self, block: u64, buf: &mut [u8]) -> Result<(), Untrusted> {
        let at = block * u64::from(self.layout.parameters.data_block());
        let read = self.parts.data.read_at(at, buf).map_err(|error| (Part::Data, error));
        self.settle(BlockPlace { height: 0, block }, read, buf)
    }

    /// Checks a block of the data that was read from the device, and repairs it where that is needed and possible.
    pub fn check_data(&self, block: u64, buf: &mut [u8]) -> Result<(), Untrusted> {
        self.settle(BlockPlace { height: 0, block }, Ok(()), buf)
    }

    /// A block of a level of the tree.
    pub fn tree_block(&self, level: usize, block: u64) -> Result<Arc<[u8]>, Untrusted> {
        let Some(lies_in) = self.layout.tree.levels().get(level) else { unreachable!("levels are few") };
        let number = lies_in.first + block;
        if let Some(found) = self.cache.find(number) {
            return Ok(found);
        }
        let size = self.layout.tree.block();
        let mut buf = vec![0; size as usize];
        let read = self.parts.tree.read_at(number * u64::from(size), &mut buf);
        let read = read.map_err(|error| (Part::Tree, error));
        // cannot be cut off: there are at most 63 levels.
        self.settle(BlockPlace { height: level as u8 + 1, block }, read, &mut buf)?;
        let buf: Arc<[u8]> = buf.into();
        self.cache.keep(number, &buf);
        Ok(buf)
    }

    /// The hash that the block must have.
    pub fn expected(&self, place: BlockPlace) -> Result<Digest, Untrusted> {
        let parent_level = usize::from(place.height);
        if parent_level == self.layout.tree.levels().len() {
            return Ok(self.root);
        }
        let (parent, at) = self.layout.tree.parent(place.block);
        let parent = self.tree_block(parent_level, parent)?;
        let digest = parent.get(at..at + self.layout.tree.digest_len()).and_then(Digest::new);
        let Some(digest) = digest else { unreachable!("hashes lie inside their block") };
        Ok(digest)
    }

    fn settle(
        &self,
        place: BlockPlace,
        read: Result<(), (Part, DeviceError)>,
        buf: &mut [u8],
    ) -> Result<(), Untrusted> {
        let expected = self.expected(place)?;
        let is_right = |block: &[u8]| self.layout.hasher.digest(block) == expected;
        if read.is_ok() && is_right(buf) {
            return Ok(());
        }
        if self.repair(place, buf, is_right) {
            self.repaired.fetch_add(1, Ordering::Relaxed);
            if let Some(listener) = &self.listener {
                listener(place);
            }
            return Ok(());
        }
        // What failed is nobody's business.
        buf.fill(0);
        Err(match read {
            Ok(()) => Untrusted::Wrong(place),
            Err((part, error)) => Untrusted::Unreadable(part, error),
        })
    }

    fn repair(&self, place: BlockPlace, buf: &mut [u8], is_right: impl Fn(&[u8]) -> bool) -> bool {
        let (Some(fec), Some(parity)) = (&self.layout.fec, &self.parts.parity) else { return false };
        let block = match usize::from(place.height).checked_sub(1) {
            None => place.block,
            Some(level) => {
                let first = self.layout.tree.levels()[level].first - self.layout.tree.first();
                fec.data_blocks() + first + place.block
            }
        };
        let covered = Covered { parts: &self.parts, layout: &self.layout, fec };
        covered.repair(&**parity, block, buf, is_right)
    }
}

impl Untrusted {
    /// The error of a read of bytes of the data.
    pub fn at(self, offset: u64, len: u64) -> DeviceError {
        let cause = match self {
            Self::Wrong(BlockPlace { height, block }) => Cause::WrongHash { level: height, block },
            Self::Unreadable(_, error) => error.cause,
        };
        DeviceError::new(atrest_device::Operation::Read, offset, len, cause)
    }
}
