//! Memory that C lends for as long as something is open, as values of a type of this library's.

use core::ptr::NonNull;
use core::slice;

use crate::status::Status;

/// So many values, of which no reference is kept between calls.
pub(crate) struct Lent<T> {
    start: NonNull<T>,
    len: usize,
}

impl<T: Copy> Lent<T> {
    /// As many as have room in so many bytes. Each is made `empty`, whatever is there.
    ///
    /// # Safety
    ///
    /// The pointer is null, or to so many bytes, which nobody else uses while this lives.
    pub(crate) unsafe fn new(start: *mut T, bytes: usize, empty: T) -> Result<Self, Status> {
        // cannot be none: no type that is lent is empty.
        let len = bytes.checked_div(size_of::<T>()).ok_or(Status::Argument)?;
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len });
        }
        let start = NonNull::new(start).filter(|start| start.is_aligned()).ok_or(Status::Argument)?;
        if isize::try_from(bytes).is_err() {
            return Err(Status::Argument);
        }
        for index in 0..len {
            // SAFETY: the caller's promise, as the pointer is aligned, and `index` values have room before this one.
            unsafe { start.add(index).write(empty) };
        }
        Ok(Self { start, len })
    }
}

impl<T> AsRef<[T]> for Lent<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `new` has written so many values, and nobody else uses them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> AsMut<[T]> for Lent<T> {
    fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: `new` has written so many values, and nobody else uses them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// What C lends for values of `T` is an array of structs as large, and aligned at least as much.
pub(crate) const fn is_lent_as<T>(size: usize, align: usize) -> bool {
    size_of::<T>() == size && align_of::<T>() <= align
}
