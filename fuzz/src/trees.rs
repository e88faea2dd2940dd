//! Partition tables and filesystems.

use std::sync::Arc;

use atrest_device::BlockDevice;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_filetree::{
    About, Cursor, Entry, FileTree, IfExists, Kind, LastLink, Metadata, Space, Step, Stop, TreeError,
    TreePath, Walk, WalkError, Wanted, remove, resolve,
};
use atrest_inside::{Access, open_tree};
use atrest_probe::partition::partitions;
use atrest_probe::{Window, detect};

use crate::{Image, crc32};

/// Entries looked at, bytes read per file, depth: enough for every seed, not enough to wait.
const ENTRIES: usize = 300;
const BYTES: i64 = 1 << 20;
const DEPTH: usize = 6;

/// The partition table of an image; with flag 1, its GPT checksums are made right first.
pub fn gpt(data: &[u8]) {
    let (flags, image) = Image::decode(data);
    if flags & 1 != 0 {
        seal_gpt(&image);
    }
    table(&image);
}

/// The MBR of an image.
pub fn mbr(data: &[u8]) {
    table(&Image::decode(data).1);
}

fn table(image: &Arc<Image>) {
    let Ok(Some(table)) = partitions(&**image) else { return };
    let mut ends = Vec::new();
    for partition in &table.partitions {
        let window =
            Window::new(image.clone(), partition.start, partition.len).expect("partitions are inside");
        let _ = detect(&window);
        ends.push((partition.start, partition.start + partition.len));
    }
    ends.sort_unstable();
    assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "partitions overlap: {table:?}");
    assert_eq!(image.writes(), 0);
}

/// Recomputes the checksums of both GPT copies where there are any.
fn seal_gpt(image: &Image) {
    for sector in [512, 4096] {
        let last = (image.size() / sector).saturating_sub(1);
        for at in [sector, last * sector] {
            let mut header = [0; 512];
            if image.read_at(at, &mut header).is_err() || &header[..8] != b"EFI PART" {
                continue;
            }
            let le32 =
                |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let place =
                u64::from_le_bytes(header[72..80].try_into().expect("8 bytes")).saturating_mul(sector);
            let len = u64::from(le32(80)).saturating_mul(le32(84).into()).min(1 << 20);
            let header_len = (le32(12) as usize).min(512);
            let mut entries = vec![0; len as usize];
            if image.read_at(place, &mut entries).is_ok() {
                header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
            }
            header[16..20].fill(0);
            let sum = crc32(&header[..header_len]);
            header[16..20].copy_from_slice(&sum.to_le_bytes());
            let _ = image.write_at(at, &header);
        }
    }
    // What was written here is part of the input.
    image.reset_writes();
}

/// An ext filesystem: opened, listed, read.
pub fn ext4(data: &[u8]) {
    let (_, image) = Image::decode(data);
    let Ok(tree) = open_tree(image.clone(), Access::ReadWrite) else { return };
    exhaust(&*tree, BYTES);
    walk(&*tree, &image);
    let _ = resolve(&*tree, b"link/../a/b/.././x", LastLink::Follow);
    let _ = tree.flush();
    drop(tree);
    assert_eq!(image.writes(), 0, "ext filesystems are never written");
}

/// An NTFS: opened, listed, read.
pub fn ntfs(data: &[u8]) {
    only_read(&Image::decode(data).1);
}

/// An exFAT: opened, listed, read; with flag 1, its checksums are made right first.
pub fn exfat(data: &[u8]) {
    let (flags, image) = Image::decode(data);
    if flags & 1 != 0 {
        seal_exfat(&image);
    }
    only_read(&image);
}

/// A file system that is never written.
fn only_read(image: &Arc<Image>) {
    let Ok(tree) = open_tree(image.clone(), Access::ReadWrite) else { return };
    exhaust(&*tree, BYTES);
    walk(&*tree, image);
    let _ = tree.space();
    let _ = resolve(&*tree, b"link/../a/b/.././x", LastLink::Follow);
    let _ = tree.flush();
    assert_eq!(image.writes(), 0, "what is only read was written");
}

