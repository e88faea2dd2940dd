//! `atrest suspend`, `resume` and `resize`: what is done to a volume that the kernel has open.

use std::path::PathBuf;

use clap::Args;

use super::open::UnlockArgs;
use super::secrets::{SecretArgs, TokenArgs};
use super::size::parse_size;

/// Stop all reads and writes of a mapping of the kernel (LUKS) and wipe its key out of the kernel's memory, until `atrest resume`.
///
/// What was written before is on the media. Programs that read or write wait. The volume can't be read from the machine's memory
/// meanwhile, but for what the system has cached of it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest suspend secret && systemctl suspend")]
pub struct SuspendArgs {
    /// Name of the mapping.
    pub name: String,
}

/// How a volume is unlocked that the kernel has open.
#[derive(Args, Clone, Debug, Default)]
pub struct AgainArgs {
    /// The header lies in this file instead of in front of the data.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
}

impl AgainArgs {
    /// Options of a volume that is opened, with what was said here.
    pub fn unlock(&self) -> UnlockArgs {
        UnlockArgs {
            header: self.header.clone(),
            key_slot: self.key_slot,
            secret: self.secret.clone(),
            tokens: self.tokens.clone(),
            ..UnlockArgs::default()
        }
    }
}

/// Give a suspended mapping its key back: its reads and writes go on.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest resume secret
  atrest resume secret --key-file key.bin")]
pub struct ResumeArgs {
    /// Name of the mapping.
    pub name: String,
    /// Keep the key of a LUKS2 volume out of the kernel's keyring: `dmsetup table --showkeys` shows it then.
    #[arg(long)]
    pub disable_keyring: bool,
    #[command(flatten)]
    pub again: AgainArgs,
}

/// Show another number of bytes of a device in a mapping of the kernel: without --size, all that the device has by now.
///
/// The file system in it is to be made smaller before, or larger afterwards. What is not shown any more stays on the device.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest resize secret
  atrest resize secret --size 10G")]
pub struct ResizeArgs {
    /// Name of the mapping.
    pub name: String,
    /// Bytes of plaintext, in whole data units (units: K, M, G, T; bytes without one).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub again: AgainArgs,
}
