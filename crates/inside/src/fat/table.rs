//! The file allocation table: which cluster follows which, and which are free. FAT specification, section 4.

use atrest_codec::Record;
use atrest_filetree::TreeError;

use super::cache::Cache;
use crate::circle::overlap;
use crate::fault::Damage;
use atrest_probe::FilesystemKind;
use atrest_probe::fat::BootSector;

/// What an entry of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Free,
    Next(u32),
    Bad,
    End,
}

/// Adjoining clusters of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
}

/// Layout, cached metadata, and what is known about free clusters.
pub(super) struct Table {
    pub(super) boot: BootSector,
    pub(super) cache: Cache,
    /// Where to look for a free cluster first.
    hint: u32,
    /// Free clusters, once they have been counted or the filesystem has said so.
    free: Option<u32>,
    /// The information sector has its signatures, so it is kept up to date.
    has_info: bool,
    info_changed: bool,
}

impl Table {
    pub(super) fn new(boot: BootSector, mut cache: Cache) -> Result<Self, TreeError> {
        let (mut hint, mut free, mut has_info) = (2, None, false);
        if let Some(at) = boot.info() {
            let mut sector = [0; 512];
            cache.read(at, &mut sector)?;
            let info = Record::new(&sector);
            has_info = (info.le32::<0>(), info.le32::<484>(), info.le32::<508>())
                == (0x4161_5252, 0x6141_7272, 0xaa55_0000);
            if has_info {
                hint = info.le32::<492>();
                // A count from before an unclean end can't be trusted.
                free = Some(info.le32::<488>()).filter(|&free| free <= boot.clusters && !boot.dirty);
            }
        }
        Ok(Self { boot, cache, hint, free, has_info, info_changed: false })
    }

    /// One more than the last cluster's number.
    fn end(&self) -> u32 {
        // cannot overflow: clusters have 28 bits.
        self.boot.clusters.saturating_add(2)
    }

    /// Byte in the table at which an entry starts, and its width in bytes; FAT12 shares a byte between two.
    fn place(&self, cluster: u32) -> (u64, usize) {
        let cluster = u64::from(cluster);
        match self.boot.kind {
            // cannot overflow: clusters have 28 bits.
            FilesystemKind::Fat12 => (cluster.saturating_add(cluster >> 1), 2),
            FilesystemKind::Fat16 => (cluster.saturating_mul(2), 2),
            _ => (cluster.saturating_mul(4), 4),
        }
    }

    fn raw(&mut self, cluster: u32) -> Result<u32, TreeError> {
        let (at, _) = self.place(cluster);
        let value = self.word(self.boot.table().saturating_add(at))?; // cannot overflow: it lies in the table.
        Ok(match self.boot.kind {
            FilesystemKind::Fat12 if cluster & 1 == 0 => value & 0xfff,
            FilesystemKind::Fat12 => value >> 4,
            FilesystemKind::Fat16 => value,
            _ => value & 0x0fff_ffff,
        })
    }

    /// The two bytes at `at`, or the four of a FAT32.
    fn word(&mut self, at: u64) -> Result<u32, TreeError> {
        if self.boot.kind == FilesystemKind::Fat32 {
            let mut bytes = [0; 4];
            self.cache.read(at, &mut bytes)?;
            Ok(u32::from_le_bytes(bytes))
        } else {
            let mut bytes = [0; 2];
            self.cache.read(at, &mut bytes)?;
            Ok(u16::from_le_bytes(bytes).into())
        }
    }

    fn set_word(&mut self, at: u64, value: u32) -> Result<(), TreeError> {
        let [a, b, ..] = value.to_le_bytes();
        match self.boot.kind {
            FilesystemKind::Fat32 => self.cache.write(at, &value.to_le_bytes())?,
            _ => self.cache.write(at, &[a, b])?,
        }
        Ok(())
    }

    fn link(&mut self, cluster: u32) -> Result<Link, TreeError> {
        if !(2..self.end()).contains(&cluster) {
            return Err(Damage::Cluster(cluster).into());
        }
        let bad = self.bad_mark();
        match self.raw(cluster)? {
            0 => Ok(Link::Free),
            next if (2..self.end()).contains(&next) => Ok(Link::Next(next)),
            mark if mark == bad => Ok(Link::Bad),
            mark if mark > bad => Ok(Link::End),
            next => Err(Damage::Cluster(next).into()),
        }
    }

