//! `atrest ls`, `cat` and `cp`: files inside a locked volume, without opening it for anyone else.

use std::path::PathBuf;

use clap::Args;

use super::open::UnlockArgs;

/// List a directory inside a volume (ext4 or FAT, with or without a partition table).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest ls secret.img
  atrest ls -l secret.img /etc
  atrest ls --json --partition 2 disk.img /")]
pub struct LsArgs {
    /// File or block device that holds the volume.
    pub volume: PathBuf,
    /// Path inside the volume.
    #[arg(default_value = "/")]
    pub path: PathBuf,
    /// Show kind, mode, size and time as well.
    #[arg(long, short = 'l')]
    pub long: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Write a file from inside a volume to standard output.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest cat secret.img /etc/hostname
  atrest cat --key-file key.bin secret.img /photos/1.jpg > 1.jpg")]
pub struct CatArgs {
    /// File or block device that holds the volume.
    pub volume: PathBuf,
    /// Path inside the volume.
    pub path: PathBuf,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Copy files out of a volume, or into one (FAT only).
///
/// One side is VOLUME:/path, the other a path of this system. A name that contains ":/" can be reached as ./name.
/// What comes out of a volume only its owner can read, unless --preserve is given. Times are kept either way.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest cp secret.img:/etc/hostname .
  atrest cp -r secret.img:/photos ./photos
  atrest cp -rp secret.img:/srv/www ./www
  atrest cp -r ./photos stick.img:/")]
pub struct CpArgs {
    /// From: VOLUME:/path or a local path.
    pub source: String,
    /// To: a local path or VOLUME:/path.
    pub destination: String,
    /// Copy directories and everything below them.
    #[arg(long, short = 'r')]
    pub recursive: bool,
    /// Keep permissions as far as the umask lets, instead of 0600 (0700 for directories and what its owner can execute).
    #[arg(long, short = 'p')]
    pub preserve: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Which partition inside the volume.
#[derive(Args, Clone, Debug)]
pub struct PartitionArgs {
    /// Number of the partition inside the volume [default: the only one with a filesystem].
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
}
