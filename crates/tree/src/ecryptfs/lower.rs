//! What a lower file has to offer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

const XATTR: &str = "user.ecryptfs";
/// The kernel writes the header of one page at most there.
const MAX_XATTR: usize = 4096;

/// A file that an encrypted one lies in. [`File`] is one.
pub trait LowerFile: Send + Sync {
    /// Reads until `buf` is full or the file ends, and returns how much there was.
    ///
    /// # Errors
    /// The system's error if the file can't be read. What `buf` holds then is undefined.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all of it, in one call where the system lets us.
    ///
    /// # Errors
    /// The system's error if not all of it was written, as `ENOSPC`. A part of it may be there then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// The system's error if the file's attributes can't be read.
    fn len(&self) -> io::Result<u64>;

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// The system's error if the file can't have this length, or was not opened to be written.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Sets room aside for bytes that will be written, without making the file longer. Where the system can't
    /// do that, nothing happens.
    ///
    /// # Errors
    /// `ENOSPC` if there is no room, `EFBIG` if no file may be as long as that, or another error of the system.
    fn reserve(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// The system's error: what was written may be lost.
    fn sync(&self) -> io::Result<()>;

    /// The attribute `user.ecryptfs`; none as well where the filesystem has no attributes.
    ///
    /// # Errors
    /// The system's error if there may be an attribute, but it can't be read.
    fn xattr(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the attribute as a whole.
    ///
    /// # Errors
    /// The system's error if the attribute can't be stored, as where the filesystem has none.
    fn set_xattr(&self, value: &[u8]) -> io::Result<()>;

    /// Whether the file is empty.
    ///
    /// # Errors
    /// Fails where [`len`](Self::len) does.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl LowerFile for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            // intended: the system refuses what lies behind 2^63.
            match FileExt::read_at(self, rest, offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                // cannot overflow: at most the length of the buffer.
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let reserve = |offset, len| match fallocate(self, FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => outcome,
        };
        let Some(before_last) = len.checked_sub(1) else { return Ok(()) };
        // Whether a file may be as long as that.
        // intended: the system refuses what lies behind 2^63.
        reserve(offset.saturating_add(before_last), 1)?;
        // Some filesystems fill the disk before they find that it does not suffice.
        let found = rustix::fs::fstatvfs(self)?;
        // intended: what overflows is room enough.
        let free = found.f_bfree.saturating_mul(found.f_frsize);
        if !has_room(len, free, self.len()?) {
            return Err(Errno::NOSPC.into());
        }
        Ok(reserve(offset, len)?)
    }

    fn sync(&self) -> io::Result<()> {
        // Not only the data: the header may be an attribute.
        self.sync_all()
    }

    fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; MAX_XATTR];
        match rustix::fs::fgetxattr(self, XATTR, value.as_mut_slice()) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn set_xattr(&self, value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(self, XATTR, value, rustix::fs::XattrFlags::empty())?)
    }
}

/// Whether so many bytes can be had: those that are free, and those that the file may have already.
fn has_room(len: u64, free: u64, own: u64) -> bool {
    // intended: what overflows is room enough.
    len <= free.saturating_add(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_is_free_and_what_the_file_has() {
        for (len, free, own, has) in [
            (0, 0, 0, true),
            (1, 0, 0, false),
            (10, 7, 3, true),
            (11, 7, 3, false),
            (5, 7, 3, true),
            (u64::MAX, u64::MAX, 1, true),
        ] {
            assert_eq!(has_room(len, free, own), has, "{len} {free} {own}");
        }
    }
}
