//! `atrest tree`: file trees with encryption of their own.

use std::path::PathBuf;

use atrest_tree::fscrypt::PolicyText;
use clap::{Args, Subcommand};

use super::ecryptfs::{TreeCheckArgs, TreeExportArgs, TreePassphraseCommand};
use super::inside::PartitionArgs;
use super::size::parse_size;
use super::tree_keys::{TreeKeysArgs, TreeLockArgs, TreeUnlockArgs};

/// Work with trees of files that are encrypted file by file.
#[derive(Debug, Subcommand)]
pub enum TreeCommand {
    Build(Box<TreeBuildArgs>),
    Policies(TreePoliciesArgs),
    Check(TreeCheckArgs),
    Export(TreeExportArgs),
    Unlock(TreeUnlockArgs),
    Lock(TreeLockArgs),
    Keys(TreeKeysArgs),
    #[command(subcommand)]
    Passphrase(TreePassphraseCommand),
}

/// Build an ext4 image from a directory, without root and without mounting anything.
///
/// Everything is taken over: contents, holes, owners, permissions, times, hard links, extended attributes, devices. mke2fs must be
/// installed. The image gets its name once it is whole.
///
/// With --policy, every directory in the root is encrypted as the kernel's fscrypt does it. The root itself can't be: a file
/// that lies there is refused, unless --into puts everything into one encrypted directory, or --encrypt names what is encrypted.
///
/// A POLICY is v1 or v2 and, behind colons, the modes of contents and names (AES-256-XTS and AES-256-CTS or AES-256-HCTR2; AES-128-CBC and
/// AES-128-CTS; Adiantum twice; as an experiment, ChaCha20 for contents), pad=4|8|16|32, one of direct, iv-ino-lblk-64 and iv-ino-lblk-32, unit=BYTES of a data unit, and
/// key=HEX, the key's identifier (v2) or descriptor (v1). What is left out is AES-256, pad=32 and the only key.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree build ./rootfs root.img
  atrest tree build ./rootfs root.img --size 2G --label root
  atrest tree build ./home home.img --policy v2 --fscrypt-key master.key
  atrest tree build ./home home.img --policy v2:Adiantum:Adiantum:direct --fscrypt-key master.key --into users
  atrest tree build ./rootfs root.img --encrypt /home=v2 --encrypt /srv=v1:pad=16 --fscrypt-key master.key
  SOURCE_DATE_EPOCH=1767225600 atrest tree build ./rootfs root.img --uuid 6f1e5a3c-0f0b-4b57-9d53-0a4a4b6a8e11")]
pub struct TreeBuildArgs {
    /// Directory whose contents go into the image.
    pub source: PathBuf,
    /// File to make. One that exists is replaced only with --yes.
    pub image: PathBuf,
    /// Size of the image, with a unit if wanted [default: what the tree takes, and a tenth more].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// UUID of the filesystem [default: a random one].
    #[arg(long, value_name = "UUID", value_parser = parse_uuid)]
    pub uuid: Option<String>,
    /// Label of the filesystem, at most 16 bytes.
    #[arg(long, value_name = "LABEL", value_parser = parse_label)]
    pub label: Option<String>,
    /// Put everything into a directory of this name in the root, instead of into the root itself.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub into: Option<String>,
    /// Encrypt every directory in the root of the image, or those that --encrypt names, by this policy.
    #[arg(long, value_name = "POLICY", requires = "fscrypt_key", help_heading = "Encryption")]
    pub policy: Option<PolicyText>,
    /// Encrypt this directory of the image and all below it, by its own policy if one is written behind it.
    #[arg(long, value_name = "DIR[=POLICY]", requires = "fscrypt_key", help_heading = "Encryption")]
    pub encrypt: Vec<String>,
    /// Take a master key from this file, every byte of it (16 to 64); `-` reads standard input to its end. Can be given more than once.
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub fscrypt_key: Vec<PathBuf>,
    /// Encrypt contents with ChaCha20 although that is safe for a single snapshot of the image only: whoever sees it before and after a
    /// file was overwritten learns how its contents changed. An experiment that no kernel opens. Without this, such a policy is refused.
    #[arg(long, help_heading = "Encryption")]
    pub single_snapshot: bool,
}

/// List the policies and protectors that google/fscrypt keeps in a filesystem's directory .fscrypt.
///
/// Nothing is unlocked, and no secret is asked for. A record that is damaged is listed as such.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest tree policies home.img
  atrest tree policies --json --partition 2 disk.img")]
pub struct TreePoliciesArgs {
    /// Image or block device with an ext4.
    pub image: PathBuf,
    #[command(flatten)]
    pub partition: PartitionArgs,
}

/// A UUID in the usual notation.
pub fn parse_uuid(text: &str) -> Result<String, String> {
    let digits = text.bytes().enumerate().all(|(i, byte)| match i {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    match text.len() == 36 && digits {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a UUID is written as in 6f1e5a3c-0f0b-4b57-9d53-0a4a4b6a8e11".into()),
    }
}

fn parse_label(text: &str) -> Result<String, String> {
    match text.len() {
        0..=16 => Ok(text.to_owned()),
        len => Err(format!("a label of ext4 has at most 16 bytes, not {len}")),
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    let valid = atrest_filetree::is_valid_name(text.as_bytes()) && text.len() <= 255 && text != "lost+found";
    match valid {
        true => Ok(text.to_owned()),
        false => Err("it is one name of 1 to 255 bytes, without '/', and not lost+found".into()),
    }
}
