//! Making an ext4 image from a directory of the host, encrypted where that is asked for.
//!
//! mke2fs lays out an empty filesystem; everything else is written here: inodes and their extended attributes, extent
//! trees, directories, bitmaps and counts, with their checksums. Power loss does not matter: the image has no name until
//! it is whole. Files and directories lie in it one behind the other, in the order of their names.

mod attributes;
mod contents;
mod dir;
mod error;
mod extents;
mod fill;
mod found;
mod groups;
mod holes;
mod host_attributes;
mod image;
mod inode;
mod mke2fs;
mod policies;
mod source;
mod space;
mod space_needed;
mod superblock;
mod table;
mod times;

use std::path::Path;

pub(crate) use inode::encode_time;

pub use error::{BuildError, Unexpected};
pub use policies::{Encrypt, NewPolicy};
pub use source::Source;

use atrest_filetree::CopyProgress;

/// Bytes in a block of the filesystems that are made: what every kernel can encrypt.
const BLOCK: usize = 4096;

/// The low and the high half of a number, as ext4 came to 64 bits.
fn halves(value: u64) -> (u32, u32) {
    ((value & 0xffff_ffff) as u32, (value >> 32) as u32)
}

/// How an image is built.
#[derive(Clone, Default)]
pub struct BuildOptions {
    /// Bytes of the image; otherwise as many as the tree takes, and a tenth more.
    pub size: Option<u64>,
    /// UUID of the filesystem, in the usual notation; otherwise a random one.
    pub uuid: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// Seconds since 1970: no time of a change in the image is later, and all other times are this one.
    pub time: Option<i64>,
    /// What is encrypted.
    pub encrypt: Encrypt,
    /// A regular file that has the image's name is replaced once the image is whole; otherwise it is an error.
    pub replace: bool,
}

/// What was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildSummary {
    /// Regular files.
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, pipes and sockets.
    pub special: u64,
    /// Bytes of file contents, holes included.
    pub bytes: u64,
    /// Files, directories and links that are encrypted.
    pub encrypted: u64,
    /// Extended attributes that ext4 has no place for, or that could not be read.
    pub attributes_left_out: u64,
    /// Bytes of the filesystem.
    pub size: u64,
}

/// Builds the image `path` from `source`.
///
/// # Errors
/// [`BuildError::Host`] with `EEXIST` if the name is taken and may not be replaced. What the source or its policies
/// can't have in an image is an error of its own with its path, and [`BuildError::NoKey`] says that a key was not
/// given. [`BuildError::SourceChanged`] if a file changes meanwhile. [`BuildError::NoSpace`] or
/// [`BuildError::NoInodes`] if `size` is too small, [`BuildError::NoMke2fs`] without the program. No image is left
/// behind.
pub fn build_image(
    source: &Source,
    path: &Path,
    options: &BuildOptions,
    progress: &mut dyn CopyProgress,
) -> Result<BuildSummary, BuildError> {
    let policies = policies::Policies::new(source, &options.encrypt)?;
    let size = options.size.unwrap_or_else(|| space_needed::bytes(source)) / BLOCK as u64 * BLOCK as u64;
    let image = image::NewImage::create(path, size, options.replace)?;
    let layout = mke2fs::Layout {
        inodes: space_needed::inodes(source, size),
        uuid: options.uuid.as_deref(),
        label: options.label.as_deref(),
        encrypt: !matches!(options.encrypt, Encrypt::Nothing),
        stable_inodes: options.encrypt.needs_stable_inodes(),
    };
    mke2fs::run(image.hidden(), &layout)?;
    let summary = fill::fill(&image, source, &policies, options.time, progress)?;
    image.appear()?;
    Ok(summary)
}
