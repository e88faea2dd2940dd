//! Metadata of the filesystem (tables and directories) in memory until it is flushed.
//!
//! File contents go past it, straight to the device; where they share a line with metadata, the line is kept in step.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use atrest_device::{BlockDevice, Cause, DeviceError, Operation};

/// Bytes read and written at once.
const LINE: u64 = 64 * 1024;
/// Lines kept: 8 MiB.
const LINES: usize = 128;

pub(super) struct Cache {
    device: Arc<dyn BlockDevice>,
    /// Bytes of the filesystem.
    size: u64,
    lines: HashMap<u64, Line>,
    clock: u64,
}

struct Line {
    data: Vec<u8>,
    /// Bytes that the media does not have yet.
    dirty: Range<usize>,
    used: u64,
}

impl Cache {
    pub(super) fn new(device: Arc<dyn BlockDevice>, size: u64) -> Self {
        Self { device, size, lines: HashMap::new(), clock: 0 }
    }

    pub(super) fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// Reads metadata.
    pub(super) fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.each(at, buf.len(), |line, inner, outer| {
            if let (Some(target), Some(source)) = (buf.get_mut(outer), line.data.get(inner)) {
                target.copy_from_slice(source);
            }
        })
    }

    /// Changes metadata.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.each(at, data.len(), |line, inner, outer| {
            if let (Some(target), Some(source)) = (line.data.get_mut(inner.clone()), data.get(outer)) {
                target.copy_from_slice(source);
                line.dirty = if line.dirty.is_empty() {
                    inner
                } else {
                    line.dirty.start.min(inner.start)..line.dirty.end.max(inner.end)
                };
            }
        })
    }

    /// Writes file contents to the device.
    pub(super) fn write_through(&mut self, at: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.device.write_at(at, data)?;
        for (index, inner, outer) in pieces(at, data.len()) {
            if let Some(line) = self.lines.get_mut(&index)
                && let (Some(target), Some(source)) = (line.data.get_mut(inner), data.get(outer))
            {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }

    /// Calls `f` with each line that the range touches, the range in it, and the range in the caller's bytes.
    fn each(
        &mut self,
        at: u64,
        len: usize,
        mut f: impl FnMut(&mut Line, Range<usize>, Range<usize>),
    ) -> Result<(), DeviceError> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(DeviceError::new(
                Operation::Read,
                at,
                len as u64,
                Cause::OutOfBounds { size: self.size },
            ));
        }
        for (index, inner, outer) in pieces(at, len) {
            self.clock = self.clock.wrapping_add(1);
            if !self.lines.contains_key(&index) {
                self.make_room()?;
                // cannot overflow: the range was checked, so that its lines begin in the filesystem.
                let start = index.saturating_mul(LINE);
                let len = usize::try_from(self.size.saturating_sub(start).min(LINE)).unwrap_or(0);
                let mut data = vec![0; len];
                self.device.read_at(start, &mut data)?;
                self.lines.insert(index, Line { data, dirty: 0..0, used: 0 });
            }
            if let Some(line) = self.lines.get_mut(&index) {
                line.used = self.clock;
                f(line, inner, outer);
            }
        }
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), DeviceError> {
        if self.lines.len() >= LINES
            && let Some(oldest) = self.lines.iter().min_by_key(|(_, line)| line.used).map(|(index, _)| *index)
        {
            self.clean(oldest)?;
            self.lines.remove(&oldest);
        }
        Ok(())
    }

    /// Writes what has changed to the device, in its order. Durable only after the device's flush.
    pub(super) fn write_back(&mut self) -> Result<(), DeviceError> {
        let mut indices: Vec<u64> = self.lines.keys().copied().collect();
        indices.sort_unstable();
        indices.into_iter().try_for_each(|index| self.clean(index))
    }

    fn clean(&mut self, index: u64) -> Result<(), DeviceError> {
        if let Some(line) = self.lines.get_mut(&index)
            && let Some(data) = line.data.get(line.dirty.clone()).filter(|data| !data.is_empty())
        {
            // cannot overflow: a line begins in the filesystem.
            let at = index.saturating_mul(LINE).saturating_add(line.dirty.start as u64);
            self.device.write_at(at, data)?;
            line.dirty = 0..0;
        }
        Ok(())
    }

    /// Forgets all changes that have not been written.
    pub(super) fn discard(&mut self) {
        self.lines.clear();
    }
}

/// Cuts a range at lines: index of the line, range in it, range in the whole.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done: usize = 0;
    core::iter::from_fn(move || {
        let left = len.checked_sub(done).filter(|&left| left > 0)?;
        let here = at.checked_add(done as u64)?;
        let within = usize::try_from(here.checked_rem(LINE)?).ok()?;
        // cannot overflow: it is a remainder, and steps are a part of what is left.
        let step = left.min(usize::try_from(LINE).ok()?.saturating_sub(within));
        let outer = done..done.saturating_add(step);
        done = outer.end;
        // cannot overflow: a line has 64 KiB.
        Some((here.checked_div(LINE)?, within..within.saturating_add(step), outer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of ones.
    struct Ones;

    impl BlockDevice for Ones {
        fn size(&self) -> u64 {
            1 << 20
        }

        fn geometry(&self) -> atrest_device::Geometry {
            atrest_device::Geometry::default()
        }

        fn is_read_only(&self) -> bool {
            false
        }

        fn read_at(&self, _offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
            buf.fill(1);
            Ok(())
        }

        fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn metadata_behind_the_filesystem_is_an_error_and_no_zeros() {
        let mut cache = Cache::new(Arc::new(Ones), 100_000);
        let mut buf = [0; 8];
        assert_eq!(cache.read(99_992, &mut buf), Ok(()));
        assert_eq!(buf, [1; 8]);
        for at in [99_993, 100_000, 1 << 19, u64::MAX - 3] {
            let out = |operation| DeviceError::new(operation, at, 8, Cause::OutOfBounds { size: 100_000 });
            assert_eq!(cache.read(at, &mut buf), Err(out(Operation::Read)), "{at}");
            assert_eq!(cache.write(at, &buf), Err(out(Operation::Read)), "{at}");
        }
    }
}
