//! Keys of an eCryptfs directory, for the commands that read files, and what `atrest tree` does with one.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Keys of an eCryptfs lower directory: give a directory instead of a volume.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "eCryptfs directory")]
pub struct EcryptfsArgs {
    /// Take a passphrase of the tree from this file; one trailing newline is left out. May be given several times
    /// [default: ask for one].
    #[arg(long, value_name = "FILE")]
    pub ecryptfs_passphrase_file: Vec<PathBuf>,
    /// Read a passphrase of the tree from this open file descriptor to its end; one trailing newline is left out.
    #[arg(long, value_name = "N")]
    pub ecryptfs_passphrase_fd: Option<u32>,
    /// The passphrase of the tree is in this file of ecryptfs-utils (`~/.ecryptfs/wrapped-passphrase`), and what is given or typed
    /// opens that.
    #[arg(long, value_name = "FILE")]
    pub wrapped_passphrase: Option<PathBuf>,
    /// Take a directory that holds files that are not encrypted, and read and write those as they are (the kernel's mount option
    /// `ecryptfs_passthrough`). Without this, a directory with no encrypted file is refused, and so is writing where there are both.
    #[arg(long)]
    pub ecryptfs_passthrough: bool,
}

/// Look at every file of an eCryptfs directory without changing anything.
///
/// Finds damaged headers, lower files that end early, names and link targets that no key decrypts, and files that are not encrypted;
/// with --contents also extents that can't be read or are zeros. Exit code 4 if anything is damaged. eCryptfs has no checksums: contents
/// that were changed decrypt to other contents, and nothing finds that.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree check ~/.Private --wrapped-passphrase ~/.ecryptfs/wrapped-passphrase
  atrest tree check --json lower --ecryptfs-passphrase-file passphrase
  atrest tree check lower --contents --ecryptfs-passphrase-file passphrase
  atrest tree check lower --repair --ecryptfs-passphrase-file passphrase")]
pub struct TreeCheckArgs {
    /// The lower directory.
    pub lower: PathBuf,
    /// Read all contents, too, on all cores.
    #[arg(long)]
    pub contents: bool,
    /// Set sizes that are larger than the lower file has contents to what is there. Asks before it does, unless --yes is given.
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub keys: EcryptfsArgs,
}

/// Decrypt a whole eCryptfs directory, on all cores.
///
/// What can't be decrypted is named and left out; everything else is there at the end. Exit code 4 if anything was left out.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree export lower recovered
  atrest tree export ~/.Private recovered --wrapped-passphrase ~/.ecryptfs/wrapped-passphrase")]
pub struct TreeExportArgs {
    /// The lower directory.
    pub lower: PathBuf,
    /// Directory to make; nothing may be there yet.
    pub destination: PathBuf,
    /// Keep permissions as far as the umask lets, instead of 0600 (0700 for directories and what its owner can execute).
    #[arg(long, short = 'p')]
    pub preserve: bool,
    #[command(flatten)]
    pub keys: EcryptfsArgs,
}

/// Wrapped passphrases as ecryptfs-utils keeps them.
#[derive(Debug, Subcommand)]
pub enum TreePassphraseCommand {
    Wrap(WrapArgs),
    Unwrap(UnwrapArgs),
    Change(ChangeArgs),
}

/// Make a file with the passphrase of a tree, encrypted under another passphrase.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree passphrase wrap wrapped-passphrase
  atrest tree passphrase wrap wrapped-passphrase --ecryptfs-passphrase-file passphrase
  atrest tree passphrase wrap wrapped-passphrase --ecryptfs-passphrase-file passphrase --new-key-file login")]
pub struct WrapArgs {
    /// File to make. One that exists is replaced only with --yes.
    pub file: PathBuf,
    /// Take the passphrase of the tree from this file [default: ask].
    #[arg(long, value_name = "FILE")]
    pub ecryptfs_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub wrapping: super::secrets::NewPassphraseArgs,
}

/// Write the passphrase of a tree to a file that only its owner can read, or to an open file descriptor.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree passphrase unwrap ~/.ecryptfs/wrapped-passphrase --to passphrase
  atrest tree passphrase unwrap wrapped-passphrase --key-file login --to-fd 3 3> passphrase")]
pub struct UnwrapArgs {
    /// The wrapped passphrase.
    pub file: PathBuf,
    /// File to make, with mode 0600; nothing may be there yet.
    #[arg(long, value_name = "FILE", conflicts_with = "to_fd", required_unless_present = "to_fd")]
    pub to: Option<PathBuf>,
    /// Open file descriptor to write to.
    #[arg(long, value_name = "N")]
    pub to_fd: Option<u32>,
    #[command(flatten)]
    pub wrapping: super::secrets::PassphraseArgs,
}

/// Encrypt the passphrase of a tree under another passphrase. The file is replaced once the new one is whole.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree passphrase change ~/.ecryptfs/wrapped-passphrase
  atrest tree passphrase change wrapped-passphrase --key-file login --new-key-file new-login")]
pub struct ChangeArgs {
    /// The wrapped passphrase.
    pub file: PathBuf,
    #[command(flatten)]
    pub wrapping: super::secrets::PassphraseArgs,
    #[command(flatten)]
    pub new: super::secrets::NewPassphraseArgs,
}
