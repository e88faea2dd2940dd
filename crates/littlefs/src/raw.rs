//! The C library behind functions that can be called from safe code. Specification: `lfs.h` of littlefs 2.9.
//!
//! What every block below stands on:
//! * All that the library keeps pointers to (its state, the configuration, its buffers, open files) is in allocations of
//!   their own, which are reached through raw pointers only and live until the mount ends: they are never moved, and no
//!   reference to them is alive while the library runs.
//! * The library has no state outside of these and starts no threads; `&mut self` keeps calls apart.
//! * The configuration fulfils what `lfs_init` would assert ([`Sizes::of`]). Assertions are compiled out by littlefs2-sys.
//! * Metadata were held against the specification by [`check`](crate::check) before.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::zeroed;
use core::ptr::{addr_of, addr_of_mut};
use std::boxed::Box;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use littlefs2_sys as lfs;

use crate::error::LittleFsError;

/// Bytes that a cache has at least, where an erase block has them: inline files must fit.
const CACHE: u32 = 1024;
/// Bytes that a cache has at best: long runs for the cipher.
const LARGE_CACHE: u32 = 16 << 10;
/// Bytes in an erase block at most; whole blocks are read into memory.
const MAX_ERASE: u32 = 16 << 20;
/// Bytes of the map of free blocks.
const LOOKAHEAD: usize = 4096;

/// What the library is told of a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    geometry: FlashGeometry,
    block_count: u32,
    cache: u32,
}

impl Sizes {
    /// None for a medium that littlefs can't use.
    pub fn of(geometry: FlashGeometry) -> Option<Self> {
        let block_count =
            u32::try_from(geometry.block_count()).ok().filter(|count| (2..u32::MAX).contains(count))?;
        let erase = geometry.erase_size();
        if !(128..=MAX_ERASE).contains(&erase) {
            return None;
        }
        // A cache is a whole number of prog units and divides an erase block.
        let whole = |units: u32| geometry.units_per_block().is_multiple_of(units);
        let bytes = |units: u32| units.checked_mul(geometry.prog_size());
        let fits = |most: u32| {
            let most_units =
                most.checked_div(geometry.prog_size()).unwrap_or(1).clamp(1, geometry.units_per_block());
            (1..=most_units).rev().find(|units| whole(*units)).and_then(bytes)
        };
        let cache = fits(LARGE_CACHE).filter(|cache| *cache >= CACHE.min(erase)).unwrap_or(erase);
        Some(Self { geometry, block_count, cache })
    }
}

/// A device below the library, and the last thing that it reported.
struct Medium<D> {
    device: D,
    scratch: Vec<u8>,
    writable: bool,
    failed: Option<FlashError>,
}

/// Everything that the library has pointers to.
struct State<D> {
    lfs: lfs::lfs_t,
    config: lfs::lfs_config,
    medium: Medium<D>,
    buffers: [Vec<u8>; 3],
}

/// A library's state, mounted or not.
pub(crate) struct Raw<D: FlashDevice> {
    state: *mut State<D>,
    mounted: bool,
    cache: usize,
}

// SAFETY: the state has one owner, this value; the library keeps nothing that belongs to a thread.
unsafe impl<D: FlashDevice + Send> Send for Raw<D> {}

/// An open file: its state in the library, its buffer and its configuration.
pub(crate) struct RawFile {
    file: lfs::lfs_file_t,
    config: lfs::lfs_file_config,
    buffer: Vec<u8>,
}

/// An open file, at a place where it stays until it is dropped: after [`Raw::close`], or after the [`Raw`] itself.
pub(crate) struct FilePointer(*mut RawFile);

