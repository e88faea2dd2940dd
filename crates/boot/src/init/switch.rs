//! From the initramfs to the root file system: what the kernel shows moves along, the initramfs is emptied, and the root is switched.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::{UnmountFlags, mount_move, unmount};

use super::root::PLACE;

/// What moves along, if it is mounted and the root file system has a place for it.
const MOVED: &[&str] = &["/dev", "/proc", "/sys", "/run"];
/// `ramfs` and `tmpfs`: what an initramfs is in.
const IN_MEMORY: [i64; 2] = [0x8584_58f6, 0x0102_1994];

/// Makes the file system at `/sysroot` the root.
pub fn to_root() -> io::Result<()> {
    let root = Path::new(PLACE);
    for place in MOVED {
        let target = root.join(place.trim_start_matches('/'));
        let moved = match target.is_dir() {
            true => mount_move(*place, &target).is_ok(),
            false => false,
        };
        if !moved {
            // What stays in the old root could never be reached again.
            let _ = unmount(*place, UnmountFlags::DETACH);
        }
    }
    std::env::set_current_dir(root)?;
    empty_initramfs()?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Gives the initramfs's memory back: keys and crypttab are in it, too. Nothing is removed from anything that is not in memory, nor
/// from what is mounted below.
fn empty_initramfs() -> io::Result<()> {
    let kind = rustix::fs::statfs("/")?.f_type;
    if !IN_MEMORY.contains(&i64::from(kind as u32)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the root is no initramfs"));
    }
    let device = fs::metadata("/")?.dev();
    empty(Path::new("/"), device);
    Ok(())
}

fn empty(directory: &Path, device: u64) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.dev() != device {
            continue;
        }
        // What can't be removed costs memory, and no more.
        let _ = if metadata.is_dir() {
            empty(&path, device);
            fs::remove_dir(&path)
        } else {
            fs::remove_file(&path)
        };
    }
}
