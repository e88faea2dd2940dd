//! A volume whose key can be taken away while its clients stay: `suspend` and `resume` of what a process serves.
//!
//! A [`Gate`] stands between a face and the plaintext. As long as it is open it passes everything on. When it is held, requests
//! wait in it, those in flight have ended, everything that was written is durable, and the [`Disk`] with its keys is gone. When a disk of
//! the same key comes back, they go on. None fails and none is lost, unless the volume is closed meanwhile.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, Operation, StoreRequests};
use atrest_engine::{Disk, DiskError};

/// A block device that is a [`Disk`], or waits for it.
pub struct Gate {
    state: RwLock<State>,
    /// Whether requests wait. Changed only by whoever has locked the state to write.
    held: Mutex<bool>,
    turned: Condvar,
    size: AtomicU64,
    geometry: Geometry,
    read_only: bool,
    /// Changes that were refused because the gate has ended.
    lost: AtomicU64,
}

enum State {
    Open(Disk),
    /// It is being re-encrypted, by the device that stands for it meanwhile.
    Rewritten(Arc<dyn BlockDevice>),
    /// What tells the same disk from another.
    Held(Vec<u8>),
    Ended,
}

impl State {
    fn disk(&self) -> Result<&Disk, HoldError> {
        match self {
            Self::Open(disk) => Ok(disk),
            Self::Rewritten(_) => Err(HoldError::Rewritten),
            Self::Held(_) => Err(HoldError::Held),
            Self::Ended => Err(HoldError::Ended),
        }
    }
}

/// Why a volume can't be suspended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldError {
    /// It is.
    Held,
    /// It is being closed.
    Ended,
    /// It is being re-encrypted, for which both keys are needed.
    Rewritten,
    /// The device that is to stand for it has another volume key, cipher, place or size.
    Other,
    /// What was written could not be made durable, or its key not be tried. The volume goes on.
    Device(DeviceError),
}

/// Why a suspended volume does not go on.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// It is not suspended.
    NotHeld,
    /// The disk has another key, cipher, place or size than the one before.
    Other,
    /// Its key can't be tried.
    Device(DeviceError),
}

/// Why a volume keeps its size.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// It is suspended, is being re-encrypted, or is being closed.
    Held,
    /// It can't have another one, or not this one.
    Disk(DiskError),
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("it is suspended or being re-encrypted"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ResizeError {}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("it is suspended already"),
            Self::Ended => f.write_str("it is being closed"),
            Self::Rewritten => f.write_str("it is being re-encrypted, for which its keys are needed"),
            Self::Other => {
                f.write_str("its header is of another volume key, or another size, than what is served")
            }
            Self::Device(error) => write!(f, "it is not suspended, and goes on: {error}"),
        }
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld => f.write_str("it is not suspended"),
            Self::Other => {
                f.write_str("it has another volume key, or another size, than before; it stays suspended")
            }
            Self::Device(error) => write!(f, "it stays suspended: {error}"),
        }
    }
}

impl core::error::Error for HoldError {}
impl core::error::Error for RestoreError {}

impl Gate {
    /// An open gate before a disk.
    pub fn new(disk: Disk) -> Self {
        Self {
            size: AtomicU64::new(disk.size()),
            geometry: disk.geometry(),
            read_only: disk.is_read_only(),
            state: RwLock::new(State::Open(disk)),
            held: Mutex::new(false),
            turned: Condvar::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Whether the disk is there, so that it could be held or a device stand for it.
    ///
    /// # Errors
    /// [`HoldError`] with the state that it is in instead.
    pub fn check_open(&self) -> Result<(), HoldError> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).disk().map(|_| ())
    }

