//! The device as the FAT library wants it (`Read + Write + Seek`), through a write-back cache.
//!
//! The library moves a few bytes at a time, follows cluster numbers without checking them and can't name a cause.
//! So this is also where entries of the allocation table are checked as they are read, where a walk that never ends is
//! cut off, and where the true cause of a failure is kept.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_device::{BlockDevice, Cause, DeviceError, Operation};

use super::boot::BootSector;
use crate::detect::FilesystemKind;
use crate::error::{Damage, TreeError};

/// Bytes read and written at once.
const LINE: u64 = 128 * 1024;
/// Lines kept: 8 MiB.
const LINES: usize = 64;
/// What one call costs beside the bytes it moves, so that walks of tiny or empty steps end as well.
const CALL_COST: u64 = 4;

pub(super) struct FatDisk {
    device: Arc<dyn BlockDevice>,
    pub(super) boot: BootSector,
    position: u64,
    lines: HashMap<u64, Line>,
    clock: u64,
    /// Bytes that the running operation may still move. Shared, so that it can be renewed as the operation makes progress.
    budget: Arc<AtomicU64>,
    failure: Option<TreeError>,
}

/// A part of the filesystem in memory.
struct Line {
    data: Vec<u8>,
    /// All of `data` is known. Otherwise only the dirty range is.
    loaded: bool,
    /// Bytes that the media does not have yet.
    dirty: Range<usize>,
    used: u64,
}

impl FatDisk {
    pub(super) fn new(device: Arc<dyn BlockDevice>, boot: BootSector, budget: Arc<AtomicU64>) -> Self {
        Self { device, boot, position: 0, lines: HashMap::new(), clock: 0, budget, failure: None }
    }

    /// Prepares for one operation.
    pub(super) fn begin(&mut self) {
        self.position = 0;
        self.failure = None;
    }

    /// Why the operation failed, if it was not the library's own decision.
    pub(super) fn take_failure(&mut self) -> Option<TreeError> {
        self.failure.take()
    }

    /// Forgets what has not been written.
    pub(super) fn discard(&mut self) {
        self.lines.clear();
    }

    /// Writes what has changed, in the order of the media, and makes it durable.
    pub(super) fn write_back(&mut self) -> Result<(), TreeError> {
        let mut dirty: Vec<u64> =
            self.lines.iter().filter(|(_, line)| !line.dirty.is_empty()).map(|(index, _)| *index).collect();
        dirty.sort_unstable();
        for index in &dirty {
            self.clean(*index)?;
        }
        if !dirty.is_empty() || !self.device.is_read_only() {
            self.device.flush()?;
        }
        Ok(())
    }

    fn clean(&mut self, index: u64) -> Result<(), DeviceError> {
        let Some(line) = self.lines.get_mut(&index) else { return Ok(()) };
        if let Some(data) = line.data.get(line.dirty.clone())
            && !data.is_empty()
        {
            let at = index.saturating_mul(LINE).saturating_add(line.dirty.start as u64);
            self.device.write_at(at, data)?;
            line.dirty = 0..0;
        }
        Ok(())
    }

    /// The line `index`, made if need be, of which `range` is about to be used.
    fn line(&mut self, index: u64, range: &Range<usize>, writing: bool) -> Result<&mut Line, DeviceError> {
        self.clock = self.clock.wrapping_add(1);
        if !self.lines.contains_key(&index) {
            if self.lines.len() >= LINES
                && let Some(oldest) = self.lines.iter().min_by_key(|(_, line)| line.used).map(|(index, _)| *index)
            {
                self.clean(oldest)?;
                self.lines.remove(&oldest);
            }
            let start = index.saturating_mul(LINE);
            let len = self.boot.size().saturating_sub(start).min(LINE) as usize;
            let line = Line { data: vec![0; len], loaded: false, dirty: 0..0, used: 0 };
            self.lines.insert(index, line);
        }
        let device = &self.device;
        let Some(line) = self.lines.get_mut(&index) else {
            return Err(DeviceError::new(Operation::Read, 0, 0, Cause::Gone));
        };
        line.used = self.clock;
        let dirty = &line.dirty;
        let known = if writing {
            dirty.is_empty() || (range.start <= dirty.end && dirty.start <= range.end)
        } else {
            dirty.start <= range.start && range.end <= dirty.end
        };
        if !line.loaded && !known {
            let mut media = vec![0; line.data.len()];
            device.read_at(index.saturating_mul(LINE), &mut media)?;
            if let (Some(new), Some(old)) = (media.get_mut(dirty.clone()), line.data.get(dirty.clone())) {
                new.copy_from_slice(old);
            }
            line.data = media;
            line.loaded = true;
        }
        Ok(line)
    }

    /// Splits `len` bytes at the position into the part that lies in one line.
    fn step(&self, len: usize) -> (u64, Range<usize>) {
        let within = self.position.checked_rem(LINE).unwrap_or(0) as usize;
        let end = within.saturating_add(len).min(LINE as usize);
        (self.position.checked_div(LINE).unwrap_or(0), within..end)
    }