/// Recomputes the sum of the boot sectors, and those of whatever looks like the entries of a file.
fn seal_exfat(image: &Image) {
    let mut bytes = vec![0; usize::try_from(image.size()).unwrap_or(0).min(8 << 20)];
    if image.read_at(0, &mut bytes).is_err() || bytes.len() < 12 * 512 {
        return;
    }
    let sector = 1 << bytes[108].clamp(9, 12);
    for at in (0..bytes.len().saturating_sub(32)).step_by(32) {
        let len = 32 * (usize::from(bytes[at + 1]) + 1);
        if bytes[at] == 0x85 && len <= 32 * 19 && at + len <= bytes.len() {
            let sum = (0..len)
                .filter(|byte| !matches!(byte, 2 | 3))
                .fold(0_u16, |sum, byte| sum.rotate_right(1).wrapping_add(bytes[at + byte].into()));
            bytes[at + 2..at + 4].copy_from_slice(&sum.to_le_bytes());
            let _ = image.write_at(at as u64, &bytes[at..at + 32]);
        }
    }
    let (Some(boot), Some(place)) =
        (bytes.get(..11 * sector), (12 * sector <= bytes.len()).then_some(11 * sector))
    else {
        return;
    };
    let sum = boot.iter().enumerate().filter(|(at, _)| !matches!(at, 106 | 107 | 112));
    let sum = sum.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add((*byte).into()));
    let _ = image.write_at(place as u64, &sum.to_le_bytes().repeat(sector / 4));
    // What was written here is part of the input.
    image.reset_writes();
}

/// A FAT filesystem: opened, listed, read, and with flag 1 written.
pub fn fat(data: &[u8]) {
    let (flags, image) = Image::decode(data);
    let Ok(tree) = open_tree(image.clone(), Access::ReadWrite) else { return };
    exhaust(&*tree, BYTES);
    walk(&*tree, &image);
    if flags & 1 == 0 {
        assert_eq!(image.writes(), 0, "reading has written");
        return;
    }
    let entries = tree.list(&TreePath::root()).unwrap_or_default();
    let dir = entries.iter().find(|entry| entry.kind == Kind::Directory);
    let dir = dir.and_then(|entry| TreePath::root().join(&entry.name).ok()).unwrap_or_default();
    for (name, len) in [("new file with a long name", 5000), ("NEW", 0), ("top", 700)] {
        let file = dir.join(name).expect("a valid name");
        let _ = write(&*tree, &file, len);
        let _ = tree.write_at(&file, 100, &[7; 3000]);
        let _ = tree.truncate(&file, 1025);
    }
    let _ = tree.make_dir(&dir.join("made").expect("a valid name"));
    let _ = tree.remove(&dir.join("NEW").expect("a valid name"));
    for (entry, name) in entries.iter().zip(["renamed", "NEW", "another long name"]) {
        let from = TreePath::root().join(&entry.name).expect("listed names are valid");
        let to = dir.join(name).expect("a valid name");
        if tree.rename(&from, &to, IfExists::Replace).is_ok() {
            assert!(tree.metadata(&to).is_ok(), "what was renamed is gone");
        }
        let _ = tree.rename(&to, &from, IfExists::Fail);
    }
    for entry in entries.iter().take(4) {
        let _ = tree.remove(&TreePath::root().join(&entry.name).expect("listed names are valid"));
    }
    let _ = tree.flush();
    exhaust(&*tree, BYTES);
    // All that is left, unless a walk finds damage: then nothing goes.
    let tree = Counted::new(tree, &image);
    let before = tree.count_entries();
    match remove(&tree, &TreePath::root(), true) {
        Ok(_) => assert_eq!(tree.list(&TreePath::root()), Ok(Vec::new())),
        Err(WalkError::Tree { error: TreeError::Device(_) | TreeError::EarlierWriteFailed, .. }) => {}
        Err(_) => assert_eq!(tree.count_entries(), before, "a part was removed"),
    }
    let _ = tree.flush();
}

