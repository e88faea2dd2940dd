//! exFAT, read: Microsoft's "exFAT file system specification", revision 1.00.
//!
//! Our own reader: it is a small format, the libraries for it (`exfat` 0.1, `exfat-fs` 0.1) have had no release for years, and the one
//! that is kept up (`exfat-slim` 0.7) is made for firmware. The tests hold it against exfat-fuse, which wrote the images.
//!
//! A directory is a file of entries of 32 bytes. An entry of a file, one of its stream and some of its name make a set with a
//! checksum. The clusters of a file adjoin, or are a chain in the table. Access control lists, vendors' entries and the second
//! table of TexFAT are left out.

mod boot;
mod chain;
mod dir;

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_filetree::{About, Capacity, FileTree, Kind, Metadata, Note, Space, TreeError};
use atrest_probe::FilesystemKind;

use self::boot::Volume;
use self::chain::Run;
use self::dir::{Entry, Listed};
use crate::fault::Damage;
use crate::read_only::{Nodes, ReadTree, Stored, folded};

/// Opens the file system that starts at the first byte of `device`. Never writes.
///
/// # Errors
/// [`TreeError::Corrupt`] if it is damaged, [`TreeError::LargerThanDevice`] if the device ends early.
pub(crate) fn open(device: Arc<dyn BlockDevice>) -> Result<Box<dyn FileTree>, TreeError> {
    Ok(Box::new(ReadTree::new(ExFat::open(device)?)?))
}

struct ExFat {
    volume: Volume,
    root: Arc<Opened>,
    label: Vec<u8>,
    /// The bitmap of clusters in use.
    bitmap: Arc<Opened>,
}

/// A file or directory, and where it lies.
struct Opened {
    entry: Entry,
    runs: Vec<Run>,
}

impl ExFat {
    fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let volume = Volume::open(device)?;
        let runs = chain::to_the_end(&volume, volume.root)?;
        // cannot overflow: no more clusters than the volume has.
        let len = chain::clusters(&runs).saturating_mul(volume.cluster);
        let root = Opened { entry: Entry::root(volume.root, len), runs };
        let (mut label, mut bitmap) = (Vec::new(), None);
        dir::each(&volume, &root, &mut |listed| {
            match listed {
                Listed::Label(name) => label = name,
                Listed::Bitmap(entry) => _ = bitmap.get_or_insert(entry),
                Listed::File(..) => {}
            }
            Ok(())
        })?;
        let bitmap = bitmap.ok_or(Damage::FatStructure)?;
        let bitmap = Arc::new(Opened::new(&volume, bitmap)?);
        Ok(Self { volume, root: Arc::new(root), label, bitmap })
    }
}

impl Opened {
    fn new(volume: &Volume, entry: Entry) -> Result<Self, TreeError> {
        let runs = chain::of(volume, &entry)?;
        Ok(Self { entry, runs })
    }

    /// Reads what lies from `offset` on, all of which must be there.
    fn read(&self, volume: &Volume, offset: u64, buf: &mut [u8]) -> Result<(), TreeError> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.entry.len) {
            return Err(Damage::FatStructure.into());
        }
        // Behind what was written there are zeros, whatever the clusters hold.
        // intended: behind what was written nothing is left. More than memory has is more than the buffer takes.
        let written = usize::try_from(self.entry.valid.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (mut rest, behind) = buf.split_at_mut(buf.len().min(written));
        behind.fill(0);
        let mut skip = offset;
        for run in &self.runs {
            // cannot overflow: a run lies inside the volume.
            let bytes = u64::from(run.len).saturating_mul(volume.cluster);
            if skip >= bytes {
                // cannot be less: compared above.
                skip = skip.saturating_sub(bytes);
                continue;
            }
            if rest.is_empty() {
                break;
            }
            // cannot be less: compared above. More than memory has is more than the buffer takes.
            let there = usize::try_from(bytes.saturating_sub(skip)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(rest.len().min(there));
            // cannot overflow: the run lies inside the volume.
            volume.device.read_at(volume.place(run.first).saturating_add(skip), now)?;
            (rest, skip) = (later, 0);
        }
        if rest.is_empty() { Ok(()) } else { Err(Damage::FatStructure.into()) }
    }
}

