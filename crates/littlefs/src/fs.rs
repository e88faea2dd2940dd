//! A mounted littlefs, and the making of one.

use std::ffi::CString;

use atrest_device::{FlashDevice, FlashGeometry};

use crate::check::check;
use crate::error::{LittleFsError, MountError, UnmountError};
use crate::overlay::Overlay;
use crate::raw::{FileCall, FilePointer, Raw, Sizes, flags};
use crate::{MAX_ATTRIBUTE_LEN, MAX_FILE_LEN};

/// Version of the on-disk format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 2.0, which the `littlefs2` crate of firmware writes and every littlefs 2 reads.
    #[default]
    V2_0,
    /// 2.1, which notes what comes behind a commit in a checksum. Firmware that writes 2.0 refuses it.
    V2_1,
}

/// How a filesystem is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Version of the format.
    pub version: Version,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: 1 to 255 bytes without `/` and NUL, neither `.` nor `..`. The root's is `/`.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file; 0 for directories.
    pub size: u64,
}

/// How full a filesystem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u32,
    /// Blocks in use; a little more than that where files share some.
    pub used: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading.
    Read,
    /// For both; it exists.
    ReadWrite,
    /// For both; it is made, or emptied.
    Replace,
    /// For both; it must not exist.
    New,
}

/// An open file of one [`LittleFs`].
#[derive(Debug, PartialEq, Eq)]
pub struct FileId(usize);

/// A mounted littlefs. Dropped without [`unmount`](Self::unmount), it loses what open files have not synced.
///
/// Paths are names joined by `/`; the root is empty. `..` is resolved by the library without a look at the tree.
///
/// Every operation can fail with [`LittleFsError::Flash`] if the medium does, with [`LittleFsError::Corrupt`] if it
/// meets damage, and with [`LittleFsError::Invalid`] for a path with a NUL in it.
pub struct LittleFs<D: FlashDevice> {
    raw: Raw<Overlay<D>>,
    writable: bool,
    interrupted: bool,
    block_size: u32,
    block_count: u32,
    /// Open files by their number, and whether they may be written. Behind `raw`: they go when the library is gone.
    files: Vec<Option<(FilePointer, bool)>>,
}

/// Makes an empty littlefs over the whole device. What was there can't be read afterwards. Gives the device back.
///
/// # Errors
/// [`MountError::UnusableGeometry`] if [`fits`] refuses the medium, [`MountError::Flash`] if the medium
/// fails: what was there may be gone.
pub fn format<D: FlashDevice>(device: D, options: &FormatOptions) -> Result<D, MountError> {
    let sizes = sizes(device.geometry())?;
    let version = match options.version {
        Version::V2_0 => 0x0002_0000,
        Version::V2_1 => 0x0002_0001,
    };
    let mut raw = Raw::new(device, sizes, version, true);
    raw.format().map_err(MountError::from)?;
    raw.device().sync()?;
    Ok(raw.into_device())
}

/// Checks that littlefs can use a medium.
///
/// # Errors
/// [`MountError::UnusableGeometry`] if it can't.
pub fn fits(geometry: FlashGeometry) -> Result<(), MountError> {
    sizes(geometry).map(drop)
}

fn sizes(geometry: FlashGeometry) -> Result<Sizes, MountError> {
    Sizes::of(geometry).ok_or(MountError::UnusableGeometry { device: geometry })
}

impl<D: FlashDevice> LittleFs<D> {
    /// Checks all metadata and mounts. What a power loss has interrupted is completed: on the medium if that may be
    /// written, otherwise in memory; until then littlefs may leave files out of a listing. Nothing else is written. The
    /// version of the format stays as it is.
    ///
    /// # Errors
    /// [`MountError::UnusableGeometry`] if [`fits`] refuses the medium, and whatever [`check`](check())
    /// finds: damage, another version or another medium's file system. [`MountError::Flash`] if the medium
    /// fails.
    pub fn mount(mut device: D, writable: bool) -> Result<Self, MountError> {
        let sizes = sizes(device.geometry())?;
        let summary = check(&mut device)?;
        let interrupted = summary.interrupted;
        let device = Overlay::new(device, !writable);
        let mut raw = Raw::new(device, sizes, summary.version, writable || interrupted);
        raw.mount().map_err(MountError::from)?;
        if interrupted {
            raw.make_consistent().map_err(MountError::from)?;
        }
        let (block_size, block_count) = (summary.block_size, summary.block_count);
        Ok(Self { raw, writable, interrupted, block_size, block_count, files: Vec::new() })
    }