/// Walks through all of a tree, as copies and programs in a mounted tree do. The number of steps is bounded by the image.
fn walk(tree: &dyn FileTree, image: &Image) {
    let most = most_steps(image);
    for walk in [Walk::new(tree, &TreePath::root()), Walk::by_names(tree, &TreePath::root())] {
        let (mut steps, mut level) = (0, 0_i64);
        for step in walk {
            steps += 1;
            assert!(steps <= most, "a walk does not end: {steps} steps in {} bytes", image.size());
            match step {
                Ok(Step::Enter(_)) => level += 1,
                Ok(Step::Leave(_)) => level -= 1,
                Ok(Step::Leaf(_)) | Err(_) => {}
            }
            assert!(level >= 0, "more directories are left than were entered");
        }
    }
}

/// Each entry is one step or two, and takes 12 bytes at least. Metadata may be looked at again for each.
fn most_steps(image: &Image) -> u64 {
    image.size() / 3 + 100
}

/// A tree that counts what is asked of it.
struct Counted {
    tree: Box<dyn FileTree>,
    asked: AtomicU64,
    most: u64,
}

impl Counted {
    fn new(tree: Box<dyn FileTree>, image: &Image) -> Self {
        Self { tree, asked: AtomicU64::new(0), most: most_steps(image) }
    }

    fn count(&self) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(asked < self.most, "a removal does not end: {asked} requests");
    }

    /// Entries that paths alone lead to.
    fn count_entries(&self) -> usize {
        let (mut count, mut ahead) = (0, vec![TreePath::root()]);
        while let Some(at) = ahead.pop() {
            for entry in self.tree.list(&at).unwrap_or_default() {
                count += 1;
                assert!(count as u64 <= self.most, "directories contain each other");
                if entry.kind == Kind::Directory {
                    ahead.push(at.join(&entry.name).expect("listed names are valid"));
                }
            }
        }
        count
    }
}

impl FileTree for Counted {
    fn about(&self) -> About {
        self.tree.about()
    }
    fn space(&self) -> Result<Space, TreeError> {
        self.tree.space()
    }
    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        self.count();
        self.tree.metadata(path)
    }
    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        self.count();
        self.tree.list(path)
    }
    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        self.tree.read_at(path, offset, buf)
    }
    fn remove(&self, path: &TreePath) -> Result<(), TreeError> {
        self.count();
        self.tree.remove(path)
    }
    fn check_unshared(&self, path: &TreePath) -> Result<(), WalkError> {
        self.tree.check_unshared(path)
    }
    fn flush(&self) -> Result<(), TreeError> {
        self.tree.flush()
    }
}

fn write(tree: &dyn FileTree, file: &TreePath, mut left: usize) -> Result<u64, TreeError> {
    tree.write_from(file, &mut |buf: &mut [u8]| {
        let len = buf.len().min(left);
        buf[..len].fill(0xa5);
        left -= len;
        Ok(len)
    })
}

/// Lists what there is and reads so many bytes of each file, within limits.
pub(crate) fn exhaust(tree: &dyn FileTree, bytes: i64) {
    let _ = tree.about();
    let mut seen = 0;
    let mut ahead = vec![TreePath::root()];
    while let Some(dir) = ahead.pop() {
        for from in [0, 1, 12, 4096, u64::MAX] {
            let _ = tree.list_from(&dir, Cursor(from), Wanted { entries: 20, metadata: true });
        }
        let Ok(entries) = tree.list(&dir) else { continue };
        for entry in entries {
            seen += 1;
            if seen > ENTRIES {
                return;
            }
            let path = dir.join(&entry.name).expect("listed names are valid");
            let _ = tree.metadata(&path);
            match entry.kind {
                Kind::Directory if path.components().count() < DEPTH => ahead.push(path),
                Kind::Link => drop(tree.read_link(&path)),
                _ => {
                    let mut left = bytes;
                    let _ = tree.read_to(&path, &mut |piece| {
                        left -= piece.len() as i64;
                        if left < 0 { Err(Stop) } else { Ok(()) }
                    });
                    let _ = tree.read_at(&path, 70_000, &mut [0; 512]);
                }
            }
        }
    }
}