    fn bad_mark(&self) -> u32 {
        match self.boot.kind {
            FilesystemKind::Fat12 => 0xff7,
            FilesystemKind::Fat16 => 0xfff7,
            _ => 0x0fff_fff7,
        }
    }

    fn set(&mut self, cluster: u32, link: Link) -> Result<(), TreeError> {
        let value = match link {
            Link::Free => 0,
            Link::Next(next) => next,
            Link::Bad => self.bad_mark(),
            Link::End => self.bad_mark() | 0xf,
        };
        let (at, _) = self.place(cluster);
        let tables: Vec<u64> = self.boot.tables().collect();
        for start in tables {
            // cannot overflow: it lies in the table.
            let at = start.saturating_add(at);
            let old = self.word(at)?;
            // The neighbour's half-byte, or the four reserved bits of FAT32, stay as they are.
            let new = match self.boot.kind {
                FilesystemKind::Fat12 if cluster & 1 == 0 => value | old & 0xf000,
                FilesystemKind::Fat12 => value << 4 | old & 0xf,
                FilesystemKind::Fat16 => value,
                _ => value | old & 0xf000_0000,
            };
            self.set_word(at, new)?;
        }
        Ok(())
    }

    /// The chain that starts with cluster `first`, up to `limit` clusters of it, as runs. 0 stands for no chain.
    pub(super) fn chain(&mut self, first: u32, limit: u32) -> Result<Vec<Run>, TreeError> {
        let mut runs: Vec<Run> = Vec::new();
        if first == 0 {
            return Ok(runs);
        }
        let mut cluster = first;
        for _ in 0..limit.min(self.boot.clusters) {
            let link = self.link(cluster)?;
            match runs.last_mut() {
                // cannot overflow: clusters have 28 bits.
                Some(run) if run.first.saturating_add(run.len) == cluster => {
                    run.len = run.len.saturating_add(1)
                }
                _ => runs.push(Run { first: cluster, len: 1 }),
            }
            match link {
                Link::Next(next) => cluster = next,
                Link::End => return Ok(runs),
                // A chain never leads to a free or bad cluster.
                Link::Free | Link::Bad => return Err(Damage::Cluster(cluster).into()),
            }
        }
        // More clusters than there are: it runs in a circle. With a limit of the caller's, that is all it wants to know.
        match limit > self.boot.clusters || overlap(runs.iter().map(|run| (run.first, run.len))) {
            true => Err(Damage::EndlessChain.into()),
            false => Ok(runs),
        }
    }

    /// Calls `visit` with every cluster of a chain until it says no, and returns the cluster of which it did.
    pub(super) fn follow(
        &mut self,
        first: u32,
        mut visit: impl FnMut(u32) -> bool,
    ) -> Result<Option<u32>, TreeError> {
        let mut next = (first != 0).then_some(first);
        let mut left = self.boot.clusters;
        while let Some(cluster) = next {
            let link = self.link(cluster)?;
            if !visit(cluster) {
                return Ok(Some(cluster));
            }
            left = left.checked_sub(1).ok_or(Damage::EndlessChain)?;
            next = match link {
                Link::Next(next) => Some(next),
                Link::End => None,
                Link::Free | Link::Bad => return Err(Damage::Cluster(cluster).into()),
            };
        }
        Ok(None)
    }

