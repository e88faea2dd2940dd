//! The header of a volume: its keyslots, as one object that a change replaces by another one.
//!
//! The object is a detached LUKS2 header as it is, so that whatever works on such a header works here: passphrases, tokens, costs, backup
//! and repair. It is told to them as a device. What is written stays in memory until the device is flushed; then all of it is stored under the
//! next number, if nobody has stored one there. A failure leaves the header that was there, whole.

use std::sync::{Arc, Mutex, MutexGuard};

use atrest_device::{
    BlockDevice, Cause, DeviceError, Geometry, LockMode, Media, Operation, Storage, Unshared,
};

use crate::format::{Kind, MOST_NUMBER, names};
use crate::store::{Names, ObjectStore, Put, StoreError};
use crate::volume::Patience;

/// Bytes in a header object: room for the metadata twice and for 15 keyslots.
pub const HEADER_LEN: usize = 2 << 20;

/// The newest header of a volume, as a device.
pub struct HeaderObject {
    store: Arc<dyn ObjectStore>,
    patience: Patience,
    read_only: bool,
    header: Mutex<Header>,
}

/// What became of the headers that a change replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// They were taken away.
    Gone,
    /// One could not be, for this reason: its passphrases still open what it held.
    Stays(Cause),
}

struct Header {
    /// The highest number that was seen: the next one is stored behind it.
    number: u64,
    bytes: Vec<u8>,
    changed: bool,
    /// Somebody here reads it and changes it by what he has read: it is that header until he is done.
    locked: bool,
}

impl Header {
    fn of(number: u64, bytes: Vec<u8>) -> Mutex<Self> {
        Mutex::new(Self { number, bytes, changed: false, locked: false })
    }
}

impl HeaderObject {
    /// Opens the newest header in a store; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        patience: Patience,
        read_only: bool,
    ) -> Result<Option<Self>, StoreError> {
        let (number, bytes) = newest(&*store, patience)?;
        Ok(bytes.map(|bytes| Self { store, patience, read_only, header: Header::of(number, bytes) }))
    }

    /// Opens the newest header in a store to be written, or zeros behind whatever is there if there is none: what a backup is
    /// restored to.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    pub fn open_or_blank(store: Arc<dyn ObjectStore>, patience: Patience) -> Result<Self, StoreError> {
        let (number, bytes) = newest(&*store, patience)?;
        let bytes = bytes.unwrap_or_else(|| vec![0; HEADER_LEN]); // intended: it is restored.
        Ok(Self { store, patience, read_only: false, header: Header::of(number, bytes) })
    }

    /// Stores the first header of a new volume. `false` if the store has one.
    ///
    /// # Errors
    /// [`StoreError`]. The header may be stored all the same.
    pub fn create(store: &dyn ObjectStore, patience: Patience, new: NewHeader) -> Result<bool, StoreError> {
        if !numbers(store, patience)?.is_empty() {
            return Ok(false);
        }
        let bytes = new.into_bytes();
        put(store, patience, &names::header(1), &bytes)
    }

    fn header(&self) -> MutexGuard<'_, Header> {
        // What another thread left is bytes that were not stored, or were.
        self.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner) // intended: see above.
    }

    /// Looks whether somebody has stored a newer header. What was written here and not flushed is kept: its flush will tell.
    fn refresh(&self) -> Result<(), Cause> {
        let mut header = self.header();
        if header.changed {
            return Ok(());
        }
        let (number, bytes) = newest(&*self.store, self.patience).map_err(cause)?;
        if header.locked && number > header.number {
            return Err(Cause::Busy);
        }
        if let Some(bytes) = bytes {
            header.number = number;
            header.bytes = bytes;
        }
        Ok(())
    }

    /// Stores what was written, and takes away what it replaces: a passphrase that was removed must not stay in an older object. If
    /// that can't be taken away, the change counts all the same: this says why, where a flush fails.
    ///
    /// That a number is free does not say that nobody was faster: who was takes the smaller numbers away. So the list is had
    /// afterwards, and only who then has the highest number counts. There always is one, as nobody takes that one away.
    ///
    /// # Errors
    /// Why it was not stored, or nobody knows whether it was.
    pub fn commit(&self) -> Result<Replaced, Cause> {
        let mut header = self.header();
        if !header.changed {
            return Ok(Replaced::Gone);
        }
        let next =
            header.number.checked_add(1).filter(|next| *next <= MOST_NUMBER).ok_or(Cause::Unsupported)?;
        let name = names::header(next);
        match put(&*self.store, self.patience, &name, &header.bytes) {
            Ok(true) => {}
            // Somebody else has changed the header since it was read.
            Ok(false) => return Err(Cause::Busy),
            Err(error) => return Err(cause(error)),
        }
        let there = numbers(&*self.store, self.patience).map_err(cause)?;
        if there.iter().any(|number| *number > next) {
            self.patience.again(|| self.store.delete(&name)).map_err(cause)?;
            return Err(Cause::Busy);
        }
        header.number = next;
        header.changed = false;
        let mut replaced = Replaced::Gone;
        for number in there {
            if number < next {
                let name = names::header(number);
                if let Err(error) = self.patience.again(|| self.store.delete(&name)) {
                    replaced = Replaced::Stays(cause(error));
                }
            }
        }
        Ok(replaced)
    }
}

