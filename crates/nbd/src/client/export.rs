//! An export as a [`BlockDevice`].

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use atrest_device::{
    BlockDevice, Cause, DeviceError, Durability, Extent, Geometry, LockMode, Media, Operation, Storage,
};

use super::connection::{Call, Connection, Failed};
use super::dial::{Dial, Options};
use super::handshake::Terms;
use super::reply::Loss;
use crate::error::{Broken, ConnectError};
use crate::proto::{Command, allocation, command_flag, errno, export_flag};
use crate::uri::Uri;

/// No request carries more, whatever the server allows.
const MAX_REQUEST: u32 = 4 << 20;
/// The longest range that one request asks about or gives back: a multiple of all block sizes.
const MAX_RANGE: u64 = 1 << 30;
/// Zeros are written from a block of at most this many bytes. It is made where it is needed: a constant one would lie in the program.
const ZEROS_LEN: usize = 256 << 10;

/// An export of an NBD server.
///
/// Any number of threads can use it. Where the server offers several connections, more are opened when requests would wait
/// for each other.
///
/// * Nobody else is kept from using the export: NBD has no locks.
/// * A connection that was lost is not made again: writes that were not flushed may be lost with it, so every later
///   operation fails with [`Cause::Gone`], [`Cause::Silent`] or [`Cause::BrokenProtocol`].
/// * A server that offers neither flush nor FUA is taken to write through, as the kernel's client takes it.
/// * Zeros are written, not asked for: what is wiped so must be gone from the media, while a server may keep the old bytes
///   of a range that it merely marks as zeros.
#[derive(Debug)]
pub struct Export {
    dial: Dial,
    terms: Terms,
    writable: bool,
    connections: Mutex<Vec<Arc<Connection>>>,
    /// No more connections are to be opened: somebody opens one, or the server did not let us.
    no_more: AtomicBool,
    /// Why one connection was lost, and all of them with it.
    lost: Mutex<Option<Loss>>,
    durability: Durability,
    /// Writes of parts of blocks keep others away from the block that they read and write again.
    partial: RwLock<()>,
}

impl Export {
    /// Connects to an export, to read it, and with `write` to write it, too.
    ///
    /// # Errors
    /// [`ConnectError`]: nobody answers there, the server refuses the export or can't be trusted.
    pub fn connect(uri: Uri, write: bool, options: Options) -> Result<Self, ConnectError> {
        let dial = Dial::new(uri, options)?;
        let first = dial.dial()?;
        Self::over(dial, first, write)
    }

    /// Negotiates over a socket that is connected already. No more connections are opened.
    ///
    /// # Errors
    /// [`ConnectError`] as for [`connect`](Self::connect).
    pub fn negotiate(socket: OwnedFd, uri: Uri, write: bool, options: Options) -> Result<Self, ConnectError> {
        let dial = Dial::new(uri, options)?;
        let first = dial.negotiate(socket, Instant::now() + options.handshake)?;
        let export = Self::over(dial, first, write)?;
        export.no_more.store(true, Ordering::Relaxed);
        Ok(export)
    }

    fn over(dial: Dial, first: Connection, write: bool) -> Result<Self, ConnectError> {
        let terms = *first.terms();
        if write && terms.has(export_flag::READ_ONLY) {
            return Err(ConnectError::ReadOnly);
        }
        let several = terms.has(export_flag::CAN_MULTI_CONN) && dial.options().connections > 1;
        Ok(Self {
            dial,
            terms,
            writable: write,
            connections: Mutex::new(vec![Arc::new(first)]),
            no_more: AtomicBool::new(!several),
            lost: Mutex::default(),
            durability: Durability::new(),
            partial: RwLock::new(()),
        })
    }

    /// Requests begin and end at multiples of this many bytes; a device hides that.
    fn minimum(&self) -> u64 {
        self.terms.minimum.into()
    }

    /// Bytes that one request carries at most, a multiple of the smallest block.
    fn step(&self) -> usize {
        let most = self.terms.maximum.min(MAX_REQUEST);
        (most - most % self.terms.minimum) as usize
    }

