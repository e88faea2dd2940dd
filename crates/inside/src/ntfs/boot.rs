//! The boot sector: where the master file table is, and how large clusters, records and index blocks are.

use std::sync::Arc;

use atrest_codec::Record;
use atrest_device::BlockDevice;
use atrest_filetree::TreeError;

use crate::boot_sector::{self, bad, bytes, check_fits};
use crate::fault::Field;

/// The device and its sizes, all checked.
pub(super) struct Volume {
    pub(super) device: Arc<dyn BlockDevice>,
    /// Bytes in a cluster.
    pub(super) cluster: u64,
    /// Clusters in all.
    pub(super) clusters: u64,
    /// Bytes in all.
    pub(super) size: u64,
    /// Bytes in a record: 512 to 4096.
    pub(super) record: usize,
    /// First byte of the master file table.
    pub(super) table: u64,
    pub(super) serial: u64,
}

impl Volume {
    /// Reads the boot sector.
    pub(super) fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let sector = boot_sector::read(&*device)?;
        let boot = Record::new(&sector);
        let sector_size = u64::from(boot.le16::<11>());
        if !matches!(sector_size, 512 | 1024 | 2048 | 4096) {
            return Err(bad(Field::SectorSize));
        }
        let [per_cluster] = *boot.array::<13, 1>();
        // More than 128 sectors are said by their negative binary logarithm.
        let per_cluster = match per_cluster {
            1..=128 if per_cluster.is_power_of_two() => u64::from(per_cluster),
            // cannot miss: 12 bits at most.
            244..=255 => 1_u64.checked_shl(256_u32.saturating_sub(per_cluster.into())).unwrap_or(0),
            _ => return Err(bad(Field::ClusterSize)),
        };
        let cluster = sector_size.checked_mul(per_cluster).filter(|size| *size <= 2 << 20);
        let cluster = cluster.ok_or_else(|| bad(Field::ClusterSize))?;
        let size = bytes(boot.le64::<40>(), sector_size).ok_or_else(|| bad(Field::SectorCount))?;
        let clusters = size.checked_div(cluster).filter(|clusters| *clusters != 0);
        let clusters = clusters.ok_or_else(|| bad(Field::SectorCount))?;
        check_fits(size, &*device)?;
        let [record] = *boot.array::<64, 1>();
        let record = match record {
            1..=127 => cluster.checked_mul(record.into()),
            // cannot be less: it is a byte.
            _ => 1_u64.checked_shl(256_u32.saturating_sub(record.into())),
        };
        let record = record.filter(|size| matches!(size, 512 | 1024 | 2048 | 4096));
        let record = record.ok_or_else(|| bad(Field::InodeSize))?;
        let table = boot.le64::<48>();
        if table >= clusters {
            return Err(bad(Field::FirstDataBlock));
        }
        Ok(Self {
            device,
            cluster,
            clusters,
            size,
            // cannot miss: 4096 at most.
            record: usize::try_from(record).unwrap_or(4096),
            // cannot overflow: it lies inside the volume.
            table: table.saturating_mul(cluster),
            serial: boot.le64::<72>(),
        })
    }
}
