//! `atrest suspend`, `resume` and `resize`: what is done to a volume that is open.

use std::path::PathBuf;

use atrest_engine::keyring;
use clap::Args;

use super::open::UnlockArgs;
use super::secrets::KeyslotArgs;
use super::size::parse_size;

/// Stop all reads and writes of a LUKS volume that is open, and wipe its key from memory, until `atrest resume`.
///
/// The volume is a mapping of the kernel (`open --dm`) or is served by `atrest open`. What was written before is on the media. Programs
/// that read or write wait. Nobody can read the volume from the machine's memory meanwhile, except what the system has cached of it.
/// If what a process serves is closed meanwhile, requests that wait fail, and `close` says so.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest suspend secret
  atrest suspend secret && systemctl suspend")]
pub struct SuspendArgs {
    /// Name of the mapping, or of the volume that `atrest status` lists.
    pub name: String,
}

/// How a volume is unlocked that the kernel has open.
#[derive(Args, Clone, Debug, Default)]
pub struct AgainArgs {
    /// The header lies in this file instead of in front of the data.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    #[command(flatten)]
    pub by: KeyslotArgs,
}

impl AgainArgs {
    /// Options of a volume that is opened, with what was said here.
    pub fn unlock(&self) -> UnlockArgs {
        UnlockArgs {
            header: self.header.clone(),
            key_slot: self.by.key_slot,
            secret: self.by.secret.clone(),
            tokens: self.by.tokens.clone(),
            ..UnlockArgs::default()
        }
    }
}

/// Give a suspended volume its key back: its reads and writes go on.
///
/// The key must be the one that it had before. With a wrong passphrase it stays suspended.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest resume secret
  atrest resume secret --key-file key.bin")]
pub struct ResumeArgs {
    /// Name of the mapping, or of the volume that `atrest status` lists.
    pub name: String,
    /// Keep the key of a LUKS2 volume out of the kernel's keyring: `dmsetup table --showkeys` shows it then.
    #[arg(long)]
    pub disable_keyring: bool,
    /// Put the volume key into a keyring of the kernel, for whoever may read it there: KEYRING::KEY. The keyring is its number, @s (of this
    /// session), @u (of this user), @us or %:DESCRIPTION. The key is %user:DESCRIPTION, %logon:DESCRIPTION (which only the kernel reads) or
    /// DESCRIPTION. It stays there when the volume is closed.
    #[arg(long, value_name = "KEYRING::KEY")]
    pub link_vk_to_keyring: Option<keyring::Place>,
    #[command(flatten)]
    pub again: AgainArgs,
}

/// Show another number of bytes of a volume that is open: without --size, all that its device has room for by now.
///
/// The volume is a mapping of the kernel or is served by `atrest open`. Make the filesystem in it smaller before, or larger afterwards. What is not
/// shown any more stays on the device. A file that a process serves has its new size at once, clients of NBD see it when they connect
/// again, and virtual machines when they start again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest resize secret
  atrest resize secret --size 10G
  atrest resize file:///srv/volume --size 4T --store volume.store")]
pub struct ResizeArgs {
    /// Name of the mapping, or of the volume that `atrest status` lists. Of a sealed volume that is not open, the URL of its store.
    pub name: String,
    /// Trusted store of a sealed volume.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Bytes of plaintext, in whole data units (units: K, M, G, T; bytes without one).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub again: AgainArgs,
}
