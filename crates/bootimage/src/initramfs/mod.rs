//! Initramfs files: made from the unlocker and what it needs, or an existing one with the unlocker added.

mod add;
mod contents;
mod error;
mod tree;

pub use add::{AddOptions, add};
pub use contents::{Contents, Report};
pub use error::InitramfsError;

use std::fmt;

use zeroize::Zeroizing;

use crate::compress::{Compression, pack};
use crate::cpio::Archive;

/// Where the list of modules to load lies in an initramfs: one path below `/lib/modules/VERSION` a line, each behind
/// those that it needs.
pub const MODULE_LIST: &str = "etc/atrest/modules";

/// A finished initramfs file.
pub struct Image {
    /// The file. Wiped when dropped, because keys may be in it.
    pub file: Zeroizing<Vec<u8>>,
    /// What went in.
    pub report: Report,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes, {:?})", self.file.len(), self.report)
    }
}

/// Makes an initramfs with `contents.unlocker` as `/init`.
///
/// # Errors
/// [`InitramfsError::Read`] if a file can't be read, [`InitramfsError::NotElf`],
/// [`InitramfsError::NotStatic`] or [`InitramfsError::Machine`] if a program would not run there,
/// [`InitramfsError::Modules`] or [`InitramfsError::Path`] for a module or a name.
pub fn build(contents: &Contents, compression: Compression, mtime: u32) -> Result<Image, InitramfsError> {
    let mut archive = Archive::new();
    contents.skeleton(&mut archive)?;
    let report = contents.fill(&mut archive, "init", true, &|_| false)?;
    let file = Zeroizing::new(pack(compression, &archive.to_newc(mtime)).map_err(InitramfsError::Pack)?);
    Ok(Image { file, report })
}
