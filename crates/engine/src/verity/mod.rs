//! dm-verity: data that is only read, a tree of its hashes, and a root hash that vouches for all of it.
//!
//! * [`build`] makes a tree over some data, and the parity of error correction.
//! * [`check`] reads everything, and names what is not as it was.
//! * [`VerityDevice`] is the data as a [`BlockDevice`](atrest_device::BlockDevice), each block checked when it is read.
//!
//! Only the root hash is trusted. The superblock, the tree and the parity may be an attacker's, and so may the data.

mod build;
mod cache;
mod check;
mod covered;
mod device;
mod error;
mod hasher;
mod layout;
mod reed_solomon;
mod room;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod trusted;
mod work;

pub use atrest_format::verity::{
    Fec, FecError, HashType, ParameterError, Parameters, Superblock, SuperblockError, Tree, TreeError,
    TreePlace,
};
pub use build::build;
pub use check::{Extent, MAX_NAMED, Report, check};
pub use device::{VerityDevice, VerityOptions};
pub use error::{Part, VerityError};
pub use hasher::Digest;
pub use layout::{FecOptions, Layout, Parts, Together};
pub use room::open_with_room;
pub use trusted::{BlockPlace, Repaired};
pub use work::Pace;