impl BlockDevice for HeaderObject {
    fn size(&self) -> u64 {
        HEADER_LEN as u64
    }

    fn geometry(&self) -> Geometry {
        geometry()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        copy_out(&self.header().bytes, offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        if self.read_only {
            return Err(DeviceError::new(Operation::Write, offset, len, Cause::ReadOnly));
        }
        self.check_range(Operation::Write, offset, len)?;
        let mut header = self.header();
        copy_in(&mut header.bytes, offset, data);
        header.changed = true;
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        match self.commit() {
            Ok(Replaced::Gone) => Ok(()),
            Ok(Replaced::Stays(cause)) | Err(cause) => Err(DeviceError::new(Operation::Flush, 0, 0, cause)),
        }
    }
}

impl Media for HeaderObject {
    fn storage(&self) -> Option<Storage> {
        None
    }

    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.refresh().map_err(|cause| DeviceError::new(Operation::Read, offset, len, cause))?;
        self.read_at(offset, buf)
    }

    /// Nobody is kept away: of two who change the header at once, the store takes one, and the other one's flush fails. What is read until the
    /// unlocking is one header: if somebody stores a newer one, reading fails.
    fn lock_metadata(&self, _: LockMode) -> Result<(), DeviceError> {
        self.refresh().map_err(|cause| DeviceError::new(Operation::Read, 0, 0, cause))?;
        self.header().locked = true;
        Ok(())
    }

    fn unlock_metadata(&self) {
        self.header().locked = false;
    }
}

impl core::fmt::Debug for HeaderObject {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HeaderObject").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

/// A header that is being made, in memory.
pub struct NewHeader(Mutex<Vec<u8>>);

impl NewHeader {
    /// Zeros.
    pub fn new() -> Self {
        Self(Mutex::new(vec![0; HEADER_LEN]))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) // intended: bytes are bytes.
    }

    fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) // intended: bytes are bytes.
    }
}

impl Default for NewHeader {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for NewHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("NewHeader(..)")
    }
}

impl BlockDevice for NewHeader {
    fn size(&self) -> u64 {
        HEADER_LEN as u64
    }

    fn geometry(&self) -> Geometry {
        geometry()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        copy_out(&self.bytes(), offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        copy_in(&mut self.bytes(), offset, data);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for NewHeader {}

fn geometry() -> Geometry {
    Geometry { logical_block: 512, physical_block: 4096, optimal_alignment: 4096, alignment_offset: 0 }
}

/// The range was checked: it lies inside the header.
fn copy_out(bytes: &[u8], offset: u64, buf: &mut [u8]) {
    let start = offset as usize;
    buf.copy_from_slice(&bytes[start..start + buf.len()]);
}

/// The range was checked: it lies inside the header.
fn copy_in(bytes: &mut [u8], offset: u64, data: &[u8]) {
    let start = offset as usize;
    bytes[start..start + data.len()].copy_from_slice(data);
}

/// The numbers of all headers in a store, in ascending order.
fn numbers(store: &dyn ObjectStore, patience: Patience) -> Result<Vec<u64>, StoreError> {
    let all = Names::all(|after| patience.again(|| store.list_some(Kind::Header, after)))?;
    Ok(all.iter().filter_map(|name| names::number(name)).collect())
}

/// The highest number that any header object has, 0 if there is none; and the newest that has the length of a header.
fn newest(store: &dyn ObjectStore, patience: Patience) -> Result<(u64, Option<Vec<u8>>), StoreError> {
    let mut highest = 0;
    // One that was replaced meanwhile is gone, so that the list has to be had again.
    for _ in 0..4 {
        let numbers = numbers(store, patience)?;
        let Some(last) = numbers.last().copied() else { return Ok((highest, None)) };
        highest = last;
        for number in numbers.into_iter().rev() {
            let name = names::header(number);
            match patience.again(|| store.get(&name, HEADER_LEN)) {
                Ok(Some(bytes)) if bytes.len() == HEADER_LEN => return Ok((highest, Some(bytes))),
                Ok(_) | Err(StoreError::TooLong) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok((highest, None))
}

/// `false` if there is another object of that name.
fn put(store: &dyn ObjectStore, patience: Patience, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
    match patience.again(|| store.put_new(name, bytes))? {
        Put::Stored => Ok(true),
        // It may be ours, of a try that was told as failed.
        Put::Exists => match patience.again(|| store.get(name, HEADER_LEN)) {
            Ok(there) => Ok(there.is_some_and(|there| there == bytes)),
            Err(StoreError::TooLong) => Ok(false),
            Err(error) => Err(error),
        },
    }
}

fn cause(error: StoreError) -> Cause {
    match error {
        StoreError::Os(errno) => Cause::Os(errno),
        StoreError::Refused { status } => Cause::Refused { status },
        _ => Cause::Silent,
    }
}
