//! Unmounting, as root by the system call and otherwise by `fusermount3`, from the serving process or another; and
//! telling the mount that is meant from another one in the same place.

use core::fmt;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a directory can't be unmounted.
#[non_exhaustive]
#[derive(Debug)]
pub enum UnmountError {
    /// A file in it is open, or a loop device or mount stands on it.
    Busy,
    /// It is not mounted any more, or out of sight already.
    NotMounted,
    /// It is still mounted, but the directory shows another mount.
    Covered,
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for UnmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmountError::Busy => f.write_str("the volume's file is in use"),
            UnmountError::NotMounted => f.write_str("nothing is mounted there"),
            UnmountError::Covered => f.write_str("another mount covers it, or it was moved"),
            UnmountError::System(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for UnmountError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            UnmountError::System(error) => Some(error),
            UnmountError::Busy | UnmountError::NotMounted | UnmountError::Covered => None,
        }
    }
}

/// One mount, told from whatever else is mounted in the same place before or after it.
///
/// Device numbers are used again soon after they are free, and so are mount ids before Linux 6.8; since then the id
/// is unique for as long as the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountId {
    major: u32,
    minor: u32,
    mount: u64,
}

/// `STATX_MNT_ID` and `STATX_MNT_ID_UNIQUE` of statx(2).
const MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000 | 0x4000);

impl MountId {
    /// The topmost mount of a directory; of the one around it if nothing is mounted there. A file system that does
    /// not answer is not asked.
    ///
    /// # Errors
    /// The system's error if the directory does not exist or can't be reached.
    pub fn at(directory: &Path) -> io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let found = statx(CWD, directory, flags, MOUNT_ID)?;
        Ok(Self { major: found.stx_dev_major, minor: found.stx_dev_minor, mount: found.stx_mnt_id })
    }

    /// The number of its file system's device, as in `st_dev`.
    pub fn device(&self) -> u64 {
        rustix::fs::makedev(self.major, self.minor)
    }

    /// Whether its file system still exists: it is mounted, or was taken out of sight and is in use. Tells nothing where
    /// the kernel's list of FUSE connections is not mounted.
    pub fn is_connected(&self) -> bool {
        Path::new("/sys/fs/fuse/connections").join(self.minor.to_string()).exists()
    }

    /// Whether what a path leads to lies in its file system. The file system is not asked.
    pub fn holds(&self, path: &Path) -> bool {
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        statx(CWD, path, flags, StatxFlags::empty())
            .is_ok_and(|found| (found.stx_dev_major, found.stx_dev_minor) == (self.major, self.minor))
    }

    /// Whether one of a process's mappings lies in its file system. proc_pid_maps(5): field 4 is the device in hexadecimal.
    pub fn is_mapped(&self, maps: &[u8]) -> bool {
        let device = format!("{:02x}:{:02x}", self.major, self.minor);
        maps.split(|&byte| byte == b'\n').any(|line| {
            line.split(|&byte| byte == b' ').nth(3).is_some_and(|field| field == device.as_bytes())
        })
    }

    /// Whether its file system is mounted anywhere that this process can see.
    pub fn is_mounted(&self) -> bool {
        std::fs::read("/proc/self/mountinfo").is_ok_and(|table| self.is_listed(&table))
    }

    /// proc_pid_mountinfo(5): field 3 is the device as major:minor.
    fn is_listed(&self, table: &[u8]) -> bool {
        let device = format!("{}:{}", self.major, self.minor);
        table.split(|&byte| byte == b'\n').any(|line| {
            line.split(|&byte| byte == b' ').nth(2).is_some_and(|field| field == device.as_bytes())
        })
    }

    /// Unmounts it from a directory, and nothing else that is mounted there by now. `lazily`: take it out of sight
    /// now, end it when nobody uses it any more.
    ///
    /// # Errors
    /// [`UnmountError::Busy`] if it is in use, and may not go lazily. [`UnmountError::NotMounted`] if it is gone
    /// already, [`UnmountError::Covered`] if something else is mounted over it. [`UnmountError::System`] if the
    /// system or `fusermount3` refuses, also if that is missing.
    pub fn unmount(&self, directory: &Path, lazily: bool) -> Result<(), UnmountError> {
        self.check(directory)?;
        let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(UnmountError::Busy),
            Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted),
            Err(Errno::PERM) => self.unmount_by_program(directory, lazily),
            Err(error) => Err(UnmountError::System(error.into())),
        }
    }

    fn check(&self, directory: &Path) -> Result<(), UnmountError> {
        match Self::at(directory) {
            Ok(found) if found == *self => Ok(()),
            _ if self.is_mounted() => Err(UnmountError::Covered),
            _ => Err(UnmountError::NotMounted),
        }
    }

    fn unmount_by_program(&self, directory: &Path, lazily: bool) -> Result<(), UnmountError> {
        let Some(program) = fusermount() else {
            let error = io::Error::new(io::ErrorKind::NotFound, "fusermount3 is missing");
            return Err(UnmountError::System(error));
        };
        let mut command = Command::new(program);
        command.args(["-u", "-q"]).args(lazily.then_some("-z")).arg("--").arg(directory);
        // Its messages are translated; what counts is whether the mount is gone.
        let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match run {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if self.check(directory).is_ok() => {
                // Without -z that is the usual reason, and it has no exit code of its own.
                let refused = || io::Error::other(format!("fusermount3 refused ({status})"));
                Err(if lazily { UnmountError::System(refused()) } else { UnmountError::Busy })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(UnmountError::System(error)),
        }
    }
}

/// The setuid program of the package fuse3 that mounts and unmounts for unprivileged users.
pub(super) fn fusermount() -> Option<PathBuf> {
    crate::path::find("fusermount3")
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn a_mount_is_found_by_its_device_and_by_no_other_field() {
        let table = b"36 35 0:98 / /mnt/a\\040b\\134c rw,noatime master:1 - fuse.atrest atrest rw\n\
                      0:40 0:41 98:1 / /mnt/0:42 rw - ext4 0:43 rw\n\n";
        let listed = |major, minor| MountId { major, minor, mount: 36 }.is_listed(table);
        assert!(listed(0, 98) && listed(98, 1));
        for minor in [9, 8, 40, 41, 42, 43, 980] {
            assert!(!listed(0, minor), "0:{minor}");
        }
    }

    #[test]
    fn a_mapping_is_found_by_its_device_and_by_no_other_field() {
        let maps = b"7f30a000-7f30b000 rw-s 00000000 00:2e 2                   /mnt/volume\n\
                     00:2d 00:2c 00:2b 08:01 3  /00:2a\n\n";
        let mapped = |major, minor| MountId { major, minor, mount: 36 }.is_mapped(maps);
        assert!(mapped(0, 0x2e) && mapped(8, 1));
        assert!(!mapped(0, 0x2a) && !mapped(0, 0x2b) && !mapped(0, 0x2d) && !mapped(0, 46 + 0x200));
    }

    #[test]
    fn a_directory_without_a_mount_of_its_own_belongs_to_the_one_around_it() {
        let directory = Scratch::new();
        let inner = directory.path("x");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(MountId::at(&inner).unwrap(), MountId::at(directory.as_path()).unwrap());
        assert_ne!(MountId::at(&inner).unwrap(), MountId::at(Path::new("/proc")).unwrap());
        assert!(MountId::at(Path::new("/proc")).unwrap().is_mounted());
        MountId::at(&inner.join("absent")).unwrap_err();
    }
}
