//! Memory that C lends for what is open: opaque, and never moved while it is.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::slice;

use crate::status::Status;

/// What can be in a [`Handle`].
pub trait Open {
    /// The handle's first word while this is in it: unlikely to be there by chance, and another one for each kind.
    const TAG: u64;
}

/// A struct of C: zeros, or the tag and a state behind it.
#[repr(C)]
pub struct Handle<S, const WORDS: usize> {
    tag: u64,
    rest: [u64; WORDS],
    holds: PhantomData<S>,
}

impl<S: Open, const WORDS: usize> Handle<S, WORDS> {
    /// There is room wherever the handle begins.
    const HAS_ROOM: () = assert!(size_of::<S>() + align_of::<S>() <= 8 * WORDS, "the handle is too small");

    fn place(&mut self) -> *mut S {
        const { Self::HAS_ROOM };
        let start = self.rest.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(align_of::<S>())).cast()
    }

    /// The state, if there is one.
    ///
    /// # Safety
    ///
    /// The pointer is null or to a handle whose first word was zero before it was opened, and which nobody else uses now.
    pub(crate) unsafe fn state<'a>(handle: *mut Self) -> Result<&'a mut S, Status> {
        // SAFETY: as the caller says.
        let handle = unsafe { handle.as_mut() }.ok_or(Status::Argument)?;
        if handle.tag != S::TAG {
            return Err(Status::Closed);
        }
        // SAFETY: the tag says that `open` has written a state, at a place that depends on the address alone.
        Ok(unsafe { &mut *handle.place() })
    }

    /// Puts a state into a handle that has none, and fills it in there: keys are not moved about. After an error there is none.
    ///
    /// # Safety
    ///
    /// As for [`state`](Self::state).
    pub(crate) unsafe fn open(
        handle: *mut Self,
        empty: S,
        fill: impl FnOnce(&mut S) -> Result<(), Status>,
    ) -> Result<(), Status> {
        // SAFETY: as the caller says.
        let handle = unsafe { handle.as_mut() }.ok_or(Status::Argument)?;
        if handle.tag == S::TAG {
            return Err(Status::Argument);
        }
        let place = handle.place();
        // SAFETY: there is room, as HAS_ROOM says; nothing that is there needs to be dropped.
        let filled = unsafe {
            place.write(empty);
            fill(&mut *place)
        };
        match filled {
            Ok(()) => handle.tag = S::TAG,
            // SAFETY: it was written above.
            Err(_) => unsafe { place.drop_in_place() },
        }
        filled
    }

    /// Drops the state, if there is one. Its keys wipe themselves.
    ///
    /// # Safety
    ///
    /// As for [`state`](Self::state).
    pub(crate) unsafe fn close(handle: *mut Self) {
        // SAFETY: as the caller says.
        if let Some(handle) = unsafe { handle.as_mut() }
            && handle.tag == S::TAG
        {
            handle.tag = 0;
            // SAFETY: the tag said that there is a state.
            unsafe { handle.place().drop_in_place() }
        }
    }
}

/// More bytes than this are in no memory: the caller's length is a negative number, or garbage.
const MOST: usize = isize::MAX as usize;

/// Bytes that C lends. No bytes may lie nowhere.
///
/// # Safety
///
/// The pointer is null, or to so many bytes, if memory can have so many.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Status> {
    match (start.is_null() || len > MOST, len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Status::Argument),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(start.cast(), len) }),
    }
}

/// Bytes that C lends to be written to. If there are none, the pointer may be null.
///
/// # Safety
///
/// As for [`bytes`]; nobody else uses them.
pub(crate) unsafe fn bytes_mut<'a>(start: *mut c_void, len: usize) -> Result<&'a mut [u8], Status> {
    match (start.is_null() || len > MOST, len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Status::Argument),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) }),
    }
}

/// A result that is a yes or a no: 1, or 0, or a status.
pub(crate) fn answer(result: Result<bool, Status>) -> c_int {
    match result {
        Ok(yes) => yes.into(),
        Err(status) => status.into(),
    }
}
