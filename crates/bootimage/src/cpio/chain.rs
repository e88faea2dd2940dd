//! An initramfs file: archives one behind the other, each as it is or compressed, with zeros in between. Kernels take
//! microcode from the first of them, which is not compressed, and everything from all.

use std::borrow::Cow;
use std::fmt;

use crate::compress::{Compression, unpack_one, unsupported_name};

use super::read::{Entry, read_archive};
use super::{ALIGN, CpioError};

/// What reading may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that all segments together may unpack to.
    pub unpacked: u64,
}

impl Default for Limits {
    /// 2 GiB, more than any machine keeps in its first root file system.
    fn default() -> Self {
        Self { unpacked: 2 << 30 }
    }
}

/// One archive or one compressed stream of an initramfs file.
pub struct Segment<'a> {
    /// Where it begins in the file.
    pub offset: usize,
    /// Its length in the file, without the zeros that follow.
    pub len: usize,
    /// How it is compressed.
    pub compression: Compression,
    /// What it unpacks to. Key files may be in it.
    pub content: Cow<'a, [u8]>,
    /// Its files, in order; their `data` lies in `content`.
    pub entries: Vec<Entry>,
}

impl fmt::Debug for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("compression", &self.compression)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Segment<'_> {
    /// The content of an entry of this segment.
    pub fn data(&self, entry: &Entry) -> &[u8] {
        // cannot be out of range: the entry was read from this content.
        self.content.get(entry.data.clone()).unwrap_or_default()
    }
}

/// Reads a whole initramfs file.
///
/// # Errors
/// [`CpioError`] with the offset of what the kernel would stop at, [`CpioError::Compressed`] also for what
/// unpacks to more than `limits` permit.
pub fn read_chain(file: &[u8], limits: Limits) -> Result<Vec<Segment<'_>>, CpioError> {
    let mut segments = Vec::new();
    let mut left = limits.unpacked;
    let mut offset = skip_zeros(file, 0);
    while offset < file.len() {
        let segment = read_segment(file, offset, left)?;
        if segment.compression != Compression::None {
            // cannot be less: unpacking stops at the limit.
            left = left.saturating_sub(segment.content.len() as u64);
        }
        // cannot overflow: a part of the file.
        offset = skip_zeros(file, offset.saturating_add(segment.len));
        segments.push(segment);
    }
    match segments.is_empty() {
        true => Err(CpioError::NoTrailer { offset: file.len() }),
        false => Ok(segments),
    }
}

fn read_segment(file: &[u8], offset: usize, limit: u64) -> Result<Segment<'_>, CpioError> {
    // cannot be out of range: the loop ends with the file.
    let rest = file.get(offset..).unwrap_or_default();
    if rest.starts_with(b"0") && offset.is_multiple_of(ALIGN) {
        let (entries, end) = read_archive(file, offset)?;
        let content = Cow::Borrowed(file);
        return Ok(Segment {
            offset,
            // cannot be less: an archive ends behind its start.
            len: end.saturating_sub(offset),
            compression: Compression::None,
            content,
            entries,
        });
    }
    let Some(compression) = Compression::detect(rest) else {
        return Err(match unsupported_name(rest) {
            Some(name) => {
                CpioError::Compressed { offset, cause: crate::compress::CompressError::Unsupported { name } }
            }
            None => CpioError::Unknown { offset },
        });
    };
    let (content, len) =
        unpack_one(compression, rest, limit).map_err(|cause| CpioError::Compressed { offset, cause })?;
    let entries = read_stream(&content)
        .map_err(|cause| CpioError::Inside { segment: offset, cause: Box::new(cause) })?;
    Ok(Segment { offset, len, compression, content: Cow::Owned(content), entries })
}

/// A compressed stream may hold several archives, too.
fn read_stream(content: &[u8]) -> Result<Vec<Entry>, CpioError> {
    let mut entries = Vec::new();
    let mut offset = skip_zeros(content, 0);
    while offset < content.len() {
        let (more, end) = read_archive(content, offset)?;
        entries.extend(more);
        offset = skip_zeros(content, end);
    }
    Ok(entries)
}

fn skip_zeros(bytes: &[u8], from: usize) -> usize {
    // intended: nothing is there behind the end.
    let rest = bytes.get(from..).unwrap_or_default();
    // cannot overflow: a place in the file.
    from.saturating_add(rest.iter().position(|&byte| byte != 0).unwrap_or(rest.len()))
}
