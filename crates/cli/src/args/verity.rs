//! `atrest verity`: data that is only read, and that a root hash vouches for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::open::TlsArgs;
use super::size::parse_size;

/// Make, check and open hash trees (dm-verity) over data that is only read.
#[derive(Debug, Subcommand)]
pub enum VerityCommand {
    Format(VerityFormatArgs),
    Verify(VerityVerifyArgs),
    Open(Box<VerityOpenArgs>),
    Dump(VerityDumpArgs),
}

/// Make a hash tree over the data, and print its root hash.
///
/// The root hash vouches for every byte of the data. Keep it where an attacker can't change it: the tree, its superblock and
/// the data need no protection then. The data is not changed, and not encrypted.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  atrest verity format root.img root.verity --root-hash-file root.hash
  atrest verity format root.img root.verity --fec-device root.fec --fec-roots 24
  atrest verity format disk.img disk.img --data-blocks 65536 --hash-offset 268435456")]
pub struct VerityFormatArgs {
    /// File or block device with the data.
    pub data: PathBuf,
    /// File or block device for the tree. A file that is not there is created.
    pub tree: PathBuf,
    /// UUID of the tree [default: a random one].
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Write the root hash to this file, too.
    #[arg(long, value_name = "FILE")]
    pub root_hash_file: Option<PathBuf>,
    /// Threads that hash [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub tree_args: TreeArgs,
    #[command(flatten)]
    pub place: TreePlaceArgs,
}

/// Read everything, and name the first block that is not as it was; with --all each of them.
///
/// Ends with 2 if a block was changed and can't be repaired, and with 1 if the root hash is that of another tree. Nothing is
/// written: a repaired block is as bad on its device as before.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  atrest verity verify root.img root.verity --root-hash-file root.hash
  atrest verity verify root.img root.verity --root-hash-file root.hash --all
  atrest verity verify root.img root.verity 9de18652fe74edfb9b805aaed72ae2aa48f94333f1ba5c452ac33b1c39325174
  atrest verity verify root.img root.verity --root-hash-file root.hash --fec-device root.fec")]
pub struct VerityVerifyArgs {
    /// File or block device with the data.
    pub data: PathBuf,
    /// File or block device with the tree.
    pub tree: PathBuf,
    #[command(flatten)]
    pub root: RootArgs,
    /// Go on behind a block that is bad and can't be repaired, and name all. Takes hours for noise that has parity.
    #[arg(long)]
    pub all: bool,
    /// Threads that hash [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub tree_args: TreeArgs,
    #[command(flatten)]
    pub place: TreePlaceArgs,
}

/// Serve the data, each block checked when it is read. A block that was changed is an I/O error, never data.
///
/// Runs until SIGTERM or SIGINT, until CMD of --run ends, or until `atrest close`, as `atrest open` does.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("verity_face").required(true).multiple(false).args(["nbd", "nbd_tcp", "fuse", "vhost_user"]),
    after_long_help = "\
Examples:
  atrest verity open root.img root.verity --root-hash-file root.hash --fuse mnt --daemon
  atrest verity open root.img root.verity --root-hash-file root.hash --nbd
  atrest verity open root.img root.verity --root-hash-file root.hash --nbd --run sh -c 'nbdinfo \"$ATREST_URI\"'")]
pub struct VerityOpenArgs {
    /// File or block device with the data.
    pub data: PathBuf,
    /// File or block device with the tree.
    pub tree: PathBuf,
    #[command(flatten)]
    pub root: RootArgs,
    /// Serve over NBD on a unix socket [default: NAME.sock in the session directory].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1)]
    pub nbd: Option<Option<PathBuf>>,
    /// Serve over NBD on this TCP address, such as 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR")]
    pub nbd_tcp: Option<std::net::SocketAddr>,
    /// Serve as the file `volume` in this empty directory through FUSE.
    #[arg(long, value_name = "DIR")]
    pub fuse: Option<PathBuf>,
    /// Serve as a virtio disk over vhost-user on this unix socket.
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Option<PathBuf>,
    /// Name of what is open [default: the file name of DATA without its extension].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Do not read blocks whose hash is that of zeros: they are zeros.
    #[arg(long)]
    pub ignore_zero_blocks: bool,
    /// Go on in the background once the data is served.
    #[arg(long)]
    pub daemon: bool,
    /// Threads that hash [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Tell requests, bytes, errors and latencies in Prometheus' text format on this unix socket.
    #[arg(long, value_name = "SOCKET")]
    pub metrics: Option<PathBuf>,
    #[command(flatten)]
    pub tls: VerityTlsArgs,
    #[command(flatten)]
    pub tree_args: TreeArgs,
    #[command(flatten)]
    pub place: TreePlaceArgs,
    /// Run a command that finds the data in $ATREST_URI, $ATREST_PATH or $ATREST_SOCKET, serve for as long as it runs and end
    /// with its exit code. Must come last.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, conflicts_with = "daemon",
          help_heading = None::<&'static str>)]
    pub run: Vec<OsString>,
}

