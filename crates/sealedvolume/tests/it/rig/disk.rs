//! A local disk with a cache: what was not flushed is there after a crash or not, sector by sector.

use std::sync::{Mutex, MutexGuard};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};
use atrest_testkit::Random;

/// Bytes that a disk writes as a whole.
const SECTOR: usize = 512;

pub struct Disk(Mutex<Inner>);

#[derive(Clone)]
struct Inner {
    /// What whoever reads sees.
    shown: Vec<u8>,
    /// What is durable.
    durable: Vec<u8>,
    flushes: u64,
    /// Writes and flushes that are still carried out.
    left: Option<u64>,
}

impl Disk {
    pub fn new(size: usize) -> Self {
        Self(Mutex::new(Inner { shown: vec![0; size], durable: vec![0; size], flushes: 0, left: None }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics while it has the disk")
    }

    /// All bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.inner().shown.clone()
    }

    pub fn flushes(&self) -> u64 {
        self.inner().flushes
    }

    /// It holds these bytes from now on.
    pub fn put(&self, bytes: &[u8]) {
        let mut inner = self.inner();
        (inner.shown, inner.durable, inner.left) = (bytes.to_vec(), bytes.to_vec(), None);
    }

    /// It fails after so many writes and flushes.
    pub fn fail_after(&self, writes: u64) {
        self.inner().left = Some(writes);
    }

    /// The machine stops: each sector that was not flushed is the old one or the new one.
    pub fn crash(&self, random: &mut Random) {
        let mut inner = self.inner();
        let Inner { shown, durable, left, .. } = &mut *inner;
        *left = None;
        for (old, new) in durable.chunks_mut(SECTOR).zip(shown.chunks_mut(SECTOR)) {
            match random.below(2) {
                0 => old.copy_from_slice(new),
                _ => new.copy_from_slice(old),
            }
        }
    }

    /// The process stops, and the machine goes on.
    pub fn kill(&self) {
        self.inner().left = None;
    }
}

impl Inner {
    fn works(&mut self, operation: Operation) -> Result<(), DeviceError> {
        match &mut self.left {
            Some(0) => Err(DeviceError::new(operation, 0, 0, Cause::Os(5))),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl BlockDevice for Disk {
    fn size(&self) -> u64 {
        self.inner().shown.len() as u64
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        buf.copy_from_slice(&self.inner().shown[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let mut inner = self.inner();
        inner.works(Operation::Write)?;
        inner.shown[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut inner = self.inner();
        inner.works(Operation::Flush)?;
        inner.flushes += 1;
        inner.durable = inner.shown.clone();
        Ok(())
    }
}
