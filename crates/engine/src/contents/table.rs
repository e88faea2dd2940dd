//! Partition tables, as far as it takes to tell what a write would hit. Reading them to use them is the crate `inside`'s.

use core::ops::Range;

use atrest_codec::Record;
use atrest_device::{BlockDevice, DeviceError};

const GPT: &[u8] = b"EFI PART";
/// Sectors that disks have.
const SECTORS: [u64; 2] = [512, 4096];
/// Bytes of entries that are looked at: more than any tool writes.
const MOST_ENTRIES: u64 = 1 << 20;

/// Name of the partition table that a device begins or ends with.
pub fn scheme(device: &dyn BlockDevice, start: &[u8]) -> Result<Option<&'static str>, DeviceError> {
    if gpt_sector(device)?.is_some() {
        return Ok(Some("GPT"));
    }
    let Some(sector) = start.first_chunk() else { return Ok(None) };
    let is_mbr = sector.ends_with(&[0x55, 0xaa])
        && slots(sector).all(|slot| slot.u8::<0>() & 0x7f == 0)
        && slots(sector).any(|slot| slot.u8::<4>() != 0);
    Ok(is_mbr.then_some("MBR"))
}

/// Whether a range touches the table or one of its partitions. A table that can't be made out is taken to fill the device.
pub fn reaches(device: &dyn BlockDevice, range: &Range<u64>) -> Result<bool, DeviceError> {
    let touches = |other: &Range<u64>| range.start < other.end && other.start < range.end;
    let used = match gpt_sector(device)? {
        Some(sector) => gpt(device, sector)?,
        None => mbr(device)?,
    };
    Ok(used.is_none_or(|used| used.iter().any(touches)))
}

/// Bytes in the sectors of a GPT, by either of its headers.
fn gpt_sector(device: &dyn BlockDevice) -> Result<Option<u64>, DeviceError> {
    for sector in SECTORS {
        for at in [Some(sector), device.size().checked_sub(sector)].into_iter().flatten() {
            let mut magic = [0; 8];
            if at + sector <= device.size() {
                device.read_at(at, &mut magic)?;
            }
            if magic == GPT {
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
    let mut header = [0; 92];
    if sector * 2 > size {
        return Ok(None);
    }
    device.read_at(sector, &mut header)?;
    let place = || {
        let record = Record::new(&header);
        let bytes = |block: u64| block.checked_mul(sector).filter(|bytes| *bytes <= size);
        let (first, last) = (bytes(record.le64::<40>())?, bytes(record.le64::<48>())?);
        let entries = bytes(record.le64::<72>())?;
        let (count, each) = (u64::from(record.le32::<80>()), u64::from(record.le32::<84>()));
        let len = count.checked_mul(each).filter(|len| *len <= MOST_ENTRIES && entries + len <= size)?;
        (header.starts_with(GPT) && each >= 56).then_some((first, last, entries, len, each))
    };
    let Some((first, last, entries, len, each)) = place() else { return Ok(None) };
    let mut table = vec![0; len as usize];
    device.read_at(entries, &mut table)?;
    let mut used = vec![0..first, (last + sector).min(size)..size];
    let entries = table.chunks_exact(each as usize).filter_map(|entry| entry.first_chunk::<56>());
    let taken = entries.map(Record::new).filter(|entry| entry.array::<0, 16>() != &[0; 16]);
    used.extend(taken.map(|entry| {
        // intended: a partition that reaches beyond all numbers reaches to the end.
        let from = entry.le64::<32>().saturating_mul(sector);
        from..entry.le64::<40>().saturating_add(1).saturating_mul(sector)
    }));
    Ok(Some(used))
}

/// The record and its partitions, an extended one as a whole.
fn mbr(device: &dyn BlockDevice) -> Result<Option<Vec<Range<u64>>>, DeviceError> {
    let mut sector = [0; 512];
    device.read_at(0, &mut sector)?;
    let record = 0..512;
    let partitions = slots(&sector).filter(|slot| slot.u8::<4>() != 0).map(|slot| {
        let (first, count) = (u64::from(slot.le32::<8>()), u64::from(slot.le32::<12>()));
        first * 512..(first + count) * 512
    });
    Ok(Some(core::iter::once(record).chain(partitions).collect()))
}

fn slots(sector: &[u8; 512]) -> impl Iterator<Item = Record<'_, 16>> {
    Record::new(sector).array::<446, 64>().as_chunks().0.iter().map(Record::new)
}
