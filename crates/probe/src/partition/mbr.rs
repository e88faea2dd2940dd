//! The master boot record: four entries at byte 446, and a chain of extended boot records for logical partitions.
//! Sectors have 512 bytes, as everywhere that MBRs are found inside images.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use atrest_codec::{Le, Record, Rows, decode};
use atrest_device::{BlockDevice, SECTOR_SIZE};

use super::{Partition, PartitionError, PartitionTable, Scheme, check_overlap};

const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
const PROTECTIVE: u8 = 0xee;
/// Linux stops at 256 partitions, and no tool makes chains as long as this.
const MAX_LINKS: u32 = 128;

/// One of four entries, as it is stored.
pub(super) struct Slot {
    status: u8,
    /// Its type; 0 if the entry is not used.
    pub(super) kind: u8,
    /// First sector, and how many there are.
    pub(super) first: u64,
    pub(super) sectors: u64,
}

/// A sector with a table.
pub(super) type Sector = [u8; SECTOR_SIZE as usize];
/// A slot as stored: status, first sector in an old notation, type, last sector so, first sector, number of sectors.
type Stored = ([u8; 1], [u8; 3], [u8; 1], [u8; 3], Le<u32>, Le<u32>);

/// The mark at the end of a sector that a PC can boot from.
pub(super) fn has_signature(sector: &Sector) -> bool {
    Record::new(sector).le16::<510>() == 0xaa55
}

pub(super) fn slots(sector: &Sector) -> [Slot; 4] {
    let Rows(slots): Rows<Stored, 4> = decode(Record::new(sector).array::<446, 64>());
    slots.map(|([status], _, [kind], _, Le(first), Le(sectors))| Slot {
        status,
        kind,
        first: first.into(),
        sectors: sectors.into(),
    })
}

/// Whether the record stands in front of a GPT.
pub(super) fn is_protective(sector: &Sector) -> bool {
    has_signature(sector) && slots(sector).iter().any(|slot| slot.kind == PROTECTIVE)
}

/// Whether it is a table: the mark, states that exist, and a partition.
pub(super) fn is_table(sector: &Sector) -> bool {
    let slots = slots(sector);
    let plausible = slots.iter().all(|slot| slot.status & 0x7f == 0);
    has_signature(sector) && plausible && slots.iter().any(|slot| slot.kind != 0)
}

/// The number by which the disk is known.
pub(super) fn disk_id(sector: &Sector) -> String {
    format!("{:08x}", Record::new(sector).le32::<440>())
}

/// Reads the table whose first sector is given. None if it holds no table.
pub(super) fn read(
    device: &dyn BlockDevice,
    sector: &Sector,
) -> Result<Option<PartitionTable>, PartitionError> {
    if !is_table(sector) {
        return Ok(None);
    }
    let slots = slots(sector);
    let mut partitions = Vec::new();
    // Range of the extended partition, which holds the logical ones and is none itself.
    let mut extended = None;
    for (number, slot) in (1..).zip(&slots) {
        if slot.kind == 0 || slot.sectors == 0 {
            continue;
        }
        let partition = partition(device, number, 0, slot)?;
        if EXTENDED.contains(&slot.kind) {
            // Only the first counts, as in Linux.
            extended = extended.or(Some((slot.first, slot.sectors)));
        }
        partitions.push(partition);
    }
    check_overlap(&partitions)?;
    partitions.retain(|p| !EXTENDED.iter().any(|kind| p.type_id == format!("{kind:02x}")));
    if let Some((first, sectors)) = extended {
        logical(device, first, sectors, &mut partitions)?;
    }
    check_overlap(&partitions)?;
    let id = disk_id(sector);
    let sector_size = SECTOR_SIZE as u32;
    Ok(Some(PartitionTable { scheme: Scheme::Mbr, sector_size, id, partitions, damaged_copy: None }))
}

/// Follows the chain of extended boot records: in each, the first slot is a partition relative to that record, the
/// second leads to the next record relative to the extended partition.
fn logical(
    device: &dyn BlockDevice,
    base: u64,
    sectors: u64,
    partitions: &mut Vec<Partition>,
) -> Result<(), PartitionError> {
    let mut sector = [0; SECTOR_SIZE as usize];
    let mut record = base;
    let mut number = 5;
    for _ in 0..MAX_LINKS {
        // cannot overflow: sums of a few numbers of 32 bits, times 512.
        let offset = record.saturating_mul(SECTOR_SIZE);
        device.read_at(offset, &mut sector)?;
        if !has_signature(&sector) {
            return Err(PartitionError::ExtendedSignature { offset });
        }
        let [own, next, ..] = slots(&sector);
        if own.kind != 0 && own.sectors != 0 {
            let found = partition(device, number, record, &own)?;
            let inside =
                // cannot overflow: sums of a few numbers of 32 bits.
                record.saturating_add(own.first).saturating_add(own.sectors) <= base.saturating_add(sectors);
            if !inside {
                return Err(PartitionError::OutOfBounds { number, start: found.start, len: found.len });
            }
            partitions.push(found);
            // cannot overflow: the chain has a limit.
            number = number.saturating_add(1);
        }
        if next.kind == 0 || next.first == 0 {
            return Ok(());
        }
        // cannot overflow: sums of a few numbers of 32 bits.
        record = base.saturating_add(next.first);
        if next.first >= sectors {
            // cannot overflow: sums of a few numbers of 32 bits, times 512.
            let start = record.saturating_mul(SECTOR_SIZE);
            return Err(PartitionError::OutOfBounds { number, start, len: SECTOR_SIZE });
        }
    }
    Err(PartitionError::ExtendedChain { links: MAX_LINKS })
}

fn partition(
    device: &dyn BlockDevice,
    number: u32,
    base: u64,
    slot: &Slot,
) -> Result<Partition, PartitionError> {
    // cannot overflow: sums of a few numbers of 32 bits, times 512.
    let start = base.saturating_add(slot.first).saturating_mul(SECTOR_SIZE);
    let len = slot.sectors.saturating_mul(SECTOR_SIZE);
    // cannot overflow: sums of a few numbers of 32 bits, times 512.
    if slot.first == 0 || start.saturating_add(len) > device.size() {
        return Err(PartitionError::OutOfBounds { number, start, len });
    }
    let type_id = format!("{:02x}", slot.kind);
    Ok(Partition { number, start, len, type_id, id: String::new(), name: String::new() })
}
