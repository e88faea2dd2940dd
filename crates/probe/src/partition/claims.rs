//! What of a device a partition table and its partitions take, for a question before something is written there.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use atrest_device::{BlockDevice, DeviceError, SECTOR_SIZE};

use super::gpt::{ENTRY_LEN, Entry, HEADER_LEN, Header, MAX_ARRAY};
use super::{Scheme, mbr};

/// Sectors that disks have.
const SECTORS: [u64; 2] = [512, 4096];

/// The partition table that a device begins or ends with, be it damaged or not.
///
/// # Errors
/// If the device can't be read where tables are.
pub fn scheme(device: &dyn BlockDevice) -> Result<Option<Scheme>, DeviceError> {
    if gpt_sector(device)?.is_some() {
        return Ok(Some(Scheme::Gpt));
    }
    Ok(record(device)?.filter(mbr::is_table).map(|_| Scheme::Mbr))
}

/// Whether a range touches the table of [`scheme`] or one of its partitions. A table that can't be made out is taken to
/// fill the device.
///
/// # Errors
/// If the table can't be read.
pub fn claims(device: &dyn BlockDevice, range: &Range<u64>) -> Result<bool, DeviceError> {
    let touches = |other: &Range<u64>| range.start < other.end && other.start < range.end;
    let claimed = match gpt_sector(device)? {
        Some(sector) => gpt(device, sector)?,
        None => record(device)?.map(|record| of_record(&record)),
    };
    Ok(claimed.is_none_or(|claimed| claimed.iter().any(touches)))
}

/// Bytes in the sectors of a GPT, by either of its headers.
fn gpt_sector(device: &dyn BlockDevice) -> Result<Option<u64>, DeviceError> {
    for sector in SECTORS {
        for at in [Some(sector), device.size().checked_sub(sector)].into_iter().flatten() {
            let mut header = [0; HEADER_LEN];
            // cannot overflow: a device is not as long as that.
            if at.saturating_add(sector) <= device.size() {
                device.read_at(at, &mut header)?;
            }
            if Header::find(&header).is_some() {
                return Ok(Some(sector));
            }
        }
    }
    Ok(None)
}

/// The first header with the room before the first partition, the partitions, and the room behind the last one. `None` if
/// the header makes no sense.
fn gpt(device: &dyn BlockDevice, sector: u64) -> Result<Option<Vec<Range<u64>>>, DeviceError> {
    let size = device.size();
    // cannot overflow: a sector has 4096 bytes at most.
    if sector.saturating_mul(2) > size {
        return Ok(None);
    }
    let mut header = [0; HEADER_LEN];
    device.read_at(sector, &mut header)?;
    let Some(place) = Header::find(&header).and_then(|header| Place::of(&header, sector, size)) else {
        return Ok(None);
    };
    let mut table = vec![0; place.len];
    device.read_at(place.entries, &mut table)?;
    // cannot overflow: a last sector that lies on the device was checked.
    let mut claimed = vec![0..place.first, place.last.saturating_add(sector).min(size)..size];
    let entries =
        table.chunks_exact(place.each).filter_map(|entry| Entry::read(entry.first_chunk::<ENTRY_LEN>()?));
    claimed.extend(entries.map(|entry| {
        // intended: a partition that reaches beyond all numbers reaches to the end.
        let from = entry.first.saturating_mul(sector);
        from..entry.last.saturating_add(1).saturating_mul(sector)
    }));
    Ok(Some(claimed))
}

/// Places in bytes that a header names, all of them on the device.
struct Place {
    /// First and last sector that partitions may use.
    first: u64,
    last: u64,
    entries: u64,
    /// Bytes in all entries, and in each.
    len: usize,
    each: usize,
}

impl Place {
    fn of(header: &Header<'_>, sector: u64, size: u64) -> Option<Self> {
        let bytes = |block: u64| block.checked_mul(sector).filter(|bytes| *bytes <= size);
        let (first, last) = header.usable();
        let (first, last, entries) = (bytes(first)?, bytes(last)?, bytes(header.entries())?);
        let (count, each) = header.entry_count_and_size();
        let len = u64::from(count).checked_mul(each.into())?;
        let fits = len <= MAX_ARRAY && entries.checked_add(len)? <= size && each as usize >= ENTRY_LEN;
        fits.then_some(Self { first, last, entries, len: usize::try_from(len).ok()?, each: each as usize })
    }
}

/// The first sector; `None` if the device is shorter.
fn record(device: &dyn BlockDevice) -> Result<Option<mbr::Sector>, DeviceError> {
    if device.size() < SECTOR_SIZE {
        return Ok(None);
    }
    let mut sector = [0; SECTOR_SIZE as usize];
    device.read_at(0, &mut sector)?;
    Ok(Some(sector))
}

/// The record and its partitions, an extended one as a whole.
fn of_record(sector: &mbr::Sector) -> Vec<Range<u64>> {
    let used = mbr::slots(sector).into_iter().filter(|slot| slot.kind != 0).map(|slot| {
        // cannot overflow: sums of two numbers of 32 bits, times 512.
        let end = slot.first.saturating_add(slot.sectors);
        slot.first.saturating_mul(SECTOR_SIZE)..end.saturating_mul(SECTOR_SIZE)
    });
    core::iter::once(0..SECTOR_SIZE).chain(used).collect()
}
