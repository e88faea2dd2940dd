//! A device on which every write is made in two halves. Whoever is let in meanwhile sees the state between them.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation, Unshared};

/// A [`BlockDevice`] in memory that lets others look at half-written ranges.
///
/// A write stores its first half. Then it waits until somebody has read a byte of its range, or until its patience
/// ends. Then it stores its second half. So a lock that lets a reader in shows it a torn write every time, and a lock
/// that keeps readers out costs the patience.
///
/// It refuses ranges that are no whole blocks, as media behind a controller do.
#[derive(Debug)]
pub struct TornDevice {
    bytes: Vec<AtomicU8>,
    block: u32,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
    lent: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    half_written: Vec<HalfWritten>,
    next: u64,
}

#[derive(Debug)]
struct HalfWritten {
    number: u64,
    range: Range<u64>,
    seen: bool,
}

impl TornDevice {
    /// A device of `size` zeros. Both are multiples of `block`.
    pub fn new(size: usize, block: u32, patience: Duration) -> Self {
        let bytes = (0..size).map(|_| AtomicU8::new(0)).collect();
        Self {
            bytes,
            block,
            patience,
            state: Mutex::default(),
            changed: Condvar::new(),
            lent: AtomicUsize::new(0),
        }
    }

    /// Waits until a write has stored its first half and not its second.
    pub fn wait_for_half_a_write(&self) {
        let limit = Duration::from_secs(20);
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, limit, |state| state.half_written.is_empty());
        let (_state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!outcome.timed_out(), "nobody has written for {limit:?}");
    }

    /// How often bytes were lent.
    pub fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(operation, offset, len)?;
        let block = u64::from(self.block);
        if offset.is_multiple_of(block) && len.is_multiple_of(block) {
            return Ok(());
        }
        Err(DeviceError::new(operation, offset, len, Cause::Misaligned { multiple: self.block }))
    }

    fn store(&self, offset: u64, data: &[u8]) {
        for (from, to) in data.iter().zip(&self.bytes[offset as usize..]) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

impl BlockDevice for TornDevice {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn geometry(&self) -> Geometry {
        Geometry { logical_block: self.block, ..Geometry::default() }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.check(Operation::Read, offset, len)?;
        let touched = |write: &HalfWritten| write.range.start < offset + len && offset < write.range.end;
        let numbers: Vec<u64> = self
            .state()
            .half_written
            .iter()
            .filter(|write| touched(write))
            .map(|write| write.number)
            .collect();
        for (to, from) in buf.iter_mut().zip(&self.bytes[offset as usize..]) {
            *to = from.load(Ordering::Relaxed);
        }
        if !numbers.is_empty() {
            for write in &mut self.state().half_written {
                write.seen |= numbers.contains(&write.number);
            }
            self.changed.notify_all();
        }
        Ok(())
    }

    /// It lies in memory: everything is at hand.
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.read_at(offset, buf).map(|()| true)
    }

    /// As a mapped file, with whatever half of a write is there.
    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut bytes = vec![0; len];
        let read = self.read_at(offset, &mut bytes);
        take(&bytes);
        self.lent.fetch_add(1, Ordering::Relaxed);
        read.is_ok()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check(Operation::Write, offset, data.len() as u64)?;
        let (first, second) = data.split_at(data.len() / 2);
        self.store(offset, first);
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            let range = offset..offset + data.len() as u64;
            state.half_written.push(HalfWritten { number, range, seen: false });
            self.changed.notify_all();
            let unseen = |state: &mut State| {
                state.half_written.iter().any(|write| write.number == number && !write.seen)
            };
            drop(self.changed.wait_timeout_while(state, self.patience, unseen));
            number
        };
        self.store(offset + first.len() as u64, second);
        self.state().half_written.retain(|write| write.number != number);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for TornDevice {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_reader_sees_half_of_a_write_and_ends_its_wait() {
        let device = TornDevice::new(8192, 512, Duration::from_secs(20));
        let before = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| device.write_at(1024, &[7; 1024]).expect("written"));
            device.wait_for_half_a_write();
            let mut beside = [1; 512];
            device.read_at(0, &mut beside).expect("read");
            assert_eq!(beside, [0; 512]);
            let mut torn = [1; 1024];
            device.read_at(1024, &mut torn).expect("read");
            assert_eq!((torn[..512].to_vec(), torn[512..].to_vec()), (vec![7; 512], vec![0; 512]));
        });
        assert!(before.elapsed() < Duration::from_secs(10), "the writer did not wait any longer");
        let mut whole = [1; 1024];
        device.read_at(1024, &mut whole).expect("read");
        assert_eq!(whole, [7; 1024]);
    }

    #[test]
    fn a_write_that_nobody_looks_at_ends_with_its_patience() {
        let device = TornDevice::new(4096, 4096, Duration::from_millis(1));
        device.write_at(0, &[7; 4096]).expect("written");
        let mut whole = [1; 4096];
        device.read_at(0, &mut whole).expect("read");
        assert_eq!(whole, [7; 4096]);
        for (offset, len) in [(1, 4096), (0, 4095)] {
            let refused = device.read_at(offset, &mut vec![0; len]).expect_err("no whole block");
            assert!(matches!(refused.cause, Cause::Misaligned { .. } | Cause::OutOfBounds { .. }));
        }
    }
}
