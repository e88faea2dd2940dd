//! Devices by path, UUID, label and partition, without udev: superblocks and partition tables are read (crate `probe`), and the
//! kernel says when something changes.

mod find;
mod partition;
mod wait;

pub use find::{Found, content, find};
pub use wait::{Events, wait_for};
