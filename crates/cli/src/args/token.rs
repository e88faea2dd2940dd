//! `atrest token …`: the JSON objects in a LUKS2 header that say how else a keyslot can be opened.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::key::TargetArgs;
use super::secrets::PassphraseArgs;

/// List, add, export, import and remove the tokens of a LUKS2 header.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    List(TokenListArgs),
    Add(TokenAddArgs),
    Export(TokenExportArgs),
    Import(TokenImportArgs),
    Remove(TokenRemoveArgs),
    Unassign(TokenUnassignArgs),
}

/// List the tokens.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token list secret.img
  atrest token list --json secret.img")]
pub struct TokenListArgs {
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Store a token that names a key in the kernel's keyring, in which the passphrase is found.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token add secret.img --key-description shelf:secret
  atrest token add secret.img --key-description shelf:secret --key-slot 1 --token-id 3")]
pub struct TokenAddArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Description of the key.
    #[arg(long, value_name = "TEXT")]
    pub key_description: String,
    /// Keyslot that the passphrase opens [default: all that are in use].
    #[arg(long, short = 'S', value_name = "N", conflicts_with = "unbound")]
    pub key_slot: Option<u32>,
    /// The token opens no keyslot yet.
    #[arg(long)]
    pub unbound: bool,
    /// Number of the token [default: the first free one].
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,
    /// Replace the token that has this number.
    #[arg(long, requires = "token_id")]
    pub token_replace: bool,
}

/// Write one token as JSON to a new file (mode 0600) or to standard output.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token export secret.img 0
  atrest token export secret.img 0 token.json")]
pub struct TokenExportArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the token.
    pub id: u32,
    /// File to create; it must not exist [default: standard output].
    pub file: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "file")]
    pub overwrite: bool,
}

/// Store a token, read as JSON from a file or from standard input.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token import secret.img token.json
  atrest token import secret.img --token-id 3 < token.json")]
pub struct TokenImportArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// File with the JSON object [default: standard input].
    pub file: Option<PathBuf>,
    /// Number of the token [default: the first free one].
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,
    /// Replace the token that has this number.
    #[arg(long, requires = "token_id")]
    pub token_replace: bool,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Remove a token.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token remove secret.img 0
  atrest token remove secret.img 0 --yes")]
pub struct TokenRemoveArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the token.
    pub id: u32,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Let a token not open a keyslot any more. The keyslot stays.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest token unassign secret.img 0 1
  atrest token unassign secret.img 0 1 --key-file key.bin")]
pub struct TokenUnassignArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the token.
    pub id: u32,
    /// Number of the keyslot.
    pub slot: u32,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}
