//! Loop devices over files, and whether the kernel uses them (loop(4)).

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::sysfs::Described;
use crate::sys;

const PROC: &str = "/proc";

/// Device and inode number: what a file is, whatever it is called.
pub type Identity = (u64, u64);

/// A loop device that is attached to a file.
#[derive(Debug)]
pub struct Loop(Described);

/// The identity of an open file.
pub fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The loop devices over a file.
pub fn over(file: Identity) -> Vec<Loop> {
    Described::loops().into_iter().map(Loop).filter(|device| device.file() == Some(file)).collect()
}

/// The loop devices over files of one file system, whose device number is `device` (`st_dev`). For those who may open
/// loop devices; others are told of none.
pub fn loop_devices_on(device: u64) -> Vec<PathBuf> {
    let nodes = Described::loops().into_iter().filter_map(|found| found.node().ok());
    let is_on = |node: &PathBuf| {
        File::open(node).and_then(|node| sys::loop_status(&node)).is_ok_and(|status| status.device == device)
    };
    nodes.filter(is_on).collect()
}

impl Loop {
    /// What it is attached to. The device itself knows best. A user who may not open it follows the path in sysfs.
    fn file(&self) -> Option<Identity> {
        let status = self.0.node().and_then(File::open).and_then(|device| sys::loop_status(&device));
        if let Ok(status) = status {
            return Some((status.device, status.inode));
        }
        fs::metadata(self.0.backing_file().ok()?).ok().map(|metadata| identity(&metadata))
    }

    /// Whether the kernel uses it: it is mounted or swapped on, or another device is mapped onto it or onto one of its
    /// partitions. A program that merely has it open can't be seen.
    pub fn is_claimed(&self) -> io::Result<bool> {
        let node = self.0.node()?;
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(node) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
            Err(_) => self.seems_claimed(),
        }
    }

    /// Whether the kernel uses it, as /sys and /proc tell a user who may not open it. Mounts of other namespaces are not
    /// seen.
    pub fn seems_claimed(&self) -> io::Result<bool> {
        let uses = Uses::read(Path::new(PROC))?;
        for part in self.parts()? {
            match part.is_held().and_then(|held| Ok(held || uses.contain(&part)?)) {
                // It went meanwhile.
                Err(_) if !part.exists() => {}
                used => {
                    if used? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The device numbers of the device and its partitions, as `major:minor`.
    pub fn numbers(&self) -> io::Result<Vec<String>> {
        self.parts()?.iter().map(Described::numbers).collect()
    }

    /// The device and its partitions.
    fn parts(&self) -> io::Result<Vec<Described>> {
        let mut parts = self.0.partitions()?;
        parts.push(self.0.clone());
        Ok(parts)
    }
}

/// What the kernel has mounted, and what it swaps on.
struct Uses {
    mounts: String,
    swaps: String,
}

impl Uses {
    fn read(proc: &Path) -> io::Result<Self> {
        // What can't be read is not taken for nothing: a second writer of a mounted file system destroys it.
        let mounts = fs::read_to_string(proc.join("self/mountinfo"))?;
        let swaps = match fs::read_to_string(proc.join("swaps")) {
            // A kernel that does not swap.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            swaps => swaps?,
        };
        Ok(Self { mounts, swaps })
    }

    /// Whether a device is mounted or swapped on: proc_pid_mountinfo(5), field 3, and proc_swaps(5), field 1.
    fn contain(&self, device: &Described) -> io::Result<bool> {
        let (numbers, node) = (device.numbers()?, device.node()?);
        let mounted = self.mounts.lines().any(|line| line.split(' ').nth(2) == Some(&numbers));
        let is_node = |line: &str| line.split_ascii_whitespace().next() == node.to_str();
        Ok(mounted || self.swaps.lines().any(is_node))
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn mounts_that_cannot_be_read_are_not_taken_for_none() {
        let proc = Scratch::new();
        assert!(Uses::read(proc.as_path()).is_err(), "there is no mountinfo");
        fs::create_dir(proc.path("self")).expect("made");
        fs::write(proc.path("self/mountinfo"), "").expect("written");
        let none = Uses::read(proc.as_path()).expect("a kernel that does not swap");
        assert_eq!((none.mounts, none.swaps), (String::new(), String::new()));
        fs::create_dir(proc.path("swaps")).expect("made");
        assert!(Uses::read(proc.as_path()).is_err(), "swaps can't be read");
    }

    #[test]
    fn a_device_is_known_by_its_number_in_mounts_and_by_its_name_in_swaps() {
        let devices = Path::new("/sys/block");
        let entry = fs::read_dir(devices).expect("sysfs").next().expect("a block device").expect("an entry");
        let device = Described::within(&entry.path(), 0);
        assert!(device.numbers().is_err(), "no such device");
        let number = fs::read_to_string(entry.path().join("dev")).expect("its number");
        let (numbers, name) = (number.trim(), entry.file_name());
        let name = name.to_str().expect("a name");
        let (major, minor) = numbers.split_once(':').expect("two numbers");
        let number = rustix::fs::makedev(major.parse().expect("a number"), minor.parse().expect("a number"));
        let device = Described::of(number);
        let uses = |mounts: &str, swaps: &str| Uses { mounts: mounts.into(), swaps: swaps.into() };
        let mount = format!("36 35 {numbers} / /mnt rw - ext4 /dev/{name} rw\n");
        let swap = format!("Filename Type Size Used Priority\n/dev/{name} partition 1 0 -2\n");
        assert!(uses(&mount, "").contain(&device).expect("read"));
        assert!(uses("", &swap).contain(&device).expect("read"));
        let others =
            (format!("36 35 {numbers}9 / / rw - x x rw\n"), format!("/dev/{name}9 partition 1 0 -2\n"));
        assert!(!uses(&others.0, &others.1).contain(&device).expect("read"));
        let gone = Described::of(rustix::fs::makedev(4000, 1));
        assert!(uses("", "").contain(&gone).is_err() && !gone.exists());
    }
}
