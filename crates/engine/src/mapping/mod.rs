//! A file in the address space: what is long can be decrypted from where the kernel keeps it, without a copy first.
//!
//! A file that becomes shorter, or media that fails, is no error of a call here but a signal, SIGBUS, at the moment of
//! reading. [`bus`] turns it into a mark on the mapping and zeros in place of what is not there. Who has read asks for the mark
//! ([`Mapping::read`]), throws away what was read, and reads by a system call, which says what is wrong. A mapping with
//! a mark is not used again.
#![allow(unsafe_code)]

mod bus;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use bus::Watch;

/// All bytes of a file or block device.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Absent only while the mapping is dropped.
    watch: Option<Watch>,
}

// SAFETY: the mapping belongs to the process rather than to a thread, is only read, and stays where it is until `Drop`, which has it
// alone.
unsafe impl Send for Mapping {}
// SAFETY: threads that share it only read from it, and what the handler changes of it is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file, to read.
    ///
    /// # Errors
    /// The system's error if there is no room in the address space, the file is of a kind that can't be mapped, or too many are
    /// mapped already.
    pub fn new(file: &File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping at a place that the kernel chooses takes no memory that anything else uses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = Self { start, len, watch: None };
        mapping.watch = Some(Watch::over(start.as_ptr() as usize, len)?);
        Ok(mapping)
    }

    /// Lends the bytes of a range to `take`. False if some of them were not there: then `take` has seen zeros in their place, or was
    /// not called, and whatever it made of them is worth nothing. Whoever writes to the file may change them meanwhile.
    pub fn read(&self, offset: u64, len: usize, take: impl FnOnce(&[u8])) -> bool {
        let Some(watch) = self.watch.as_ref().filter(|watch| !watch.is_lost()) else { return false };
        let Some(offset) = usize::try_from(offset)
            .ok()
            .filter(|offset| offset.checked_add(len).is_some_and(|end| end <= self.len))
        else {
            return false;
        };
        // SAFETY: the range lies inside the mapping, which stays until `self` is dropped, and a page of it that can't be had is
        // replaced by zeros (`bus`). The bytes may change while they are lent, as other processes can write to the file: `take`
        // is a cipher, which loads them, and neither branches on them nor finds an address by them.
        take(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) });
        !watch.is_lost()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First: once it is unmapped, the addresses may be somebody else's.
        self.watch = None;
        // SAFETY: `new` made the mapping, with this length, and nothing that was lent from it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