    /// A connection for a request: an idle one, a new one, or the one with the least to do.
    fn connection(&self) -> Option<Arc<Connection>> {
        let (best, count) = {
            let connections = lock(&self.connections);
            let best = connections.iter().min_by_key(|connection| connection.under_way()).cloned();
            (best, connections.len())
        };
        let is_idle = best.as_ref().is_none_or(|best| best.under_way() == 0);
        if is_idle || count >= self.dial.options().connections || self.no_more.swap(true, Ordering::AcqRel) {
            return best;
        }
        // This thread alone opens one: `no_more` keeps others from it meanwhile.
        match self.dial.dial() {
            Ok(another) if *another.terms() == self.terms => {
                let another = Arc::new(another);
                lock(&self.connections).push(another.clone());
                self.no_more.store(false, Ordering::Release);
                Some(another)
            }
            // A server that lets nobody in any more, or shows something else: those that there are do.
            Ok(_) | Err(_) => best,
        }
    }

    /// Makes one request.
    fn call(
        &self,
        operation: Operation,
        call: &Call<'_>,
        buf: &mut [u8],
    ) -> Result<Option<(u32, u32)>, DeviceError> {
        let fail = |cause| DeviceError::new(operation, call.offset, call.len.into(), cause);
        if let Some(loss) = *lock(&self.lost) {
            return Err(fail(cause_of(loss)));
        }
        let connection = self.connection().ok_or(fail(Cause::Gone))?;
        connection.call(call, buf).map_err(|failed| match failed {
            Failed::Refused(error) => fail(refusal(error, operation)),
            Failed::Lost(loss) => {
                lock(&self.lost).get_or_insert(loss);
                fail(cause_of(loss))
            }
        })
    }

    /// Reads whole blocks.
    fn read_blocks(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let mut at = offset;
        for piece in buf.chunks_mut(self.step()) {
            let len = piece.len() as u32;
            let call = Call { command: Command::Read, flags: 0, offset: at, len, payload: &[] };
            self.call(Operation::Read, &call, piece)?;
            at += u64::from(len);
        }
        Ok(())
    }

    /// Writes whole blocks.
    fn write_blocks(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        // Without a flush, each write says that it is to be durable.
        let only_fua = !self.terms.has(export_flag::SEND_FLUSH) && self.terms.has(export_flag::SEND_FUA);
        let flags = if only_fua { command_flag::FUA } else { 0 };
        let mut at = offset;
        for piece in data.chunks(self.step()) {
            let len = piece.len() as u32;
            let call = Call { command: Command::Write, flags, offset: at, len, payload: piece };
            self.call(Operation::Write, &call, &mut [])?;
            at += u64::from(len);
        }
        Ok(())
    }

    /// The pieces of a range: whole blocks, and parts of one block. Each is its offset, its length and whether it is whole.
    fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, bool)> {
        let (minimum, end) = (self.minimum(), offset + len as u64);
        let mut at = offset;
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (start, skip, left) = (at, at % minimum, end - at);
            let (take, whole) = match skip {
                0 if left >= minimum => (left - left % minimum, true),
                _ => ((minimum - skip).min(left), false),
            };
            at += take;
            Some((start, take as usize, whole))
        })
    }

    /// The block that a byte lies in, and how far into it.
    fn block_of(&self, at: u64) -> (u64, usize) {
        let skip = at % self.minimum();
        (at - skip, skip as usize)
    }

    fn check_writable(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if !self.writable {
            return Err(DeviceError::new(operation, offset, len, Cause::ReadOnly));
        }
        self.durability.check(operation, offset, len)?;
        self.check_range(operation, offset, len)
    }
}

impl BlockDevice for Export {
    fn size(&self) -> u64 {
        self.terms.size
    }

    fn geometry(&self) -> Geometry {
        let usual = Geometry::default();
        let logical_block = self.terms.minimum.max(usual.logical_block);
        // What a server prefers may be the cluster of an image, which is no block of anything.
        let preferred = if self.terms.preferred <= 64 << 10 { self.terms.preferred } else { 0 };
        let physical_block = preferred.max(usual.physical_block).max(logical_block);
        Geometry { logical_block, physical_block, ..usual }
    }

