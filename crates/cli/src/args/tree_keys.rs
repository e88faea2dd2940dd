//! `atrest tree unlock`, `lock` and `keys`: fscrypt's keys of a filesystem that is mounted.

use std::path::PathBuf;

use atrest_filetree::KeyName;
use clap::Args;

use super::fscrypt::FscryptArgs;

/// Give a mounted filesystem master keys of fscrypt: what is encrypted under them can be read from then on.
///
/// The process that `atrest mount` started keeps them, in locked memory, until `atrest tree lock` or its end.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest mount home.img mnt --daemon
  atrest tree unlock home --fscrypt-key master.key
  atrest tree unlock home --fscrypt-protector alice
  atrest tree unlock home.img --fscrypt-key 0123456789abcdef=v1.key")]
pub struct TreeUnlockArgs {
    /// Name of the mounted volume as `atrest status` shows it, or its path.
    pub name: PathBuf,
    #[command(flatten)]
    pub fscrypt: FscryptArgs,
}

/// Take master keys of fscrypt from a mounted filesystem: what is encrypted under them is shown as without a key from then on.
///
/// Programs that have files open find them unreadable; what they have read already is theirs.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree lock home
  atrest tree lock home 69b2f6edeee720cce0577937eb8a6751")]
pub struct TreeLockArgs {
    /// Name of the mounted volume as `atrest status` shows it, or its path.
    pub name: PathBuf,
    /// Identifiers or descriptors of keys, as `atrest tree keys` shows them [default: all].
    pub keys: Vec<KeyName>,
}

/// Show which master keys of fscrypt a mounted filesystem has.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree keys home
  atrest tree keys --json home")]
pub struct TreeKeysArgs {
    /// Name of the mounted volume as `atrest status` shows it, or its path.
    pub name: PathBuf,
}
