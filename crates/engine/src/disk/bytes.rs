//! Byte addressing: how a range that covers data units in part is cut, read, changed and written back. Nothing above
//! [`Disk`] does any of this, and nothing but this file does it below.
//!
//! A *run* is the whole data units around a range. A short range that is not aligned is handled as one run. A longer
//! one has its first and its last data unit handled so, and the units between them go straight through.
//!
//! The rule for locks: reading a run *shares* its units until the ciphertext is in memory. Writing to a run
//! *excludes* everybody else from its units, from the read to the end of the write. A write of whole units shares
//! them; a reader that it disturbs asked for bytes that are being written. [`Units`](super::units::Units) says what
//! that costs.

use atrest_device::DeviceError;

use super::Disk;
use super::region::Region;

/// The longest run that one read or write covers, in bytes, unless a single data unit is longer.
const RUN: usize = 64 << 10;

/// A range cut at data units: bytes of a run, of whole units, and of a second run. A range of one run is all head.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    pub head: usize,
    pub whole: usize,
    pub tail: usize,
}

impl Cut {
    /// Cuts `len` bytes that begin `skip` bytes into a data unit of `unit` bytes.
    pub fn new(unit: usize, skip: usize, len: usize) -> Self {
        let aligned = skip == 0 && len.is_multiple_of(unit);
        if !aligned && (skip + len).next_multiple_of(unit) <= RUN.max(unit) {
            return Self { head: len, whole: 0, tail: 0 };
        }
        let head = if skip == 0 { 0 } else { (unit - skip).min(len) };
        let tail = (len - head) % unit;
        Self { head, whole: len - head - tail, tail }
    }
}

impl Disk {
    /// Reads a range of one region. `read_whole` gets what consists of whole data units.
    pub(super) fn read_range(
        &self,
        region: &Region,
        at: u64,
        buf: &mut [u8],
        read_whole: impl FnOnce(u64, &mut [u8]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let cut = region.cut(at, buf.len());
        let (head, rest) = buf.split_at_mut(cut.head);
        let (whole, tail) = rest.split_at_mut(cut.whole);
        self.read_run(region, at, head)?;
        let at = at + head.len() as u64;
        if !whole.is_empty() {
            read_whole(at, whole)?;
        }
        self.read_run(region, at + whole.len() as u64, tail)
    }

    /// Reads the run around a range, and copies the range out of it.
    fn read_run(&self, region: &Region, at: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        if buf.is_empty() {
            return Ok(());
        }
        let (first, skip) = region.unit_of(at);
        let mut run = vec![0; (skip + buf.len()).next_multiple_of(region.unit())];
        self.load(region, first, &mut run)?;
        buf.copy_from_slice(&run[skip..skip + buf.len()]);
        Ok(())
    }

    /// Changes a range in the run around it. Nobody else touches the run meanwhile.
    pub(super) fn write_run(&self, region: &Region, at: u64, data: &[u8]) -> Result<(), DeviceError> {
        if data.is_empty() {
            return Ok(());
        }
        let unit = region.unit();
        let (first, skip) = region.unit_of(at);
        let end = skip + data.len();
        let mut run = vec![0; end.next_multiple_of(unit)];
        let last = run.len() - unit;
        let _alone = self.units.exclude(region.start + first, run.len());
        // What stays lies in the first and in the last unit alone.
        if skip > 0 || last == 0 {
            region.load(&*self.media, first, &mut run[..unit])?;
        }
        if end < run.len() && last > 0 {
            region.load(&*self.media, first + last as u64, &mut run[last..])?;
        }
        run[skip..end].copy_from_slice(data);
        region.store(&*self.media, first, &mut run)
    }

    /// Writes zeros over a range that need not hold a whole data unit, in pieces that lie in one unit each.
    pub(super) fn zero_parts(&self, region: &Region, mut at: u64, mut len: u64) -> Result<(), DeviceError> {
        let zeros = vec![0; len.min(RUN as u64) as usize];
        while len > 0 {
            let (_, skip) = region.unit_of(at);
            let piece = len.min(RUN as u64) as usize;
            let piece = piece.min(region.unit() - skip);
            self.write_run(region, at, &zeros[..piece])?;
            at += piece as u64;
            len -= piece as u64;
        }
        Ok(())
    }
}
