//! Blocks of the filesystem: metadata through a small cache that reads ahead, file data in long runs past it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_device::BlockDevice;
use atrest_filetree::TreeError;

use super::journal::JOURNAL_MAGIC;
use crate::fault::Damage;

/// Bytes that a miss reads at once: neighbours in an inode table or a directory come along.
const LINE: u32 = 32 * 1024;
/// Lines kept: 4 MiB.
const LINES: usize = 128;

/// A block whose newest contents lie in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    /// Where on the media they lie.
    pub(super) block: u64,
    /// The journal's magic number was cut out of the first four bytes.
    pub(super) escaped: bool,
}

/// The blocks of one filesystem, with the journal laid over them.
pub(super) struct Blocks {
    device: Arc<dyn BlockDevice>,
    size: u32,
    count: u64,
    /// Kept sorted so that a run of data blocks finds the next replaced one.
    pub(super) replaced: BTreeMap<u64, Replacement>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    lines: HashMap<u64, (Arc<[u8]>, u64)>,
    clock: u64,
}

/// The bytes of one block.
pub(super) enum Block {
    Line(Arc<[u8]>, usize, usize),
    Own(Vec<u8>),
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // cannot miss: `read_raw` made the line with this block in it.
            Self::Line(line, start, end) => line.get(*start..*end).unwrap_or(&[]),
            Self::Own(bytes) => bytes,
        }
    }
}

impl Blocks {
    /// `count` blocks of `size` bytes, which must fit into the device.
    pub(super) fn new(device: Arc<dyn BlockDevice>, size: u32, count: u64) -> Self {
        Self { device, size, count, replaced: BTreeMap::new(), cache: Mutex::default() }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One block of metadata, as the filesystem means it: from the journal where that is newer.
    pub(super) fn read(&self, block: u64) -> Result<Block, TreeError> {
        match self.replaced.get(&block) {
            None => self.read_raw(block),
            Some(place) => {
                let found = self.read_raw(place.block)?;
                Ok(if place.escaped { Block::Own(unescape(&found)) } else { found })
            }
        }
    }

    /// One block as it lies on the media.
    pub(super) fn read_raw(&self, block: u64) -> Result<Block, TreeError> {
        self.check(block, 1)?;
        // intended: a block that is larger than a line is one. Block sizes are no less than 1024.
        let per_line = u64::from(LINE.checked_div(self.size).unwrap_or(0).max(1));
        let index = block.checked_div(per_line).unwrap_or(0);
        // cannot overflow: the block is inside of the filesystem, whose bytes fit 64 bits, and a line is small.
        let first = index.saturating_mul(per_line);
        let size = usize::try_from(self.size).unwrap_or(0);
        let start = usize::try_from(block.saturating_sub(first)).unwrap_or(0).saturating_mul(size);
        let line = match self.cached(index) {
            Some(line) => line,
            None => {
                // cannot overflow: a line has 64 KiB at most.
                let blocks = per_line.min(self.count.saturating_sub(first));
                let mut bytes = vec![0; usize::try_from(blocks).unwrap_or(0).saturating_mul(size)];
                self.device.read_at(first.saturating_mul(u64::from(self.size)), &mut bytes)?;
                let line: Arc<[u8]> = bytes.into();
                self.keep(index, line.clone());
                line
            }
        };
        // cannot overflow: a line has 64 KiB at most.
        Ok(Block::Line(line, start, start.saturating_add(size)))
    }

    /// Reads file data from byte `within` of `block` on, over as many adjoining blocks as `buf` needs.
    pub(super) fn read_run(&self, block: u64, within: u64, buf: &mut [u8]) -> Result<(), TreeError> {
        let size = u64::from(self.size);
        // cannot overflow: `within` lies in a run, which lies in the filesystem; a buffer is no longer than memory.
        let end = within.saturating_add(buf.len() as u64).div_ceil(size);
        self.check(block, end)?;
        // data=journal mode puts file data into the journal too.
        // cannot overflow: the run was checked.
        if self.replaced.range(block..block.saturating_add(end)).next().is_none() {
            // cannot overflow: the run was checked.
            let at = block.saturating_mul(size).saturating_add(within);
            return Ok(self.device.read_at(at, buf)?);
        }
        let mut rest = buf;
        let mut at = within;
        while !rest.is_empty() {
            // cannot overflow: the run was checked; a block has bytes, so that none of these misses.
            let index = block.saturating_add(at.checked_div(size).unwrap_or(0));
            let found = self.read(index)?;
            // cannot miss: a remainder lies in the block, which has bytes.
            let skip = usize::try_from(at.checked_rem(size).unwrap_or(0)).unwrap_or(0);
            let part = found.get(skip..).unwrap_or(&[]);
            let len = part.len().min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            // cannot miss: the length is that of the shorter one.
            now.copy_from_slice(part.get(..len).unwrap_or(&[]));
            rest = later;
            // cannot overflow: the run was checked.
            at = at.saturating_add(len as u64);
        }
        Ok(())
    }

    /// Writes whole blocks from `block` on.
    pub(super) fn write_run(&self, block: u64, data: &[u8]) -> Result<(), TreeError> {
        let size = u64::from(self.size);
        let len = (data.len() as u64).div_ceil(size);
        self.check(block, len)?;
        // cannot overflow: the run was checked.
        let written = self.device.write_at(block.saturating_mul(size), data);
        // Whatever has become of them, they are read again. A line may have been read meanwhile, but then it holds the
        // new bytes or those of a write that has failed.
        // intended: a block that is larger than a line is one. Block sizes are no less than 1024.
        let per_line = u64::from(LINE.checked_div(self.size).unwrap_or(0).max(1));
        let line = |block: u64| block.checked_div(per_line).unwrap_or(0);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // cannot overflow: the run was checked.
        for index in line(block)..=line(block.saturating_add(len)) {
            cache.lines.remove(&index);
        }
        Ok(written?)
    }

    /// Makes what was written durable.
    pub(super) fn flush(&self) -> Result<(), TreeError> {
        Ok(self.device.flush()?)
    }

    /// Fails unless `block..block + len` exist.
    pub(super) fn check(&self, block: u64, len: u64) -> Result<(), TreeError> {
        match block.checked_add(len) {
            Some(end) if end <= self.count => Ok(()),
            _ => Err(Damage::BlockNumber { block }.into()),
        }
    }

    fn cached(&self, index: u64) -> Option<Arc<[u8]>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock = cache.clock.wrapping_add(1);
        let now = cache.clock;
        let (line, used) = cache.lines.get_mut(&index)?;
        *used = now;
        Some(line.clone())
    }

    fn keep(&self, index: u64, line: Arc<[u8]>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.lines.len() >= LINES
            && let Some(oldest) =
                cache.lines.iter().min_by_key(|(_, (_, used))| *used).map(|(index, _)| *index)
        {
            cache.lines.remove(&oldest);
        }
        let now = cache.clock;
        cache.lines.insert(index, (line, now));
    }
}

/// Puts the magic number back that the journal cut out.
fn unescape(block: &[u8]) -> Vec<u8> {
    let mut bytes = block.to_vec();
    if let Some(start) = bytes.first_chunk_mut() {
        *start = JOURNAL_MAGIC.to_be_bytes();
    }
    bytes
}
