//! How a directory of the host is mounted.

use clap::Args;

/// How what is new in a lower directory is encrypted, and who may see it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Mounting an eCryptfs directory")]
pub struct MountTreeArgs {
    /// Cipher of new files and names: aes, blowfish, cast5, cast6, des3_ede or twofish.
    #[arg(long, value_name = "NAME", default_value = "aes")]
    pub ecryptfs_cipher: String,
    /// Bytes in the keys of new files.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub ecryptfs_key_bytes: usize,
    /// Encrypt names [default: if any name in the directory is encrypted, or if it is empty].
    #[arg(long, overrides_with = "ecryptfs_plain_names")]
    pub ecryptfs_encrypt_names: bool,
    /// Leave names as they are.
    #[arg(long)]
    pub ecryptfs_plain_names: bool,
    /// Keep headers of new files in the attribute user.ecryptfs instead of the files.
    #[arg(long)]
    pub ecryptfs_xattr: bool,
}
