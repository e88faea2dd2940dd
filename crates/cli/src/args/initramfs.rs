//! `atrest initramfs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make and extend the small filesystem that a machine boots from before its root is there.
#[derive(Debug, Subcommand)]
pub enum InitramfsCommand {
    Build(InitramfsBuildArgs),
    Add(InitramfsAddArgs),
    Info(InitramfsInfoArgs),
}

/// Make an initramfs that unlocks: a static program as /init, kernel modules with all that they need, crypttab and keys.
///
/// The same input gives the same file; times are those of SOURCE_DATE_EPOCH, or 0.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest initramfs build -o initramfs.img --init atrest-init
  atrest initramfs build -o initramfs.img --init atrest-init --busybox /bin/busybox
  atrest initramfs build -o initramfs.img --init atrest-init --modules-dir /lib/modules/6.1.0-50-arm64 \\
      --module virtio_blk --crypttab crypttab
  atrest initramfs build -o initramfs.img --init atrest-init --busybox /bin/busybox --key-file root.key:/etc/root.key")]
pub struct InitramfsBuildArgs {
    /// File to write [default mode: 0644, with keys 0600].
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Static program that becomes /init, such as atrest-init.
    #[arg(long, value_name = "PROGRAM")]
    pub init: PathBuf,
    /// Static busybox: /bin/busybox and /bin/sh, for a rescue shell.
    #[arg(long, value_name = "PROGRAM")]
    pub busybox: Option<PathBuf>,
    /// How to compress it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = CompressionKind::Gzip)]
    pub compress: CompressionKind,
    #[command(flatten)]
    pub contents: ContentsArgs,
}

/// Add the unlocker, modules, keys and files to an existing initramfs, behind what is there; microcode in front stays.
///
/// The kernel unpacks all archives of a file, the last one last. Nothing that is there is unpacked or changed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest initramfs add /boot/initrd.img -o initrd-atrest.img --init atrest-init
  atrest initramfs add initramfs.cpio.gz --in-place --crypttab crypttab --key-file root.key")]
pub struct InitramfsAddArgs {
    /// Existing initramfs.
    pub archive: PathBuf,
    /// File to write.
    #[arg(
        long,
        short = 'o',
        value_name = "FILE",
        required_unless_present = "in_place",
        conflicts_with = "in_place"
    )]
    pub output: Option<PathBuf>,
    /// Replace the existing file, in one step.
    #[arg(long)]
    pub in_place: bool,
    /// Static program to add as /usr/sbin/atrest-init.
    #[arg(long, value_name = "PROGRAM")]
    pub init: Option<PathBuf>,
    /// Put the program in the place of /init.
    #[arg(long, requires = "init")]
    pub replace_init: bool,
    /// How to compress what is added [default: as the last archive of the file].
    #[arg(long, value_enum, value_name = "HOW")]
    pub compress: Option<CompressionKind>,
    #[command(flatten)]
    pub contents: ContentsArgs,
}

/// Show the archives in an initramfs and the files in them.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest initramfs info /boot/initrd.img
  atrest initramfs info initramfs.cpio.gz --json")]
pub struct InitramfsInfoArgs {
    /// The initramfs.
    pub archive: PathBuf,
}

/// What goes in beside the programs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Contents")]
pub struct ContentsArgs {
    /// Directory of the kernel's modules, /lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub modules_dir: Option<PathBuf>,
    /// Add this module, by name or alias, and all that it needs (more than once: more modules). Those that opening a volume usually
    /// needs are added anyway, as far as the kernel has them.
    #[arg(long = "module", value_name = "NAME", requires = "modules_dir")]
    pub modules: Vec<String>,
    /// Add no modules but those named by --module, and what they need.
    #[arg(long, requires = "modules_dir")]
    pub no_default_modules: bool,
    /// Becomes /etc/crypttab.
    #[arg(long, value_name = "FILE")]
    pub crypttab: Option<PathBuf>,
    /// Add a key file, mode 0400 [default PATH: /etc/cryptsetup-keys.d/NAME]. Whoever reads the initramfs has the key.
    #[arg(long = "key-file", value_name = "FILE[:PATH]")]
    pub keys: Vec<String>,
    /// Add a file with the permissions that it has here.
    #[arg(long = "file", value_name = "FILE:PATH")]
    pub files: Vec<String>,
}

/// A compression that kernels know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressionKind {
    /// Not at all.
    None,
    /// gzip, the one that every kernel knows.
    Gzip,
    /// xz with CRC32: the smallest, and the slowest to make.
    Xz,
    /// zstd: the fastest to unpack.
    Zstd,
}
