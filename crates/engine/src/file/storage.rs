//! The file or disk behind a device, whatever path or block device it was opened by.
//!
//! Links and `/proc/self/fd` lead to the same inode. A partition is a run of its disk, and a loop device a run of its
//! file; the kernel says which in `/sys/dev/block` and by `LOOP_GET_STATUS64`. Device-mapper is not followed: its
//! mappings have no single place on another device.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use atrest_device::{SECTOR_SIZE, Storage, StorageId};

use crate::sys;

/// Loop devices over partitions over loop devices: nobody stacks more.
const DEEPEST: u32 = 8;

/// Where the bytes of an open file or block device lie. A block device of which the kernel does not say more is a disk of
/// its own. `None` if the file can't even be looked at.
pub fn of(file: &File) -> Option<Storage> {
    let metadata = file.metadata().ok()?;
    if !metadata.file_type().is_block_device() {
        return Some(of_file(&metadata));
    }
    let number = metadata.rdev();
    let itself = Storage { id: StorageId::Disk { number }, offset: 0 };
    Some(below(file, number).unwrap_or(itself))
}

/// The file or disk below a block device.
fn below(file: &File, number: u64) -> Option<Storage> {
    match sys::loop_status(file) {
        Ok(backing) => {
            // The request on a partition of a loop device is answered for the whole of it.
            let start = partition(number).map_or(Some(0), |(_, start)| start)?.checked_add(backing.offset)?;
            match backing.disk {
                0 => Some(Storage {
                    id: StorageId::File { device: backing.device, inode: backing.inode },
                    offset: start,
                }),
                disk => of_disk(disk, start, DEEPEST),
            }
        }
        Err(_) => of_disk(number, 0, DEEPEST),
    }
}

/// Whether two paths name the same file or disk from the same byte on, or would if they were created.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let storage = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        match metadata.file_type().is_block_device() {
            true => of(&File::open(path).ok()?),
            false => Some(of_file(&metadata)),
        }
    };
    match (storage(a), storage(b)) {
        (Some(a), Some(b)) => a == b,
        _ => match (a.canonicalize(), b.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => matches!((std::path::absolute(a), std::path::absolute(b)), (Ok(a), Ok(b)) if a == b),
        },
    }
}

fn of_file(metadata: &Metadata) -> Storage {
    Storage { id: StorageId::File { device: metadata.dev(), inode: metadata.ino() }, offset: 0 }
}

/// A place on a block device, followed down to the disk or file that holds it.
fn of_disk(number: u64, offset: u64, deepest: u32) -> Option<Storage> {
    let deepest = deepest.checked_sub(1)?;
    if let Some((disk, start)) = partition(number) {
        return of_disk(disk, offset.checked_add(start?)?, deepest);
    }
    let Some((file, start)) = loop_file(number) else {
        return Some(Storage { id: StorageId::Disk { number }, offset });
    };
    let (metadata, offset) = (fs::metadata(file).ok()?, offset.checked_add(start?)?);
    match metadata.file_type().is_block_device() {
        true => of_disk(metadata.rdev(), offset, deepest),
        false => Some(Storage { offset, ..of_file(&metadata) }),
    }
}

/// Disk and first byte of a partition. The first byte is `None` if it can't be read.
fn partition(number: u64) -> Option<(u64, Option<u64>)> {
    let directory = sysfs(number);
    if !directory.join("partition").exists() {
        return None;
    }
    let disk = fs::read_to_string(directory.canonicalize().ok()?.parent()?.join("dev")).ok()?;
    let (major, minor) = disk.trim().split_once(':')?;
    let disk = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let start = number_in(&directory.join("start")).and_then(|sectors| sectors.checked_mul(SECTOR_SIZE));
    Some((disk, start))
}

/// File and first byte of a loop device.
fn loop_file(number: u64) -> Option<(PathBuf, Option<u64>)> {
    let directory = sysfs(number).join("loop");
    let file = fs::read_to_string(directory.join("backing_file")).ok()?;
    Some((PathBuf::from(file.trim_end_matches('\n')), number_in(&directory.join("offset"))))
}

fn sysfs(number: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
