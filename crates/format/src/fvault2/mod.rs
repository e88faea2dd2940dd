//! FileVault 2 on CoreStorage: the header of the physical volume, its metadata blocks, and the keys in their property lists.
//!
//! Source: libfvde, "FileVault Drive Encryption (FVDE)"; what volumes of macOS have. Integers are little endian, UUIDs are bytes in the order of
//! their text.

mod block;
mod header;
mod keys;
mod plist;
#[cfg(test)]
mod tests;

pub use block::{BLOCK_LEN, Block, BlockError, Content, Extent, Label};
pub use header::{HEADER_LEN, Header, HeaderError};
pub use keys::{Context, LogicalVolume, Uuid, WrappedKek};
pub use plist::ContextError;

/// Bytes of AES-128 keys.
pub const KEY_LEN: usize = 16;
/// Bytes of such a key that is wrapped.
pub const WRAPPED_LEN: usize = 24;
