//! The FAT boot sector: Microsoft's FAT specification of 2005, section 3. Little-endian.

use alloc::vec::Vec;
use core::fmt;

use atrest_codec::{Le, Record, decode};

use crate::{Field, FilesystemKind};

/// The layout of a FAT filesystem, all values checked against each other.
#[derive(Clone, Debug)]
pub struct BootSector {
    /// FAT12, FAT16 or FAT32.
    pub kind: FilesystemKind,
    sector_size: u32,
    cluster_sectors: u32,
    reserved: u32,
    fats: u32,
    fat_sectors: u32,
    root_bytes: u32,
    sectors: u32,
    /// Clusters of the data area; they are numbered from 2.
    pub clusters: u32,
    /// FAT32: first cluster of the root directory; otherwise 0.
    pub root_cluster: u32,
    /// FAT32: sector with the count of free clusters, or 0.
    info_sector: u32,
    /// FAT32 may use one of its tables only.
    active_fat: Option<u32>,
    /// Serial number; 0 if it has none.
    pub serial: u32,
    /// Label, in the code page of whoever wrote it; empty if it has none.
    pub label: Vec<u8>,
    /// It was not unmounted in good order.
    pub dirty: bool,
}

/// Why a sector is no boot sector of FAT.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatError {
    /// It does not begin or end like one.
    NotFat,
    /// A field contradicts the others, or has a value that it can't have.
    Impossible(Field),
}

impl fmt::Display for FatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFat => f.write_str("it is no boot sector of FAT"),
            Self::Impossible(field) => write!(f, "the boot sector's {field} is impossible"),
        }
    }
}

impl core::error::Error for FatError {}

/// Whether it may be a boot sector of FAT, for a question before it is overwritten: sizes that FAT can have, be they
/// consistent or not.
pub fn may_be(sector: &[u8; 512]) -> bool {
    let sector = Record::new(sector);
    has_frame(sector)
        && matches!(sector.le16::<11>(), 512 | 1024 | 2048 | 4096)
        && sector.u8::<13>().is_power_of_two()
        && sector.le16::<14>() != 0
        && matches!(sector.u8::<16>(), 1 | 2)
        && sector.u8::<21>() >= 0xf0
}

/// A jump at the beginning, and the mark of sectors that a PC can boot from at the end.
fn has_frame(sector: Record<'_, 512>) -> bool {
    let jump = matches!((sector.u8::<0>(), sector.u8::<2>()), (0xeb, 0x90) | (0xe9, _));
    jump && sector.le16::<510>() == 0xaa55
}

impl BootSector {
    /// Parses the first 512 bytes of the filesystem.
    ///
    /// # Errors
    /// [`FatError::NotFat`] if it has no boot sector, [`FatError::Impossible`] if its boot sector contradicts itself.
    pub fn parse(sector: &[u8; 512]) -> Result<Self, FatError> {
        let fields = Record::new(sector);
        if !has_frame(fields) {
            return Err(FatError::NotFat);
        }
        let bad = |field| Err(FatError::Impossible(field));
        let sector_size = u32::from(fields.le16::<11>());
        let cluster_sectors = u32::from(fields.u8::<13>());
        if !sector_size.is_power_of_two() || !(512..=4096).contains(&sector_size) {
            return bad(Field::SectorSize);
        }
        // Up to 64 KiB; the specification allows 32 KiB and systems in use write twice that.
        // cannot overflow: 8 bits times 4096.
        if !cluster_sectors.is_power_of_two() || cluster_sectors.saturating_mul(sector_size) > 65536 {
            return bad(Field::ClusterSize);
        }
        let (reserved, fats) = (u32::from(fields.le16::<14>()), u32::from(fields.u8::<16>()));
        if reserved == 0 {
            return bad(Field::ReservedSectors);
        }
        if !(1..=2).contains(&fats) || fields.u8::<21>() < 0xf0 {
            return bad(Field::FatCount);
        }
        let is_fat32 = fields.le16::<22>() == 0;
        let fat_sectors = if is_fat32 { fields.le32::<36>() } else { fields.le16::<22>().into() };
        let small = u32::from(fields.le16::<19>());
        let sectors = if small == 0 { fields.le32::<32>() } else { small };
        let root_entries = u32::from(fields.le16::<17>());
        if fat_sectors == 0 {
            return bad(Field::FatSize);
        }
        // cannot overflow: 16 bits times 32.
        let root_bytes = root_entries.saturating_mul(32);
        if is_fat32 == (root_entries != 0) || root_bytes.checked_rem(sector_size) != Some(0) {
            return bad(Field::RootEntries);
        }
        let both = small != 0 && fields.le32::<32>() != 0;
        if sectors == 0 || both || (is_fat32 && small != 0) {
            return bad(Field::SectorCount);
        }
        // cannot divide by zero: the size of a sector was checked.
        let root_sectors = root_bytes.checked_div(sector_size).unwrap_or(0);
        let Some(first_data) = fats
            .checked_mul(fat_sectors)
            .and_then(|all| all.checked_add(reserved)?.checked_add(root_sectors))
        else {
            return bad(Field::FatSize);
        };
        let data = sectors.checked_sub(first_data).and_then(|data| data.checked_div(cluster_sectors));
        let Some(clusters) = data.filter(|&clusters| clusters > 0) else { return bad(Field::SectorCount) };
        // The number of clusters alone decides on the type: section 3.5.
        let kind = match clusters {
            0..4085 => FilesystemKind::Fat12,
            4085..65525 => FilesystemKind::Fat16,
            _ => FilesystemKind::Fat32,
        };
        if is_fat32 != (kind == FilesystemKind::Fat32) || clusters > 0x0fff_fff4 {
            return bad(Field::SectorCount);
        }
        let bits = match kind {
            FilesystemKind::Fat12 => 12,
            FilesystemKind::Fat16 => 16,
            _ => 32,
        };
        // cannot overflow: 32 bits times 32, and 32 bits times 4096.
        let needed = u64::from(clusters).saturating_add(2).saturating_mul(bits).div_ceil(8);
        if u64::from(fat_sectors).saturating_mul(sector_size.into()) < needed {
            return bad(Field::FatSize);
        }
        // Drive, state, signature, serial number, label.
        let extended = if is_fat32 { fields.array::<64, 18>() } else { fields.array::<36, 18>() };
        let ([_, state, signature], Le(serial), label): ([u8; 3], Le<u32>, [u8; 11]) = decode(extended);
        let (mut root_cluster, mut info_sector, mut active_fat) = (0, 0, None);
        if is_fat32 {
            let (flags, root) = (fields.le16::<40>(), fields.le32::<44>());
            let (info, backup) = (u32::from(fields.le16::<48>()), u32::from(fields.le16::<50>()));
            if fields.le16::<42>() != 0 {
                return bad(Field::Version);
            }
            if flags & 0x80 != 0 && u32::from(flags & 0xf) >= fats {
                return bad(Field::FatCount);
            }
            // cannot overflow: the number of clusters was checked.
            if !(2..clusters.saturating_add(2)).contains(&root) {
                return bad(Field::RootCluster);
            }
            // 0 and 0xffff stand for none.
            if (info != 0xffff && info >= reserved) || (backup != 0xffff && backup >= reserved) {
                return bad(Field::InfoSector);
            }
            root_cluster = root;
            info_sector = if info == 0xffff { 0 } else { info };
            active_fat = (flags & 0x80 != 0).then_some(u32::from(flags & 0xf));
        }
        let has_label = signature == 0x29;
        let label = if has_label { label.trim_ascii_end() } else { &[] };
        let label = if label == b"NO NAME" { &[] } else { label };
        Ok(Self {
            kind,
            sector_size,
            cluster_sectors,
            reserved,
            fats,
            fat_sectors,
            root_bytes,
            sectors,
            clusters,
            root_cluster,
            info_sector,
            active_fat,
            serial: if has_label { serial } else { 0 },
            label: label.to_vec(),
            dirty: state & 1 != 0,
        })
    }

