//! `atrest convert`: a volume of another format, where it is or as a copy.

use std::path::PathBuf;

use clap::Args;

use super::bulk::BulkArgs;
use super::format::{PbkdfArgs, PbkdfKind};
use super::header::LuksVersion;
use super::open::{PlainArgs, TcryptArgs, UnlockArgs, VolumeType};
use super::secrets::{NewPassphraseArgs, PassphraseArgs, SecretArgs, TokenArgs};

/// Copy a volume of any format into a new one of LUKS2, or make LUKS1 of LUKS2 where it is, or the other way round.
///
/// With DST its volume gets a fresh volume key, the new passphrase and all of the plaintext, and is then compared with SRC byte by
/// byte. SRC is only read. A run that was interrupted goes on with --resume. DST is created (mode 0600) or, if it exists, used as
/// large as it is, which is 16 MiB more than the plaintext at least.
///
/// Without DST, data, volume key and passphrases stay. A power loss at any moment leaves a volume of one version or the other that
/// opens with every passphrase. What the other version can't express is refused, and nothing is written then.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest convert secret.img --type luks2
  atrest header backup secret.img secret.header && atrest convert secret.img --type luks1
  atrest convert --from tcrypt old.hc new.img
  atrest convert --from loopaes --key-file keys.gpg old.loop new.img --new-key-file key
  atrest convert --from tcrypt --resume old.hc new.img")]
pub struct ConvertArgs {
    /// File, block device or NBD URI that holds the volume.
    #[arg(value_name = "SRC")]
    pub path: PathBuf,
    /// File or block device that becomes a volume of LUKS2 with the same contents.
    #[arg(value_name = "DST", required_unless_present = "kind")]
    pub destination: Option<PathBuf>,
    /// Without DST: the version that SRC is to be of.
    #[arg(long = "type", value_name = "TYPE", value_enum, conflicts_with = "destination")]
    pub kind: Option<LuksVersion>,
    /// Kind of the volume SRC. `luks` detects whether it is LUKS1 or LUKS2.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = VolumeType::Luks)]
    pub from: VolumeType,
    /// The header of SRC lies in this file instead of in front of the data.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Trusted store of a sealed volume, which can't be converted.
    #[arg(long, value_name = "FILE", hide = true)]
    pub store: Option<PathBuf>,
    /// Try this keyslot of SRC only.
    #[arg(long, short = 'S', value_name = "N", requires = "destination")]
    pub key_slot: Option<u32>,
    #[command(flatten)]
    pub how: BulkArgs,
    #[command(flatten)]
    pub plain: PlainArgs,
    #[command(flatten)]
    pub tcrypt: TcryptArgs,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
    #[command(flatten)]
    pub new: NewPassphraseArgs,
    #[command(flatten)]
    pub keyslot: NewKeyslotArgs,
}

/// How the passphrase of a new volume is stretched.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "New passphrase")]
pub struct NewKeyslotArgs {
    /// Function that stretches the new passphrase [default: argon2id].
    #[arg(long, value_name = "KIND", value_enum)]
    pub pbkdf: Option<PbkdfKind>,
    /// Time that one try of the new passphrase shall take on this machine [default: 2000].
    #[arg(long, short = 'i', value_name = "MS", conflicts_with = "pbkdf_force_iterations")]
    pub iter_time: Option<u32>,
    /// Memory of Argon2 at most, in KiB.
    #[arg(long, value_name = "KIB")]
    pub pbkdf_memory: Option<u32>,
    /// Lanes of Argon2 at most.
    #[arg(long, value_name = "N")]
    pub pbkdf_parallel: Option<u32>,
    /// Use exactly this many iterations (passes, for Argon2) and measure nothing.
    #[arg(long, value_name = "N")]
    pub pbkdf_force_iterations: Option<u32>,
}

impl ConvertArgs {
    /// How SRC is unlocked.
    pub fn source(&self) -> UnlockArgs {
        UnlockArgs {
            kind: self.from,
            header: self.header.clone(),
            store: self.store.clone(),
            key_slot: self.key_slot,
            plain: self.plain.clone(),
            tcrypt: self.tcrypt.clone(),
            secret: self.secret.clone(),
            tokens: self.tokens.clone(),
            ..UnlockArgs::default()
        }
    }

    /// How DST is unlocked again.
    pub fn copy(&self) -> UnlockArgs {
        let passphrase = PassphraseArgs {
            key_file: self.new.new_key_file.clone(),
            keyfile_offset: self.new.new_keyfile_offset,
            keyfile_size: self.new.new_keyfile_size,
            passphrase_fd: self.new.new_passphrase_fd,
            key_description: self.new.new_key_description.clone(),
            passphrase_from: None,
            words: self.new.new_words,
            verify_passphrase: false,
        };
        let secret = SecretArgs { passphrase, volume_key_file: None, volume_key_keyring: None };
        UnlockArgs { secret, ..UnlockArgs::default() }
    }
}

impl NewKeyslotArgs {
    pub fn pbkdf(&self) -> PbkdfArgs {
        PbkdfArgs {
            pbkdf: self.pbkdf,
            iter_time: self.iter_time,
            pbkdf_memory: self.pbkdf_memory,
            pbkdf_parallel: self.pbkdf_parallel,
            pbkdf_force_iterations: self.pbkdf_force_iterations,
            ..PbkdfArgs::default()
        }
    }
}
