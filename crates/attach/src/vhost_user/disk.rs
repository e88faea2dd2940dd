//! Carrying out requests (virtio 1.2, section 5.2.6).

use super::config::{
    CONFIG_LEN, MAX_DISCARD, MAX_DISCARD_SEGMENTS, MAX_WRITE_ZEROES, MAX_WRITE_ZEROES_SEGMENTS,
    configuration, features,
};
use super::memory::Memory;
use super::request::{Chain, Malformed, status};
use crate::pieces::pieces;
use atrest_codec::{Le, decode};
use atrest_device::{BlockDevice, Cause, DeviceError, Operation, SECTOR_SIZE};
use std::sync::Arc;

/// Bytes in the longest request: EDK II's driver sends as many, and no other sends more.
const MAX_REQUEST: u64 = 1 << 30;

const HEADER_LEN: usize = 16;
const RANGE_LEN: usize = 16;
const ID_LEN: usize = 20;

/// Types of request.
mod kind {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// The bit in a range's flags by which write zeroes may leave a hole.
const UNMAP: u32 = 1;

/// Why a request is not carried out.
enum Refusal {
    Failed,
    Unsupported,
}

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Self::Failed
    }
}

impl From<DeviceError> for Refusal {
    fn from(_: DeviceError) -> Self {
        Self::Failed
    }
}

/// The device that a guest sees.
pub(super) struct Disk {
    pub device: Arc<dyn BlockDevice>,
    id: [u8; ID_LEN],
    pub features: u64,
    queues: u16,
}

impl Disk {
    pub fn new(device: Arc<dyn BlockDevice>, id: &str, queues: u16) -> Self {
        let mut padded = [0; ID_LEN];
        for (to, from) in padded.iter_mut().zip(id.bytes()) {
            *to = from;
        }
        let features = features(&*device);
        Self { device, id: padded, features, queues }
    }

    /// The configuration space, with the size that the device has now.
    pub fn configuration(&self) -> [u8; CONFIG_LEN] {
        configuration(&*self.device, self.queues)
    }

    /// Carries a request out and writes its status. Returns how many bytes the device has written to the front of
    /// what it may write. With `durable`, what is written is on the media when this returns.
    pub fn carry_out(&self, chain: &Chain, memory: &Memory, buffer: &mut Vec<u8>, durable: bool) -> u32 {
        let mut call = Call { disk: self, chain, memory, buffer, durable, written: 0 };
        let status = match call.carry_out() {
            Ok(()) => status::OK,
            Err(Refusal::Failed) => status::IOERR,
            Err(Refusal::Unsupported) => status::UNSUPP,
        };
        let mut written = call.written;
        // Without a place for it there is nobody to tell; the chain goes back all the same.
        if chain.write_status(memory, status).is_ok() && written + 1 == chain.writable_len() {
            written += 1;
        }
        // cannot fail: a request is shorter than 2³² bytes.
        u32::try_from(written).unwrap_or(u32::MAX)
    }
}

/// A request while it is carried out.
struct Call<'a> {
    disk: &'a Disk,
    chain: &'a Chain,
    memory: &'a Memory,
    buffer: &'a mut Vec<u8>,
    durable: bool,
    /// Bytes written to the guest.
    written: u64,
}

