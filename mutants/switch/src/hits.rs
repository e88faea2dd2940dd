//! The file in which the places that are reached are noted: one byte for each mutant.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

static BYTES: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

const PROT_READ_WRITE: i32 = 1 | 2;
const MAP_SHARED: i32 = 1;

unsafe extern "C" {
    // std links the C library anyway, and on Linux with 64 bits `off_t` is an i64.
    fn mmap(start: *mut u8, length: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

/// Maps the file that the environment names. Returns whether it names one.
pub(crate) fn map() -> bool {
    let Some(path) = std::env::var_os("ATREST_MUTANT_HITS") else { return false };
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file of hits opens");
    let length = file.metadata().expect("the file of hits has a length").len() as usize;
    // SAFETY: a new mapping at an address that the kernel picks aliases nothing. It is never unmapped.
    let start = unsafe { mmap(ptr::null_mut(), length, PROT_READ_WRITE, MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(start as isize, -1, "the file of hits can't be mapped");
    LENGTH.store(length, Ordering::Relaxed);
    BYTES.store(start.cast(), Ordering::Release);
    true
}

/// Notes that the place of mutant `id` was reached, if that is asked for.
pub(crate) fn note(id: u32) {
    let start = BYTES.load(Ordering::Acquire);
    if !start.is_null() && (id as usize) < LENGTH.load(Ordering::Relaxed) {
        // SAFETY: `map` stored the start of a mapping of `LENGTH` bytes, and `id` lies in it. Other threads and
        // processes change the bytes, too, and all of them through atomics.
        let byte = unsafe { &*start.add(id as usize) };
        // Threads that come here often don't take the line from each other.
        if byte.load(Ordering::Relaxed) == 0 {
            byte.store(1, Ordering::Relaxed);
        }
    }
}