    /// Whether a power loss had interrupted a change when it was mounted.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Closes what is open, makes it durable and gives the device back.
    ///
    /// # Errors
    /// [`UnmountError`] with what an open file or the medium answers to being made durable, and with the
    /// device. All files are closed then, and what was synced before holds.
    pub fn unmount(mut self) -> Result<D, UnmountError<D>> {
        let mut result = Ok(());
        for (file, _) in core::mem::take(&mut self.files).into_iter().flatten() {
            result = self.raw.close(file).and(result);
        }
        let result = result.and_then(|()| self.sync());
        // Taken apart: the files are closed, so that dropping has nothing left to do.
        let Self { raw, .. } = self;
        let device = raw.into_device().into_device();
        match result {
            Ok(()) => Ok(device),
            Err(error) => Err(UnmountError { error, device }),
        }
    }

    /// Makes durable what was written, except to files that are open and not synced.
    ///
    /// # Errors
    /// [`LittleFsError::Flash`] if the medium fails.
    pub fn sync(&mut self) -> Result<(), LittleFsError> {
        if self.writable { self.raw.device().sync().map_err(LittleFsError::Flash) } else { Ok(()) }
    }

    /// What is at a path.
    ///
    /// # Errors
    /// [`LittleFsError::NotFound`] or [`LittleFsError::NotADirectory`] if the path leads nowhere.
    pub fn stat(&mut self, path: &[u8]) -> Result<Entry, LittleFsError> {
        let info = self.raw.stat(&c_path(path)?)?;
        Ok(entry(info))
    }

