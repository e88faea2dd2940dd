//! The programs that serve a file system in user space, and where they are found.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use atrest_probe::FilesystemKind;

/// A program that serves file systems through FUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// ext2, ext3 and ext4, of e2fsprogs.
    Fuse2fs,
    /// NTFS.
    Ntfs3g,
    /// exFAT.
    ExfatFuse,
    /// What the Linux kernel itself knows, by the Linux Kernel Library.
    Lklfuse,
}

/// Set-user-ID, of inode(7).
const SETUID: u32 = 0o4000;

impl Program {
    /// The usual driver for a file system; none if there is none that we know.
    pub fn usual(filesystem: FilesystemKind) -> Option<Self> {
        use FilesystemKind as Fs;
        match filesystem {
            Fs::Ext2 | Fs::Ext3 | Fs::Ext4 => Some(Self::Fuse2fs),
            Fs::Ntfs => Some(Self::Ntfs3g),
            Fs::ExFat => Some(Self::ExfatFuse),
            Fs::Btrfs | Fs::Xfs => Some(Self::Lklfuse),
            _ => None,
        }
    }

    /// Whether it serves a file system.
    pub fn serves(self, filesystem: FilesystemKind) -> bool {
        use FilesystemKind as Fs;
        match self {
            Self::Lklfuse => {
                matches!(filesystem, Fs::Ext2 | Fs::Ext3 | Fs::Ext4 | Fs::Btrfs | Fs::Xfs)
            }
            _ => Self::usual(filesystem) == Some(self),
        }
    }

    /// Its name, as people and packages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse2fs => "fuse2fs",
            Self::Ntfs3g => "ntfs-3g",
            Self::ExfatFuse => "exfat-fuse",
            Self::Lklfuse => "lklfuse",
        }
    }

    /// Debian's package; none if Debian has none.
    pub fn package(self) -> Option<&'static str> {
        match self {
            Self::Lklfuse => None,
            _ => Some(self.name()),
        }
    }

    /// Names of the program's file.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Fuse2fs => &["fuse2fs"],
            Self::Ntfs3g => &["ntfs-3g"],
            Self::ExfatFuse => &["mount.exfat-fuse", "exfat-fuse"],
            Self::Lklfuse => &["lklfuse"],
        }
    }

    /// Where it is installed. Directories for administrators are looked into as well: an ordinary user's PATH lacks them.
    pub fn find(self) -> Option<PathBuf> {
        self.files().iter().find_map(|file| crate::path::find(file))
    }

    /// Whether it takes block devices only: so does exfat-fuse when it mounts for itself, as root.
    pub(super) fn needs_block_device(self) -> bool {
        self == Self::ExfatFuse && rustix::process::geteuid().is_root()
    }

    /// Whether it asks `fusermount` for what only root may have, and is not root.
    pub(super) fn asks_for_too_much(self) -> bool {
        self == Self::ExfatFuse && !rustix::process::geteuid().is_root()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a program runs with root's rights whoever starts it. The kernel keeps such a process away from a FUSE file that
/// is its owner's alone.
pub(super) fn is_setuid_root(program: &Path) -> bool {
    program.metadata().is_ok_and(|found| found.mode() & SETUID != 0 && found.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_driver_of_a_file_system_serves_it() {
        use FilesystemKind as Fs;
        for kind in [Fs::Ext2, Fs::Ext3, Fs::Ext4, Fs::Ntfs, Fs::ExFat, Fs::Btrfs, Fs::Xfs] {
            assert!(Program::usual(kind).is_some_and(|program| program.serves(kind)), "{kind}");
        }
        assert!(Program::Lklfuse.serves(Fs::Ext4) && !Program::Lklfuse.serves(Fs::Ntfs));
        assert!(!Program::Fuse2fs.serves(Fs::ExFat));
        assert_eq!(Program::usual(Fs::Swap), None);
    }
}
