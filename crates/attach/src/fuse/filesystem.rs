//! What a file system answers to the kernel.

use core::time::Duration;

use atrest_filetree::posix::{Change, New, PosixSpace, SetXattr};
use rustix::io::Errno;

#[cfg(doc)]
use super::protocol::abi::{init_flag, open_flag};
use super::protocol::{FileAttributes, Listing};

/// What a request yields, or the number that the caller is told.
pub type Answer<T> = Result<T, Errno>;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// The thread.
    pub pid: u32,
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHandle {
    /// What later requests name it by.
    pub number: u64,
    /// [`open_flag`].
    pub flags: u32,
}

/// Bytes to be written.
pub struct NewBytes<'a> {
    pub offset: u64,
    /// The file system may use the buffer as it likes.
    pub data: &'a mut [u8],
    /// The file was opened with `O_DSYNC` or `O_SYNC`.
    pub durably: bool,
    /// Set-ID bits must not stand after it.
    pub kill_set_ids: bool,
}

/// A file system behind a mount. Many threads ask at once.
///
/// Names are single components. What is told by [`lookup`](Self::lookup), [`make`](Self::make), [`create`](Self::create),
/// [`link`](Self::link) and in a listing with attributes is kept by the kernel until [`forget`](Self::forget). What a file
/// system leaves as it is here it does not have: [`Errno::NOSYS`] then, which the kernel knows how to take.
#[expect(unused_variables, reason = "the names say what a file system is given")]
pub trait Filesystem: Send + Sync + 'static {
    /// What it would like to have, where the kernel offers it ([`init_flag`]).
    fn wishes(&self) -> u64;

    /// How long the kernel may believe names and attributes.
    fn lifetime(&self) -> Duration;

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<FileAttributes>;

    /// The kernel has forgotten a node so many of the times that it was told of it.
    fn forget(&self, node: u64, times: u64) {}

    fn attributes(&self, node: u64) -> Answer<FileAttributes>;

    /// `handle` is the open file through which it is asked, if it is.
    fn set_attributes(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
        change: &Change,
    ) -> Answer<FileAttributes>;

    fn read_link(&self, node: u64) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    fn make(&self, caller: Caller, parent: u64, name: &[u8], new: New<'_>) -> Answer<FileAttributes> {
        Err(Errno::PERM)
    }

    fn link(&self, node: u64, parent: u64, name: &[u8]) -> Answer<FileAttributes> {
        Err(Errno::PERM)
    }

    fn remove(&self, parent: u64, name: &[u8], directory: bool) -> Answer<()> {
        Err(Errno::PERM)
    }

    /// With the flags of `renameat2(2)`.
    fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Answer<()> {
        Err(Errno::PERM)
    }

    /// With the flags of `open(2)`.
    fn open(&self, caller: Caller, node: u64, flags: u32) -> Answer<OpenHandle>;

    /// Makes a file, unless it is there and `flags` allow that, and opens it.
    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: u32,
    ) -> Answer<(FileAttributes, OpenHandle)> {
        Err(Errno::PERM)
    }

    /// Reads until `room` is full or the file ends, and returns how much there was.
    fn read(&self, node: u64, handle: u64, offset: u64, room: &mut [u8]) -> Answer<usize>;

    /// Returns how much was written.
    fn write(&self, node: u64, handle: u64, bytes: NewBytes<'_>) -> Answer<usize>;

    /// A descriptor was closed: an error is the last that its program can be told.
    fn flush(&self, node: u64, handle: u64) -> Answer<()>;

    /// Makes contents durable, and unless `data_only` is set, all attributes.
    fn sync(&self, node: u64, handle: u64, data_only: bool) -> Answer<()>;

    /// The last descriptor was closed.
    fn release(&self, handle: u64) {}

    /// `fallocate(2)` with its mode bits.
    fn allocate(&self, caller: Caller, node: u64, handle: u64, range: (u64, u64), mode: u32) -> Answer<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// `lseek(2)` with `SEEK_DATA` or `SEEK_HOLE`.
    fn seek(&self, node: u64, offset: u64, whence: u32) -> Answer<u64> {
        Err(Errno::NOSYS)
    }

    fn open_directory(&self, node: u64) -> Answer<OpenHandle> {
        Ok(OpenHandle::default())
    }

    /// Adds entries from `offset` on, until the listing is full: 0 is the start, and every other number is one that an entry said.
    fn list(&self, node: u64, handle: u64, offset: u64, listing: &mut Listing<'_>) -> Answer<()>;

    fn sync_directory(&self, node: u64, handle: u64, data_only: bool) -> Answer<()>;

    fn release_directory(&self, handle: u64) {}

    fn space(&self) -> Answer<PosixSpace>;

    fn xattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Names, each followed by a zero.
    fn xattrs(&self, node: u64) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    fn set_xattr(&self, node: u64, name: &[u8], value: &[u8], how: SetXattr) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn remove_xattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }
}