/// Who may connect over TCP.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS (--nbd-tcp)")]
pub struct VerityTlsArgs {
    /// Serve nobody without TLS. DIR has server-cert.pem and server-key.pem.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nbd", "fuse"])]
    pub tls_cert: Option<PathBuf>,
    /// Serve nobody without a certificate that ca-cert.pem in DIR has signed.
    #[arg(long, requires = "tls_cert")]
    pub tls_verify_peer: bool,
    /// Serve other machines without TLS.
    #[arg(long, conflicts_with_all = ["nbd", "fuse", "tls_cert"])]
    pub insecure: bool,
}

impl From<&VerityTlsArgs> for TlsArgs {
    fn from(args: &VerityTlsArgs) -> Self {
        Self {
            tls_cert: args.tls_cert.clone(),
            tls_verify_peer: args.tls_verify_peer,
            insecure: args.insecure,
        }
    }
}

/// Show what the superblock says.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  atrest verity dump root.verity
  atrest verity dump disk.img --hash-offset 268435456")]
pub struct VerityDumpArgs {
    /// File or block device with the tree.
    pub tree: PathBuf,
    #[command(flatten)]
    pub place: TreePlaceArgs,
}

/// The root hash.
#[derive(Args, Clone, Debug, Default)]
pub struct RootArgs {
    /// The root hash, in hexadecimal digits.
    #[arg(value_name = "ROOT_HASH", required_unless_present = "root_hash_file")]
    pub root_hash: Option<String>,
    /// Read the root hash from this file.
    #[arg(long, value_name = "FILE", conflicts_with = "root_hash")]
    pub root_hash_file: Option<PathBuf>,
}

/// What the hashes depend on. A superblock says it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tree")]
pub struct TreeArgs {
    /// Hash [default: sha256].
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
    /// Salt in hexadecimal digits, or `-` for none [default: 32 random bytes].
    #[arg(long, value_name = "HEX", allow_hyphen_values = true)]
    pub salt: Option<String>,
    /// Hash type: 1, or 0 for that of Chrome OS [default: 1].
    #[arg(long = "format", value_name = "NUMBER")]
    pub hash_type: Option<u32>,
    /// Bytes in a block of the data [default: 4096]. The kernel takes no more than a page.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32))]
    pub data_block_size: Option<u32>,
    /// Bytes in a block of the tree [default: 4096].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32))]
    pub hash_block_size: Option<u32>,
    /// Blocks of data [default: as many as there are].
    #[arg(long, value_name = "N")]
    pub data_blocks: Option<u64>,
}

/// Where the tree and the parity of error correction are.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Places")]
pub struct TreePlaceArgs {
    /// Byte at which the superblock is, or the tree if there is none [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub hash_offset: Option<u64>,
    /// There is no superblock. Whoever opens the tree has to say what it depends on.
    #[arg(long)]
    pub no_superblock: bool,
    /// File or block device with the parity of error correction. Changed blocks are repaired with it.
    #[arg(long, value_name = "FILE")]
    pub fec_device: Option<PathBuf>,
    /// Byte at which the parity begins [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "fec_device")]
    pub fec_offset: Option<u64>,
    /// Bytes of parity for each 255 bytes: 2 to 24 [default: 2].
    #[arg(long, value_name = "N", requires = "fec_device")]
    pub fec_roots: Option<u32>,
}
