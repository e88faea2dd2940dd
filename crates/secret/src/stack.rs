//! The stack that work with secrets leaves behind.
//!
//! Moving a value copies its bytes and leaves the old ones where they were; spilled registers and the frames of
//! library crates are nobody's to wipe either. So the work as a whole runs below one frame, and what lies below that
//! frame is overwritten when it returns.

use core::hint::black_box;
use core::mem::MaybeUninit;

/// Bytes that [`with_wiped_stack`] wipes: twice what expanding any key takes in a build without optimizations, and an
/// eighth of the stack that a Rust thread has.
#[cfg(feature = "std")]
pub const WIPED_STACK: usize = 256 << 10;

/// Runs `work` and then overwrites the stack that it used, up to [`WIPED_STACK`] bytes of it, also if it panics.
///
/// What `work` returns must not hold secrets by value: it passes through the caller's frame, which stays as it is.
/// Nothing is wiped without `std`, because only firmware knows how much stack it has; it calls
/// [`with_wiped_stack_of`].
pub fn with_wiped_stack<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "std")]
    return with_wiped_stack_of::<WIPED_STACK, R>(work);
    #[cfg(not(feature = "std"))]
    work()
}

/// Runs `work` and then overwrites up to `BYTES` of the stack that it used: for short work that runs often.
///
/// The caller knows how deep the work goes, and has a test for it. Nothing is wiped without `std`.
#[inline(always)] // Firmware must not pay for a call that does nothing.
pub fn with_wiped_stack_up_to<const BYTES: usize, R>(work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "std")]
    return with_wiped_stack_of::<BYTES, R>(work);
    #[cfg(not(feature = "std"))]
    work()
}

/// Runs `work` and then overwrites up to `LESS` bytes of the stack that it used if `is_shallow`, otherwise up to `MORE`.
///
/// It is for work of which some goes less deep, otherwise like [`with_wiped_stack_up_to`]. Nothing is wiped without `std`.
#[inline(always)] // Firmware must not have the work twice.
#[cfg_attr(not(feature = "std"), allow(unused_variables))]
pub fn with_wiped_stack_by_depth<const LESS: usize, const MORE: usize, R>(
    is_shallow: bool,
    work: impl FnOnce() -> R,
) -> R {
    #[cfg(feature = "std")]
    return match is_shallow {
        true => with_wiped_stack_of::<LESS, R>(work),
        false => with_wiped_stack_of::<MORE, R>(work),
    };
    #[cfg(not(feature = "std"))]
    work()
}

/// Runs `work` and then overwrites up to `BYTES` of the stack that it used, also if it panics, and also without `std`.
///
/// The stack must have as much left, and 1 KiB more. What `work` returns must not hold secrets by value, as with
/// [`with_wiped_stack`].
#[inline(never)]
pub fn with_wiped_stack_of<const BYTES: usize, R>(work: impl FnOnce() -> R) -> R {
    struct Wipe<const BYTES: usize>;

    impl<const BYTES: usize> Drop for Wipe<BYTES> {
        fn drop(&mut self) {
            wipe_below::<BYTES>();
        }
    }

    let _wipe = Wipe::<BYTES>;
    descend(work)
}

/// Calls `work` far enough below its caller that the frames on the way to [`wipe_below`] end above it.
#[inline(never)]
fn descend<R>(work: impl FnOnce() -> R) -> R {
    let mut gap = [MaybeUninit::<u8>::uninit(); 512];
    black_box(&mut gap);
    let result = bottom(work);
    black_box(&mut gap);
    result
}

#[inline(never)]
fn bottom<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Overwrites `BYTES` bytes below its caller's frame.
///
/// An array of zeros is one call of `memset`. Nothing reads the array, so the compiler could leave it out; `black_box` keeps it
/// in today's compiler but promises nothing. `scripts/check wipes` therefore looks for the stores in the code of a release.
#[inline(never)]
fn wipe_below<const BYTES: usize>() {
    let mut area = [0_u8; BYTES];
    black_box(&mut area);
}

#[cfg(all(test, target_os = "linux", feature = "std"))]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::vec;

    use super::*;

    /// Leaves `BYTES` bytes of a secret on the stack, and tells where.
    #[inline(never)]
    fn secret<const BYTES: usize>() -> u64 {
        let mut area = [0xa5_u8; BYTES];
        black_box(&mut area);
        area.as_ptr() as u64
    }

    /// How many bytes of it are there, in pieces of 16. What reading needs of the stack itself may have overwritten some.
    #[inline(never)]
    fn left<const BYTES: usize>(address: u64) -> usize {
        let mut bytes = vec![0; BYTES];
        let memory = File::open("/proc/self/mem").expect("our own memory");
        memory.read_exact_at(&mut bytes, address).expect("the stack is mapped");
        bytes.as_chunks::<16>().0.iter().filter(|piece| **piece == [0xa5; 16]).count() * 16
    }

    const MUCH: usize = 32 << 10;

    #[test]
    fn work_with_secrets_leaves_nothing_of_them_on_the_stack() {
        assert!(left::<MUCH>(black_box(secret::<MUCH>())) > MUCH / 4, "nothing would be noticed");
        assert_eq!(left::<MUCH>(with_wiped_stack(secret::<MUCH>)), 0);
        assert_eq!(left::<MUCH>(with_wiped_stack_up_to::<{ 64 << 10 }, _>(secret::<MUCH>)), 0);
        assert_eq!(left::<MUCH>(with_wiped_stack_of::<{ 64 << 10 }, _>(secret::<MUCH>)), 0);
        let locked = || crate::Locked::try_new_with(|| Ok::<_, ()>(secret::<MUCH>())).map(|address| *address);
        assert_eq!(locked().map(left::<MUCH>), Ok(0), "what was made on the stack and moved");
        let by_depth =
            |is_shallow| with_wiped_stack_by_depth::<0, { 64 << 10 }, _>(is_shallow, secret::<MUCH>);
        assert_eq!(left::<MUCH>(by_depth(false)), 0);
        assert!(left::<MUCH>(by_depth(true)) > MUCH / 4, "the work is not said to be that deep");
    }

    #[test]
    fn work_that_panics_leaves_nothing_either() {
        let mut address = 0;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            with_wiped_stack(|| {
                address = secret::<MUCH>();
                std::panic::resume_unwind(std::boxed::Box::new(()));
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(left::<MUCH>(address), 0);
    }
}
