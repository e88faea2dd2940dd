//! The GUID partition table: UEFI 2.10, section 5.3. Fields are little-endian; positions count logical sectors.

use core::fmt::Write;

use atrest_codec::{Le, Record, Rows, decode};
use atrest_device::{BlockDevice, DeviceError, SECTOR_SIZE};

use super::{GptDamage, Partition, PartitionError, PartitionTable, Scheme, TableCopy, check_overlap};
use crate::bytes::crc32;

const SIGNATURE: &[u8; 8] = b"EFI PART";
const HEADER_LEN: usize = 92;
/// Bytes of an entry that mean something; entries may be longer.
const ENTRY_LEN: usize = 128;
/// The specification sets no upper limit; usual tables take 16 KiB. This bounds what a hostile one makes us read.
const MAX_ARRAY: u64 = 1 << 20;

/// Reads the GPT, whose sectors may have 512 or 4096 bytes. None if there is none.
pub(super) fn read(
    device: &dyn BlockDevice,
    protective: bool,
) -> Result<Option<PartitionTable>, PartitionError> {
    let logical = u64::from(device.geometry().logical_block);
    let mut damage = None;
    for sector_size in [SECTOR_SIZE, 4096, logical] {
        // intended: a sector size of 0, or a device without sectors, has no table.
        let last = (device.size().checked_div(sector_size).unwrap_or(0)).saturating_sub(1);
        if !sector_size.is_power_of_two() || !(SECTOR_SIZE..=4096).contains(&sector_size) || last < 2 {
            continue;
        }
        let primary = copy(device, sector_size, 1)?;
        let backup = copy(device, sector_size, last)?;
        let (table, damaged_copy) = match (primary, backup) {
            (Ok(table), Ok(_)) => (table, None),
            (Ok(table), Err(_)) if protective => (table, Some(TableCopy::Backup)),
            (Err(_), Ok(table)) if protective => (table, Some(TableCopy::Primary)),
            (Err(primary), Err(backup)) => {
                // The sector size whose signature is there is the one worth reporting.
                if damage.is_none() || primary != GptDamage::Signature || backup != GptDamage::Signature {
                    damage = Some((primary, backup));
                }
                continue;
            }
            _ => continue,
        };
        return table.check(sector_size, damaged_copy).map(Some);
    }
    match damage {
        Some((primary, backup)) if protective => Err(PartitionError::BothCopiesDamaged { primary, backup }),
        _ => Ok(None),
    }
}

/// An entry: type, identity, first and last sector, attributes, name.
type Entry = ([u8; 16], [u8; 16], Le<u64>, Le<u64>, [u8; 8], Rows<Le<u16>, 36>);

/// A copy whose checksums are right.
struct Table {
    id: String,
    first_usable: u64,
    last_usable: u64,
    entry_size: usize,
    entries: Vec<u8>,
}

