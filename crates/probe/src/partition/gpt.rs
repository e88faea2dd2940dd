//! The GUID partition table: UEFI 2.10, section 5.3. Fields are little-endian; positions count logical sectors.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use atrest_codec::{Le, Record, Rows, crc32, decode};
use atrest_device::{BlockDevice, DeviceError, SECTOR_SIZE};

use super::{GptDamage, Partition, PartitionError, PartitionTable, Scheme, TableCopy, check_overlap};
use crate::text::{guid, utf16};

const SIGNATURE: &[u8; 8] = b"EFI PART";
pub(super) const HEADER_LEN: usize = 92;
/// Bytes of an entry that mean something; entries may be longer.
pub(super) const ENTRY_LEN: usize = 128;
/// The specification sets no upper limit; usual tables take 16 KiB. This bounds what a hostile one makes us read.
pub(super) const MAX_ARRAY: u64 = 1 << 20;

/// What is stored in a header that has the signature. Nothing else of it is checked.
pub(super) struct Header<'a>(Record<'a, HEADER_LEN>);

impl<'a> Header<'a> {
    pub(super) fn find(bytes: &'a [u8; HEADER_LEN]) -> Option<Self> {
        let record = Record::new(bytes);
        (record.array::<0, 8>() == SIGNATURE).then_some(Self(record))
    }

    fn len(&self) -> u32 {
        self.0.le32::<12>()
    }

    fn checksum(&self) -> u32 {
        self.0.le32::<16>()
    }

    /// The sector in which it says that it lies.
    fn position(&self) -> u64 {
        self.0.le64::<24>()
    }

    /// First and last sector that partitions may use.
    pub(super) fn usable(&self) -> (u64, u64) {
        (self.0.le64::<40>(), self.0.le64::<48>())
    }

    fn disk_id(&self) -> &'a [u8; 16] {
        self.0.array::<56, 16>()
    }

    /// First sector of the entries.
    pub(super) fn entries(&self) -> u64 {
        self.0.le64::<72>()
    }

    /// Number of entries, and bytes in each.
    pub(super) fn entry_count_and_size(&self) -> (u32, u32) {
        (self.0.le32::<80>(), self.0.le32::<84>())
    }

    fn entry_checksum(&self) -> u32 {
        self.0.le32::<88>()
    }
}

/// An entry as it is stored.
pub(super) struct Entry {
    type_id: [u8; 16],
    id: [u8; 16],
    /// First and last sector.
    pub(super) first: u64,
    pub(super) last: u64,
    name: [Le<u16>; 36],
}

impl Entry {
    /// `None` if the entry is not used.
    pub(super) fn read(bytes: &[u8; ENTRY_LEN]) -> Option<Self> {
        type Stored = ([u8; 16], [u8; 16], Le<u64>, Le<u64>, [u8; 8], Rows<Le<u16>, 36>);
        let (type_id, id, Le(first), Le(last), _, Rows(name)): Stored = decode(bytes);
        (type_id != [0; 16]).then_some(Self { type_id, id, first, last, name })
    }

    /// Its GUID as text.
    pub(super) fn id(&self) -> String {
        guid(&self.id)
    }

    pub(super) fn name(&self) -> String {
        utf16(self.name.iter().map(|Le(unit)| *unit))
    }
}

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
    let Some(header) = sector.first_chunk::<HEADER_LEN>() else {
        return Ok(Err(GptDamage::OutOfBounds));
    };
    let Some(header) = Header::find(header) else { return Ok(Err(GptDamage::Signature)) };
    let len = usize::try_from(header.len()).ok().filter(|len| *len >= HEADER_LEN);
    let Some(mut checked) = len.and_then(|len| sector.get(..len)).map(<[u8]>::to_vec) else {
        return Ok(Err(GptDamage::HeaderSize(header.len())));
    };
    if let Some(field) = checked.get_mut(16..20) {
        field.fill(0);
    }
    if !crc32(!0, &checked) != header.checksum() {
        return Ok(Err(GptDamage::HeaderChecksum));
    }
    if header.position() != lba {
        return Ok(Err(GptDamage::Position(header.position())));
    }
    let (count, size) = header.entry_count_and_size();
    // cannot overflow: 32 bits times 32 bits.
    let len = u64::from(count).saturating_mul(u64::from(size));
    if size < ENTRY_LEN as u32 || !size.is_power_of_two() || len == 0 || len > MAX_ARRAY {
        return Ok(Err(GptDamage::EntryArray { count, size }));
    }
    let (first_usable, last_usable) = header.usable();
    // cannot divide by zero: the caller checked the size of a sector.
    let sectors = device.size().checked_div(sector_size).unwrap_or(0);
    let at =
        // intended: a place behind all numbers lies behind the device.
        header.entries().checked_mul(sector_size).filter(|at| at.saturating_add(len) <= device.size());
    let (Some(at), true) = (at, first_usable <= last_usable && last_usable < sectors) else {
        return Ok(Err(GptDamage::OutOfBounds));
    };
    // cannot miss: the length was checked.
    let mut entries = vec![0; usize::try_from(len).unwrap_or(0)];
    device.read_at(at, &mut entries)?;
    if !crc32(!0, &entries) != header.entry_checksum() {
        return Ok(Err(GptDamage::EntryChecksum));
    }
    // cannot miss: the length of all of them was checked.
    let entry_size = usize::try_from(size).unwrap_or(usize::MAX);
    Ok(Ok(Table { id: guid(header.disk_id()), first_usable, last_usable, entry_size, entries }))
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
            let Some(entry) = Entry::read(entry) else { continue };
            let (first, last) = (entry.first, entry.last);
            let sectors = last.wrapping_sub(first).wrapping_add(1);
            // intended: a place behind all numbers is refused below, and told with the largest one.
            let start = first.saturating_mul(sector_size);
            let len = sectors.saturating_mul(sector_size);
            if first > last || first < self.first_usable || last > self.last_usable {
                return Err(PartitionError::OutOfBounds { number, start, len });
            }
            let (type_id, id, name) = (guid(&entry.type_id), entry.id(), entry.name());
            partitions.push(Partition { number, start, len, type_id, id, name });
        }
        check_overlap(&partitions)?;
        // cannot miss: a sector has 4096 bytes at most.
        let sector_size = u32::try_from(sector_size).unwrap_or(0);
        Ok(PartitionTable { scheme: Scheme::Gpt, sector_size, id: self.id, partitions, damaged_copy })
    }
}
