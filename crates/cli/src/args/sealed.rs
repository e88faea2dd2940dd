//! `atrest snapshot` and `gc`: sealed volumes, by the URL of their store.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::open::UnlockArgs;

/// Keep, list and give up states of a sealed volume.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    Add(SnapshotAddArgs),
    Remove(SnapshotRemoveArgs),
    List(SnapshotListArgs),
}

/// Keep the present state of a sealed volume under a name. It costs a few small objects, whatever the volume holds.
///
/// The volume must not be open for writing. `--snapshot NAME` reads it, with every command that opens a volume.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest snapshot add file:///srv/volume monday --store volume.store
  atrest ls file:///srv/volume --snapshot monday --store volume.store")]
pub struct SnapshotAddArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    /// Name of the snapshot, of 255 bytes at most.
    pub name: String,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Give up a snapshot of a sealed volume. `gc` frees what it alone needs.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest snapshot remove file:///srv/volume monday --store volume.store")]
pub struct SnapshotRemoveArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    /// Name of the snapshot.
    pub name: String,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// List the snapshots of a sealed volume, the oldest first.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest snapshot list file:///srv/volume --store volume.store")]
pub struct SnapshotListArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Free room in the store of a sealed volume: delete the objects that nothing needs any more.
///
/// Blocks that are in use are first moved out of objects that are mostly dead. The volume must not be open for writing.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest gc file:///srv/volume --store volume.store
  atrest gc --dry-run file:///srv/volume --store volume.store")]
pub struct GcArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    /// Move the blocks of an object if at most so many of a hundred are in use.
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub most_live: u8,
    /// Say how much is dead, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}
