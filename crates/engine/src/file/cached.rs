//! Reads that wait for nothing: what the page cache holds.

use std::fs::File;
use std::io::IoSliceMut;
use std::sync::OnceLock;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// `f_type` of tmpfs (statfs(2)).
const TMPFS: u32 = 0x0102_1994;

/// What a read that may not wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All of it was read.
    Done,
    /// The media would have to be waited for, or nobody can tell.
    WouldWait,
    /// The file system can't say, and need not: it has no media.
    InMemory,
}

/// What is known of the file system that a file lies on.
#[derive(Debug)]
pub struct Cache {
    /// What reads come to where the file system knows no such reads (`RWF_NOWAIT`); asked for once.
    unknown: OnceLock<Reading>,
}

impl Cache {
    pub fn new() -> Self {
        Self { unknown: OnceLock::new() }
    }

    pub fn read(&self, file: &File, offset: u64, buf: &mut [u8]) -> Result<Reading, Errno> {
        if let Some(reading) = self.unknown.get() {
            return Ok(*reading);
        }
        let len = buf.len();
        match preadv2(file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == len => Ok(Reading::Done),
            // A part of it is in the cache, or the file has become short: who may wait finds out.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Reading::WouldWait),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(*self.unknown.get_or_init(|| without_media(file))),
            Err(error) => Err(error),
        }
    }
}

fn without_media(file: &File) -> Reading {
    match rustix::fs::fstatfs(file) {
        Ok(found) if i128::from(found.f_type) == i128::from(TMPFS) => Reading::InMemory,
        _ => Reading::WouldWait,
    }
}
