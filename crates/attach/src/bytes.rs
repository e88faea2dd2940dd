//! Byte addressing over a device of logical blocks. Both faces let clients read and write at any byte; a volume
//! with 4096-byte data units can't. The edges of an unaligned write are read, altered and written back.

use atrest_device::{BlockDevice, DeviceError, Extent, Operation};
use std::sync::{Arc, PoisonError, RwLock};

/// A device that can be addressed by the byte.
///
/// Two writes of different bytes in one logical block lose nothing: aligned writes hold `edges` shared, a
/// read-modify-write cycle holds it alone.
pub(crate) struct ByteDevice {
    device: Arc<dyn BlockDevice>,
    /// Logical block in bytes, a power of two.
    block: u64,
    size: u64,
    edges: RwLock<()>,
}

/// Where an operation's aligned middle lies.
struct Split {
    /// Start of the logical block that holds the first byte.
    outer_start: u64,
    /// End of the logical block that holds the last byte, or the end of the device.
    outer_end: u64,
    aligned: bool,
}

/// Unaligned runs are handled in pieces of this many bytes, so that none needs a large buffer.
const PIECE: u64 = 64 * 1024;

impl ByteDevice {
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        let block = u64::from(device.geometry().logical_block.max(1)).next_power_of_two();
        let size = device.size();
        Self { device, block, size, edges: RwLock::new(()) }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    /// The smallest write that needs no read before it.
    pub fn preferred_block(&self) -> u32 {
        let geometry = self.device.geometry();
        geometry.physical_block.max(geometry.logical_block).max(4096)
    }

