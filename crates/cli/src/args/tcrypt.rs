//! What the commands that write headers of TrueCrypt and VeraCrypt are told.

use std::path::PathBuf;

use clap::Args;

use super::open::{TcryptArgs, VolumeType};
use super::size::parse_size;

/// What a new VeraCrypt volume is made of.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "VeraCrypt (--type veracrypt)")]
pub struct NewTcryptArgs {
    /// Mix this key file into the new password; of a directory every file that is not hidden. Can be said several times, in any order.
    #[arg(long, value_name = "PATH")]
    pub tcrypt_keyfile: Vec<PathBuf>,
    /// VeraCrypt's personal iterations multiplier: 1000 times this and 15000 are the iterations [default: 485].
    #[arg(long, value_name = "PIM")]
    pub veracrypt_pim: Option<u32>,
    /// Make a hidden volume of this size, too, at the end of the data. It has the ciphers, the hash, the PIM and the key files of the outer one, and a
    /// password of its own.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub hidden_size: Option<u64>,
    /// Take the hidden volume's password from this file, every byte of it [default: ask].
    #[arg(long, value_name = "FILE", requires = "hidden_size")]
    pub hidden_key_file: Option<PathBuf>,
    /// Leave what is on the device where the data goes, instead of covering it with noise. It shows how much was written since.
    #[arg(long, conflicts_with = "hidden_size")]
    pub quick: bool,
}

impl NewTcryptArgs {
    /// Whether nothing is said.
    pub fn are_none(&self) -> bool {
        self.tcrypt_keyfile.is_empty()
            && self.veracrypt_pim.is_none()
            && self.hidden_size.is_none()
            && !self.quick
    }
}

/// What a hidden volume opens with that is not to be written over.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Hidden volume that is protected (--type tcrypt)")]
pub struct ProtectArgs {
    /// Open the hidden volume, too, and write nothing into it. The first write that would is refused, and so is every other one after it.
    #[arg(long, conflicts_with_all = ["tcrypt_hidden", "tcrypt_system"])]
    pub protect_hidden: bool,
    /// Take the hidden volume's password from this file, every byte of it [default: ask].
    #[arg(long, value_name = "FILE", requires = "protect_hidden")]
    pub protect_key_file: Option<PathBuf>,
    /// PIM of the hidden volume.
    #[arg(long, value_name = "PIM", requires = "protect_hidden")]
    pub protect_pim: Option<u32>,
    /// Mix this key file into the hidden volume's password. Those of the outer one are left out.
    #[arg(long, value_name = "PATH", requires = "protect_hidden")]
    pub protect_tcrypt_keyfile: Vec<PathBuf>,
}

/// A volume of TrueCrypt or VeraCrypt, whose header is shown or changed.
#[derive(Args, Clone, Debug, Default)]
pub struct TcryptTargetArgs {
    /// Kind of volume: luks (and encrypted flash, which is recognised), tcrypt, truecrypt, veracrypt.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = VolumeType::Luks, hide_possible_values = true)]
    pub kind: VolumeType,
    #[command(flatten)]
    pub tcrypt: TcryptArgs,
}

/// What is tried of a header that tells nothing.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TrueCrypt and VeraCrypt (--type tcrypt)")]
pub struct NarrowArgs {
    /// Try only the ciphers and cascades that have this in their name.
    #[arg(long, short = 'c', value_name = "NAME")]
    pub cipher: Option<String>,
    /// Try only the derivations that have this in their hash's name.
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
}

impl NarrowArgs {
    /// Whether nothing is said.
    pub fn are_none(&self) -> bool {
        self.cipher.is_none() && self.hash.is_none()
    }
}

/// The password that a volume of TrueCrypt or VeraCrypt gets instead.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TrueCrypt and VeraCrypt (--type tcrypt)")]
pub struct ChangedTcryptArgs {
    /// With the old password try only the derivations that have this in their hash's name. --hash is the new one's.
    #[arg(long, value_name = "HASH")]
    pub old_hash: Option<String>,
    /// Mix this key file into the new password. Those of the old one are left out.
    #[arg(long, value_name = "PATH")]
    pub new_tcrypt_keyfile: Vec<PathBuf>,
    /// PIM of the new password [default: none].
    #[arg(long, value_name = "PIM")]
    pub new_veracrypt_pim: Option<u32>,
}
