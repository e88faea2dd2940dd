//! Devices by path, UUID, label and partition, without udev: superblocks and partition tables are read here, and the kernel says when
//! something changes.

mod find;
mod partition;
mod probe;
#[cfg(test)]
mod tests;
mod wait;

pub use find::{Found, content, find};
pub use partition::{Partition, read_table};
pub use probe::{Content, LUKS, SWAP, content as content_of, probe};
pub use wait::{Events, wait_for};
