//! Contents of files: read from the host, encrypted where that is wanted, and written behind each other.

use std::os::fd::OwnedFd;

use atrest_filetree::{CopyProgress, InodeCipher, TreeError};
use rustix::io::Errno;

use super::error::host;
use super::extents::{Extents, MAX_BLOCKS};
use super::source::Source;
use super::space::Space;
use super::{BuildError, holes};

/// Bytes of contents moved at once.
const PIECE: usize = 1 << 20;

/// Writes the contents of a file and returns its size.
pub(super) fn write(
    space: &mut Space<'_>,
    source: &Source,
    entry: usize,
    cipher: Option<&dyn InodeCipher>,
    extents: &mut Extents,
    progress: &mut dyn CopyProgress,
) -> Result<u64, BuildError> {
    let size = source.entries.get(entry).map_or(0, |found| found.size);
    if size == 0 {
        return Ok(0);
    }
    let block = space.sb.block_size as u64;
    if size.div_ceil(block) >= MAX_BLOCKS {
        let error = TreeError::TooLarge { limit: MAX_BLOCKS * block };
        return Err(BuildError::Entry { path: source.path_of(entry), error });
    }
    let file = source.open(entry)?;
    let failed = |errno: Errno| host(&source.path_of(entry), errno);
    let mut at = 0;
    while let Some(blocks) = holes::next_data(&file, at, size, block).map_err(failed)? {
        at = blocks.start;
        while at < blocks.end {
            let run = space.take((blocks.end - at).min(PIECE as u64 / block))?;
            let mut data = vec![0; (run.len * block) as usize];
            let len = (size - at * block).min(data.len() as u64) as usize;
            // cannot miss: the length is at most that of the data.
            read_exact(&file, data.get_mut(..len).unwrap_or(&mut []), at * block, source, entry)?;
            if let Some(cipher) = cipher {
                let units = block / cipher.data_unit().max(1) as u64;
                let encrypted = cipher.encrypt_contents(at * units, &mut data);
                encrypted.map_err(|fault| BuildError::Encryption { path: source.path_of(entry), fault })?;
            }
            space.write(run.first, &data)?;
            extents.push(at, run);
            at += run.len;
            progress.advanced(len as u64);
        }
    }
    source.check(entry, &file)?;
    Ok(size)
}

fn read_exact(
    file: &OwnedFd,
    buf: &mut [u8],
    at: u64,
    source: &Source,
    entry: usize,
) -> Result<(), BuildError> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, at + done as u64) {
            Ok(0) => return Err(BuildError::SourceChanged { path: source.path_of(entry) }),
            Ok(len) => done += len,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(host(&source.path_of(entry), errno)),
        }
    }
    Ok(())
}