impl Call<'_> {
    fn carry_out(&mut self) -> Result<(), Refusal> {
        let mut header = [0; HEADER_LEN];
        self.chain.reader().read(self.memory, &mut header)?;
        let (Le(kind), Le(_reserved), Le(sector)): (Le<u32>, Le<u32>, Le<u64>) = decode(&header);
        // The last byte is the status's.
        let room = self.chain.writable_len().checked_sub(1).ok_or(Refusal::Failed)?;
        match kind {
            kind::IN => self.read(sector, room),
            kind::OUT => {
                self.write(sector)?;
                self.settle()
            }
            kind::FLUSH => Ok(self.disk.device.flush()?),
            kind::GET_ID => {
                if room < ID_LEN as u64 {
                    return Err(Refusal::Failed);
                }
                self.chain.writer().write(self.memory, &self.disk.id)?;
                self.written = ID_LEN as u64;
                Ok(())
            }
            kind::DISCARD | kind::WRITE_ZEROES if self.disk.device.is_read_only() => Err(Refusal::Failed),
            kind::DISCARD => {
                for (offset, len) in self.ranges(MAX_DISCARD_SEGMENTS, MAX_DISCARD, 0)? {
                    match self.disk.device.discard(offset, len) {
                        // Discarding is a hint; a device that does not discard has heard it.
                        Ok(()) | Err(DeviceError { cause: Cause::Unsupported, .. }) => {}
                        Err(_) => return Err(Refusal::Failed),
                    }
                }
                self.settle()
            }
            kind::WRITE_ZEROES => {
                for (offset, len) in self.ranges(MAX_WRITE_ZEROES_SEGMENTS, MAX_WRITE_ZEROES, UNMAP)? {
                    // A device stores zeros: it may leave a hole, and need not.
                    self.disk.device.write_zeroes(offset, len)?;
                }
                self.settle()
            }
            _ => Err(Refusal::Unsupported),
        }
    }

    /// Without a flush that the guest knows of, each change is made durable before its status.
    fn settle(&self) -> Result<(), Refusal> {
        if self.durable { Ok(self.disk.device.flush()?) } else { Ok(()) }
    }

    fn read(&mut self, sector: u64, len: u64) -> Result<(), Refusal> {
        let device = &*self.disk.device;
        let mut to = self.chain.writer();
        for (offset, len) in checked_pieces(device, Operation::Read, sector, len)? {
            let piece = part(self.buffer, len);
            device.read_at(offset, piece)?;
            to.write(self.memory, piece)?;
            self.written += len as u64;
        }
        Ok(())
    }

    fn write(&mut self, sector: u64) -> Result<(), Refusal> {
        let device = &*self.disk.device;
        if device.is_read_only() {
            return Err(Refusal::Failed);
        }
        let len = self.chain.readable_len().checked_sub(HEADER_LEN as u64).ok_or(Refusal::Failed)?;
        let mut from = self.chain.reader();
        from.read(self.memory, &mut [0; HEADER_LEN])?;
        for (offset, len) in checked_pieces(device, Operation::Write, sector, len)? {
            let piece = part(self.buffer, len);
            from.read(self.memory, piece)?;
            device.write_consuming(offset, piece)?;
        }
        Ok(())
    }

    /// The ranges (first byte, bytes) of a request to discard or to write zeroes. All of them are checked before
    /// anything is changed.
    fn ranges(&mut self, most: u32, longest: u64, known: u32) -> Result<Vec<(u64, u64)>, Refusal> {
        let len = self.chain.readable_len().checked_sub(HEADER_LEN as u64).ok_or(Refusal::Failed)?;
        if len == 0 || len % RANGE_LEN as u64 != 0 || len / RANGE_LEN as u64 > u64::from(most) {
            return Err(Refusal::Failed);
        }
        let mut from = self.chain.reader();
        from.read(self.memory, &mut [0; HEADER_LEN])?;
        let mut ranges = Vec::new();
        for _ in 0..len / RANGE_LEN as u64 {
            let mut wire = [0; RANGE_LEN];
            from.read(self.memory, &mut wire)?;
            let (Le(sector), Le(sectors), Le(flags)): (Le<u64>, Le<u32>, Le<u32>) = decode(&wire);
            if flags & !known != 0 {
                return Err(Refusal::Unsupported);
            }
            let len = u64::from(sectors) * SECTOR_SIZE;
            let offset = sector.checked_mul(SECTOR_SIZE).ok_or(Refusal::Failed)?;
            if len > longest {
                return Err(Refusal::Failed);
            }
            self.disk.device.check_range(Operation::Write, offset, len)?;
            ranges.push((offset, len));
        }
        Ok(ranges)
    }
}

/// Checks a range of whole sectors, and cuts it.
fn checked_pieces(
    device: &dyn BlockDevice,
    operation: Operation,
    sector: u64,
    len: u64,
) -> Result<impl Iterator<Item = (u64, usize)>, Refusal> {
    let start = sector.checked_mul(SECTOR_SIZE).ok_or(Refusal::Failed)?;
    if !len.is_multiple_of(SECTOR_SIZE) || len > MAX_REQUEST {
        return Err(Refusal::Failed);
    }
    device.check_range(operation, start, len)?;
    Ok(pieces(start, len))
}

/// The first bytes of a buffer that grows to one piece ([`CHUNK`](crate::pieces::CHUNK)) at the most.
fn part(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
