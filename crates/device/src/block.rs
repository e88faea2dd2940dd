//! Random-access storage shared by several threads.

use core::time::Duration;

use crate::{Cause, DeviceError, Operation};

/// Random-access storage of a fixed size in bytes, usable by several threads at once.
///
/// Every device is addressed by the byte: each operation takes any range inside the device, unless its own
/// documentation says otherwise. [`geometry`](Self::geometry) says what is fast, not what is allowed. A device whose
/// media knows only blocks cuts, reads and rewrites them itself, so nothing above a device does.
///
/// Reads and writes transfer the whole buffer or fail. Writes to overlapping ranges from different threads
/// leave either one's bytes, as on a disk. An operation on one range never disturbs a reader or writer of other bytes,
/// even if both lie in the same block. A write is durable only after a later [`flush`](Self::flush)
/// returned `Ok`; once a flush has failed, every later write and flush fails too.
pub trait BlockDevice: Send + Sync {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Block sizes that are fast: the alignment that a caller with a choice keeps.
    fn geometry(&self) -> Geometry;

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;

    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// Why not all of it could be read; what `buf` holds then is undefined.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `data` at byte `offset`.
    ///
    /// # Errors
    /// Why not all of it was written; the range then holds old bytes and new ones.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError>;

    /// Writes like [`write_at`](Self::write_at), on the calling thread alone, and may use `data` to work in: it holds
    /// nothing of use afterwards. Saves a pass through memory for callers who own their buffer.
    ///
    /// # Errors
    /// Fails where [`write_at`](Self::write_at) does.
    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        self.write_at(offset, data)
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// What was written since the last flush may be lost. Every later write and flush fails, too:
    /// [`Durability`](crate::Durability) remembers it for devices whose media does not.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Tells the media that a range is no longer used; its contents are undefined afterwards. Bytes outside the range
    /// stay, also where they share a block with it.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if the media has no such operation, which is the default. [`Cause::OutOfBounds`] or
    /// [`Cause::ReadOnly`] if the range must not be written. What the range holds then is undefined, too.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(Operation::Discard, offset, len, Cause::Unsupported))
    }

    /// Stores zeros in a range; it is no hole afterwards. The default writes them from a block of 4 KiB.
    ///
    /// # Errors
    /// [`Cause::OutOfBounds`] unless the range lies inside the device. Otherwise fails where
    /// [`write_at`](Self::write_at) does: a part of the range may hold zeros then.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        self.check_range(Operation::Write, offset, len)?;
        let mut done = 0;
        while done < len {
            let at = offset + done;
            // All steps but the first begin at a multiple of the block.
            let step = (ZEROS.len() as u64 - at % ZEROS.len() as u64).min(len - done);
            self.write_at(at, &ZEROS[..step as usize])?;
            done += step;
        }
        Ok(())
    }

    /// Returns the extent that starts at byte `offset`, and whether it is known to be a hole. It ends at
    /// `offset + len` at the latest, and is empty only if `len` is 0. The default knows of no holes.
    ///
    /// # Errors
    /// [`Cause::OutOfBounds`] unless the range lies inside the device. A device that asks its media fails where the
    /// media does not answer.
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        Ok(Extent { len, hole: false })
    }

    /// Reads like [`read_at`](Self::read_at) where nothing has to be waited for, neither the media nor another request:
    /// `true` if `buf` is filled. Otherwise it returns `false`, and `buf` holds nothing of use. For a thread that has
    /// more to do than this read. The default does not know, and returns `false`.
    ///
    /// # Errors
    /// Fails where [`read_at`](Self::read_at) does.
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        Ok(false)
    }

    /// Lends `len` bytes to `take` where they lie in memory already, so that nobody has to copy them. `false` if they don't, or
    /// something of them was not there after all: then what `take` made of them is worth nothing, and
    /// [`read_at`](Self::read_at) says what is wrong. Others may change the bytes while they are lent. The default has none to
    /// lend.
    fn lend(&self, _offset: u64, _len: usize, _take: &mut dyn FnMut(&[u8])) -> bool {
        false
    }

    /// Says that a range will be read soon. Advice only: it starts no more than reading ahead, and never fails.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// What the store of objects behind it was asked for since it was opened. `None`, if it lies on no such store.
    fn store_requests(&self) -> Option<StoreRequests> {
        None
    }

    /// Fails unless `offset..offset + len` lies inside the device.
    ///
    /// # Errors
    /// [`Cause::OutOfBounds`] with the device's size, also where the end of the range overflows.
    fn check_range(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        let size = self.size();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(DeviceError::new(operation, offset, len, Cause::OutOfBounds { size })),
        }
    }
}

/// Block sizes of a device, in bytes, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The block in which a partition table on the device counts. Smaller writes cost a read-modify-write cycle.
    pub logical_block: u32,
    /// The smallest unit that the media writes without a read-modify-write cycle.
    pub physical_block: u32,
    /// Best alignment for data areas (`optimal_io_size`, or 1 MiB where the device names none).
    pub optimal_alignment: u32,
    /// Bytes from the device's beginning to the first whole physical block. Partitions of old drives begin within one.
    pub alignment_offset: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Self { logical_block: 512, physical_block: 4096, optimal_alignment: 1 << 20, alignment_offset: 0 }
    }
}

/// A run of bytes that is either stored or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes in the run.
    pub len: u64,
    /// Nothing is stored: the media reads as zeros.
    pub hole: bool,
}

/// Requests to a store of objects, and bytes of objects each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreRequests {
    /// Objects and parts of objects that were asked for.
    pub get: u64,
    /// Objects that were stored whatever was there.
    pub put: u64,
    /// Objects that were to be stored only where there was none of that name.
    pub put_new: u64,
    /// Lists of names.
    pub list: u64,
    /// Objects that were to be deleted.
    pub delete: u64,
    /// Those of all these that failed.
    pub failed: u64,
    /// Those of all these that were another try of one that had failed.
    pub retried: u64,
    /// Bytes of objects that came.
    pub received: u64,
    /// Bytes of objects that were sent, also by requests that failed.
    pub sent: u64,
    /// For how long what waits longest to be stored has waited. `None`: nothing waits.
    pub lag: Option<Duration>,
}
