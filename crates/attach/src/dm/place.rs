//! Which block devices a file lies on.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::node::major_minor;

/// Whether a file lies on a file system that is on this block device, or on one above it; or, where that can't be told, may lie there. One
/// that is still to be made lies where its directory does.
pub fn lies_on(file: &Path, device: u64) -> bool {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let found = [file, directory].into_iter().find_map(|path| Some((path, path.metadata().ok()?)));
    let Some((path, metadata)) = found else { return false };
    let mut devices = lies_directly_on(path, &metadata);
    // Each lies on those before it: there is no circle, and a chain as long as this is none.
    for _ in 0..16 {
        if devices.contains(&device) || devices.contains(&UNKNOWN) {
            return true;
        }
        devices = devices.into_iter().flat_map(below).collect();
    }
    false
}

/// Some device that is not told: no device has this number.
const UNKNOWN: u64 = u64::MAX;

/// A block device lies on itself, wherever its node is; a file on the device of its file system.
fn lies_directly_on(file: &Path, metadata: &std::fs::Metadata) -> Vec<u64> {
    match metadata.file_type().is_block_device() {
        true => vec![metadata.rdev()],
        false => device_of(file, metadata.dev()).into_iter().collect(),
    }
}

/// The block device that a file's file system lies on. One without a number of its own lies in memory, or on devices that it does not
/// tell (btrfs, overlay).
fn device_of(file: &Path, number: u64) -> Option<u64> {
    /// Of tmpfs, ramfs and devtmpfs, as <linux/magic.h> has them.
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    if major_minor(number).0 != 0 {
        return Some(number);
    }
    let is_in_memory = rustix::fs::statfs(file).is_ok_and(|stat| IN_MEMORY.contains(&(stat.f_type as u64)));
    (!is_in_memory).then_some(UNKNOWN)
}

/// The devices that a block device lies on: those of a mapping, that of the file behind a loop, the disk of a partition.
fn below(number: u64) -> Vec<u64> {
    let (major, minor) = major_minor(number);
    let place = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let number = |place: &Path| {
        let text = std::fs::read_to_string(place.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    let mut devices = Vec::new();
    if let Ok(entries) = std::fs::read_dir(place.join("slaves")) {
        devices.extend(entries.flatten().filter_map(|entry| number(&entry.path())));
    }
    if place.join("partition").exists() {
        // A partition lies in its disk's folder.
        devices.extend(place.canonicalize().ok().and_then(|place| number(place.parent()?)));
    }
    if let Ok(text) = std::fs::read_to_string(place.join("loop/backing_file")) {
        let file = Path::new(text.trim_end_matches('\n'));
        match file.metadata() {
            Ok(metadata) => devices.extend(lies_directly_on(file, &metadata)),
            // Removed, or of another root.
            Err(_) => devices.push(UNKNOWN),
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_on_the_device_of_its_file_system_and_a_device_on_itself() {
        let file = std::env::current_exe().expect("a path");
        let device = file.metadata().expect("metadata").dev();
        assert!(lies_on(&file, device));
        let is_told = device_of(&file, device) != Some(UNKNOWN);
        assert_eq!(lies_on(&file, device ^ 0x7_0000), !is_told, "what is not told may be anywhere");
        assert!(!lies_on(Path::new("/proc/nothing/at/all"), device));
        assert!(lies_on(Path::new("/proc/self/stat"), device), "nobody knows where");
        if Path::new("/dev/shm").is_dir() {
            assert!(!lies_on(Path::new("/dev/shm"), device ^ 0x7_0000), "in memory");
            assert!(!lies_on(Path::new("/dev/shm/to-be-made"), device ^ 0x7_0000), "in memory");
        }
    }

    #[test]
    fn a_file_that_is_to_be_made_lies_where_its_directory_does() {
        let program = std::env::current_exe().expect("a path");
        let device = program.metadata().expect("metadata").dev();
        assert!(lies_on(&program.with_file_name("to-be-made"), device));
        let here = Path::new(".").metadata().expect("metadata").dev();
        assert!(lies_on(Path::new("to-be-made"), here));
    }
}