    pub fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.check_range(Operation::Read, offset, buf.len() as u64)?;
        if self.split(offset, buf.len() as u64).aligned {
            return self.device.read_at(offset, buf);
        }
        let mut bounce = Vec::new();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let len = (PIECE - at % PIECE).min((buf.len() - done) as u64);
            let piece = &mut buf[done..done + len as usize];
            let split = self.split(at, len);
            if split.aligned {
                self.device.read_at(at, piece)?;
            } else {
                bounce.resize((split.outer_end - split.outer_start) as usize, 0);
                self.device.read_at(split.outer_start, &mut bounce)?;
                let from = (at - split.outer_start) as usize;
                piece.copy_from_slice(&bounce[from..from + len as usize]);
            }
            done += len as usize;
        }
        Ok(())
    }

    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.device.check_range(Operation::Write, offset, data.len() as u64)?;
        if self.split(offset, data.len() as u64).aligned {
            let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
            return self.device.write_at(offset, data);
        }
        let mut bounce = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let len = (PIECE - at % PIECE).min((data.len() - done) as u64);
            let piece = &data[done..done + len as usize];
            let split = self.split(at, len);
            if split.aligned {
                let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
                self.device.write_at(at, piece)?;
            } else {
                let _alone = self.edges.write().unwrap_or_else(PoisonError::into_inner);
                bounce.resize((split.outer_end - split.outer_start) as usize, 0);
                self.device.read_at(split.outer_start, &mut bounce)?;
                let from = (at - split.outer_start) as usize;
                bounce[from..from + len as usize].copy_from_slice(piece);
                self.device.write_at(split.outer_start, &bounce)?;
            }
            done += len as usize;
        }
        Ok(())
    }

    /// Zeros a range. The device may leave a hole where it reads back as zeros.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.device.check_range(Operation::Write, offset, len)?;
        let (start, end) = self.inside(offset, len);
        if start >= end {
            return self.write_explicit_zeroes(offset, len);
        }
        self.write_explicit_zeroes(offset, start - offset)?;
        {
            let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
            self.device.write_zeroes(start, end - start)?;
        }
        self.write_explicit_zeroes(end, offset + len - end)
    }

    /// Zeros a range with ordinary writes, so that it is stored.
    pub fn write_explicit_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        static ZEROS: [u8; PIECE as usize] = [0; PIECE as usize];
        self.device.check_range(Operation::Write, offset, len)?;
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let step = (PIECE - at % PIECE).min(len - done);
            self.write_at(at, &ZEROS[..step as usize])?;
            done += step;
        }
        Ok(())
    }

    /// Discards the whole blocks inside a range. The bytes at its edges share a block with others, and stay.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.device.check_range(Operation::Discard, offset, len)?;
        let (start, end) = self.inside(offset, len);
        if start >= end {
            return Ok(());
        }
        let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
        self.device.discard(start, end - start)
    }

    /// The extent that starts at `offset`, never empty unless `len` is 0.
    pub fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.device.check_range(Operation::Read, offset, len)?;
        let split = self.split(offset, len);
        let lead = offset - split.outer_start;
        let extent = self.device.extent(split.outer_start, split.outer_end - split.outer_start)?;
        // A device that answers with an extent that ends before `offset` tells nothing about it: call it data.
        match extent.len.checked_sub(lead) {
            Some(rest) if rest > 0 => Ok(Extent { len: rest.min(len), hole: extent.hole }),
            _ => Ok(Extent { len: len.min(self.block), hole: false }),
        }
    }

    fn split(&self, offset: u64, len: u64) -> Split {
        let mask = self.block - 1;
        let end = offset + len;
        let outer_start = offset & !mask;
        let outer_end = end.checked_add(mask).map_or(self.size, |e| e & !mask).min(self.size);
        Split { outer_start, outer_end, aligned: outer_start == offset && (outer_end == end || len == 0) }
    }

    /// The aligned range inside a range; empty (start ≥ end) if it holds no whole block. The last block of the
    /// device counts as whole even if the device ends inside it.
    fn inside(&self, offset: u64, len: u64) -> (u64, u64) {
        let mask = self.block - 1;
        let end = offset + len;
        let start = offset.checked_add(mask).map_or(self.size, |s| s & !mask);
        (start, if end == self.size { end } else { end & !mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atrest_device::{Cause, Geometry};
    use std::sync::Mutex;

    /// Refuses everything that is not a multiple of its block.
    struct Strict {
        data: Mutex<Vec<u8>>,
        block: u32,
    }

    impl Strict {
        fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
            self.check_range(operation, offset, len)?;
            let block = u64::from(self.block);
            let whole = |at: u64| at.is_multiple_of(block) || at == self.size();
            if whole(offset) && whole(offset + len) {
                return Ok(());
            }
            Err(DeviceError::new(operation, offset, len, Cause::Misaligned { multiple: self.block }))
        }
    }

    impl BlockDevice for Strict {
        fn size(&self) -> u64 {
            self.data.lock().unwrap().len() as u64
        }
        fn geometry(&self) -> Geometry {
            Geometry { logical_block: self.block, ..Geometry::default() }
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
            self.check(Operation::Read, offset, buf.len() as u64)?;
            buf.copy_from_slice(&self.data.lock().unwrap()[offset as usize..][..buf.len()]);
            Ok(())
        }
        fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
            self.check(Operation::Write, offset, data.len() as u64)?;
            self.data.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }
        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }
        fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
            self.check(Operation::Write, offset, len)?;
            self.data.lock().unwrap()[offset as usize..][..len as usize].fill(0);
            Ok(())
        }
        fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
            self.check(Operation::Discard, offset, len)?;
            self.data.lock().unwrap()[offset as usize..][..len as usize].fill(0xdd);
            Ok(())
        }
    }

    /// Every start and length around block and piece boundaries does what a plain byte array does.
    #[test]
    fn unaligned_operations_equal_those_on_a_byte_array() {
        for (size, block) in [(200_000u64, 4096u32), (131_072, 512), (140_001, 4096)] {
            let pattern: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let strict = Arc::new(Strict { data: Mutex::new(pattern.clone()), block });
            let device = ByteDevice::new(strict.clone());
            let mut model = pattern;
            let points = [0, 1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, size - 1];
            for (round, &start) in points.iter().enumerate() {
                for len in [0, 1, 2, 511, 512, 513, 4096, 8191, 65_536, 70_000] {
                    let len = len.min(size - start);
                    let range = start as usize..(start + len) as usize;
                    match (round + len as usize) % 3 {
                        0 => {
                            device.write_zeroes(start, len).unwrap();
                            model[range.clone()].fill(0);
                        }
                        _ => {
                            let data: Vec<u8> = (0..len).map(|i| (i * 7 + start) as u8).collect();
                            device.write_at(start, &data).unwrap();
                            model[range.clone()].copy_from_slice(&data);
                        }
                    }
                    let mut back = vec![0; len as usize];
                    device.read_at(start, &mut back).unwrap();
                    assert_eq!(back, model[range], "size {size} start {start} len {len}");
                }
            }
            assert!(*strict.data.lock().unwrap() == model, "size {size}");
        }
    }

    #[test]
    fn discard_leaves_the_partial_blocks_at_its_edges() {
        let strict = Arc::new(Strict { data: Mutex::new(vec![1; 16384]), block: 4096 });
        let device = ByteDevice::new(strict.clone());
        device.discard(100, 9000).unwrap();
        let data = strict.data.lock().unwrap().clone();
        assert!(data[..4096].iter().all(|&b| b == 1));
        assert!(data[4096..8192].iter().all(|&b| b == 0xdd));
        assert!(data[8192..].iter().all(|&b| b == 1));
    }

    #[test]
    fn concurrent_writes_into_one_block_lose_nothing() {
        let strict = Arc::new(Strict { data: Mutex::new(vec![0; 4096]), block: 4096 });
        let device = Arc::new(ByteDevice::new(strict.clone()));
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let device = device.clone();
                scope.spawn(move || {
                    for at in 0..1024 {
                        device.write_at(part * 1024 + at, &[part as u8 + 1]).unwrap();
                    }
                });
            }
        });
        let data = strict.data.lock().unwrap();
        for part in 0..4 {
            assert!(data[part * 1024..][..1024].iter().all(|&b| b == part as u8 + 1));
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_refused() {
        let device = ByteDevice::new(Arc::new(Strict { data: Mutex::new(vec![0; 8192]), block: 512 }));
        for (offset, len) in [(8192, 1), (8191, 2), (u64::MAX, 1), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            assert!(device.write_zeroes(offset, len).is_err());
            assert!(device.discard(offset, len).is_err());
            assert!(device.extent(offset, len).is_err());
        }
    }
}
