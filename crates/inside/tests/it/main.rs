//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod build;
mod common;
mod copy;
mod exfat;
mod ext4;
mod fat;
mod fat_rename;
mod hostile;
mod listing;
mod littlefs;
mod ntfs;
mod overwrite;
mod partitions;
mod truncated;
mod walks;
