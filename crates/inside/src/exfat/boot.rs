//! The boot sector: section 3.1 of the specification, and its checksum: section 3.4.

use std::sync::Arc;

use atrest_codec::Record;
use atrest_device::BlockDevice;
use atrest_filetree::TreeError;

use crate::boot_sector::{self, bad, check_fits};
use crate::fault::{Damage, Field};

/// The device and its sizes, all checked.
pub(super) struct Volume {
    pub(super) device: Arc<dyn BlockDevice>,
    /// Bytes in all.
    pub(super) size: u64,
    /// Bytes in a cluster.
    pub(super) cluster: u64,
    /// How many clusters there are. The first has number 2.
    pub(super) clusters: u32,
    /// First byte of the table.
    pub(super) table: u64,
    /// First byte of cluster 2.
    heap: u64,
    /// First cluster of the root directory.
    pub(super) root: u32,
    pub(super) serial: u32,
    pub(super) is_dirty: bool,
}

impl Volume {
    pub(super) fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let sector = boot_sector::read(&*device)?;
        let boot = Record::new(&sector);
        let [sector_shift, cluster_shift, tables] = *boot.array::<108, 3>();
        let sector_size = 1_u64.checked_shl(sector_shift.into()).filter(|_| (9..=12).contains(&sector_shift));
        let sector_size = sector_size.ok_or_else(|| bad(Field::SectorSize))?;
        // cannot overflow: small numbers.
        let shift = cluster_shift.checked_add(sector_shift).filter(|shift| *shift <= 25);
        let cluster = shift.and_then(|shift| 1_u64.checked_shl(shift.into()));
        let cluster = cluster.ok_or_else(|| bad(Field::ClusterSize))?;
        if !matches!(tables, 1 | 2) {
            return Err(bad(Field::FatCount));
        }
        if boot.le16::<104>() >> 8 != 1 {
            return Err(bad(Field::Version));
        }
        let bytes = |sectors| boot_sector::bytes(sectors, sector_size);
        let size = bytes(boot.le64::<72>()).ok_or_else(|| bad(Field::SectorCount))?;
        check_fits(size, &*device)?;
        let clusters = boot.le32::<92>();
        let table = bytes(boot.le32::<80>().into()).ok_or_else(|| bad(Field::ReservedSectors))?;
        let table_len = bytes(boot.le32::<84>().into()).ok_or_else(|| bad(Field::FatSize))?;
        let heap = bytes(boot.le32::<88>().into()).ok_or_else(|| bad(Field::FirstDataBlock))?;
        // The table has an entry of 4 bytes for each cluster and two more.
        // cannot overflow: 34 bits.
        let needed = u64::from(clusters).saturating_add(2).saturating_mul(4);
        if needed > table_len || clusters > 0xffff_fff5 || clusters == 0 {
            return Err(bad(Field::FatSize));
        }
        let heap_end = u64::from(clusters).checked_mul(cluster).and_then(|len| heap.checked_add(len));
        // cannot overflow: both are less than 2^63.
        if heap_end.is_none_or(|end| end > size) || table.saturating_add(table_len) > heap {
            return Err(bad(Field::BlockCount));
        }
        check_sum(&*device, sector_size)?;
        let second = boot.le16::<106>() & 1 != 0 && tables == 2;
        Ok(Self {
            // cannot overflow: both lie in front of the heap, or the table would not be read.
            table: if second { table.saturating_add(table_len) } else { table },
            device,
            size,
            cluster,
            clusters,
            heap,
            root: boot.le32::<96>(),
            serial: boot.le32::<100>(),
            is_dirty: boot.le16::<106>() & 2 != 0,
        })
    }

    /// First byte of a cluster, which must exist.
    pub(super) fn place(&self, cluster: u32) -> u64 {
        // cannot overflow: the heap lies inside the volume.
        u64::from(cluster).saturating_sub(2).saturating_mul(self.cluster).saturating_add(self.heap)
    }

    /// Whether there is a cluster of this number.
    pub(super) fn has(&self, cluster: u32) -> bool {
        // cannot overflow: the number of clusters was checked.
        (2..self.clusters.saturating_add(2)).contains(&cluster)
    }
}

/// The sum over the first eleven sectors, but for the fields that change: it fills the twelfth.
fn check_sum(device: &dyn BlockDevice, sector_size: u64) -> Result<(), TreeError> {
    // cannot overflow or miss: 48 KiB at most.
    let len = usize::try_from(sector_size.saturating_mul(12)).unwrap_or(0);
    let mut bytes = vec![0; len];
    device.read_at(0, &mut bytes)?;
    let (summed, sum) =
        // cannot be less: a twelfth of it is taken away.
        bytes.split_at_checked(len.saturating_sub(len / 12)).ok_or(Damage::SuperblockChecksum)?;
    let expected = summed.iter().enumerate().fold(0_u32, |sum, (at, byte)| match at {
        106 | 107 | 112 => sum,
        _ => sum.rotate_right(1).wrapping_add((*byte).into()),
    });
    match sum.chunks_exact(4).all(|word| word == expected.to_le_bytes()) {
        true => Ok(()),
        false => Err(Damage::SuperblockChecksum.into()),
    }
}
