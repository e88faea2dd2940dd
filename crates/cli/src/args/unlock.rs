//! `atrest unlock`.

use std::path::PathBuf;

use clap::Args;

/// Unlock what crypttab and the kernel command line ask for, as block devices of the kernel.
///
/// Waits for devices, finds key files, asks for passphrases and maps each volume to /dev/mapper/NAME; needs root, and no udev.
/// What can't be opened is told, and the others are opened. The files are those of crypttab(5).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest unlock                      # all of /etc/crypttab, those with noauto aside
  atrest unlock home data            # these, and what they need
  atrest unlock --crypttab ./crypttab --device-timeout 10 --json
  atrest unlock --no-crypttab --cmdline /proc/cmdline")]
pub struct BootUnlockArgs {
    /// Only the volumes of these names, and those that their keys or headers are on.
    pub names: Vec<String>,
    /// Read the volumes from this file.
    #[arg(long, value_name = "FILE", default_value = "/etc/crypttab")]
    pub crypttab: PathBuf,
    /// Read no crypttab.
    #[arg(long, conflicts_with = "crypttab")]
    pub no_crypttab: bool,
    /// Obey this kernel command line, too (luks.*, rd.luks.*, cryptdevice=) [default: none].
    #[arg(long, value_name = "FILE")]
    pub cmdline: Option<PathBuf>,
    /// Wait so long for devices for which nothing else is said; 0 is without end.
    #[arg(long, value_name = "SECONDS", default_value_t = 90)]
    pub device_timeout: u64,
    /// Ask for passphrases on this terminal [default: the one of this process, or else all consoles of the kernel].
    #[arg(long, value_name = "FILE", conflicts_with = "no_questions")]
    pub terminal: Option<PathBuf>,
    /// Ask for nothing: key files and scripts only.
    #[arg(long)]
    pub no_questions: bool,
}
