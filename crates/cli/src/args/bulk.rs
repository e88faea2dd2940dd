//! `atrest encrypt` and `decrypt`: a whole volume at once.

use std::path::PathBuf;

use clap::Args;

use super::open::UnlockArgs;
use super::reencrypt::InPlaceArgs;

/// Fill a volume with the contents of a file, block device or stream, or encrypt a device where it is.
///
/// The volume must exist (`atrest format`) and its plaintext be at least as large as SRC. With --in-place there is no second volume:
/// SRC becomes one, by LUKS2's own re-encryption, which --resume and cryptsetup go on with after an interruption.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest encrypt disk.raw secret.img
  atrest encrypt --resume disk.raw secret.img
  zstdcat disk.zst | atrest encrypt - secret.img
  atrest encrypt nbd://192.0.2.7/disk secret.img
  atrest encrypt --json --key-file key.bin disk.raw secret.img --yes
  resize2fs /dev/sdx1 900M && atrest encrypt --in-place --reduce-device-size 32M /dev/sdx1
  atrest encrypt --in-place --header head.img /dev/sdx1
  atrest encrypt --in-place --header head.img --data-offset 16M /dev/sdx1
  atrest encrypt --in-place --resume /dev/sdx1")]
pub struct EncryptArgs {
    /// Plaintext: a file, block device or NBD URI, or - for standard input.
    pub source: PathBuf,
    /// The volume to fill.
    #[arg(required_unless_present = "in_place")]
    pub volume: Option<PathBuf>,
    #[command(flatten)]
    pub how: BulkArgs,
    #[command(flatten)]
    pub in_place: InPlaceArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Write the whole plaintext of a volume to a file (mode 0600), block device or stream.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest decrypt secret.img disk.raw
  atrest decrypt --resume secret.img disk.raw
  atrest decrypt secret.img - | zstd > disk.zst
  atrest decrypt 'nbds://192.0.2.7/disk?tls-certificates=/home/me/pki' disk.raw")]
pub struct DecryptArgs {
    /// The volume to read: a file, block device or NBD URI, or - for standard input.
    pub volume: PathBuf,
    /// Where the plaintext goes: a file, block device or NBD URI, or - for standard output.
    pub destination: PathBuf,
    #[command(flatten)]
    pub how: BulkArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// How a bulk run is done.
#[derive(Args, Clone, Debug)]
pub struct BulkArgs {
    /// Go on where an interrupted run stopped.
    #[arg(long)]
    pub resume: bool,
    /// Keep no checkpoint, where none can be written. An interrupted run has to start again.
    #[arg(long, conflicts_with = "resume")]
    pub no_checkpoint: bool,
    /// Threads that encrypt and decrypt [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}
