//! What the kernel shows of itself, mounted where everybody looks for it.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::mounts::mount_once;

/// File system, place, flags, options.
const ALL: &[(&str, &str, MountFlags, &str)] = &[
    ("proc", "/proc", MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC), ""),
    ("sysfs", "/sys", MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC), ""),
    ("devtmpfs", "/dev", MountFlags::NOSUID, "mode=0755"),
    ("tmpfs", "/run", MountFlags::NOSUID.union(MountFlags::NODEV), "mode=0755"),
];

/// Mounts all of them, those that are there already aside. What is wrong is told by whoever called: there may be no console before.
pub fn mount_all() -> Vec<String> {
    let mut problems = Vec::new();
    for (kind, place, flags, options) in ALL {
        let place = Path::new(place);
        let made = match std::fs::create_dir(place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => mount_once(Path::new(kind), place, kind, *flags, options).map_err(io::Error::from),
        };
        match made {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) => problems.push(format!("{} can't be mounted: {error}", place.display())),
            Ok(()) => {}
        }
    }
    // A kernel without devtmpfs: what is needed to say so.
    for (path, major, minor) in [("/dev/console", 5, 1), ("/dev/null", 1, 3)] {
        if !Path::new(path).exists() {
            let _ = mknodat(
                CWD,
                path,
                FileType::CharacterDevice,
                Mode::from_raw_mode(0o600),
                makedev(major, minor),
            );
        }
    }
    problems
}
