//! NTFS, read. There is no specification: the layouts are those that the linux-ntfs project documents and ntfs-3g writes.
//!
//! Our own reader: the library for it (`ntfs` 0.4) has had no release since 2023, returns the compressed bytes of a compressed
//! file as its contents, and follows an index wherever it leads. The tests hold this reader against ntfs-3g, which wrote the images.
//!
//! Files are records of the master file table (MFT), which is a file itself. A record has attributes: names, times, contents
//! (`$DATA`), the index of a directory. Attributes with no room in the record lie in runs of clusters, and those with no room for
//! their runs go on in further records, which an attribute list names.
//!
//! What is read: resident, sparse and compressed (LZNT1) files, links of Windows, of WSL and of ntfs-3g, directories of any size. What is
//! not: files that Windows encrypts (EFS), compresses for the system (WOF) or keeps elsewhere, which are refused by name; named
//! streams and access control lists, which have no place in a tree. The log of a volume that was not unmounted is not replayed.

mod attribute;
mod boot;
mod compressed;
mod index;
mod inode;
mod log;
mod record;
mod reparse;
mod runs;
mod table;
mod value;

use std::sync::Arc;

use atrest_codec::Record;
use atrest_device::BlockDevice;
use atrest_filetree::{
    About, Capacity, FileTree, Kind, Metadata, Note, Space, Timestamp, TreeError, is_valid_name,
};
use atrest_probe::FilesystemKind;

use self::inode::{Inode, kind};
use self::table::Table;
use crate::fault::{Damage, Feature};
use crate::read_only::{Nodes, ReadTree, Stored, utf16};

/// Records that have the same number everywhere.
mod number {
    pub(super) const LOG: u64 = 2;
    pub(super) const VOLUME: u64 = 3;
    pub(super) const ROOT: u64 = 5;
    pub(super) const BITMAP: u64 = 6;
    /// Below it are the system's files, which no directory shows.
    pub(super) const FIRST_USER: u64 = 16;
}

/// Opens the file system that starts at the first byte of `device`. Never writes.
///
/// # Errors
/// [`TreeError::Corrupt`] if it is damaged, [`TreeError::LargerThanDevice`] if the device ends early.
pub(crate) fn open(device: Arc<dyn BlockDevice>) -> Result<Box<dyn FileTree>, TreeError> {
    Ok(Box::new(ReadTree::new(Ntfs::open(device)?)?))
}

struct Ntfs {
    table: Table,
    root: Arc<Inode>,
    label: Vec<u8>,
    notes: Vec<Note>,
}

impl Ntfs {
    fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let table = Table::open(device)?;
        let root = Arc::new(table.inode(number::ROOT, None)?);
        if !root.is_directory {
            return Err(damaged(number::ROOT));
        }
        let volume = table.inode(number::VOLUME, None)?;
        let label = match volume.resident(kind::VOLUME_NAME) {
            Some(name) => utf16(units(name)),
            None => Vec::new(),
        };
        let information = volume.resident(kind::VOLUME_INFORMATION).and_then(|value| value.first_chunk());
        let information = Record::<12>::new(information.ok_or_else(|| damaged(number::VOLUME))?);
        let [major, minor] = *information.array::<8, 2>();
        if !matches!(major, 1..=3) {
            return Err(Feature::NtfsVersion { major, minor }.into());
        }
        let is_dirty = information.le16::<10>() & 1 != 0;
        let log = table.inode(number::LOG, None)?;
        let unfinished = is_dirty || !log::is_clean(&table.volume, &log)?;
        let notes = unfinished.then_some(Note::NotCleanlyUnmounted).into_iter().collect();
        Ok(Self { table, root, label, notes })
    }

    fn entry(&self, found: index::Name<'_>) -> Result<Stored<u64>, TreeError> {
        let name = utf16(units(found.name));
        if !is_valid_name(&name) {
            return Err(Damage::Name { inode: found.parent }.into());
        }
        let kind = match found.kind {
            Some(kind) => kind,
            // A file that cannot be opened is listed all the same.
            None => self.open_reference(found.reference).map_or(Kind::File, |inode| inode.kind()),
        };
        Ok(Stored { name, kind, inode: inode::number(found.reference), found: found.reference })
    }

    fn open_reference(&self, reference: u64) -> Result<Inode, TreeError> {
        self.table.inode(inode::number(reference), Some(inode::sequence(reference)))
    }
}

impl Nodes for Ntfs {
    /// A reference: the number of a record, and above it how often it was used.
    type Found = u64;
    type Node = Arc<Inode>;
    type Id = u64;

    fn about(&self) -> About {
        let volume = &self.table.volume;
        About {
            name: FilesystemKind::Ntfs.name(),
            label: self.label.clone(),
            id: format!("{:016X}", volume.serial),
            size: volume.size,
            capacity: Capacity::Sparse,
            // cannot miss: 2 MiB at most.
            block_size: u32::try_from(volume.cluster).unwrap_or(u32::MAX),
            writable: false,
            notes: self.notes.clone(),
        }
    }

