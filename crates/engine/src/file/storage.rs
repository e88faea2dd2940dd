//! The file or disk behind a device, whatever path or block device it was opened by.
//!
//! Links and `/proc/self/fd` lead to the same inode. A partition is a run of its disk, and a loop device a run of its
//! file; the kernel says which in sysfs and by `LOOP_GET_STATUS64`. Device-mapper is not followed: its
//! mappings have no single place on another device.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use atrest_device::{Storage, StorageId};

use super::sysfs::Described;
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
            let device = Described::of(number);
            let start = if device.is_partition() { device.start().ok()? } else { 0 };
            let start = start.checked_add(backing.offset)?;
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
    let device = Described::of(number);
    if device.is_partition() {
        let disk = device.disk().and_then(|disk| disk.number()).ok()?;
        return of_disk(disk, offset.checked_add(device.start().ok()?)?, deepest);
    }
    if !device.is_loop() {
        return Some(Storage { id: StorageId::Disk { number }, offset });
    }
    let metadata = fs::metadata(device.backing_file().ok()?).ok()?;
    let offset = offset.checked_add(device.loop_offset().ok()?)?;
    match metadata.file_type().is_block_device() {
        true => of_disk(metadata.rdev(), offset, deepest),
        false => Some(Storage { offset, ..of_file(&metadata) }),
    }
}
