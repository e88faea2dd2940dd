//! eCryptfs: the kernel's stacked encryption (`fs/ecryptfs`, and `ecryptfs-utils` for wrapped passphrases).
//!
//! A file of the tree lies encrypted in a *lower* file: a header ([`Header`]) whose packets hold the file's own key, wrapped
//! under a key made of a passphrase, then extents of 4096 bytes in CBC. [`Keys`] are what passphrases give, found by their
//! signatures; [`EncryptedFile`] is a lower file opened with them; [`NameCipher`] encrypts names and link targets.
//!
//! Nothing here is authenticated: whoever can write the lower files can change what is read, and nobody notices.

mod alphabet;
mod check;
mod cipher_code;
mod contents;
mod error;
mod export;
mod file;
mod header;
mod key;
mod lower;
mod lower_tree;
mod name;
mod packet;
mod scan;
mod survey;
mod wrapped;

pub use check::{CheckSummary, Finding, Problem, check, repair_size};
pub use cipher_code::FileCipher;
pub use contents::EXTENT;
pub use error::{EcryptfsError, HeaderDamage, PacketDamage};
pub use export::{ExportProgress, ExportSummary, export};
pub use file::{EncryptedFile, FileOptions};
pub use header::{HEADER_LEN, Header, MetadataPlace};
pub use key::{DEFAULT_NAME_SALT, DEFAULT_SALT, Keys, MAX_PASSPHRASE, Signature, Token};
pub use lower::LowerFile;
pub use lower_tree::LowerTree;
pub use name::{NAME_PREFIX, NameCipher, NameError};
pub use packet::{FileKeyPacket, PacketSet, WrappedKey};
pub use scan::check_contents;
pub use survey::{ForeignTree, Survey, survey};
pub use wrapped::{WrappedError, WrappedPassphrase, WrappedVersion};
