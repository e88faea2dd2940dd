//! BitLocker: the boot sector, its three copies of the metadata, startup keys, recovery passwords, and where what Windows shows lies.
//!
//! Sources: libbde, "BitLocker Drive Encryption (BDE) format"; what volumes of Windows Vista to 11 have. Integers are little endian.

mod boot;
mod entry;
mod guid;
mod key_file;
mod layout;
mod metadata;
mod method;
mod protector;
mod recovery;
#[cfg(test)]
mod tests;

pub use boot::{BOOT_LEN, Boot, BootError, Edition};
pub use entry::EntryError;
pub use guid::Guid;
pub use key_file::StartupKey;
pub use layout::{Layout, LayoutError, Part, Piece};
pub use metadata::{Metadata, MetadataError, REGION_LEN, State};
pub use method::Method;
pub use protector::{Protection, Protector, Wrapped};
pub use recovery::recovery_key;

/// Bytes of the key that opens the volume master key, and of that key itself.
pub const KEY_LEN: usize = 32;