    fn is_read_only(&self) -> bool {
        !self.writable
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        for (at, len, whole) in self.pieces(offset, buf.len()) {
            let piece = &mut buf[(at - offset) as usize..][..len];
            if whole {
                self.read_blocks(at, piece)?;
                continue;
            }
            let (start, skip) = self.block_of(at);
            let mut block = vec![0; self.terms.minimum as usize];
            self.read_blocks(start, &mut block)?;
            piece.copy_from_slice(&block[skip..skip + len]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, data.len() as u64)?;
        for (at, len, whole) in self.pieces(offset, data.len()) {
            let piece = &data[(at - offset) as usize..][..len];
            if whole {
                let _others_may = self.partial.read().unwrap_or_else(PoisonError::into_inner);
                self.write_blocks(at, piece)?;
                continue;
            }
            let (start, skip) = self.block_of(at);
            let _alone = self.partial.write().unwrap_or_else(PoisonError::into_inner);
            let mut block = vec![0; self.terms.minimum as usize];
            self.read_blocks(start, &mut block)?;
            block[skip..skip + len].copy_from_slice(piece);
            self.write_blocks(start, &block)?;
        }
        // A flush that failed meanwhile may have been about these bytes.
        self.durability.check(Operation::Write, offset, data.len() as u64)
    }

    /// One connection's flush is for the writes of all: otherwise the server would not offer several.
    fn flush(&self) -> Result<(), DeviceError> {
        self.durability.flush(|| match self.writable && self.terms.has(export_flag::SEND_FLUSH) {
            true => {
                let call = Call { command: Command::Flush, flags: 0, offset: 0, len: 0, payload: &[] };
                self.call(Operation::Flush, &call, &mut []).map(drop)
            }
            false => Ok(()),
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Discard, offset, len)?;
        if !self.terms.has(export_flag::SEND_TRIM) {
            return Err(DeviceError::new(Operation::Discard, offset, len, Cause::Unsupported));
        }
        // Only whole blocks can be given back; the rest of the range stays as it is, which "undefined" allows.
        let mut at = offset.next_multiple_of(self.minimum());
        let end = (offset + len) / self.minimum() * self.minimum();
        while at < end {
            let step = (end - at).min(MAX_RANGE);
            let call = Call { command: Command::Trim, flags: 0, offset: at, len: step as u32, payload: &[] };
            self.call(Operation::Discard, &call, &mut [])?;
            at += step;
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, len)?;
        let zeros = vec![0; len.min(ZEROS_LEN as u64) as usize];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(ZEROS_LEN as u64);
            self.write_at(offset + done, &zeros[..step as usize])?;
            done += step;
        }
        Ok(())
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        if self.terms.allocation.is_none() || len == 0 {
            return Ok(Extent { len, hole: false });
        }
        let (start, skip) = self.block_of(offset);
        let asked = (skip as u64 + len).next_multiple_of(self.minimum()).min(MAX_RANGE);
        let call = Call {
            command: Command::BlockStatus,
            flags: command_flag::REQ_ONE,
            offset: start,
            len: asked as u32,
            payload: &[],
        };
        let (found, flags) = match self.call(Operation::Read, &call, &mut [])? {
            Some(extent) => extent,
            // cannot happen: a reply without an extent is incomplete.
            None => return Ok(Extent { len, hole: false }),
        };
        let hole = allocation::HOLE | allocation::ZERO;
        match u64::from(found).checked_sub(skip as u64).filter(|left| *left > 0) {
            Some(left) => Ok(Extent { len: left.min(len), hole: flags & hole == hole }),
            None => {
                let broken = cause_of(Loss::Broken(Broken::Incomplete));
                Err(DeviceError::new(Operation::Read, offset, len, broken))
            }
        }
    }
}

impl Media for Export {
    fn storage(&self) -> Option<Storage> {
        None
    }

    /// Reads after a flush: what the server keeps in a cache of its own can't be told from its media.
    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        self.flush()?;
        self.read_at(offset, buf)
    }

    /// There are no locks: nobody is waited for.
    fn lock_metadata(&self, _mode: LockMode) -> Result<(), DeviceError> {
        Ok(())
    }

    fn unlock_metadata(&self) {}
}

fn cause_of(loss: Loss) -> Cause {
    match loss {
        Loss::Closed => Cause::Gone,
        Loss::Silent => Cause::Silent,
        Loss::Broken(_) => Cause::BrokenProtocol,
    }
}

/// What an error number of the protocol means.
fn refusal(error: u32, operation: Operation) -> Cause {
    match (error, operation) {
        (errno::ENOSPC, _) => Cause::NoSpace,
        (errno::EPERM, Operation::Write | Operation::Discard) => Cause::ReadOnly,
        (errno::ENOTSUP, _) => Cause::Unsupported,
        (errno::ESHUTDOWN, _) => Cause::Gone,
        (errno::EPERM | errno::ENOMEM | errno::EINVAL | errno::EOVERFLOW, _) => Cause::Os(error as i32),
        // Numbers that the protocol does not define mean that something failed.
        _ => Cause::Os(errno::EIO as i32),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
