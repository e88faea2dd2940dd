//! `atrest ls`, `cat`, `cp`, `mkdir`, `rm`, `mv`, `df` and `mount`: files inside a locked volume.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::driver::DriverArgs;
use super::ecryptfs::EcryptfsArgs;
use super::fscrypt::FscryptArgs;
use super::open::UnlockArgs;

/// List a directory inside a volume (ext4, NTFS, exFAT, FAT or LittleFS, with or without a partition table).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest ls secret.img
  atrest ls -l secret.img:/etc
  atrest ls 'secret.img:/photos/*.jpg'
  atrest ls -R home.img:/alice --fscrypt-key master.key
  atrest ls home.img:/alice --fscrypt-protector alice
  atrest ls --json --partition 2 disk.img")]
pub struct LsArgs {
    /// VOLUME:/path, one or more in the same volume; VOLUME alone is its root. Or VOLUME and then paths in it. The last names may
    /// be patterns: *, ? and [a-z].
    #[arg(value_name = "VOLUME:/PATH", required = true)]
    pub places: Vec<PathBuf>,
    /// List the directories below as well.
    #[arg(long, short = 'R')]
    pub recursive: bool,
    /// Show kind, mode, size and time as well.
    #[arg(long, short = 'l')]
    pub long: bool,
    /// Show sizes in KiB, MiB and so on. `ls -lh` is short for it; `-h` alone prints help.
    #[arg(long, requires = "long")]
    pub human_readable: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Write files from inside a volume to standard output.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest cat secret.img:/etc/hostname
  atrest cat --key-file key.bin secret.img:/photos/1.jpg > 1.jpg
  atrest cat 'secret.img:/logs/2026-*'
  atrest cat 'nbd+unix:///?socket=/run/nbd.sock:/etc/hostname'")]
pub struct CatArgs {
    /// VOLUME:/path, one or more in the same volume. Or VOLUME and then paths in it. Names may be patterns: *, ? and [a-z].
    #[arg(value_name = "VOLUME:/PATH", required = true)]
    pub places: Vec<PathBuf>,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Copy files out of a volume, or into one (FAT and LittleFS; ext4 to overwrite files).
///
/// In ext4 a file of the same size can be overwritten in place with --yes; none can be made, grow or shrink.
/// One side is VOLUME:/path, the other a path of this system. A name that contains ":/" can be reached as ./name.
/// What comes out of a volume only its owner can read, unless --preserve is given. Times are kept either way.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest cp secret.img:/etc/hostname .
  atrest cp -r secret.img:/photos ./photos
  atrest cp 'secret.img:/photos/*.jpg' ./photos
  atrest cp -rp secret.img:/srv/www ./www
  atrest cp -r --keep-going damaged.img:/ ./recovered
  atrest cp -r ./photos ./music stick.img:/
  tar c photos | atrest cp - stick.img:/photos.tar
  atrest cp nbd://192.0.2.7/disk:/etc/hostname .")]
pub struct CpArgs {
    /// From: VOLUME:/path or a local path, or - for standard input; several if they go into a directory. Names inside a volume may be
    /// patterns: *, ? and [a-z]. To, the last one: a local path or VOLUME:/path, or - for standard output.
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    pub paths: Vec<PathBuf>,
    /// Copy directories and everything below them.
    #[arg(long, short = 'r')]
    pub recursive: bool,
    /// Keep permissions as far as the umask lets, instead of 0600 (0700 for directories and what its owner can execute).
    #[arg(long, short = 'p')]
    pub preserve: bool,
    /// Leave out what can't be read, because it is damaged or its key is missing, and name it; everything else is copied. Exit code 4
    /// if anything was left out. Out of a volume only.
    #[arg(long, requires = "recursive")]
    pub keep_going: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Make directories inside a volume (FAT and LittleFS).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest mkdir card.img:/logs
  atrest mkdir -p card.img:/logs/2026/may")]
pub struct MkdirArgs {
    /// VOLUME:/path, one or more in the same volume. Or VOLUME and then paths in it.
    #[arg(value_name = "VOLUME:/PATH", required = true)]
    pub places: Vec<PathBuf>,
    /// Make the directories above it, too, and leave one that is there alone.
    #[arg(long, short = 'p')]
    pub parents: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Remove files or empty directories inside a volume (FAT and LittleFS).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest rm card.img:/old.log
  atrest rm 'card.img:/logs/*.old'
  atrest rm -r card.img:/logs")]
pub struct RmArgs {
    /// VOLUME:/path, one or more in the same volume. Or VOLUME and then paths in it. Names may be patterns: *, ? and [a-z].
    #[arg(value_name = "VOLUME:/PATH", required = true)]
    pub places: Vec<PathBuf>,
    /// Remove a directory and everything below it.
    #[arg(long, short = 'r')]
    pub recursive: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Move or rename files and directories inside a volume (FAT and LittleFS). What is there is replaced only with --yes.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest mv card.img:/log.txt card.img:/log.old
  atrest mv card.img:/a.txt card.img:/b.txt card.img:/archive")]
pub struct MvArgs {
    /// From: VOLUME:/path, several if they go into a directory. To, the last one: a path in the same volume. Or VOLUME and then all
    /// these paths. Names of sources may be patterns: *, ? and [a-z].
    #[arg(value_name = "VOLUME:/PATH", required = true)]
    pub places: Vec<PathBuf>,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Show how full the filesystem inside a volume is.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest df card.img
  atrest df --json secret.img")]
pub struct DfArgs {
    /// File, block device or NBD URI that holds the volume.
    pub volume: PathBuf,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Mount the files inside a volume in a directory, through FUSE.
///
/// LittleFS and FAT are read and written, ext2/3/4, NTFS and exFAT are read by readers of our own, which need no other program. With --driver,
/// a program for the filesystem inside is started on the volume and mounts the directory, to read and write: for ext2/3/4,
/// NTFS, exFAT, Btrfs and XFS. `atrest close` ends both, the driver first. fuse2fs writes without a journal.
///
/// Runs in the foreground until SIGTERM or SIGINT, until CMD of --run ends, or until `atrest close`. Once the files can be used it
/// prints one line on standard output. With our own readers everything belongs to the caller; owners and permissions can't be
/// changed.
///
/// An eCryptfs lower directory is mounted to be read and written as the kernel's module does it, with owners, permissions, links and
/// extended attributes. New files and names are encrypted under the first passphrase. An empty directory begins a new tree.
///
/// An eCryptfs passphrase is hashed weakly: one graphics card tries some 100,000 a second, on all trees at once. Choose at least 10 random
/// words (`atrest passphrase`), or a LUKS volume instead.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest mount card.img mnt --daemon
  atrest mount secret.img mnt --driver --daemon
  sudo atrest mount secret.img mnt --loop --driver-options noatime --daemon
  atrest mount ~/.Private ~/Private --type ecryptfs --wrapped-passphrase ~/.ecryptfs/wrapped-passphrase --daemon
  atrest mount lower mnt --type ecryptfs --ecryptfs-cipher aes --ecryptfs-key-bytes 32
  atrest mount card.img mnt --run sh -c 'cp -r photos \"$ATREST_PATH\"'
  atrest mount secret.img mnt --read-only
  atrest mount secret.img ~/secret --at-login --passphrase-from secret-service")]
pub struct MountArgs {
    /// File, block device or NBD URI that holds the volume, or an eCryptfs lower directory.
    pub volume: PathBuf,
    /// Empty directory [default: that of the volume in the configuration].
    // An empty path is none: a name can stand for both.
    #[arg(default_value = "", hide_default_value = true, value_parser = super::any_path(), value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Mount nothing now, but write a unit of the user's systemd that does so at login, with the other options given here.
    #[arg(long, conflicts_with = "daemon")]
    pub at_login: bool,
    /// Remove that unit.
    #[arg(long, requires = "at_login")]
    pub remove: bool,
    /// Let no program in it be run, as `mount -o noexec` asks for.
    #[arg(long, hide_short_help = true)]
    pub noexec: bool,
    /// Name of the open volume [default: the file name of VOLUME without its extension].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Refuse writes; several readers can have the volume open.
    #[arg(long)]
    pub read_only: bool,
    /// Go on in the background once the files can be used.
    #[arg(long)]
    pub daemon: bool,
    #[command(flatten)]
    pub partition: PartitionArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
    /// Tell requests to the volume, bytes, errors and latencies in Prometheus' text format on this unix socket (GET /metrics), to
    /// this user and root alone.
    #[arg(long, value_name = "SOCKET")]
    pub metrics: Option<PathBuf>,
    #[command(flatten)]
    pub by: DriverArgs,
    #[command(flatten)]
    pub tree: super::mount_tree::MountTreeArgs,
    /// Run a command that finds the directory in $ATREST_PATH, serve for as long as it runs and end with its exit code. Must
    /// come last.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, conflicts_with = "daemon",
          help_heading = None::<&'static str>)]
    pub run: Vec<OsString>,
}

/// Which partition inside the volume.
#[derive(Args, Clone, Debug)]
pub struct PartitionArgs {
    /// Number of the partition inside the volume [default: the only one with a filesystem].
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    #[command(flatten)]
    pub fscrypt: FscryptArgs,
    #[command(flatten)]
    pub ecryptfs: EcryptfsArgs,
}
