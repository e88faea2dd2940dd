//! The volume as a block device.

use std::sync::atomic::Ordering;

use atrest_device::{BlockDevice, DeviceError, Extent, Geometry, Operation, StoreRequests};

use super::core::Core;
use super::{SealedVolume, VolumeError};
use crate::format::BLOCK_LEN;

const BLOCK: u64 = BLOCK_LEN as u64;

impl BlockDevice for SealedVolume {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn geometry(&self) -> Geometry {
        let block = BLOCK_LEN as u32;
        Geometry {
            logical_block: 512,
            physical_block: block,
            optimal_alignment: 1 << 20,
            alignment_offset: 0,
        }
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.check_range(Operation::Read, offset, len)?;
        self.read(offset, buf).map_err(|error| error.at(Operation::Read, offset, len))
    }

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        Ok(self.read_at_once(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.check_range(Operation::Write, offset, len)?;
        let edges = self.warm_edges(offset, len);
        let written = edges.and_then(|()| self.change(|core| core.write(offset, data)));
        written.map_err(|error| error.at(Operation::Write, offset, len))
    }

    fn store_requests(&self) -> Option<StoreRequests> {
        Some(StoreRequests { lag: self.lag(), ..self.traffic.counts() })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.read_only {
            return Ok(());
        }
        self.make_durable().map_err(|error| error.at(Operation::Flush, 0, 0))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(Operation::Discard, offset, len)?;
        let told = |error: VolumeError| error.at(Operation::Discard, offset, len);
        let (first, end) = (offset.div_ceil(BLOCK), (offset + len) / BLOCK);
        let trim = |core: &mut Core| if first < end { core.trim(first, end - first) } else { Ok(()) };
        self.change(trim).map_err(told)
    }

    /// What covers whole blocks takes no room: nothing is stored of it.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, len)?;
        let end = offset + len;
        let (first, last) = (offset.next_multiple_of(BLOCK).min(end), end / BLOCK * BLOCK);
        const ZEROS: [u8; BLOCK_LEN] = [0; BLOCK_LEN];
        self.write_at(offset, &ZEROS[..(first - offset) as usize])?;
        if first >= last {
            return self.write_at(first, &ZEROS[..(end - first) as usize]);
        }
        let told = |error: VolumeError| error.at(Operation::Write, offset, len);
        self.change(|core| core.trim(first / BLOCK, (last - first) / BLOCK)).map_err(told)?;
        self.write_at(last, &ZEROS[..(end - last) as usize])
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        if len == 0 {
            return Ok(Extent { len, hole: false });
        }
        let block = offset / BLOCK;
        let blocks = (offset + len).div_ceil(BLOCK) - block;
        let extent = self.with_map(|core, fetched| core.extent(fetched, block, blocks));
        let (run, hole) = extent.map_err(|error| error.at(Operation::Read, offset, len))?;
        Ok(Extent { len: ((block + run) * BLOCK - offset).min(len), hole })
    }
}
