//! `atrest snapshot` and `gc`: sealed volumes, by the URL of their store.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::format::PbkdfArgs;
use super::open::UnlockArgs;
use super::secrets::{NewPassphraseArgs, SecretArgs};

/// Keep, list and give up states of a sealed volume.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    Add(SnapshotAddArgs),
    Remove(SnapshotRemoveArgs),
    Release(SnapshotReleaseArgs),
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

/// Give up a snapshot of a sealed volume. `gc` frees what it alone needs. One that clones need is kept.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest snapshot remove file:///srv/volume monday --store volume.store
  atrest snapshot remove s3://disks/laptop monday --store laptop.store")]
pub struct SnapshotRemoveArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    /// Name of the snapshot.
    pub name: String,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Keep no snapshot for a clone any more: it was flattened or deleted.
///
/// A clone that still needs the snapshot is lost once the snapshot is removed and its room is freed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest flatten file:///srv/clone --store clone.store
  atrest snapshot release file:///srv/volume 9f2c…41 --store volume.store")]
pub struct SnapshotReleaseArgs {
    /// URL of the store that holds the volume, not the clone.
    pub path: PathBuf,
    /// Identifier of the clone, as `clone`, `flatten` and `snapshot list` print it.
    #[arg(value_name = "ID")]
    pub clone_id: String,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// List the snapshots of a sealed volume, the oldest first, and the clones for which they are kept.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest snapshot list file:///srv/volume --store volume.store
  atrest snapshot list --json file:///srv/volume --store volume.store")]
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
    #[arg(long, value_name = "PERCENT", default_value_t = 75, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub most_live: u8,
    /// Say how much is dead, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// The passphrase that opens a sealed volume, and the one that is set.
#[derive(Args, Debug)]
pub struct TwoKeysArgs {
    #[command(flatten)]
    pub new_passphrase: NewPassphraseArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
    /// Trusted store of the volume.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub secret: SecretArgs,
}

/// Make a new sealed volume that begins with what a snapshot of another one holds. Nothing is copied.
///
/// The clone has a key and a passphrase of its own. It reads what it has not written itself from the other volume's objects, whose key it keeps
/// sealed: that volume must stay where its URL says, and keeps the snapshot until `flatten` and `snapshot release`. Neither may be open for writing.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest clone file:///srv/volume monday file:///srv/clone --store v.store --new-store clone.store
  atrest clone s3://disks/a monday s3://disks/b --store a.store --new-store b.store")]
pub struct CloneArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    /// Name of the snapshot.
    pub name: String,
    /// URL of the clone, a directory that does not exist or is empty.
    pub to: PathBuf,
    /// Trusted store of the clone, a file that does not exist or is empty.
    #[arg(long, value_name = "FILE")]
    pub new_store: Option<PathBuf>,
    #[command(flatten)]
    pub keys: TwoKeysArgs,
}

/// Copy what a clone needs of another volume into the clone, so that it stands alone.
///
/// With snapshots of its own it still needs the other volume: remove them, free their room with `gc`, and run `flatten` again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest flatten file:///srv/clone --store clone.store
  atrest flatten s3://disks/clone --store clone.store")]
pub struct FlattenArgs {
    /// URL of the store that holds the clone.
    pub path: PathBuf,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

/// Give a sealed volume another volume key, and seal everything in it anew.
///
/// Its header is replaced: a passphrase opens the volume that is asked for now, and all other passphrases and tokens are given up. Whoever has an
/// earlier volume key, a header of before and its passphrase for example, reads earlier copies of the objects, and nothing that is written from now
/// on. A crash before the header is stored leaves the old key, one afterwards the new: run it again then. While there are snapshots their old keys
/// are kept, sealed by the new one. The volume must not be open.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest rekey file:///srv/volume --store volume.store
  atrest rekey s3://disks/laptop --store laptop.store --key-file old.key --new-key-file new.key")]
pub struct RekeyArgs {
    /// URL of the store that holds the volume.
    pub path: PathBuf,
    #[command(flatten)]
    pub keys: TwoKeysArgs,
}
