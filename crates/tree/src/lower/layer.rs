//! What differs between kinds of lower directories.

use std::borrow::Cow;
use std::fs::File;

use atrest_filetree::posix::{Errno, Outcome};

/// How plain names and contents lie in a lower directory. Shared by all threads.
pub trait Layer: Send + Sync + 'static {
    /// A file's contents.
    type File: LayerFile;

    /// The name under which a new entry is made in the lower directory.
    ///
    /// # Errors
    /// [`Errno::NAMETOOLONG`] if the name is too long to be mapped.
    fn lower_name<'a>(&self, name: &'a [u8]) -> Outcome<Cow<'a, [u8]>>;

    /// The name that is shown for one in the lower directory: itself, where it is not one that [`lower_name`](Self::lower_name) makes.
    fn plain_name<'a>(&self, lower: &'a [u8]) -> Cow<'a, [u8]>;

    /// What a new link points to in the lower directory.
    ///
    /// # Errors
    /// [`Errno::NAMETOOLONG`] if the target is too long to be mapped.
    fn lower_target<'a>(&self, target: &'a [u8]) -> Outcome<Cow<'a, [u8]>>;

    /// What a link is shown to point to.
    ///
    /// # Errors
    /// [`Errno::NOKEY`] if the target's key is not at hand, [`Errno::IO`] if it is damaged.
    fn plain_target(&self, lower: Vec<u8>) -> Outcome<Vec<u8>>;

    /// Bytes in the longest name, where the lower directory takes so many.
    fn name_len(&self, lower: u32) -> u32;

    /// Opens the contents of a lower file. An empty one without a header is an empty file: making one may have been interrupted.
    ///
    /// # Errors
    /// [`Errno::NOKEY`] if the file's key is not at hand, [`Errno::IO`] if its header is missing or damaged, and
    /// the system's numbers.
    fn open(&self, lower: File, writable: bool) -> Outcome<Self::File>;

    /// The contents of a lower file that was made just now.
    ///
    /// # Errors
    /// [`Errno::NOKEY`] if a key for new files is not at hand, and the system's numbers, as [`Errno::NOSPC`].
    fn create(&self, lower: File) -> Outcome<Self::File>;

    /// Bytes of contents of a lower file that nobody has open; none if that is not known without its bytes, or is the lower
    /// file's own length.
    fn size(&self, lower: &File) -> Option<u64>;

    /// Whether [`size`](Self::size) and [`plain_target`](Self::plain_target) differ from what the lower directory says.
    fn maps_sizes(&self) -> bool;

    /// Whether an extended attribute of the lower file is the layer's own.
    fn owns_xattr(&self, name: &[u8]) -> bool;
}

/// The contents of one file; one for each lower file, shared by all who have it open.
pub trait LayerFile: Send + Sync {
    /// Bytes of contents, where they are not the lower file's length.
    fn plain_len(&self) -> Option<u64>;

    /// The lower file, and where contents begin in it.
    fn lower(&self) -> Option<(&File, u64)>;

    /// Reads until `buf` is full or the file ends.
    ///
    /// # Errors
    /// [`Errno::IO`] if contents are damaged or missing, and the system's numbers.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize>;

    /// Writes all of `data`.
    ///
    /// # Errors
    /// [`Errno::FBIG`] beyond the largest size, [`Errno::BADF`] or [`Errno::ROFS`] if the file was not opened to be
    /// written, [`Errno::IO`] if what is changed in part is missing, and the system's numbers. A part of `data` may
    /// have been written then.
    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()>;

    /// Cuts the file, or makes it longer by zeros.
    ///
    /// # Errors
    /// Fails where [`write_at`](Self::write_at) does.
    fn set_len(&self, len: u64) -> Outcome<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The system's number: what was written may be lost.
    fn sync(&self, data_only: bool) -> Outcome<()>;

    /// `fallocate(2)` with its mode bits.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] for modes that there are not here, which are all of them by default. Otherwise it fails
    /// where [`write_at`](Self::write_at) does.
    fn allocate(&self, _mode: u32, _offset: u64, _len: u64) -> Outcome<()> {
        Err(Errno::OPNOTSUPP)
    }
}