impl Drop for FilePointer {
    fn drop(&mut self) {
        // SAFETY: it came from a `Box` and is freed here only. The library has forgotten it, or runs no more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

// SAFETY: as for `Raw`, with which it is used.
unsafe impl Send for FilePointer {}

/// An open directory; the same.
struct RawDir(*mut lfs::lfs_dir_t);

impl<D: FlashDevice> Raw<D> {
    /// Prepares the library for a device.
    pub fn new(device: D, sizes: Sizes, version: u32, writable: bool) -> Self {
        let Sizes { geometry, block_count, cache } = sizes;
        let buffer = |len: usize| vec![0_u8; len];
        let cache_len = cache as usize;
        let medium = Medium { device, scratch: buffer(cache_len), writable, failed: None };
        // SAFETY: both are C structures of integers, pointers and optional function pointers, for which zero is a value;
        // lfs.h asks for a configuration that is zero where nothing is said.
        let (lfs, config) = unsafe { (zeroed::<lfs::lfs_t>(), zeroed::<lfs::lfs_config>()) };
        let buffers = [buffer(cache_len), buffer(cache_len), buffer(LOOKAHEAD)];
        let state = Box::into_raw(Box::new(State { lfs, config, medium, buffers }));
        // SAFETY: `state` was allocated just now and nobody else has it.
        unsafe {
            let config = &mut (*state).config;
            config.context = addr_of_mut!((*state).medium).cast();
            config.read = Some(read::<D>);
            config.prog = Some(prog::<D>);
            config.erase = Some(erase::<D>);
            config.sync = Some(sync::<D>);
            config.read_size = geometry.read_size();
            config.prog_size = geometry.prog_size();
            config.block_size = geometry.erase_size();
            config.block_count = block_count;
            config.block_cycles = -1;
            config.cache_size = cache;
            config.lookahead_size = LOOKAHEAD as u32;
            let [read, prog, lookahead] = &mut (*state).buffers;
            config.read_buffer = read.as_mut_ptr().cast();
            config.prog_buffer = prog.as_mut_ptr().cast();
            config.lookahead_buffer = lookahead.as_mut_ptr().cast();
            config.disk_version = version;
        }
        Self { state, mounted: false, cache: cache_len }
    }

    /// Makes an empty filesystem.
    pub fn format(&mut self) -> Result<(), LittleFsError> {
        // SAFETY: see the top of the file.
        let code = unsafe { lfs::lfs_format(self.lfs(), addr_of!((*self.state).config)) };
        self.result(code).map(drop)
    }

    pub fn mount(&mut self) -> Result<(), LittleFsError> {
        // SAFETY: see the top of the file.
        let code = unsafe { lfs::lfs_mount(self.lfs(), addr_of!((*self.state).config)) };
        self.result(code)?;
        self.mounted = true;
        Ok(())
    }

    /// The device; nobody else uses it while it is borrowed.
    pub fn device(&mut self) -> &mut D {
        // SAFETY: `state` is alive, and `&mut self` keeps the library from running.
        unsafe { &mut (*self.state).medium.device }
    }

    /// Ends the mount and gives the device back.
    pub fn into_device(self) -> D {
        let mut this = core::mem::ManuallyDrop::new(self);
        this.unmount();
        // SAFETY: `state` came from a `Box`; as `this` is not dropped, it is freed here and only here.
        let state = unsafe { Box::from_raw(this.state) };
        state.medium.device
    }

    fn unmount(&mut self) {
        if core::mem::take(&mut self.mounted) {
            // SAFETY: see the top of the file. It only gives back buffers, which are ours.
            unsafe { lfs::lfs_unmount(self.lfs()) };
        }
    }

    fn lfs(&self) -> *mut lfs::lfs_t {
        // SAFETY: `state` is alive as long as `self`; no reference is made.
        unsafe { addr_of_mut!((*self.state).lfs) }
    }

    /// A call that takes a path.
    fn with_path(
        &mut self,
        path: &CStr,
        call: unsafe extern "C" fn(*mut lfs::lfs_t, *const c_char) -> c_int,
    ) -> Result<(), LittleFsError> {
        // SAFETY: see the top of the file; the path ends with a NUL.
        let code = unsafe { call(self.lfs(), path.as_ptr()) };
        self.result(code).map(drop)
    }

    pub fn mkdir(&mut self, path: &CStr) -> Result<(), LittleFsError> {
        self.with_path(path, lfs::lfs_mkdir)
    }

    pub fn remove(&mut self, path: &CStr) -> Result<(), LittleFsError> {
        self.with_path(path, lfs::lfs_remove)
    }

    pub fn rename(&mut self, from: &CStr, to: &CStr) -> Result<(), LittleFsError> {
        // SAFETY: see the top of the file; the paths end with a NUL.
        let code = unsafe { lfs::lfs_rename(self.lfs(), from.as_ptr(), to.as_ptr()) };
        self.result(code).map(drop)
    }

    pub fn stat(&mut self, path: &CStr) -> Result<Info, LittleFsError> {
        let mut info = empty_info();
        // SAFETY: see the top of the file; `info` is written by the library before it returns.
        let code = unsafe { lfs::lfs_stat(self.lfs(), path.as_ptr(), &raw mut info) };
        self.result(code)?;
        Ok(Info::of(&info))
    }

    /// Hands over the entries of a directory one by one, `.` and `..` among them.
    pub fn read_dir(&mut self, path: &CStr, take: &mut dyn FnMut(Info)) -> Result<(), LittleFsError> {
        // SAFETY: a C structure of integers and pointers, for which zero is a value.
        let dir = RawDir(Box::into_raw(Box::new(unsafe { zeroed() })));
        // SAFETY: see the top of the file; `dir` stays where it is until it is closed.
        let opened = self.result(unsafe { lfs::lfs_dir_open(self.lfs(), dir.0, path.as_ptr()) });
        let result = opened.and_then(|_| {
            let entries = self.entries(&dir, take);
            // SAFETY: it was opened. Closing takes it out of the library's list.
            let closed = self.result(unsafe { lfs::lfs_dir_close(self.lfs(), dir.0) });
            closed.and(entries)
        });
        // SAFETY: it came from a `Box`, and the library has forgotten it or never knew it.
        drop(unsafe { Box::from_raw(dir.0) });
        result
    }

    fn entries(&mut self, dir: &RawDir, take: &mut dyn FnMut(Info)) -> Result<(), LittleFsError> {
        loop {
            let mut info = empty_info();
            // SAFETY: see the top of the file; `dir` is open and `info` is written before the call returns.
            let code = unsafe { lfs::lfs_dir_read(self.lfs(), dir.0, &raw mut info) };
            if self.result(code)? == 0 {
                return Ok(());
            }
            take(Info::of(&info));
        }
    }

    pub fn open(&mut self, path: &CStr, flags: u32) -> Result<FilePointer, LittleFsError> {
        // SAFETY: C structures of integers and pointers, for which zero is a value.
        let (file, config) = unsafe { (zeroed(), zeroed()) };
        let pointer = Box::into_raw(Box::new(RawFile { file, config, buffer: vec![0; self.cache] }));
        let opened = FilePointer(pointer);
        // SAFETY: `pointer` was allocated just now; the library keeps pointers to its parts until it is closed. Its
        // buffer has the size of a cache, as lfs.h asks.
        let code = unsafe {
            (*pointer).config.buffer = (*pointer).buffer.as_mut_ptr().cast();
            lfs::lfs_file_opencfg(
                self.lfs(),
                addr_of_mut!((*pointer).file),
                path.as_ptr(),
                flags.cast_signed(),
                addr_of!((*pointer).config),
            )
        };
        // What fails to open is in no list of the library.
        self.result(code).map(|_| opened)
    }

    /// Closes a file, which writes what is left.
    pub fn close(&mut self, file: FilePointer) -> Result<(), LittleFsError> {
        // SAFETY: it was opened here; the library forgets it even if it reports an error.
        let code = unsafe { lfs::lfs_file_close(self.lfs(), addr_of_mut!((*file.0).file)) };
        self.result(code).map(drop)
    }

    /// A call that takes an open file.
    pub fn file(&mut self, file: &FilePointer, call: FileCall<'_>) -> Result<u32, LittleFsError> {
        let lfs = self.lfs();
        // SAFETY: see the top of the file. The file is open and at its place; buffers are as long as is said, and the
        // library keeps no pointer to them.
        let code = unsafe {
            let file = addr_of_mut!((*file.0).file);
            match call {
                FileCall::Read(buf) => {
                    let len = buf.len().min(MOST) as u32;
                    lfs::lfs_file_read(lfs, file, buf.as_mut_ptr().cast(), len)
                }
                FileCall::Write(data) => {
                    let len = data.len().min(MOST) as u32;
                    lfs::lfs_file_write(lfs, file, data.as_ptr().cast(), len)
                }
                FileCall::Seek(to) => lfs::lfs_file_seek(lfs, file, to, 0),
                FileCall::Truncate(size) => lfs::lfs_file_truncate(lfs, file, size),
                FileCall::Sync => lfs::lfs_file_sync(lfs, file),
                FileCall::Size => lfs::lfs_file_size(lfs, file),
            }
        };
        self.result(code)
    }

    pub fn attribute(&mut self, path: &CStr, kind: u8, buf: &mut [u8]) -> Result<u32, LittleFsError> {
        let (data, len) = (buf.as_mut_ptr().cast(), buf.len() as u32);
        // SAFETY: see the top of the file; the buffer is as long as is said.
        let code = unsafe { lfs::lfs_getattr(self.lfs(), path.as_ptr(), kind, data, len) };
        self.result(code)
    }

    pub fn set_attribute(&mut self, path: &CStr, kind: u8, value: &[u8]) -> Result<(), LittleFsError> {
        let (data, len) = (value.as_ptr().cast(), value.len() as u32);
        // SAFETY: see the top of the file; the buffer is as long as is said.
        let code = unsafe { lfs::lfs_setattr(self.lfs(), path.as_ptr(), kind, data, len) };
        self.result(code).map(drop)
    }

    /// Completes what a power loss has interrupted.
    pub fn make_consistent(&mut self) -> Result<(), LittleFsError> {
        // SAFETY: see the top of the file.
        let code = unsafe { lfs::lfs_fs_mkconsistent(self.lfs()) };
        self.result(code).map(drop)
    }

    /// Blocks in use.
    pub fn used_blocks(&mut self) -> Result<u32, LittleFsError> {
        // SAFETY: see the top of the file.
        let code = unsafe { lfs::lfs_fs_size(self.lfs()) };
        self.result(code)
    }

    /// What a return code means. A failure of the medium is reported as such.
    fn result(&mut self, code: i32) -> Result<u32, LittleFsError> {
        // SAFETY: `state` is alive, and the library does not run.
        let failed = unsafe { (*self.state).medium.failed.take() };
        match u32::try_from(code) {
            Ok(value) => Ok(value),
            Err(_) => Err(error(code, failed)),
        }
    }
}

impl<D: FlashDevice> Drop for Raw<D> {
    fn drop(&mut self) {
        self.unmount();
        // SAFETY: it came from a `Box` and is freed nowhere else (`into_device` does not drop).
        drop(unsafe { Box::from_raw(self.state) });
    }
}

/// Most bytes in one call: results are signed.
const MOST: usize = 1 << 30;

/// What is done with an open file.
pub(crate) enum FileCall<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
    Seek(i32),
    Truncate(u32),
    Sync,
    Size,
}

/// An entry as the library tells it.
pub(crate) struct Info {
    pub directory: bool,
    pub size: u32,
    pub name: Vec<u8>,
}

impl Info {
    fn of(info: &lfs::lfs_info) -> Self {
        let name =
            info.name.iter().flat_map(|byte| byte.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        let directory = u32::from(info.type_) == lfs::lfs_type_LFS_TYPE_DIR;
        Self { directory, size: if directory { 0 } else { info.size }, name }
    }
}

fn empty_info() -> lfs::lfs_info {
    lfs::lfs_info { type_: 0, size: 0, name: [0; 256] }
}

/// The flags of `enum lfs_open_flags`.
pub(crate) mod flags {
    use littlefs2_sys as lfs;