    /// Bytes in the whole filesystem.
    pub fn size(&self) -> u64 {
        // cannot overflow: 32 bits times 4096.
        u64::from(self.sectors).saturating_mul(self.sector_size.into())
    }

    /// Bytes in a cluster.
    pub fn cluster_size(&self) -> u32 {
        // cannot overflow: `parse` checked it.
        self.cluster_sectors.saturating_mul(self.sector_size)
    }

    fn bytes(&self, sectors: u32) -> u64 {
        // cannot overflow: 32 bits times 4096.
        u64::from(sectors).saturating_mul(self.sector_size.into())
    }

    /// Where the table that is read starts.
    pub fn table(&self) -> u64 {
        // intended: all tables are kept up to date, and the first one is read.
        self.table_at(self.active_fat.unwrap_or(0))
    }

    /// Where each table that is kept up to date starts.
    pub fn tables(&self) -> impl Iterator<Item = u64> {
        let (first, count) = match self.active_fat {
            Some(active) => (active, 1),
            None => (0, self.fats),
        };
        // cannot overflow: there are two tables at most.
        (first..first.saturating_add(count)).map(|i| self.table_at(i))
    }

    fn table_at(&self, number: u32) -> u64 {
        // cannot overflow: sums and products of 32 bits, 4096 and 2.
        self.bytes(self.reserved).saturating_add(self.bytes(self.fat_sectors).saturating_mul(number.into()))
    }

    /// FAT12 and FAT16: where the root directory starts, and its bytes.
    pub fn root_area(&self) -> (u64, u32) {
        // cannot overflow: sums and products of 32 bits, 4096 and 2.
        let tables = u64::from(self.fats).saturating_mul(self.bytes(self.fat_sectors));
        (self.bytes(self.reserved).saturating_add(tables), self.root_bytes)
    }

    /// Where a cluster starts; none if there is no such cluster.
    pub fn cluster(&self, number: u32) -> Option<u64> {
        let index = number.checked_sub(2).filter(|&index| index < self.clusters)?;
        let (root, len) = self.root_area();
        let area = root.checked_add(len.into())?;
        area.checked_add(u64::from(index).checked_mul(self.cluster_size().into())?)
    }

    /// FAT32: where the information sector starts, if there is one.
    pub fn info(&self) -> Option<u64> {
        (self.info_sector != 0).then(|| self.bytes(self.info_sector))
    }

    /// Where the byte with the dirty flag is.
    pub fn state_byte(&self) -> u64 {
        if self.kind == FilesystemKind::Fat32 { 0x41 } else { 0x25 }
    }
}