impl Nodes for ExFat {
    type Found = Entry;
    type Node = Arc<Opened>;
    /// The first cluster of a directory.
    type Id = u32;

    fn about(&self) -> About {
        About {
            name: FilesystemKind::ExFat.name(),
            label: self.label.clone(),
            id: format!("{:04X}-{:04X}", self.volume.serial >> 16, self.volume.serial & 0xffff),
            size: self.volume.size,
            capacity: Capacity::Dense,
            // cannot miss: 32 MiB at most.
            block_size: u32::try_from(self.volume.cluster).unwrap_or(u32::MAX),
            writable: false,
            notes: self.volume.is_dirty.then_some(Note::NotCleanlyUnmounted).into_iter().collect(),
        }
    }

    fn space(&self) -> Result<Space, TreeError> {
        let clusters = u64::from(self.volume.clusters);
        // Piece by piece: the whole may have half a gigabyte. In few pieces: each looks for its runs from the first one on.
        // cannot miss: 2^29 bytes at most.
        let len = usize::try_from(clusters.div_ceil(8) / 64).unwrap_or(usize::MAX);
        let mut piece = vec![0; len.clamp(65536, 8 << 20)];
        let mut free = 0_u64;
        for at in (0..clusters.div_ceil(8)).step_by(piece.len()) {
            // cannot be less: the pieces begin in the bitmap.
            let left = clusters.saturating_sub(at.saturating_mul(8));
            // cannot miss: 2^29 bytes at most.
            let len = usize::try_from(left.div_ceil(8)).unwrap_or(usize::MAX).min(piece.len());
            let bytes = piece.get_mut(..len).ok_or(Damage::FatStructure)?;
            self.bitmap.read(&self.volume, at, bytes)?;
            let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & (1 << bit) == 0));
            // cannot miss: there are no more than 2^32.
            let here = usize::try_from(left).unwrap_or(usize::MAX);
            // cannot overflow: there are no more than 2^32.
            free = free.saturating_add(bits.take(here).filter(|is_free| *is_free).count() as u64);
        }
        Ok(Space { block_size: self.about().block_size, blocks: clusters, free })
    }

    fn root(&self) -> Result<Arc<Opened>, TreeError> {
        Ok(self.root.clone())
    }

    fn open(&self, entry: &Entry) -> Result<Arc<Opened>, TreeError> {
        Opened::new(&self.volume, entry.clone()).map(Arc::new)
    }

    fn id(&self, node: &Arc<Opened>) -> u32 {
        node.entry.first
    }

    fn entries(&self, directory: &Arc<Opened>) -> Result<Vec<Stored<Entry>>, TreeError> {
        let mut entries = Vec::new();
        dir::each(&self.volume, directory, &mut |listed| {
            if let Listed::File(name, entry) = listed {
                let (kind, inode) = (entry.kind(), entry.first.into());
                entries.push(Stored { name, kind, inode, found: entry });
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn folded(&self, name: &[u8]) -> Option<Vec<u8>> {
        Some(folded(name))
    }

    fn metadata(&self, node: &Arc<Opened>) -> Result<Metadata, TreeError> {
        let entry = &node.entry;
        let kind = entry.kind();
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        Ok(Metadata {
            kind,
            size: if kind == Kind::File { entry.len } else { 0 },
            mode: if entry.is_read_only() { mode & 0o555 } else { mode },
            uid: 0,
            gid: 0,
            links: 1,
            inode: entry.first.into(),
            // cannot overflow: clusters of the volume.
            allocated: chain::clusters(&node.runs).saturating_mul(self.volume.cluster),
            modified: entry.modified,
            accessed: entry.accessed,
            changed: entry.created,
        })
    }

    fn read(&self, node: &Arc<Opened>, offset: u64, buf: &mut [u8]) -> Result<(), TreeError> {
        node.read(&self.volume, offset, buf)
    }

    fn target(&self, _node: &Arc<Opened>) -> Result<Vec<u8>, TreeError> {
        Err(TreeError::NotALink)
    }
}