    pub const READ: u32 = lfs::lfs_open_flags_LFS_O_RDONLY;
    pub const READ_WRITE: u32 = lfs::lfs_open_flags_LFS_O_RDWR;
    pub const CREATE: u32 = lfs::lfs_open_flags_LFS_O_CREAT;
    pub const EXCLUSIVE: u32 = lfs::lfs_open_flags_LFS_O_EXCL;
    pub const TRUNCATE: u32 = lfs::lfs_open_flags_LFS_O_TRUNC;
}

fn error(code: i32, failed: Option<FlashError>) -> LittleFsError {
    match (code, failed) {
        (lfs::lfs_error_LFS_ERR_IO | lfs::lfs_error_LFS_ERR_CORRUPT, Some(failed)) => {
            LittleFsError::Flash(failed)
        }
        (lfs::lfs_error_LFS_ERR_CORRUPT, None) => LittleFsError::Corrupt,
        (lfs::lfs_error_LFS_ERR_NOENT, _) => LittleFsError::NotFound,
        (lfs::lfs_error_LFS_ERR_EXIST, _) => LittleFsError::Exists,
        (lfs::lfs_error_LFS_ERR_NOTDIR, _) => LittleFsError::NotADirectory,
        (lfs::lfs_error_LFS_ERR_ISDIR, _) => LittleFsError::IsADirectory,
        (lfs::lfs_error_LFS_ERR_NOTEMPTY, _) => LittleFsError::NotEmpty,
        (lfs::lfs_error_LFS_ERR_BADF, _) => LittleFsError::NotOpen,
        (lfs::lfs_error_LFS_ERR_FBIG, _) => LittleFsError::TooLarge,
        (lfs::lfs_error_LFS_ERR_INVAL, _) => LittleFsError::Invalid,
        (lfs::lfs_error_LFS_ERR_NOSPC, _) => LittleFsError::NoSpace,
        (lfs::lfs_error_LFS_ERR_NAMETOOLONG, _) => LittleFsError::NameTooLong,
        (lfs::lfs_error_LFS_ERR_NOATTR, _) => LittleFsError::NotFound,
        (code, _) => LittleFsError::Unknown { code },
    }
}

impl<D: FlashDevice> Medium<D> {
    /// What the library is told. It writes elsewhere where a block is bad, and takes other failures for final: what an
    /// authenticating layer refuses must never make it fall back to older metadata.
    fn told(&mut self, result: Result<(), FlashError>) -> c_int {
        let Err(error) = result else { return 0 };
        self.failed = Some(error);
        match error.cause {
            FlashCause::BadBlock { .. }
            | FlashCause::Uncorrectable
            | FlashCause::AlreadyProgrammed { .. }
            | FlashCause::Void { .. }
            | FlashCause::Closed { .. }
            | FlashCause::OutOfOrder { .. } => lfs::lfs_error_LFS_ERR_CORRUPT,
            _ => lfs::lfs_error_LFS_ERR_IO,
        }
    }