    fn space(&self) -> Result<Space, TreeError> {
        let volume = &self.table.volume;
        let bitmap = self.table.inode(number::BITMAP, None)?;
        let data = bitmap.data().ok_or_else(|| damaged(number::BITMAP))?;
        let mut piece = vec![0; 64 << 10];
        let (mut at, mut free) = (0_u64, 0_u64);
        while at < volume.clusters {
            // cannot overflow: what is left of a number of clusters, of which each piece has 8 in a byte.
            let left = volume.clusters.saturating_sub(at);
            let len = piece.len().min(usize::try_from(left.div_ceil(8)).unwrap_or(usize::MAX));
            let Some(bytes) = piece.get_mut(..len) else { break };
            data.read(volume, number::BITMAP, at.div_ceil(8), bytes)?;
            for (byte, first) in bytes.iter().zip((at..).step_by(8)) {
                // Bits behind the end are set or not.
                let there =
                    // intended: none is left behind the last cluster.
                    u32::try_from(volume.clusters.saturating_sub(first)).map_or(8, |left| left.min(8));
                let zeros = (0..there).filter(|bit| byte.checked_shr(*bit).is_some_and(|rest| rest & 1 == 0));
                // cannot overflow: no more than there are clusters.
                free = free.saturating_add(zeros.count() as u64);
            }
            // cannot overflow: clusters have less than 63 bits.
            at = at.saturating_add((len as u64).saturating_mul(8));
        }
        let block_size = self.about().block_size;
        Ok(Space { block_size, blocks: volume.clusters, free })
    }

    fn root(&self) -> Result<Arc<Inode>, TreeError> {
        Ok(self.root.clone())
    }

    fn open(&self, reference: &u64) -> Result<Arc<Inode>, TreeError> {
        self.open_reference(*reference).map(Arc::new)
    }

    fn id(&self, inode: &Arc<Inode>) -> u64 {
        inode.number
    }

    fn entries(&self, directory: &Arc<Inode>) -> Result<Vec<Stored<u64>>, TreeError> {
        let mut entries = Vec::new();
        index::each(&self.table.volume, directory, &mut |name| {
            if inode::number(name.reference) >= number::FIRST_USER {
                entries.push(self.entry(name)?);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn folded(&self, name: &[u8]) -> Option<Vec<u8>> {
        Some(crate::read_only::folded(name))
    }

    fn metadata(&self, inode: &Arc<Inode>) -> Result<Metadata, TreeError> {
        let times = &inode.times;
        let kind = inode.kind();
        let size = match kind {
            Kind::File => inode.data().map_or(0, value::Value::size),
            Kind::Link => inode.target()?.len() as u64,
            _ => 0,
        };
        let mode = match kind {
            Kind::Directory => 0o755,
            Kind::Link => 0o777,
            _ if inode.is_read_only() => 0o444,
            _ => 0o644,
        };
        Ok(Metadata {
            kind,
            size,
            mode,
            uid: 0,
            gid: 0,
            links: inode.links,
            inode: inode.number,
            allocated: inode.data().map_or(0, value::Value::allocated),
            modified: time(times.modified),
            accessed: time(times.accessed),
            changed: time(times.changed),
        })
    }

    fn read(&self, inode: &Arc<Inode>, offset: u64, buf: &mut [u8]) -> Result<(), TreeError> {
        inode.check_readable()?;
        let data = inode.data().ok_or_else(|| damaged(inode.number))?;
        data.read(&self.table.volume, inode.number, offset, buf)
    }

    fn target(&self, inode: &Arc<Inode>) -> Result<Vec<u8>, TreeError> {
        match inode.kind() {
            Kind::Link => inode.target(),
            _ => Err(TreeError::NotALink),
        }
    }
}

/// A record holds what it can't hold.
fn damaged(number: u64) -> TreeError {
    Damage::Inode(number).into()
}

/// The 16-bit units of a name. An odd byte at the end is left out.
fn units(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).filter_map(|pair| pair.first_chunk().map(|pair| u16::from_le_bytes(*pair)))
}

/// A time: hundreds of nanoseconds since 1601.
fn time(stored: u64) -> Timestamp {
    const TO_1970: i64 = 11_644_473_600;
    // cannot miss: 64 bits of a ten-millionth of a second are far less than 63 bits of seconds; what remains is below a second.
    let seconds = i64::try_from(stored / 10_000_000).unwrap_or(i64::MAX).saturating_sub(TO_1970);
    let nanoseconds = u32::try_from(stored % 10_000_000).unwrap_or(0).saturating_mul(100);
    Timestamp { seconds, nanoseconds }
}
