//! Reads one archive. Nothing is ever extracted: entries say where their contents lie.

use std::ops::Range;

use super::{
    ALIGN, CpioError, HEADER, PATH_MAX, S_IFBLK, S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, TRAILER,
};

/// What kind of file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link; its target is the content.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A pipe, a socket, or nothing that Linux knows.
    Other,
}

/// One file of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name without leading `/` and `./`; the root directory is empty.
    pub name: Vec<u8>,
    /// Where the header is, in bytes from the start of the buffer.
    pub offset: usize,
    /// Kind and permissions, as in `stat`.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Inode number and device: entries of one archive that share them, with more than one link, are one file.
    pub inode: (u32, u32, u32),
    /// How many names the file has.
    pub links: u32,
    /// Seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Where the content lies in the buffer.
    pub data: Range<usize>,
}

impl Entry {
    /// The kind that its mode says.
    pub fn kind(&self) -> Kind {
        match self.mode & S_IFMT {
            S_IFDIR => Kind::Directory,
            S_IFREG => Kind::File,
            S_IFLNK => Kind::Symlink,
            S_IFCHR => Kind::CharDevice,
            S_IFBLK => Kind::BlockDevice,
            _ => Kind::Other,
        }
    }

    /// The name as text, with replacement characters for what is not UTF-8.
    pub fn name_text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

/// Reads the archive that begins at `start` in `bytes`, trailer included; returns its entries and where it ends. Padding
/// counts from the start of `bytes`, as the kernel counts it.
///
/// # Errors
/// [`CpioError::NoTrailer`] or [`CpioError::Truncated`] if the archive ends early, [`CpioError::Escapes`] for
/// a name with `..`. The others say which header is wrong. All have its offset.
pub fn read_archive(bytes: &[u8], start: usize) -> Result<(Vec<Entry>, usize), CpioError> {
    let mut entries = Vec::new();
    let mut offset = start;
    loop {
        if offset >= bytes.len() {
            return Err(CpioError::NoTrailer { offset: bytes.len() });
        }
        let (entry, end) = read_entry(bytes, offset)?;
        if entry.name == TRAILER {
            return Ok((entries, end));
        }
        if entry.name.split(|&byte| byte == b'/').any(|part| part == b"..") {
            return Err(CpioError::Escapes { offset, name: entry.name_text() });
        }
        entries.push(entry);
        offset = end;
    }
}

fn read_entry(bytes: &[u8], offset: usize) -> Result<(Entry, usize), CpioError> {
    let cut = |name: Option<&[u8]>, end: u64| CpioError::Truncated {
        offset,
        name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
        end,
    };
    // intended: nothing is there behind the end, which is an error below.
    let rest = bytes.get(offset..).unwrap_or_default();
    let Some((header, rest)) = rest.split_at_checked(HEADER) else {
        return Err(match rest.starts_with(b"07070") {
            // cannot overflow: a place in memory.
            true => cut(None, (offset as u64).saturating_add(HEADER as u64)),
            false => CpioError::Unknown { offset },
        });
    };
    match header.get(..6) {
        Some(b"070701" | b"070702") => {}
        Some(b"070707") => return Err(CpioError::OldFormat { offset }),
        _ => return Err(CpioError::Unknown { offset }),
    }
    // cannot be out of range: a header has 110 bytes.
    let mut fields = header.get(6..).unwrap_or_default().chunks_exact(8);
    let mut field = |field| fields.next().and_then(hexadecimal).ok_or(CpioError::Field { offset, field });
    let ino = field("ino")?;
    let mode = field("mode")?;
    let owner = (field("uid")?, field("gid")?);
    let links = field("nlink")?;
    let mtime = field("mtime")?;
    let size = field("filesize")?;
    let inode = (field("devmajor")?, field("devminor")?, ino);
    let device = (field("rdevmajor")?, field("rdevminor")?);
    let name_len = field("namesize")? as usize;
    field("check")?;

    if name_len == 0 || name_len > PATH_MAX {
        return Err(CpioError::Name { offset, len: name_len });
    }
    // Lengths are below 2^32 and offsets below the size of a buffer: their sums fit 64 bits.
    let name_end = offset as u64 + (HEADER + name_len) as u64;
    let Some(name) = rest.get(..name_len) else { return Err(cut(None, name_end)) };
    let Some((0, name)) = name.split_last() else { return Err(CpioError::Name { offset, len: name_len }) };
    if name.contains(&0) {
        return Err(CpioError::Name { offset, len: name_len });
    }
    let data_start = name_end.next_multiple_of(ALIGN as u64);
    let data_end = data_start + u64::from(size);
    let data = match (usize::try_from(data_start), usize::try_from(data_end)) {
        (Ok(start), Ok(end)) if end <= bytes.len() && start <= end => start..end,
        _ => return Err(cut(Some(name), data_end)),
    };
    // The last entry of a file may lack its padding; the kernel does not miss it.
    let end = data.end.next_multiple_of(ALIGN).min(bytes.len());
    let entry =
        Entry { name: relative(name).to_vec(), offset, mode, owner, inode, links, mtime, device, data };
    Ok((entry, end))
}

/// A name as the kernel takes it: from the root, wherever it says that it begins.
fn relative(mut name: &[u8]) -> &[u8] {
    loop {
        name = match name {
            [b'/', rest @ ..] | [b'.', b'/', rest @ ..] => rest,
            b"." => b"",
            _ => return name,
        };
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
}
