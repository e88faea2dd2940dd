//! fscrypt: policies, keys, names and contents (kernel, `Documentation/filesystems/fscrypt.rst`).
//!
//! A [`Keyring`] holds master keys and is what a filesystem asks for the ciphers of its inodes
//! ([`Encryption`](atrest_filetree::Encryption)). A [`Policy`] says how a directory is encrypted; a [`Context`] is a policy and
//! one inode's nonce.

mod cipher;
mod hkdf;
mod inode;
mod keyring;
mod keys;
pub mod metadata;
mod mode;
mod name;
mod policy;
mod policy_text;

pub use keyring::{KeyLength, Keyring};
pub use keys::MASTER_KEY_LEN;
pub use mode::EncryptionMode;
pub use policy::{Context, KeyUse, NONCE_LEN, Padding, Policy};
pub use policy_text::{PolicyText, PolicyTextError};
