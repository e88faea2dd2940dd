//! The memory that contenders work on in turn, in pages of 4 KiB or in huge ones.

use std::error::Error;
use std::ptr::{NonNull, null_mut};

use crate::case::Place;

/// Bytes handed to a contender at a time, and all there are in the cache.
pub const CHUNK: usize = 128 << 10;
const MEMORY: usize = 256 << 20;

/// A mapping of its own.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    next: usize,
}

impl Buffer {
    pub fn new(place: Place) -> Result<Self, Box<dyn Error>> {
        let (len, advice) = match place {
            Place::Cache => (CHUNK, libc::MADV_NOHUGEPAGE),
            Place::Memory => (MEMORY, libc::MADV_NOHUGEPAGE),
            Place::HugePages => (MEMORY, libc::MADV_HUGEPAGE),
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which touches no memory that is in use.
        let start = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or("a mapping at 0")?;
        let this = Self { start, len, next: 0 };
        // SAFETY: the mapping is as long as that. A kernel without huge pages refuses, and has 4 KiB pages.
        unsafe { libc::madvise(start.as_ptr().cast(), len, advice) };
        // SAFETY: the mapping is as long as that and nobody else's. Zeros would all be one page until they are written.
        unsafe { start.write_bytes(0x5a, len) };
        Ok(this)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The next chunk, whoever asks: all of it is touched before any of it comes again.
    pub fn next(&mut self) -> &mut [u8] {
        let at = self.next;
        self.next = (at + CHUNK) % self.len;
        // SAFETY: `at` is a multiple of CHUNK below `len`, itself one; the borrow of `self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at).as_ptr(), CHUNK) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, as long as that, and not used again.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
