//! What is found inside a volume: the file trees of ext2/3/4, NTFS, exFAT, FAT and LittleFS.
//!
//! Everything here stands on [`BlockDevice`], usually the plaintext of an unlocked volume.
//! [`filesystem_device`] finds the partition that is meant, and [`open_tree`] opens the filesystem on it as a [`FileTree`]. What can be done with a tree is in [`atrest_filetree`].
//!
//! What is read is taken to be hostile: it may be refused, but it never makes this room panic, run on without end, or
//! write outside the place it was told to.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod boot_sector;
mod build;
mod bytes;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod choice;
mod circle;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod exfat;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod ext4;
mod fat;
mod fault;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod littlefs;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod ntfs;
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
mod read_only;

use std::sync::Arc;

use atrest_device::{BlockDevice, FlashDevice, FlashGeometry};
use atrest_filetree::{Encryption, FileTree, TreeError};
use atrest_probe::detect;

pub use build::{
    BuildError, BuildOptions, BuildSummary, Encrypt, NewPolicy, Source, Unexpected, build_image,
};
pub use choice::{Candidate, ChoiceError, filesystem_device};
pub use fault::{Damage, Feature, Field, Unsupported};
pub use littlefs::{LittleFsDamage, LittleFsFault};

/// How a tree is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading. Nothing is ever written, not even to recover a journal.
    ReadOnly,
    /// For writing too, where the filesystem supports it here.
    ReadWrite,
}

/// Opens the filesystem that starts at the first byte of `device`.
///
/// FAT and LittleFS can be written. In ext2, ext3 and ext4 existing contents can be overwritten ([`FileTree::overwrites`]) and
/// nothing else ([`About::writable`](atrest_filetree::About::writable)). NTFS and exFAT are only read.
///
/// # Errors
/// [`TreeError::UnknownFilesystem`] if there is none that we know, [`TreeError::UnsupportedFormat`] if there is no
/// reader for it or it uses a feature that the reader lacks. [`TreeError::LargerThanDevice`] if the device ends
/// early, [`TreeError::Corrupt`] if the filesystem is damaged, [`TreeError::Filesystem`] if a LittleFS can't be
/// used here. [`TreeError::Device`] or [`TreeError::Flash`] if the device fails.
pub fn open_tree(device: Arc<dyn BlockDevice>, access: Access) -> Result<Box<dyn FileTree>, TreeError> {
    open_tree_with(device, access, None)
}

/// Opens the filesystem and decrypts the files, names and links that it encrypts itself (ext4).
///
/// Without `encryption`, or without a key, names of a locked directory are what the kernel shows for them, and files can't
/// be read. Otherwise like [`open_tree`].
///
/// # Errors
/// Fails where [`open_tree`] does. A missing key is no error until a file is read.
pub fn open_tree_with(
    device: Arc<dyn BlockDevice>,
    access: Access,
    encryption: Option<Arc<dyn Encryption>>,
) -> Result<Box<dyn FileTree>, TreeError> {
    use atrest_probe::FilesystemKind as Fs;
    match detect(&*device)? {
        Some(Fs::Ext2 | Fs::Ext3 | Fs::Ext4) => {
            Ok(Box::new(ext4::ExtTree::open(device, encryption)?.overwriting(access == Access::ReadWrite)))
        }
        Some(Fs::Fat12 | Fs::Fat16 | Fs::Fat32) => {
            Ok(Box::new(fat::FatTree::open(device, access == Access::ReadWrite)?))
        }
        Some(Fs::ExFat) => exfat::open(device),
        Some(Fs::Ntfs) => ntfs::open(device),
        Some(Fs::LittleFs) => littlefs::on_blocks(device, access == Access::ReadWrite),
        Some(other) => Err(Unsupported::Filesystem(other).into()),
        None => Err(TreeError::UnknownFilesystem),
    }
}

/// Makes an empty LittleFS over a whole flash device and opens it. What was there can't be read afterwards.
///
/// # Errors
/// [`TreeError::Filesystem`] if LittleFS can't use a medium of these sizes ([`flash_tree_fits`]),
/// [`TreeError::Flash`] if the medium fails.
pub fn make_flash_tree<D: FlashDevice + Send + 'static>(device: D) -> Result<Box<dyn FileTree>, TreeError> {
    Ok(Box::new(littlefs::LittleFsTree::create(device)?))
}

/// Whether a flash device of these sizes can hold a LittleFS.
///
/// # Errors
/// [`TreeError::Filesystem`] with a [`LittleFsFault::Unusable`] if it can't: LittleFS takes two erase blocks or
/// more, of 128 bytes to 16 MiB.
pub fn flash_tree_fits(geometry: FlashGeometry) -> Result<(), TreeError> {
    littlefs::fits(geometry)
}

/// Opens the LittleFS that fills a flash device.
///
/// # Errors
/// [`TreeError::Corrupt`] if there is no LittleFS or its metadata are damaged, [`TreeError::Filesystem`] if it was
/// made for other sizes or has a version that is not known. [`TreeError::Flash`] if the medium fails.
pub fn open_flash_tree<D: FlashDevice + Send + 'static>(
    device: D,
    access: Access,
) -> Result<Box<dyn FileTree>, TreeError> {
    Ok(Box::new(littlefs::LittleFsTree::open(device, access == Access::ReadWrite)?))
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