    fn address(&self, block: u32, offset: u32) -> u64 {
        let erase = u64::from(self.device.geometry().erase_size());
        // cannot overflow: the block lies on the medium, and what does not is refused there.
        u64::from(block).saturating_mul(erase).saturating_add(u64::from(offset))
    }

    /// Programs units that are blank; others hold what a power loss left, and are not programmed twice.
    fn program(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let denied =
            |cause| FlashError::new(atrest_device::FlashOperation::Prog, address, data.len() as u64, cause);
        if !self.writable {
            return Err(denied(FlashCause::ReadOnly));
        }
        match self.device.is_blank(address, data.len() as u64, &mut self.scratch) {
            Ok(false) => return Err(denied(FlashCause::AlreadyProgrammed { unit: address })),
            // Media without a notion of blank units can be overwritten.
            Ok(true) | Err(FlashError { cause: FlashCause::Unsupported, .. }) => {}
            Err(error) => return Err(error),
        }
        self.device.prog(address, data)
    }
}

/// # Safety
/// To be called by the library with the configuration that `Raw::new` made.
unsafe fn medium<'a, D: FlashDevice>(config: *const lfs::lfs_config) -> &'a mut Medium<D> {
    // SAFETY: the context of that configuration points to the `Medium<D>` beside it, which is alive. While the library
    // runs nobody else has a reference to it, and the library calls back one at a time.
    unsafe { &mut *(*config).context.cast::<Medium<D>>() }
}

unsafe extern "C" fn read<D: FlashDevice>(
    config: *const lfs::lfs_config,
    block: u32,
    offset: u32,
    buffer: *mut c_void,
    len: u32,
) -> c_int {
    if buffer.is_null() {
        return lfs::lfs_error_LFS_ERR_IO;
    }
    // SAFETY: the library hands over its configuration, and a buffer of so many bytes, initialised: one of ours, a local
    // variable of its own that the device may only write to, or the caller's.
    let (medium, buf) =
        unsafe { (medium::<D>(config), core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len as usize)) };
    let address = medium.address(block, offset);
    let result = medium.device.read(address, buf);
    medium.told(result)
}

unsafe extern "C" fn prog<D: FlashDevice>(
    config: *const lfs::lfs_config,
    block: u32,
    offset: u32,
    buffer: *const c_void,
    len: u32,
) -> c_int {
    if buffer.is_null() {
        return lfs::lfs_error_LFS_ERR_IO;
    }
    // SAFETY: the library hands over its configuration, and a buffer of so many bytes.
    let (medium, data) =
        unsafe { (medium::<D>(config), core::slice::from_raw_parts(buffer.cast::<u8>(), len as usize)) };
    let address = medium.address(block, offset);
    let result = medium.program(address, data);
    medium.told(result)
}

unsafe extern "C" fn erase<D: FlashDevice>(config: *const lfs::lfs_config, block: u32) -> c_int {
    // SAFETY: the library hands over its configuration.
    let medium = unsafe { medium::<D>(config) };
    let (address, len) = (medium.address(block, 0), u64::from(medium.device.geometry().erase_size()));
    let denied = FlashError::new(atrest_device::FlashOperation::Erase, address, len, FlashCause::ReadOnly);
    let result = if medium.writable { medium.device.erase(address, len) } else { Err(denied) };
    medium.told(result)
}

unsafe extern "C" fn sync<D: FlashDevice>(config: *const lfs::lfs_config) -> c_int {
    // SAFETY: the library hands over its configuration.
    let medium = unsafe { medium::<D>(config) };
    let result = if medium.writable { medium.device.sync() } else { Ok(()) };
    medium.told(result)
}
