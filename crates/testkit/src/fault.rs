//! A device in memory that records every write and flush and fails where it is told to.

use std::sync::{Mutex, MutexGuard};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation, Unshared};

use crate::power_loss::{Event, Recording};

/// A [`BlockDevice`] in memory with a log and with faults. Faults may be added at any time from any thread.
#[derive(Debug)]
pub struct FaultDevice {
    size: u64,
    lends: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    base: Vec<u8>,
    image: Vec<u8>,
    events: Vec<Event>,
    faults: Vec<Fault>,
    writes: u64,
    flushes: u64,
    flush_failed: bool,
    lent: u64,
}

/// A way in which a [`FaultDevice`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reads that touch this range fail as a bad sector does (`EIO`), with the offset of the first bad byte.
    UnreadableRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes that touch this range fail (`EIO`) and change nothing.
    UnwritableRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes that reach this byte or one behind it fail as on a full disk. What lies before it is written.
    NoSpaceFrom {
        /// First byte without space.
        offset: u64,
    },
    /// The flush with this number (from 0) fails, and with it everything after it, as a [`BlockDevice`] must.
    FailingFlush {
        /// Which one.
        number: u64,
    },
    /// Reads behind this size fail as on a device that shrank after it was opened.
    ShrunkTo {
        /// Size in bytes.
        size: u64,
    },
    /// After this many writes the device is gone: everything fails.
    GoneAfter {
        /// Writes that still succeed.
        writes: u64,
    },
    /// Nothing can be written.
    ReadOnly,
    /// Written bytes of this range are dropped although the write reports success, as by a failing drive.
    DroppedWrites {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

impl FaultDevice {
    /// A device that holds these bytes.
    pub fn new(image: Vec<u8>) -> Self {
        let state = State {
            base: image.clone(),
            image,
            events: Vec::new(),
            faults: Vec::new(),
            writes: 0,
            flushes: 0,
            flush_failed: false,
            lent: 0,
        };
        Self { size: state.image.len() as u64, lends: false, state: Mutex::new(state) }
    }

    /// It lends its bytes as a mapped file does: ranges that can't be read whole are not lent.
    pub fn lending(self) -> Self {
        Self { lends: true, ..self }
    }

    /// A device of this many zeros.
    pub fn zeroed(size: usize) -> Self {
        Self::new(vec![0; size])
    }

    /// Adds a fault.
    pub fn fail(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Removes all faults. A failed flush stays failed.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// The bytes as a reader sees them now.
    pub fn image(&self) -> Vec<u8> {
        self.lock().image.clone()
    }

    /// Writes and flushes that have succeeded.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.writes, state.flushes)
    }

    /// How often bytes were lent that are right.
    pub fn lent(&self) -> u64 {
        self.lock().lent
    }

    /// Notes in the log that something was promised to a user here ("key 2 was added").
    pub fn acknowledge(&self, promise: u64) {
        self.lock().events.push(Event::Acknowledged(promise));
    }

    /// What happened since the device was made or [`forget`](Self::forget) was called.
    pub fn recording(&self) -> Recording {
        let state = self.lock();
        Recording::new(state.base.clone(), state.events.clone())
    }

    /// Starts a new recording from the present contents.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.base = state.image.clone();
        state.events.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn check_alive(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        let gone = |fault: &Fault| matches!(fault, Fault::GoneAfter { writes } if self.writes >= *writes);
        if self.faults.iter().any(gone) {
            return Err(DeviceError::new(operation, offset, len, Cause::Gone));
        }
        Ok(())
    }

    fn check_read(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_alive(Operation::Read, offset, len)?;
        for fault in &self.faults {
            match *fault {
                Fault::UnreadableRange { offset: bad, len: bad_len }
                    if overlap(offset, len, bad, bad_len) =>
                {
                    let first = offset.max(bad);
                    let error = DeviceError::new(Operation::Read, first, offset + len - first, EIO);
                    return Err(error);
                }
                Fault::ShrunkTo { size } if offset + len > size => {
                    return Err(DeviceError::new(Operation::Read, offset, len, Cause::UnexpectedEnd));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How many bytes of a write are stored, and the error that it then reports.
    fn admit_write(&self, offset: u64, len: u64) -> (u64, Option<DeviceError>) {
        let failed = |stored, cause| (stored, Some(DeviceError::new(Operation::Write, offset, len, cause)));
        if let Err(error) = self.check_alive(Operation::Write, offset, len) {
            return (0, Some(error));
        }
        if self.flush_failed {
            return failed(0, Cause::EarlierFlushFailed);
        }
        for fault in &self.faults {
            match *fault {
                Fault::ReadOnly => return failed(0, Cause::ReadOnly),
                Fault::UnwritableRange { offset: bad, len: bad_len }
                    if overlap(offset, len, bad, bad_len) =>
                {
                    return failed(0, EIO);
                }
                Fault::ShrunkTo { size } if offset + len > size => return failed(0, Cause::UnexpectedEnd),
                Fault::NoSpaceFrom { offset: end } if offset + len > end => {
                    return failed(end.saturating_sub(offset), Cause::NoSpace);
                }
                _ => {}
            }
        }
        (len, None)
    }

    fn store(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let dropped: Vec<(u64, u64)> = self
            .faults
            .iter()
            .filter_map(|fault| match *fault {
                Fault::DroppedWrites { offset, len } => Some((offset, len)),
                _ => None,
            })
            .collect();
        let mut data = data.to_vec();
        for (index, byte) in data.iter_mut().enumerate() {
            let at = offset + index as u64;
            if dropped.iter().any(|&(start, len)| at >= start && at - start < len) {
                *byte = self.image[at as usize];
            }
        }
        self.image[offset as usize..][..data.len()].copy_from_slice(&data);
        self.events.push(Event::Write { offset, data });
    }
}

const EIO: Cause = Cause::Os(libc::EIO);

fn overlap(a: u64, a_len: u64, b: u64, b_len: u64) -> bool {
    a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
}

impl BlockDevice for FaultDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        self.lock().faults.contains(&Fault::ReadOnly)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.check_range(Operation::Read, offset, len)?;
        let state = self.lock();
        state.check_read(offset, len)?;
        buf.copy_from_slice(&state.image[offset as usize..][..buf.len()]);
        Ok(())
    }

    /// Zeros in place of what can't be had are lent before the answer says that they are worth nothing.
    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        if !self.lends {
            return false;
        }
        let mut state = self.lock();
        if state.check_read(offset, len as u64).is_err() {
            take(&vec![0; len]);
            return false;
        }
        take(&state.image[offset as usize..][..len]);
        state.lent += 1;
        true
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.check_range(Operation::Write, offset, len)?;
        let mut state = self.lock();
        let (stored, error) = state.admit_write(offset, len);
        state.store(offset, &data[..stored as usize]);
        match error {
            Some(error) => Err(error),
            None => {
                state.writes += 1;
                Ok(())
            }
        }
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut state = self.lock();
        state.check_alive(Operation::Flush, 0, 0)?;
        if state.flush_failed {
            return Err(DeviceError::new(Operation::Flush, 0, 0, Cause::EarlierFlushFailed));
        }
        let number = state.flushes;
        if state.faults.contains(&Fault::FailingFlush { number }) {
            state.flush_failed = true;
            return Err(DeviceError::new(Operation::Flush, 0, 0, EIO));
        }
        state.flushes += 1;
        state.events.push(Event::Flush);
        Ok(())
    }
}

impl Unshared for FaultDevice {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(result: Result<(), DeviceError>) -> Cause {
        result.expect_err("the operation should fail").cause
    }

    #[test]
    fn reads_fail_inside_a_bad_range_only_and_name_the_first_bad_byte() {
        let device = FaultDevice::zeroed(8192);
        device.fail(Fault::UnreadableRange { offset: 1024, len: 512 });
        let mut buf = [0; 1024];
        device.read_at(0, &mut buf).expect("before the bad range");
        device.read_at(1536, &mut buf).expect("behind the bad range");
        let error = device.read_at(512, &mut buf).expect_err("across the bad range");
        assert_eq!((error.offset, error.cause), (1024, EIO));
    }

    #[test]
    fn a_full_disk_stores_what_fits_and_reports_no_space() {
        let device = FaultDevice::zeroed(4096);
        device.fail(Fault::NoSpaceFrom { offset: 1000 });
        assert_eq!(cause(device.write_at(512, &[7; 1024])), Cause::NoSpace);
        assert_eq!(device.image()[999..1001], [7, 0]);
    }

    #[test]
    fn a_failed_flush_is_sticky() {
        let device = FaultDevice::zeroed(4096);
        device.fail(Fault::FailingFlush { number: 1 });
        device.flush().expect("flush 0");
        assert_eq!(cause(device.flush()), EIO);
        device.heal();
        assert_eq!(cause(device.flush()), Cause::EarlierFlushFailed);
        assert_eq!(cause(device.write_at(0, &[1])), Cause::EarlierFlushFailed);
    }

    #[test]
    fn a_device_that_is_gone_fails_everything() {
        let device = FaultDevice::zeroed(4096);
        device.fail(Fault::GoneAfter { writes: 1 });
        device.write_at(0, &[1]).expect("the last write");
        assert_eq!(cause(device.write_at(0, &[1])), Cause::Gone);
        assert_eq!(cause(device.flush()), Cause::Gone);
        assert_eq!(cause(device.read_at(0, &mut [0])), Cause::Gone);
    }

    #[test]
    fn dropped_writes_report_success_and_store_nothing() {
        let device = FaultDevice::zeroed(4096);
        device.fail(Fault::DroppedWrites { offset: 10, len: 5 });
        device.write_at(0, &[9; 20]).expect("reported as written");
        assert_eq!(device.image()[8..17], [9, 9, 0, 0, 0, 0, 0, 9, 9]);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let device = FaultDevice::zeroed(4096);
        assert_eq!(cause(device.read_at(4000, &mut [0; 97])), Cause::OutOfBounds { size: 4096 });
        assert_eq!(cause(device.write_at(u64::MAX, &[0])), Cause::OutOfBounds { size: 4096 });
    }
}