    /// Takes `count` free clusters and links them behind `last` (0: as a new chain). Takes none if there are not enough.
    pub(super) fn allocate(&mut self, last: u32, count: u32) -> Result<Vec<Run>, TreeError> {
        if self.free()? < count {
            return Err(TreeError::NoSpace);
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut left = count;
        let start = if (2..self.end()).contains(&self.hint) { self.hint } else { 2 };
        // One round through the table. It is not changed before all are found.
        for cluster in (start..self.end()).chain(2..start) {
            if left == 0 {
                break;
            }
            if self.raw(cluster)? != 0 {
                continue;
            }
            match runs.last_mut() {
                // cannot overflow: clusters have 28 bits.
                Some(run) if run.first.saturating_add(run.len) == cluster => {
                    run.len = run.len.saturating_add(1)
                }
                _ => runs.push(Run { first: cluster, len: 1 }),
            }
            // cannot overflow: the loop ends at 0.
            left = left.saturating_sub(1);
        }
        if left > 0 {
            // The count was wrong: count anew next time.
            self.free = None;
            return Err(TreeError::NoSpace);
        }
        let mut previous = last;
        for cluster in clusters(&runs) {
            self.set(cluster, Link::End)?;
            if previous != 0 {
                self.set(previous, Link::Next(cluster))?;
            }
            previous = cluster;
        }
        // cannot overflow: clusters have 28 bits, and so many were counted as free.
        self.hint = previous.saturating_add(1);
        self.change_free(|free| free.saturating_sub(count));
        Ok(runs)
    }

    /// Frees a whole chain.
    pub(super) fn release(&mut self, first: u32) -> Result<(), TreeError> {
        let runs = self.chain(first, u32::MAX)?;
        for cluster in clusters(&runs) {
            self.set(cluster, Link::Free)?;
        }
        // cannot overflow: clusters have 28 bits.
        let count = runs.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len));
        // No more than there are, if what the information sector said was too much.
        let all = self.boot.clusters;
        // cannot overflow: clusters have 28 bits.
        self.change_free(|free| free.saturating_add(count).min(all));
        Ok(())
    }

    /// Ends a chain with cluster `last` and frees what followed it.
    pub(super) fn cut(&mut self, last: u32) -> Result<(), TreeError> {
        if let Link::Next(next) = self.link(last)? {
            self.release(next)?;
        }
        self.set(last, Link::End)
    }

    /// Makes everything durable that was changed so far.
    pub(super) fn settle(&mut self) -> Result<(), TreeError> {
        self.cache.write_back()?;
        Ok(self.cache.device().flush()?)
    }

    /// Number of free clusters, counted if it is not known.
    pub(super) fn free(&mut self) -> Result<u32, TreeError> {
        if let Some(free) = self.free {
            return Ok(free);
        }
        let mut free: u32 = 0;
        if self.boot.kind == FilesystemKind::Fat12 {
            for cluster in 2..self.end() {
                // cannot overflow: clusters have 28 bits.
                free = free.saturating_add(u32::from(self.raw(cluster)? == 0));
            }
        } else {
            free = self.count_zeros()?;
        }
        self.free = Some(free);
        self.info_changed = true;
        Ok(free)
    }

    /// Entries of zero in the whole table, read in large pieces.
    fn count_zeros(&mut self) -> Result<u32, TreeError> {
        let start = self.boot.table();
        let ((mut at, width), (end, _)) = (self.place(2), self.place(self.end()));
        let mut piece = vec![0; 64 * 1024];
        let mut zeros: u32 = 0;
        while at < end {
            // cannot overflow or miss: the loop ends there, and a piece is small.
            let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len());
            let part = piece.get_mut(..len).unwrap_or(&mut []);
            self.cache.read(start.saturating_add(at), part)?;
            // The top four bits of a FAT32 entry are reserved.
            let is_zero = |entry: &&[u8]| match **entry {
                [a, b, c, d] => u32::from_le_bytes([a, b, c, d & 0xf]) == 0,
                _ => entry.iter().all(|&byte| byte == 0),
            };
            let found = part.chunks_exact(width).filter(is_zero).count();
            // cannot overflow: clusters have 28 bits.
            zeros = zeros.saturating_add(u32::try_from(found).unwrap_or(u32::MAX));
            at = at.saturating_add(len as u64);
        }
        Ok(zeros)
    }

    fn change_free(&mut self, change: impl Fn(u32) -> u32) {
        self.free = self.free.map(change);
        self.info_changed = true;
    }

    /// Brings the information sector up to date, in the cache.
    pub(super) fn write_info(&mut self) -> Result<(), TreeError> {
        if let Some(at) = self.boot.info().filter(|_| self.has_info && self.info_changed) {
            let free = self.free()?;
            // cannot overflow: the sector lies in the filesystem.
            self.cache.write(at.saturating_add(488), &free.to_le_bytes())?;
            self.cache
                // cannot overflow: the sector lies in the filesystem.
                .write(at.saturating_add(492), &self.hint.min(self.end().saturating_sub(1)).to_le_bytes())?;
        }
        self.info_changed = false;
        Ok(())
    }
}

/// Every cluster of some runs.
pub(super) fn clusters(runs: &[Run]) -> impl Iterator<Item = u32> {
    // cannot overflow: clusters have 28 bits.
    runs.iter().flat_map(|run| run.first..run.first.saturating_add(run.len))
}
