//! Where passphrases and volume keys come from. Nothing secret is ever an argument: only names of files and
//! numbers of file descriptors are.

use std::path::PathBuf;
use std::str::FromStr;

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
    /// Take the passphrase from a keyring: keyring:DESCRIPTION is a key of the kernel's, secret-service:ID a secret of the desktop's. Without
    /// DESCRIPTION or ID it is the one that `atrest key remember` stored for the volume.
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["key_file", "passphrase_fd", "key_description"])]
    pub passphrase_from: Option<PassphraseFrom>,
    /// The passphrase is words as `atrest passphrase` makes them: type at least four letters of each, in any case and spacing.
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd", "key_description", "passphrase_from"])]
    pub words: bool,
    /// Ask on the terminal for every passphrase twice, and stop if the two differ. A new passphrase is asked for twice in any case. Has no
    /// effect on what comes from a file or descriptor.
    #[arg(long, short = 'y')]
    pub verify_passphrase: bool,
}

impl PassphraseArgs {
    /// Whether no option says where it comes from, so that somebody is asked.
    pub fn is_asked_for(&self) -> bool {
        self.key_file.is_none()
            && self.passphrase_fd.is_none()
            && self.key_description.is_none()
            && self.passphrase_from.is_none()
    }
}

/// Where a passphrase is kept that nobody has to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassphraseFrom {
    /// A key of type `user` with this description, in the kernel's keyring.
    Keyring(Option<String>),
    /// A secret of the desktop's secret service, with this identifier.
    SecretService(Option<String>),
}

impl PassphraseFrom {
    /// Says which volume is meant, where nothing else was said.
    pub fn identify(&mut self, uuid: &str) {
        match self {
            Self::Keyring(place @ None) => *place = Some(format!("atrest:{uuid}")),
            Self::SecretService(place @ None) => *place = Some(uuid.to_owned()),
            Self::Keyring(Some(_)) | Self::SecretService(Some(_)) => {}
        }
    }
}

impl FromStr for PassphraseFrom {
    type Err = &'static str;

    /// The error does not repeat the text: who has misunderstood the option may have written the passphrase itself.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (place, name) = match text.split_once(':') {
            Some((place, name)) => (place, Some(name)),
            None => (text, None),
        };
        let name = match name {
            Some(name) if name.is_empty() || name.contains('\0') => return Err(PLACES),
            name => name.map(str::to_owned),
        };
        match place {
            "keyring" => Ok(Self::Keyring(name)),
            "secret-service" => Ok(Self::SecretService(name)),
            _ => Err(PLACES),
        }
    }
}

/// What --passphrase-from is.
pub const PLACES: &str = "it is keyring, keyring:DESCRIPTION, secret-service or secret-service:ID";

/// The passphrase or the volume key that opens a volume.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Passphrase")]
pub struct SecretArgs {
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
    /// Open with the volume key in this file instead of a passphrase. In BitLocker and FileVault nothing verifies it: such a volume is written
    /// only if it begins as a filesystem does.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_file", "passphrase_fd", "key_description", "passphrase_from", "words"])]
    pub volume_key_file: Option<PathBuf>,
    /// Open with the volume key that is this key of the kernel's keyring: a number, %TYPE:DESCRIPTION, or the description of one of type
    /// user.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["key_file", "passphrase_fd", "key_description", "passphrase_from", "words", "volume_key_file"])]
    pub volume_key_keyring: Option<keyring::Name>,
}

/// What opens a keyslot: a passphrase or a token, or what stands for both, the volume key.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyslotArgs {
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
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
        self.passphrase.is_asked_for() && !self.has_volume_key()
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
