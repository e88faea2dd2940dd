//! Which parts of a file of the host hold data: the others stay holes.

use std::os::fd::AsFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Blocks from one on, up to another.
pub(super) type Blocks = core::ops::Range<u64>;

/// The next blocks of `file` with data in them, from block `from` on; `None` behind the last.
pub(super) fn next_data(file: impl AsFd, from: u64, size: u64, block: u64) -> Result<Option<Blocks>, Errno> {
    let at = from * block;
    if at >= size {
        return Ok(None);
    }
    let data = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok(None),
        // A filesystem that knows of no holes.
        Err(Errno::INVAL) => return Ok(Some(from..size.div_ceil(block))),
        Err(errno) => return Err(errno),
    };
    if data >= size {
        return Ok(None);
    }
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(data))?.clamp(data + 1, size);
    Ok(Some(data / block..hole.div_ceil(block)))
}

/// How many blocks with data a file has.
pub(super) fn count(file: impl AsFd, size: u64, block: u64) -> Result<u64, Errno> {
    let (mut at, mut sum) = (0, 0);
    while let Some(blocks) = next_data(&file, at, size, block)? {
        sum += blocks.end - blocks.start;
        at = blocks.end;
    }
    Ok(sum)
}