    /// Waits for what is in flight, makes everything durable, and wipes the disk's keys. Requests wait from now on.
    ///
    /// # Errors
    /// [`HoldError`]: nothing has changed then.
    pub fn hold(&self) -> Result<(), HoldError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let disk = state.disk()?;
        if !disk.is_read_only() {
            disk.flush().map_err(HoldError::Device)?;
        }
        let likeness = disk.likeness().map_err(HoldError::Device)?;
        *self.flag() = true;
        *state = State::Held(likeness);
        Ok(())
    }

    /// Lets everything go on with a disk that was opened again.
    ///
    /// # Errors
    /// [`RestoreError`]: requests go on waiting, and the disk is dropped.
    pub fn restore(&self, disk: Disk) -> Result<(), RestoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Held(before) = &*state else { return Err(RestoreError::NotHeld) };
        let likeness = disk.likeness().map_err(RestoreError::Device)?;
        let is_same =
            likeness == *before && (disk.size(), disk.is_read_only()) == (self.size(), self.read_only);
        if !is_same {
            return Err(RestoreError::Other);
        }
        *state = State::Open(disk);
        self.let_go();
        Ok(())
    }

    /// Lets a device stand for the disk while that is re-encrypted: one of the same size, whose data is that of the disk, as `before`
    /// tells (its [`likeness`](Disk::likeness)). What was written is durable first.
    ///
    /// # Errors
    /// [`HoldError`]: nothing has changed then.
    pub fn rewrite(&self, device: Arc<dyn BlockDevice>, before: &[u8]) -> Result<(), HoldError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let disk = state.disk()?;
        let is_same = disk.likeness().map_err(HoldError::Device)? == before;
        if !is_same || (device.size(), device.is_read_only()) != (self.size(), self.read_only) {
            return Err(HoldError::Other);
        }
        disk.flush().map_err(HoldError::Device)?;
        *state = State::Rewritten(device);
        Ok(())
    }

    /// The re-encryption is done: the volume goes on with this disk.
    ///
    /// # Errors
    /// [`HoldError::Other`] if it has another size or can't be written. [`HoldError::Device`] if what was
    /// written can't be made durable. The device of the re-encryption stays.
    pub fn rewritten(&self, disk: Disk) -> Result<(), HoldError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Rewritten(device) = &*state else { return Err(HoldError::Ended) };
        if (disk.size(), disk.is_read_only()) != (self.size(), self.read_only) {
            return Err(HoldError::Other);
        }
        device.flush().map_err(HoldError::Device)?;
        *state = State::Open(disk);
        Ok(())
    }

    /// Shows another number of bytes as soon as what is in flight has ended.
    ///
    /// # Errors
    /// [`ResizeError`]: it keeps the size that it has.
    pub fn resize(&self, size: u64) -> Result<(), ResizeError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Open(disk) = &mut *state else { return Err(ResizeError::Held) };
        disk.resize(size).map_err(ResizeError::Disk)?;
        self.size.store(size, Ordering::Release);
        Ok(())
    }

    /// The volume is being closed: if it is suspended, what waits is refused, and so is what comes.
    pub fn end(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let State::Held(_) = &*state {
            *state = State::Ended;
            self.let_go();
        }
    }

    /// Called with the state locked.
    fn let_go(&self) {
        *self.flag() = false;
        self.turned.notify_all();
    }

    fn flag(&self) -> MutexGuard<'_, bool> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` with the disk as soon as there is one.
    fn pass<T>(
        &self,
        operation: Operation,
        (offset, len): (u64, u64),
        work: impl FnOnce(&dyn BlockDevice) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        loop {
            match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
                State::Open(disk) => return work(disk),
                State::Rewritten(device) => return work(&**device),
                State::Ended => {
                    if operation != Operation::Read {
                        self.lost.fetch_add(1, Ordering::AcqRel);
                    }
                    return Err(DeviceError::new(operation, offset, len, Cause::Suspended));
                }
                State::Held(_) => {}
            }
            let held = self.turned.wait_while(self.flag(), |held| *held);
            drop(held.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Does `work` if there is a disk now.
    fn at_once<T>(&self, work: impl FnOnce(&dyn BlockDevice) -> T) -> Option<T> {
        let state = match self.state.try_read() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        match &*state {
            State::Open(disk) => Some(work(disk)),
            State::Rewritten(device) => Some(work(&**device)),
            State::Held(_) | State::Ended => None,
        }
    }
}

impl BlockDevice for Gate {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.pass(Operation::Read, (offset, buf.len() as u64), |disk| disk.read_at(offset, buf))
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.pass(Operation::Write, (offset, data.len() as u64), |disk| disk.write_at(offset, data))
    }
    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        self.pass(Operation::Write, (offset, data.len() as u64), |disk| disk.write_consuming(offset, data))
    }
    /// Does not wait: all that was done before the gate was held is durable, and nothing was done since.
    fn flush(&self) -> Result<(), DeviceError> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open(disk) => disk.flush(),
            State::Rewritten(device) => device.flush(),
            State::Ended if self.lost.load(Ordering::Acquire) > 0 => {
                Err(DeviceError::new(Operation::Flush, 0, 0, Cause::Suspended))
            }
            State::Held(_) | State::Ended => Ok(()),
        }
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.pass(Operation::Discard, (offset, len), |disk| disk.discard(offset, len))
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.pass(Operation::Write, (offset, len), |disk| disk.write_zeroes(offset, len))
    }
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.pass(Operation::Read, (offset, len), |disk| disk.extent(offset, len))
    }
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        // intended: without a disk it is not at hand.
        self.at_once(|disk| disk.read_if_cached(offset, buf)).unwrap_or(Ok(false))
    }
    fn prefetch(&self, offset: u64, len: u64) {
        self.at_once(|disk| disk.prefetch(offset, len));
    }
    fn store_requests(&self) -> Option<StoreRequests> {
        self.at_once(|disk| disk.store_requests()).flatten()
    }
}

#[cfg(test)]
mod tests;
