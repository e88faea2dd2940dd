//! Loop devices, as sysfs and their own ioctl describe them (loop(4)).

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::sys;

const BLOCK_DEVICES: &str = "/sys/block";

/// Device and inode number: what a file is, whatever it is called.
pub type Identity = (u64, u64);

/// A loop device that is attached to a file.
#[derive(Debug)]
pub struct Loop {
    /// Its directory in sysfs.
    directory: PathBuf,
    /// What it is called below /dev.
    node: PathBuf,
}

/// The identity of an open file.
pub fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The loop devices over a file.
pub fn over(file: Identity) -> Vec<Loop> {
    let Ok(devices) = std::fs::read_dir(BLOCK_DEVICES) else { return Vec::new() };
    let attached = devices
        .flatten()
        .filter(|device| device.path().join("loop").is_dir())
        .map(|device| Loop { directory: device.path(), node: Path::new("/dev").join(device.file_name()) });
    attached.filter(|device| device.file() == Some(file)).collect()
}

/// The loop devices over files of one file system, whose device number is `device` (`st_dev`). For those who may open
/// loop devices; others are told of none.
pub fn loop_devices_on(device: u64) -> Vec<PathBuf> {
    let Ok(devices) = std::fs::read_dir(BLOCK_DEVICES) else { return Vec::new() };
    let attached = devices.flatten().filter(|device| device.path().join("loop").is_dir());
    let nodes = attached.map(|device| Path::new("/dev").join(device.file_name()));
    let is_on = |node: &PathBuf| {
        File::open(node).and_then(|node| sys::loop_status(&node)).is_ok_and(|status| status.device == device)
    };
    nodes.filter(is_on).collect()
}

impl Loop {
    /// What it is attached to. The device itself knows best. A user who may not open it follows the path in sysfs.
    fn file(&self) -> Option<Identity> {
        if let Ok(status) = File::open(&self.node).and_then(|device| sys::loop_status(&device)) {
            return Some((status.device, status.inode));
        }
        let path = std::fs::read_to_string(self.directory.join("loop/backing_file")).ok()?;
        std::fs::metadata(path.trim_end_matches('\n')).ok().map(|metadata| identity(&metadata))
    }

    /// Whether the kernel uses it: it is mounted or swapped on, or another device is mapped onto it or onto one of its
    /// partitions. A program that merely has it open can't be seen.
    pub fn is_claimed(&self) -> bool {
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.node) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => true,
            Err(_) => self.seems_claimed(),
        }
    }

    /// The same for a user who may not open it, from /sys and /proc. Mounts of other namespaces are not seen.
    pub fn seems_claimed(&self) -> bool {
        self.parts().iter().any(|part| is_held(part) || is_mounted(part) || is_swap(part))
    }

    /// The device numbers of the device and its partitions, as `major:minor`.
    pub fn numbers(&self) -> Vec<String> {
        self.parts().iter().filter_map(|part| number(part)).collect()
    }

    /// The directories of the device and of its partitions.
    fn parts(&self) -> Vec<PathBuf> {
        let inside = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let partitions = inside.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
        std::iter::once(self.directory.clone()).chain(partitions).collect()
    }
}

fn number(device: &Path) -> Option<String> {
    Some(std::fs::read_to_string(device.join("dev")).ok()?.trim().to_owned())
}

fn is_held(device: &Path) -> bool {
    std::fs::read_dir(device.join("holders")).is_ok_and(|mut holders| holders.next().is_some())
}

/// proc_pid_mountinfo(5): field 3 is the device.
fn is_mounted(device: &Path) -> bool {
    // intended: without /proc no mount can be seen; holders still are.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    number(device).is_some_and(|number| mounts.lines().any(|line| line.split(' ').nth(2) == Some(&number)))
}

fn is_swap(device: &Path) -> bool {
    // intended: without /proc no swap can be seen; holders still are.
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let node = device.file_name().map(|name| Path::new("/dev").join(name));
    node.is_some_and(|node| swaps.lines().any(|line| line.split_ascii_whitespace().next() == node.to_str()))
}