    /// The entries of a directory without `.` and `..`, ordered by name.
    ///
    /// # Errors
    /// [`LittleFsError::NotFound`] or [`LittleFsError::NotADirectory`] if the path leads nowhere, or to a
    /// file.
    pub fn read_dir(&mut self, path: &[u8]) -> Result<Vec<Entry>, LittleFsError> {
        let mut entries = Vec::new();
        self.each_entry(path, &mut |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// Hands over the entries of a directory one by one, as [`read_dir`](Self::read_dir) gives them all.
    ///
    /// # Errors
    /// Fails where [`read_dir`](Self::read_dir) does. Some entries may have been handed over then.
    pub fn each_entry(&mut self, path: &[u8], take: &mut dyn FnMut(Entry)) -> Result<(), LittleFsError> {
        self.raw.read_dir(&c_path(path)?, &mut |info| {
            let entry = entry(info);
            if !matches!(&entry.name[..], b"." | b"..") {
                take(entry);
            }
        })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`LittleFsError::ReadOnly`] if the file system is mounted for reading, [`LittleFsError::Exists`] if
    /// something is there, [`LittleFsError::NameTooLong`], [`LittleFsError::NoSpace`], and what
    /// [`stat`](Self::stat) says of the path above.
    pub fn mkdir(&mut self, path: &[u8]) -> Result<(), LittleFsError> {
        self.check_writable()?;
        self.raw.mkdir(&c_path(path)?)
    }

    /// Removes a file or an empty directory. A file that is open must not be removed: close it before.
    ///
    /// # Errors
    /// [`LittleFsError::ReadOnly`] if the file system is mounted for reading, [`LittleFsError::NotEmpty`] for
    /// a directory that is not empty, and what [`stat`](Self::stat) says of the path.
    pub fn remove(&mut self, path: &[u8]) -> Result<(), LittleFsError> {
        self.check_writable()?;
        self.raw.remove(&c_path(path)?)
    }

    /// Moves an entry. What is at `to` is replaced if it is of the same kind, and a directory empty.
    ///
    /// # Errors
    /// [`LittleFsError::ReadOnly`] if the file system is mounted for reading, [`LittleFsError::Invalid`] if a
    /// directory would go into itself, [`LittleFsError::IsADirectory`], [`LittleFsError::NotADirectory`] or
    /// [`LittleFsError::NotEmpty`] if what is at `to` can't be replaced, [`LittleFsError::NoSpace`], and what
    /// [`stat`](Self::stat) says of the paths.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), LittleFsError> {
        self.check_writable()?;
        if to.strip_prefix(from).is_some_and(|rest| rest.starts_with(b"/")) {
            // The library would cut the directory off.
            return Err(LittleFsError::Invalid);
        }
        self.raw.rename(&c_path(from)?, &c_path(to)?)
    }

    /// Reads an attribute: 8-bit types are the user's own. None if there is none.
    ///
    /// # Errors
    /// [`LittleFsError::NotFound`] or [`LittleFsError::NotADirectory`] if the path leads nowhere. An
    /// attribute that is not there is no error.
    pub fn attribute(&mut self, path: &[u8], kind: u8) -> Result<Option<Vec<u8>>, LittleFsError> {
        let path = c_path(path)?;
        let mut value = vec![0; MAX_ATTRIBUTE_LEN];
        match self.raw.attribute(&path, kind, &mut value) {
            Ok(len) => {
                value.truncate(len as usize);
                Ok(Some(value))
            }
            // Either the file or its attribute.
            Err(LittleFsError::NotFound) => self.raw.stat(&path).map(|_| None),
            Err(error) => Err(error),
        }
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`LittleFsError::ReadOnly`] if the file system is mounted for reading,
    /// [`LittleFsError::AttributeTooLong`] if the value is longer than [`MAX_ATTRIBUTE_LEN`],
    /// [`LittleFsError::NoSpace`] if nothing is left, and what [`stat`](Self::stat) says of the path.
    pub fn set_attribute(&mut self, path: &[u8], kind: u8, value: &[u8]) -> Result<(), LittleFsError> {
        self.check_writable()?;
        if value.len() > MAX_ATTRIBUTE_LEN {
            return Err(LittleFsError::AttributeTooLong { len: value.len() });
        }
        self.raw.set_attribute(&c_path(path)?, kind, value)
    }

    /// How full it is. Looks at every file.
    ///
    /// # Errors
    /// [`LittleFsError::Flash`] if the medium fails, [`LittleFsError::Corrupt`] if it is damaged.
    pub fn space(&mut self) -> Result<Space, LittleFsError> {
        let used = self.raw.used_blocks()?.min(self.block_count);
        Ok(Space { block_size: self.block_size, blocks: self.block_count, used })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`LittleFsError::NotFound`] or [`LittleFsError::NotADirectory`] if the path leads nowhere,
    /// [`LittleFsError::IsADirectory`] for a directory. To write: [`LittleFsError::ReadOnly`] if the file
    /// system is mounted for reading, [`LittleFsError::Exists`] for [`OpenMode::New`] where something is,
    /// [`LittleFsError::NameTooLong`] and [`LittleFsError::NoSpace`].
    pub fn open(&mut self, path: &[u8], mode: OpenMode) -> Result<FileId, LittleFsError> {
        let flags = match mode {
            OpenMode::Read => flags::READ,
            OpenMode::ReadWrite => flags::READ_WRITE,
            OpenMode::Replace => flags::READ_WRITE | flags::CREATE | flags::TRUNCATE,
            OpenMode::New => flags::READ_WRITE | flags::CREATE | flags::EXCLUSIVE,
        };
        if mode != OpenMode::Read {
            self.check_writable()?;
        }
        let file = (self.raw.open(&c_path(path)?, flags)?, mode != OpenMode::Read);
        let free = self.files.iter().position(Option::is_none);
        match free.and_then(|number| Some((number, self.files.get_mut(number)?))) {
            Some((number, place)) => {
                *place = Some(file);
                Ok(FileId(number))
            }
            None => {
                self.files.push(Some(file));
                // cannot overflow: one was pushed.
                Ok(FileId(self.files.len().saturating_sub(1)))
            }
        }
    }

    /// Closes a file, which makes it durable.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if it is not open. [`LittleFsError::Flash`] or [`LittleFsError::NoSpace`]
    /// if it can't be made durable; it is closed all the same.
    pub fn close(&mut self, file: FileId) -> Result<(), LittleFsError> {
        let open = self.files.get_mut(file.0).and_then(Option::take).ok_or(LittleFsError::NotOpen)?;
        self.raw.close(open.0)
    }

    /// Reads from byte `offset`; returns how much there was, 0 at the end.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if the file is not open.
    pub fn read_at(&mut self, file: &FileId, offset: u64, buf: &mut [u8]) -> Result<usize, LittleFsError> {
        if offset >= self.file_size(file)? {
            return Ok(0);
        }
        self.seek(file, offset)?;
        Ok(self.call(file, FileCall::Read(buf))? as usize)
    }

    /// Writes at byte `offset`, at most at the end. Others see it, and it is durable, once the file is synced or closed.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if the file is not open to be written, [`LittleFsError::TooLarge`] if it
    /// would be larger than [`MAX_FILE_LEN`], [`LittleFsError::Invalid`] behind its end,
    /// [`LittleFsError::NoSpace`] if no room is left.
    pub fn write_at(&mut self, file: &FileId, offset: u64, data: &[u8]) -> Result<(), LittleFsError> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > MAX_FILE_LEN) {
            return Err(LittleFsError::TooLarge);
        }
        if offset > self.file_size(file)? {
            return Err(LittleFsError::Invalid);
        }
        self.seek(file, offset)?;
        let mut rest = data;
        while !rest.is_empty() {
            let written = self.call(file, FileCall::Write(rest))? as usize;
            rest = rest.get(written..).filter(|_| written > 0).ok_or(LittleFsError::NoSpace)?;
        }
        Ok(())
    }

    /// Cuts a file, or fills it up with zeros.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if the file is not open to be written, [`LittleFsError::TooLarge`] above
    /// [`MAX_FILE_LEN`], [`LittleFsError::NoSpace`] if no room is left.
    pub fn truncate(&mut self, file: &FileId, size: u64) -> Result<(), LittleFsError> {
        let size = u32::try_from(size).ok().filter(|size| u64::from(*size) <= MAX_FILE_LEN);
        self.call(file, FileCall::Truncate(size.ok_or(LittleFsError::TooLarge)?)).map(drop)
    }

    /// Makes a file durable.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if the file is not open, [`LittleFsError::NoSpace`] if no room is left for
    /// it.
    pub fn sync_file(&mut self, file: &FileId) -> Result<(), LittleFsError> {
        self.call(file, FileCall::Sync).map(drop)
    }

    /// Bytes of an open file, those included that are not synced.
    ///
    /// # Errors
    /// [`LittleFsError::NotOpen`] if the file is not open.
    pub fn file_size(&mut self, file: &FileId) -> Result<u64, LittleFsError> {
        self.call(file, FileCall::Size).map(u64::from)
    }

    fn seek(&mut self, file: &FileId, offset: u64) -> Result<(), LittleFsError> {
        let offset = i32::try_from(offset).map_err(|_| LittleFsError::TooLarge)?;
        self.call(file, FileCall::Seek(offset)).map(drop)
    }

    fn call(&mut self, file: &FileId, call: FileCall<'_>) -> Result<u32, LittleFsError> {
        let open = self.files.get(file.0).and_then(Option::as_ref).ok_or(LittleFsError::NotOpen)?;
        let (file, writable) = open;
        // The library takes this for granted.
        if !writable && matches!(call, FileCall::Write(_) | FileCall::Truncate(_)) {
            return Err(LittleFsError::NotOpen);
        }
        self.raw.file(file, call)
    }

    fn check_writable(&self) -> Result<(), LittleFsError> {
        if self.writable { Ok(()) } else { Err(LittleFsError::ReadOnly) }
    }
}

impl<D: FlashDevice> core::fmt::Debug for LittleFs<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LittleFs")
            .field("block_size", &self.block_size)
            .field("block_count", &self.block_count)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl From<LittleFsError> for MountError {
    fn from(error: LittleFsError) -> Self {
        match error {
            LittleFsError::Flash(error) => Self::Flash(error),
            error => Self::Refused(error),
        }
    }
}

fn c_path(path: &[u8]) -> Result<CString, LittleFsError> {
    // The library takes an empty path for none.
    CString::new(if path.is_empty() { b"/" } else { path }).map_err(|_| LittleFsError::Invalid)
}

fn entry(info: crate::raw::Info) -> Entry {
    let kind = if info.directory { Kind::Directory } else { Kind::File };
    Entry { name: info.name, kind, size: u64::from(info.size) }
}
