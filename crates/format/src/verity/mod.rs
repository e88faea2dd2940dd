//! dm-verity: a tree of hashes over data that is only read. Whoever trusts the root hash can check each block of the data.
//!
//! This follows the kernel's `admin-guide/device-mapper/verity.rst` and, for the superblock and error correction, what
//! veritysetup 2.6 writes. Nothing here reads or hashes.
//!
//! * [`Parameters`] are what hashing depends on, and [`Superblock`] stores them in front of the tree.
//! * [`Tree`] tells where the hashes are.
//! * [`Fec`] tells which bytes a Reed-Solomon code covers, and where its parity is.

mod fec;
mod parameters;
mod superblock;
#[cfg(test)]
mod tests;
mod tree;

pub use fec::{Fec, FecError, MAX_ROOTS, MIN_ROOTS, RS_LEN};
pub use parameters::{HashType, MAX_BLOCK, MAX_HASH_NAME, MAX_SALT, MIN_BLOCK, ParameterError, Parameters};
pub use superblock::{SUPERBLOCK_LEN, Superblock, SuperblockError};
pub use tree::{Level, MAX_LEVELS, Tree, TreeError, TreePlace};
