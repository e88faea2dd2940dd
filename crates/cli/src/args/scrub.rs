//! `atrest scrub`.

use std::path::PathBuf;

use clap::Args;

use super::open::UnlockArgs;

/// Read a whole volume, and list the data units that can't be read or whose tags are wrong. Exit code 4 if there are any.
///
/// Only a volume with tags (`format --integrity`) tells changed data from right data. Nothing is written: a journal that a crash left is
/// read as it will be replayed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest scrub secret.img
  atrest scrub --json --key-file key /dev/sdx1")]
pub struct ScrubArgs {
    /// File or block device that holds the volume.
    pub path: PathBuf,
    /// Threads that read and check at a time. By default as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}
