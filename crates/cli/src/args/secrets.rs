//! Where passphrases and volume keys come from. Nothing secret is ever an argument: only names of files and
//! numbers of file descriptors are.

use std::path::PathBuf;

use atrest_engine::keyring;
use clap::Args;

use super::factor::parse_factor_file;
use super::size::parse_size;
use crate::failure::Failure;

/// The passphrase that opens a volume (or, for `format`, the one it gets).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Passphrase")]
pub struct PassphraseArgs {
    /// Take the passphrase from this file, every byte of it; `-` reads standard input to its end.
    #[arg(long, short = 'd', value_name = "FILE", conflicts_with = "passphrase_fd")]
    pub key_file: Option<PathBuf>,
    /// Skip this many bytes of the key file.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "key_file")]
    pub keyfile_offset: Option<u64>,
    /// Use at most this many bytes of the key file.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "key_file")]
    pub keyfile_size: Option<u64>,
    /// Read the passphrase from this open file descriptor to its end; one trailing newline is left out.
    #[arg(long, value_name = "N")]
    pub passphrase_fd: Option<u32>,
    /// Take the passphrase from the key of type user with this description in the kernel's keyring.
    #[arg(long, value_name = "DESCRIPTION", conflicts_with_all = ["key_file", "passphrase_fd"])]
    pub key_description: Option<String>,
    /// The passphrase is words as `atrest passphrase` makes them: type at least four letters of each, in any case and spacing.
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd", "key_description"])]
    pub words: bool,
    /// Ask on the terminal for every passphrase twice, and stop if the two differ. A new passphrase is asked for twice in any case. Has no
    /// effect on what comes from a file or descriptor.
    #[arg(long, short = 'y')]
    pub verify_passphrase: bool,
}

/// The passphrase or the volume key that opens a volume.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Passphrase")]
pub struct SecretArgs {
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
    /// Open with the volume key in this file instead of a passphrase. In BitLocker and FileVault nothing verifies it: such a volume is written
    /// only if it begins as a file system does.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_file", "passphrase_fd", "key_description", "words"])]
    pub volume_key_file: Option<PathBuf>,
    /// Open with the volume key that is this key of the kernel's keyring: a number, %TYPE:DESCRIPTION, or the description of one of type
    /// user.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["key_file", "passphrase_fd", "key_description", "words", "volume_key_file"])]
    pub volume_key_keyring: Option<keyring::Name>,
}

/// Tokens of the header, which may have the passphrase (LUKS2).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tokens (LUKS2)")]
pub struct TokenArgs {
    /// Take the passphrase from this token of the header.
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,
    /// Take the passphrase from a token of this type, such as luks2-keyring.
    #[arg(long, value_name = "TYPE")]
    pub token_type: Option<String>,
    /// Take the passphrase from a token, and ask for none where none has it.
    #[arg(long)]
    pub token_only: bool,
    /// Take the PIN of a token from this file, every byte of it, instead of asking.
    #[arg(long, value_name = "FILE")]
    pub token_pin_file: Option<PathBuf>,
    /// Take the PIN or passphrase of one of several factors from this file, every byte of it, as in 2=pin.txt. `atrest key list` shows the
    /// numbers. May be given several times.
    #[arg(long, value_name = "N=FILE", value_parser = parse_factor_file)]
    pub factor_file: Vec<(u8, PathBuf)>,
}

impl TokenArgs {
    /// Whether one of them is there.
    pub fn are_named(&self) -> bool {
        self.token_id.is_some()
            || self.token_type.is_some()
            || self.token_only
            || self.token_pin_file.is_some()
            || !self.factor_file.is_empty()
    }

    /// Fails if there is a volume key as well, which needs no passphrase.
    pub fn check(&self, secret: &SecretArgs) -> Result<(), Failure> {
        match self.are_named() && secret.has_volume_key() {
            true => Err(Failure::parameters(
                "a volume key is the key itself: --token-id, --token-type and --token-only do not go with it",
            )),
            false => Ok(()),
        }
    }
}

impl SecretArgs {
    /// Whether no option says where a secret comes from, so that it would be asked for.
    pub fn are_none(&self) -> bool {
        self.passphrase.key_file.is_none()
            && self.passphrase.passphrase_fd.is_none()
            && self.passphrase.key_description.is_none()
            && !self.has_volume_key()
    }

    /// Whether the volume key itself is named.
    pub fn has_volume_key(&self) -> bool {
        self.volume_key_file.is_some() || self.volume_key_keyring.is_some()
    }
}

/// The passphrase that a keyslot gets.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "New passphrase")]
pub struct NewPassphraseArgs {
    /// Take the new passphrase from this file, every byte of it; `-` reads standard input to its end.
    #[arg(long, value_name = "FILE", conflicts_with = "new_passphrase_fd")]
    pub new_key_file: Option<PathBuf>,
    /// Skip this many bytes of the new key file.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "new_key_file")]
    pub new_keyfile_offset: Option<u64>,
    /// Use at most this many bytes of the new key file.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "new_key_file")]
    pub new_keyfile_size: Option<u64>,
    /// Read the new passphrase from this open file descriptor to its end; one trailing newline is left out.
    #[arg(long, value_name = "N")]
    pub new_passphrase_fd: Option<u32>,
    /// Take the new passphrase from the key of type user with this description in the kernel's keyring.
    #[arg(long, value_name = "DESCRIPTION", conflicts_with_all = ["new_key_file", "new_passphrase_fd"])]
    pub new_key_description: Option<String>,
    /// The new passphrase is words: type at least four letters of each, in any case and spacing.
    #[arg(long, conflicts_with_all = ["new_key_file", "new_passphrase_fd", "new_key_description"])]
    pub new_words: bool,
}
