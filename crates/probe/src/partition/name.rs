//! What a partition is called: `PARTUUID=` and `PARTLABEL=`.

use alloc::format;
use alloc::string::String;

use atrest_device::{BlockDevice, DeviceError, SECTOR_SIZE};

use super::gpt::{ENTRY_LEN, Entry, HEADER_LEN, Header};
use super::mbr;

/// Most entries of a GPT that are looked at; there are 128 of them as a rule.
const MOST_ENTRIES: u32 = 4096;

/// What a partition is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionName {
    /// In a GPT its own, in an MBR the disk's signature and the number.
    pub uuid: String,
    /// Its name, in a GPT.
    pub name: String,
}

/// What partition `number`, counted from 1, of a disk is called; `None` if it has no table, or no such place in it.
///
/// For a partition that the kernel shows. So the table is taken as it is: where [`partitions`](super::partitions) refuses
/// one because its checksums are wrong or a file system lies over it, the kernel may have another view.
///
/// # Errors
/// If the table can't be read.
pub fn partition_name(device: &dyn BlockDevice, number: u32) -> Result<Option<PartitionName>, DeviceError> {
    let block = u64::from(device.geometry().logical_block);
    // intended: no disk ends behind all numbers.
    if block < SECTOR_SIZE || block.saturating_mul(2) > device.size() {
        return Ok(None);
    }
    let mut header = [0; HEADER_LEN];
    device.read_at(block, &mut header)?;
    if let Some(header) = Header::find(&header) {
        return of_entry(device, &header, block, number);
    }
    let mut sector = [0; SECTOR_SIZE as usize];
    device.read_at(0, &mut sector)?;
    Ok(mbr::has_signature(&sector).then(|| {
        let uuid = format!("{}-{number:02x}", mbr::disk_id(&sector));
        PartitionName { uuid, name: String::new() }
    }))
}

fn of_entry(
    device: &dyn BlockDevice,
    header: &Header<'_>,
    block: u64,
    number: u32,
) -> Result<Option<PartitionName>, DeviceError> {
    let (count, size) = header.entry_count_and_size();
    let place = || {
        let index = number.checked_sub(1).filter(|index| *index < count.min(MOST_ENTRIES))?;
        (ENTRY_LEN as u32..=4096).contains(&size).then_some(())?;
        let before = u64::from(size).checked_mul(index.into())?;
        let at = header.entries().checked_mul(block)?.checked_add(before)?;
        (at.checked_add(ENTRY_LEN as u64)? <= device.size()).then_some(at)
    };
    let Some(at) = place() else { return Ok(None) };
    let mut entry = [0; ENTRY_LEN];
    device.read_at(at, &mut entry)?;
    Ok(Entry::read(&entry).map(|entry| PartitionName { uuid: entry.id(), name: entry.name() }))
}
