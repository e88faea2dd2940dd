//! Watching a volume while it is served: what it is asked for, and a flush that failed.

use super::{Record, Registration};
use crate::metrics::{Counters, Metrics, Operation, StoreMetrics};
use atrest_device::{BlockDevice, DeviceError, Extent, Geometry, StoreRequests};
use std::sync::{Arc, OnceLock};

/// A device that counts its requests, and notes its first failed flush in the state file: from then on writes are refused, and
/// whoever asks for the status should see why.
pub struct Watched {
    device: Arc<dyn BlockDevice>,
    counters: Counters,
    record: OnceLock<Arc<Record>>,
    failure: OnceLock<String>,
}

impl Watched {
    /// Watches a device.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self { device, counters: Counters::new(), record: OnceLock::new(), failure: OnceLock::new() }
    }

    /// What has been counted until now.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            size: self.device.size(),
            failed: self.failure.get().is_some(),
            operations: Operation::ALL.into_iter().map(|each| (each, self.counters.of(each))).collect(),
            store: self.store_requests().map(StoreMetrics::from),
        }
    }

    /// Where failures are noted, also one that has happened already.
    pub fn tell(&self, registration: &Registration) {
        // A device is registered once; a second registration changes nothing.
        let _ = self.record.set(registration.record.clone());
        self.note();
    }

    fn note(&self) {
        if let (Some(record), Some(failure)) = (self.record.get(), self.failure.get()) {
            record.fail(failure);
        }
    }
}

impl BlockDevice for Watched {
    fn size(&self) -> u64 {
        self.device.size()
    }
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.counters.count(Operation::Read, buf.len() as u64, || self.device.read_at(offset, buf))
    }
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        let len = buf.len() as u64;
        self.counters.count_if_done(Operation::Read, len, || self.device.read_if_cached(offset, buf))
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.counters.count(Operation::Write, data.len() as u64, || self.device.write_at(offset, data))
    }
    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.counters.count(Operation::Write, len, || self.device.write_consuming(offset, data))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.counters.count(Operation::Flush, 0, || self.device.flush()).inspect_err(|error| {
            let _ = self.failure.set(error.to_string());
            self.note();
        })
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.counters.count(Operation::Discard, len, || self.device.discard(offset, len))
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.counters.count(Operation::WriteZeroes, len, || self.device.write_zeroes(offset, len))
    }
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.counters.count(Operation::Extent, 0, || self.device.extent(offset, len))
    }
    fn prefetch(&self, offset: u64, len: u64) {
        self.device.prefetch(offset, len);
    }
    fn store_requests(&self) -> Option<StoreRequests> {
        self.device.store_requests()
    }
}
