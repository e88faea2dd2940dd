//! Reading what the media holds rather than what the page cache holds.
//!
//! With `O_DIRECT` on a second descriptor where the filesystem has it. Where it has not (some network and in-memory
//! filesystems), the cached pages are dropped with `POSIX_FADV_DONTNEED` and read again: on a real disk that reads the
//! media; a filesystem that lives in memory has no other media than its cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use atrest_device::Cause;
use rustix::fs::Advice;

use crate::sys;

/// Direct reads begin and end at multiples of this, as does the buffer: no logical block in use is larger.
const ALIGNMENT: usize = 4096;
/// Bytes per direct read.
const STEP: usize = 256 << 10;

/// Fills `buf` from byte `offset` of a file of `size` bytes whose writes have been flushed. On failure returns the
/// offset and the cause.
pub fn read(file: &File, size: u64, offset: u64, buf: &mut [u8]) -> Result<(), (u64, Cause)> {
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match direct {
        Ok(direct) => match read_direct(&direct, size, offset, buf) {
            Err((_, Cause::Os(libc::EINVAL))) => read_uncached(file, offset, buf),
            result => result,
        },
        // Not supported (EINVAL), no /proc, or read permission lost since: the other way decides.
        Err(_) => read_uncached(file, offset, buf),
    }
}

fn read_direct(direct: &File, size: u64, offset: u64, buf: &mut [u8]) -> Result<(), (u64, Cause)> {
    let mut pages = vec![0u8; STEP + ALIGNMENT];
    let align = pages.as_ptr().align_offset(ALIGNMENT);
    let pages = pages.get_mut(align..align + STEP).ok_or((offset, Cause::Unsupported))?;
    let mut done = 0;
    while done < buf.len() {
        let at = offset + done as u64;
        let start = at / ALIGNMENT as u64 * ALIGNMENT as u64;
        let skip = (at - start) as usize;
        let want = (buf.len() - done).min(STEP - skip);
        let whole = (skip + want).next_multiple_of(ALIGNMENT);
        // The last block of a file may be short; what was asked for must be there all the same.
        let expect = (whole as u64).min(size - start) as usize;
        let read = read_up_to(direct, &mut pages[..whole], start, expect).map_err(|cause| (at, cause))?;
        if read < skip + want {
            return Err((start + read as u64, Cause::UnexpectedEnd));
        }
        buf[done..done + want].copy_from_slice(&pages[skip..skip + want]);
        done += want;
    }
    Ok(())
}

/// Reads until `expect` bytes are there or the file ends.
fn read_up_to(direct: &File, pages: &mut [u8], start: u64, expect: usize) -> Result<usize, Cause> {
    let mut read = 0;
    while read < expect {
        match direct.read_at(&mut pages[read..], start + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(sys::cause(&error)),
        }
    }
    Ok(read)
}

fn read_uncached(file: &File, offset: u64, buf: &mut [u8]) -> Result<(), (u64, Cause)> {
    rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(buf.len() as u64), Advice::DontNeed)
        .map_err(|errno| (offset, sys::errno_cause(errno)))?;
    file.read_exact_at(buf, offset).map_err(|error| (offset, sys::cause(&error)))
}
