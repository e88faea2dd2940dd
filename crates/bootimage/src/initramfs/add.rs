//! Adds files to an existing initramfs. What is there stays as it is, byte for byte: one more archive goes behind it,
//! and the kernel unpacks it last.

use zeroize::Zeroizing;

use crate::compress::{Compression, pack};
use crate::cpio::{Archive, Limits, read_chain};

use super::tree::Tree;
use super::{Contents, Image, InitramfsError};

/// How to add.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddOptions {
    /// The unlocker takes the place of `/init` instead of being `/usr/sbin/atrest-init`.
    pub replace_init: bool,
    /// How to compress what is added [default: as the last archive of the file].
    pub compression: Option<Compression>,
    /// Time of every file that is added, in seconds since 1970.
    pub mtime: u32,
    /// What reading the existing file may cost.
    pub limits: Limits,
}

/// Returns `existing` with `contents` behind it.
///
/// # Errors
/// [`InitramfsError::Existing`] if the kernel would not unpack `existing` whole, [`InitramfsError::InTheWay`]
/// if it has something else where a file is to go. Otherwise it fails where [`build`](super::build()) does.
pub fn add(existing: &[u8], contents: &Contents, options: AddOptions) -> Result<Image, InitramfsError> {
    let segments = read_chain(existing, options.limits).map_err(InitramfsError::Existing)?;
    let tree = Tree::of(&segments);
    let mut archive = Archive::new();
    let place = if options.replace_init { "init" } else { "usr/sbin/atrest-init" };
    let report = contents.fill(&mut archive, place, false, &|name| tree.has_directory(name))?;
    for name in &report.files {
        // The directories in our archive are those that the other lacks.
        if let Some(what) = tree.in_the_way(name) {
            return Err(InitramfsError::InTheWay { path: name.clone(), what });
        }
    }
    let last = segments.last().map_or(Compression::None, |segment| segment.compression);
    // cannot overflow: a part of the file.
    let end = segments.last().map_or(0, |segment| segment.offset.saturating_add(segment.len));
    let packed = Zeroizing::new(
        pack(options.compression.unwrap_or(last), &archive.to_newc(options.mtime))
            .map_err(InitramfsError::Pack)?,
    );
    // Zeros behind the last archive are of no use; what follows begins where an uncompressed one may.
    // intended: how much room is wanted.
    let mut file = Zeroizing::new(Vec::with_capacity(end.saturating_add(packed.len()).saturating_add(4)));
    file.extend_from_slice(existing.get(..end).unwrap_or(existing));
    file.resize(end.next_multiple_of(4), 0);
    file.extend_from_slice(&packed);
    Ok(Image { file, report })
}