    /// Pays for a transfer and checks that it lies inside the filesystem.
    fn admit(&mut self, len: usize) -> io::Result<()> {
        if self.failure.is_some() {
            return Err(stopped());
        }
        let cost = CALL_COST.saturating_add(len as u64);
        let budget = self.budget.load(Ordering::Relaxed);
        let failure = match budget.checked_sub(cost) {
            None => Damage::EndlessChain,
            Some(_) if self.position.saturating_add(len as u64) > self.boot.size() => {
                let beyond = self.position.checked_div(self.boot.cluster_size().into()).unwrap_or(0);
                Damage::Cluster(u32::try_from(beyond).unwrap_or(u32::MAX))
            }
            Some(rest) => {
                self.budget.store(rest, Ordering::Relaxed);
                return Ok(());
            }
        };
        self.fail(failure.into())
    }

    fn fail<T>(&mut self, failure: TreeError) -> io::Result<T> {
        self.failure = Some(failure);
        Err(stopped())
    }

    /// Checks an entry of the allocation table that was just read from byte `at`: free, a cluster that exists, or one
    /// of the marks at the top. The small tables of FAT12 are checked as a whole when the filesystem is opened.
    fn check_entry(&mut self, at: u64, value: &[u8]) -> io::Result<()> {
        let fats = self.boot.fat_range();
        if !fats.contains(&at) {
            return Ok(());
        }
        let (entry, marks) = match (self.boot.kind, value) {
            (FilesystemKind::Fat16, &[a, b]) => (u32::from_le_bytes([a, b, 0, 0]), 0xfff7),
            (FilesystemKind::Fat32, &[a, b, c, d]) => (u32::from_le_bytes([a, b, c, d & 0xf]), 0x0fff_fff7),
            _ => return Ok(()),
        };
        let within = at.saturating_sub(fats.start).checked_rem(self.boot.fat_size()).unwrap_or(0);
        let number = within.checked_div(value.len() as u64).unwrap_or(0);
        let end = self.boot.clusters.saturating_add(2);
        let is_used = (2..u64::from(end)).contains(&number);
        if !is_used || entry == 0 || entry >= marks || (2..end).contains(&entry) {
            return Ok(());
        }
        self.fail(Damage::Cluster(entry).into())
    }

    /// Checks the whole table of a FAT12 filesystem, at most 6 KiB.
    pub(super) fn check_fat12(&mut self) -> Result<(), TreeError> {
        if self.boot.kind != FilesystemKind::Fat12 {
            return Ok(());
        }
        let end = self.boot.clusters.saturating_add(2);
        let mut table = vec![0; (end.saturating_mul(3).div_ceil(2)) as usize];
        self.device.read_at(self.boot.fat_range().start, &mut table)?;
        for number in 2..end {
            let at = number.saturating_mul(3) as usize >> 1;
            let pair = crate::bytes::Fields(&table).le16(at);
            // The last entry may end with the table: its second byte is then the last one.
            let pair = if at.saturating_add(2) > table.len() { 0 } else { pair };
            let entry = u32::from(if number & 1 == 0 { pair & 0xfff } else { pair >> 4 });
            if entry != 0 && entry < 0xff7 && !(2..end).contains(&entry) {
                return Err(Damage::Cluster(entry).into());
            }
        }
        Ok(())
    }
}

/// The library sees this; the true cause is in [`FatDisk::take_failure`].
fn stopped() -> io::Error {
    io::Error::from(io::ErrorKind::Other)
}

impl Read for FatDisk {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.admit(buf.len())?;
        let at = self.position;
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let (index, range) = self.step(rest.len());
            let part = match self.line(index, &range, false) {
                Ok(line) => line.data.get(range).unwrap_or(&[]),
                Err(error) => return self.fail(error.into()),
            };
            let len = part.len();
            if let Some(target) = rest.get_mut(..len) {
                target.copy_from_slice(part);
            }
            if len == 0 {
                return self.fail(Damage::FatStructure.into());
            }
            done = done.saturating_add(len);
            self.position = self.position.saturating_add(len as u64);
        }
        self.check_entry(at, buf)?;
        Ok(done)
    }
}

impl Write for FatDisk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.admit(data.len())?;
        if self.device.is_read_only() {
            return self.fail(TreeError::ReadOnly);
        }
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let (index, range) = self.step(rest.len());
            let line = match self.line(index, &range, true) {
                Ok(line) => line,
                Err(error) => return self.fail(error.into()),
            };
            let (Some(target), Some(source)) = (line.data.get_mut(range.clone()), rest.get(..range.len())) else {
                return self.fail(Damage::FatStructure.into());
            };
            target.copy_from_slice(source);
            line.dirty = if line.dirty.is_empty() {
                range.clone()
            } else {
                line.dirty.start.min(range.start)..line.dirty.end.max(range.end)
            };
            done = done.saturating_add(range.len());
            self.position = self.position.saturating_add(range.len() as u64);
        }
        Ok(done)
    }

    /// The library asks for it after every file; [`FatDisk::write_back`] does it when the tree is flushed.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FatDisk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.boot.size().checked_add_signed(by),
        };
        match position {
            Some(position) => {
                self.position = position;
                Ok(position)
            }
            None => self.fail(Damage::FatStructure.into()),
        }
    }
}