/// Reads and checks the copy whose header is in sector `lba`.
fn copy(
    device: &dyn BlockDevice,
    sector_size: u64,
    lba: u64,
) -> Result<Result<Table, GptDamage>, DeviceError> {
    // cannot miss or overflow: a sector has 4096 bytes at most and lies on the device.
    let mut sector = vec![0; usize::try_from(sector_size).unwrap_or(0)];
    device.read_at(lba.saturating_mul(sector_size), &mut sector)?;
    let Some(header) = sector.first_chunk::<HEADER_LEN>().map(Record::new) else {
        return Ok(Err(GptDamage::OutOfBounds));
    };
    if header.array::<0, 8>() != SIGNATURE {
        return Ok(Err(GptDamage::Signature));
    }
    let header_len = header.le32::<12>();
    let len = usize::try_from(header_len).ok().filter(|len| *len >= HEADER_LEN);
    let Some(mut checked) = len.and_then(|len| sector.get(..len)).map(<[u8]>::to_vec) else {
        return Ok(Err(GptDamage::HeaderSize(header_len)));
    };
    if let Some(field) = checked.get_mut(16..20) {
        field.fill(0);
    }
    if crc32(&checked) != header.le32::<16>() {
        return Ok(Err(GptDamage::HeaderChecksum));
    }
    if header.le64::<24>() != lba {
        return Ok(Err(GptDamage::Position(header.le64::<24>())));
    }
    let (count, size) = (header.le32::<80>(), header.le32::<84>());
    // cannot overflow: 32 bits times 32 bits.
    let len = u64::from(count).saturating_mul(u64::from(size));
    if size < ENTRY_LEN as u32 || !size.is_power_of_two() || len == 0 || len > MAX_ARRAY {
        return Ok(Err(GptDamage::EntryArray { count, size }));
    }
    let (first_usable, last_usable) = (header.le64::<40>(), header.le64::<48>());
    // cannot divide by zero: the caller checked the size of a sector.
    let sectors = device.size().checked_div(sector_size).unwrap_or(0);
    let at =
        // intended: a place behind all numbers lies behind the device.
        header.le64::<72>().checked_mul(sector_size).filter(|at| at.saturating_add(len) <= device.size());
    let (Some(at), true) = (at, first_usable <= last_usable && last_usable < sectors) else {
        return Ok(Err(GptDamage::OutOfBounds));
    };
    // cannot miss: the length was checked.
    let mut entries = vec![0; usize::try_from(len).unwrap_or(0)];
    device.read_at(at, &mut entries)?;
    if crc32(&entries) != header.le32::<88>() {
        return Ok(Err(GptDamage::EntryChecksum));
    }
    // cannot miss: the length of all of them was checked.
    let entry_size = usize::try_from(size).unwrap_or(usize::MAX);
    Ok(Ok(Table { id: guid(header.array::<56, 16>()), first_usable, last_usable, entry_size, entries }))
}

impl Table {
    /// Turns the entries into partitions, each inside the usable area, none overlapping another.
    fn check(
        self,
        sector_size: u64,
        damaged_copy: Option<TableCopy>,
    ) -> Result<PartitionTable, PartitionError> {
        let mut partitions = Vec::new();
        for (number, entry) in (1..).zip(self.entries.chunks_exact(self.entry_size)) {
            // cannot miss: `copy` checked the size of an entry.
            let Some(entry) = entry.first_chunk::<ENTRY_LEN>() else { continue };
            let (type_id, id, Le(first), Le(last), _, Rows(name)): Entry = decode(entry);
            if type_id == [0; 16] {
                continue;
            }
            let sectors = last.wrapping_sub(first).wrapping_add(1);
            // intended: a place behind all numbers is refused below, and told with the largest one.
            let start = first.saturating_mul(sector_size);
            let len = sectors.saturating_mul(sector_size);
            if first > last || first < self.first_usable || last > self.last_usable {
                return Err(PartitionError::OutOfBounds { number, start, len });
            }
            let name = name.map(|Le(unit)| unit);
            let name: Vec<u16> = name.into_iter().take_while(|unit| *unit != 0).collect();
            partitions.push(Partition {
                number,
                start,
                len,
                type_id: guid(&type_id),
                id: guid(&id),
                name: String::from_utf16_lossy(&name),
            });
        }
        check_overlap(&partitions)?;
        // cannot miss: a sector has 4096 bytes at most.
        let sector_size = u32::try_from(sector_size).unwrap_or(0);
        Ok(PartitionTable { scheme: Scheme::Gpt, sector_size, id: self.id, partitions, damaged_copy })
    }
}

/// A GUID in its usual notation; the first three groups are stored little-endian.
fn guid(bytes: &[u8; 16]) -> String {
    let (Le(a), Le(b), Le(c), rest): (Le<u32>, Le<u16>, Le<u16>, [u8; 8]) = decode(bytes);
    let mut text = format!("{a:08x}-{b:04x}-{c:04x}-");
    for (i, byte) in rest.iter().enumerate() {
        // Writing to a string can't fail.
        let _ = write!(text, "{}{byte:02x}", if i == 2 { "-" } else { "" });
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_guid_prints_as_the_specification_writes_it() {
        // EFI system partition: UEFI 2.10, table 5.7.
        let stored =
            [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        assert_eq!(super::guid(&stored), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
    }
}
