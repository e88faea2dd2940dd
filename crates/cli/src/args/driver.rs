//! Who serves the filesystem inside a volume.

use atrest_attach::driver::Program;
use clap::{Args, ValueEnum};

/// Mounting by somebody else's driver instead of our own readers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Mounting by a driver")]
pub struct DriverArgs {
    /// Mount by the program for the filesystem inside, which also writes: fuse2fs (ext2/3/4), ntfs-3g (NTFS), exfat-fuse (exFAT) or lklfuse (Btrfs, XFS, ext2/3/4). Implied for what is not read or written here, and for NTFS and exFAT without --read-only where it is installed; FAT and LittleFS need none.
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true)]
    pub driver: Option<Option<DriverName>>,
    /// Mount by the kernel's own filesystem, over a loop device. Needs root.
    #[arg(long = "loop", conflicts_with = "driver")]
    pub kernel: bool,
    /// More options for the driver, or with --loop for the kernel, as after the -o of `mount`.
    #[arg(long, value_name = "OPTIONS")]
    pub driver_options: Vec<String>,
    /// Let other users see the files of a driver or of an eCryptfs directory, as far as their permissions allow.
    #[arg(long)]
    pub allow_other: bool,
}

/// A driver by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverName {
    /// Of e2fsprogs, for ext2, ext3 and ext4.
    Fuse2fs,
    /// For NTFS.
    #[value(name = "ntfs-3g")]
    Ntfs3g,
    /// For exFAT.
    ExfatFuse,
    /// The Linux kernel's own, as a library.
    Lklfuse,
}

impl From<DriverName> for Program {
    fn from(name: DriverName) -> Self {
        match name {
            DriverName::Fuse2fs => Self::Fuse2fs,
            DriverName::Ntfs3g => Self::Ntfs3g,
            DriverName::ExfatFuse => Self::ExfatFuse,
            DriverName::Lklfuse => Self::Lklfuse,
        }
    }
}
