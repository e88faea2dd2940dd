//! Memory for secrets on systems that have pages: mapped for one owner, locked, kept out of core dumps, wiped.
//!
//! Policy when locking fails (`RLIMIT_MEMLOCK` is small for unprivileged users): the secret is used all the same,
//! unlocked, and [`unlocked_allocations`] counts it so that the program can say so once. Refusing to unlock a
//! volume would push people to run as root, which is worse.

use core::alloc::Layout;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::handle_alloc_error;
use std::sync::Mutex;
use std::vec::Vec;

static UNLOCKED: AtomicUsize = AtomicUsize::new(0);

/// How many secrets of this process could not be locked in memory and may be swapped out.
pub fn unlocked_allocations() -> usize {
    UNLOCKED.load(Ordering::Relaxed)
}

/// Whole pages of anonymous memory, zeroed, owned by one secret.
struct Pages {
    start: NonNull<u8>,
    len: usize,
    locked: bool,
}

// SAFETY: `Pages` is the only owner of its mapping; sharing and sending it is governed by the types built on it.
unsafe impl Send for Pages {}
// SAFETY: `Pages` is the only owner of its mapping, and gives no access to the bytes itself.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Self {
        // SAFETY: sysconf reads a constant of the system.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let len = bytes.max(1).div_ceil(page) * page;
        if let Some(spare) = spare::take(len) {
            return spare;
        }
        // SAFETY: a fresh anonymous private mapping at an address the kernel picks aliases nothing.
        let start = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            handle_alloc_error(Layout::from_size_align(len, page).unwrap_or(Layout::new::<u8>()));
        }
        // Miri has mappings, and none of the calls that say how the system is to treat them.
        // SAFETY: `start..start + len` is the mapping made above.
        let locked = cfg!(miri) || unsafe { libc::mlock(start, len) } == 0;
        if !locked {
            UNLOCKED.fetch_add(1, Ordering::Relaxed);
        }
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: `start..start + len` is the mapping made above; the advice changes no contents here. A child that is forked finds zeros instead of secrets.
        unsafe {
            libc::madvise(start, len, libc::MADV_DONTDUMP);
            libc::madvise(start, len, libc::MADV_WIPEONFORK);
        }
        match NonNull::new(start.cast()) {
            Some(start) => Self { start, len, locked },
            None => handle_alloc_error(Layout::new::<u8>()),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is `len` bytes long, readable and writable, and nobody else holds a reference to it.
        unsafe { self.start.as_ptr().write_bytes(0, self.len) };
        // The bytes are read by the kernel or by the next owner, as far as the compiler knows.
        core::hint::black_box(self.start.as_ptr());
        if spare::keep(self) {
            return;
        }
        // SAFETY: the mapping is `len` bytes long, nobody holds a reference to it, and nobody is given it again.
        unsafe {
            #[cfg(not(miri))]
            libc::munlock(self.start.as_ptr().cast(), self.len);
            libc::munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

/// Locked mappings, all zeros, for the next secrets: making one and giving it back takes six system calls, and each file of an
/// encrypted tree has two.
mod spare {
    use super::{Mutex, NonNull, Pages, Vec};

    /// Mappings that are kept, and bytes of the largest: an expanded key of any cipher. Together half a MiB.
    const COUNT: usize = 32;
    const LARGEST: usize = 16 << 10;

    pub(super) struct Spare {
        /// Whose they are: a child that is forked has the mappings, but not their locks.
        process: u32,
        mappings: Vec<(NonNull<u8>, usize)>,
    }

    // SAFETY: the mappings in it belong to nobody else.
    unsafe impl Send for Spare {}

    static SPARE: Mutex<Spare> = Mutex::new(Spare::new());

    /// A mapping of exactly `len` bytes. A lock that another thread holds, also one that a fork left locked, means none.
    pub(super) fn take(len: usize) -> Option<Pages> {
        SPARE.try_lock().ok()?.take(len, std::process::id())
    }

    /// Whether these pages, which are wiped, are kept. Then they are no longer their owner's.
    pub(super) fn keep(pages: &Pages) -> bool {
        SPARE.try_lock().is_ok_and(|mut spare| spare.keep(pages, std::process::id()))
    }

    impl Spare {
        pub(super) const fn new() -> Self {
            Self { process: 0, mappings: Vec::new() }
        }

        pub(super) fn take(&mut self, len: usize, process: u32) -> Option<Pages> {
            if self.process != process {
                return None;
            }
            let at = self.mappings.iter().rposition(|(_, has)| *has == len)?;
            let (start, len) = self.mappings.swap_remove(at);
            Some(Pages { start, len, locked: true })
        }

        pub(super) fn keep(&mut self, pages: &Pages, process: u32) -> bool {
            if !pages.locked || pages.len > LARGEST {
                return false;
            }
            if self.process != process {
                // What a parent kept stays mapped here, as zeros: it is half a MiB at most.
                self.mappings.clear();
                self.process = process;
            }
            let room = self.mappings.len() < COUNT;
            if room {
                self.mappings.push((pages.start, pages.len));
            }
            room
        }
    }
}

/// A value in locked memory: a `Box` for expanded keys and other types that hold secrets.
pub struct Locked<T> {
    pages: Pages,
    _owns: core::marker::PhantomData<T>,
}

// SAFETY: `Locked<T>` owns its `T` as `Box<T>` does.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: `Locked<T>` gives references to its `T` as `Box<T>` does.
unsafe impl<T: Sync> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Moves `value` into locked memory. Copies of it stay on the stack wherever it was before: what holds a key
    /// is made by [`Locked::try_new_with`].
    pub fn new(value: T) -> Self {
        const { assert!(align_of::<T>() <= 4096) }
        let pages = Pages::new(size_of::<T>());
        // SAFETY: the pages are writable, at least `size_of::<T>()` long and aligned to a page.
        unsafe { pages.start.cast::<T>().write(value) };
        Self { pages, _owns: core::marker::PhantomData }
    }

    /// What `make` makes, in locked memory only: the stack that it was made on is wiped (see
    /// [`with_wiped_stack`](crate::with_wiped_stack)). An error must not hold secrets.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn try_new_with<E>(make: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        crate::with_wiped_stack(|| make().map(Self::new))
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` wrote a `T` there, and it is dropped only in `drop`.
        unsafe { self.pages.start.cast::<T>().as_ref() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { self.pages.start.cast::<T>().as_mut() }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: `new` wrote a `T` there and nothing uses it after this.
        unsafe { self.pages.start.cast::<T>().drop_in_place() };
    }
}

impl<T> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locked(..)")
    }
}

/// Secret bytes of any length in locked memory.
pub struct SecretBytes {
    pages: Pages,
    len: usize,
}

impl SecretBytes {
    /// `len` zero bytes, to be filled in.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: Pages::new(len), len }
    }

    /// Copies bytes in. The caller wipes its own copy.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut secret = Self::zeroed(bytes.len());
        secret.copy_from_slice(bytes);
        secret
    }

    /// Forgets (and wipes) everything from byte `len` on.
    pub fn truncate(&mut self, len: usize) {
        if let Some(tail) = self.get_mut(len..) {
            crate::wipe(tail);
            self.len = len;
        }
    }
}

impl Deref for SecretBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, zero-filled at first and at least `len` bytes long.
        unsafe { slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl DerefMut for SecretBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.pages.start.as_ptr(), self.len) }
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        crate::constant_time_eq(self, other)
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::ManuallyDrop;
    use std::format;

    #[test]
    fn debug_never_shows_the_bytes() {
        let key = crate::VolumeKey::copy_from(b"0123456789abcdef");
        let pass = crate::Passphrase::copy_from(b"correct horse");
        for text in [format!("{key:?}"), format!("{pass:?}"), format!("{:?}", SecretBytes::copy_from(b"abc"))]
        {
            assert!(text.ends_with("(..)"), "{text}");
        }
    }

    #[test]
    fn locked_memory_is_locked_and_left_out_of_core_dumps_and_of_children() {
        let secret = SecretBytes::zeroed(100);
        let address = secret.as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has /proc/self/smaps");
        let mut inside = false;
        let mut flags = None;
        for line in smaps.lines() {
            if let Some((range, _)) = line.split_once(' ').filter(|(r, _)| r.contains('-')) {
                let (from, to) = range.split_once('-').expect("a range");
                let bound = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
                inside = (bound(from)..bound(to)).contains(&address);
            } else if inside && line.starts_with("VmFlags:") {
                flags = Some(std::string::String::from(line));
            }
        }
        let flags = flags.expect("the mapping is listed");
        assert!(flags.split(' ').any(|flag| flag == "dd"), "not left out of core dumps: {flags}");
        assert!(flags.split(' ').any(|flag| flag == "wf"), "not left out of children: {flags}");
        assert_eq!(flags.split(' ').any(|flag| flag == "lo"), unlocked_allocations() == 0, "{flags}");
    }

    /// Whether the page that begins there belongs to this process.
    #[cfg(not(miri))]
    fn is_mapped(page: *const u8) -> bool {
        // SAFETY: nothing is written back of memory without a file; what is not mapped is an error.
        unsafe { libc::msync(page.cast_mut().cast(), 1, libc::MS_ASYNC) == 0 }
    }

    /// Miri has no call that tells.
    #[cfg(miri)]
    fn is_mapped(_: *const u8) -> bool {
        true
    }

    #[test]
    fn pages_that_are_used_again_hold_nothing_of_their_last_owner() {
        // Three pages, which no other test has: another thread must not take them in between.
        let size = 3 << 12;
        let mut again = false;
        for _ in 0..100 {
            let mut first = SecretBytes::zeroed(size);
            first.fill(0xaa);
            let address = first.as_ptr();
            drop(first);
            // The system gives no new mapping where there still is one.
            let kept = is_mapped(address);
            let second = SecretBytes::zeroed(size);
            assert!(second.iter().all(|byte| *byte == 0));
            again |= kept && second.as_ptr() == address;
        }
        assert!(again || unlocked_allocations() > 0, "no mapping was used twice");
    }

    #[test]
    fn no_more_mappings_are_kept_than_fit_and_none_that_are_unlocked_large_or_a_parents() {
        let page = Pages::new(1).len;
        let pages = |len: usize, locked: bool| {
            let mut pages = ManuallyDrop::new(Pages::new(len));
            pages.locked = locked;
            pages
        };
        let mut spare = spare::Spare::new();
        assert!(!spare.keep(&pages(1, false), 7), "it could be swapped out");
        assert!(spare.keep(&pages(16 << 10, true), 7));
        assert!(!spare.keep(&pages((16 << 10) + 1, true), 7), "large ones are given back");
        assert!(spare.take(page, 7).is_none(), "another length");
        assert!(spare.take(16 << 10, 8).is_none(), "a child's would not be locked");
        let found = spare.take(16 << 10, 7).map(ManuallyDrop::new).expect("it was kept");
        assert_eq!((found.len, found.locked), (16 << 10, true));
        assert!(spare.take(16 << 10, 7).is_none(), "a mapping has one owner");
        for _ in 0..32 {
            assert!(spare.keep(&pages(1, true), 7));
        }
        assert!(!spare.keep(&pages(1, true), 7), "the 33rd");
        // A child forgets its parent's, and keeps its own.
        assert!(spare.keep(&pages(1, true), 8));
        assert!(spare.take(page, 8).map(ManuallyDrop::new).is_some());
        assert!(spare.take(page, 8).is_none(), "a parent's mapping is not handed out");
    }

    #[test]
    fn a_secret_of_any_length_has_room_for_it_and_begins_as_zeros() {
        for len in [0, 1, 4095, 4096, 4097, 8192, 8193, 100_000] {
            let mut secret = SecretBytes::zeroed(len);
            assert_eq!((secret.len(), secret.iter().all(|byte| *byte == 0)), (len, true));
            assert!(secret.pages.len >= len.max(1) && secret.pages.len < len + 4097, "{len}");
            secret.fill(0xa5);
            assert!(secret.iter().all(|byte| *byte == 0xa5));
        }
    }

    #[test]
    fn what_is_cut_off_is_wiped_at_once() {
        let mut secret = SecretBytes::copy_from(b"secret");
        secret.truncate(3);
        // SAFETY: the mapping is a page long.
        let behind = unsafe { slice::from_raw_parts(secret.as_ptr().add(3), 3) };
        assert_eq!(behind, [0; 3]);
    }

    #[test]
    fn large_secrets_are_given_back_and_few_small_ones_are_kept() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("locked memory");
            line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
        };
        let before = locked();
        drop(SecretBytes::zeroed(4 << 20));
        let many: Vec<SecretBytes> = (0..200).map(|_| SecretBytes::zeroed(16 << 10)).collect();
        drop(many);
        assert!(locked() <= before + 1024, "{} KiB were {before}", locked());
    }

    #[test]
    fn truncate_shortens_and_dropping_runs_the_destructor() {
        let mut secret = SecretBytes::copy_from(b"secret");
        secret.truncate(3);
        assert_eq!(&*secret, b"sec");
        secret.truncate(10);
        assert_eq!(secret.len(), 3);

        struct Flag<'a>(&'a AtomicUsize);
        impl Drop for Flag<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = AtomicUsize::new(0);
        drop(Locked::new(Flag(&dropped)));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn equality_compares_every_byte_and_the_length() {
        let a = SecretBytes::copy_from(b"0123456789");
        assert_eq!(a, SecretBytes::copy_from(b"0123456789"));
        assert_ne!(a, SecretBytes::copy_from(b"0123456788"));
        assert_ne!(a, SecretBytes::copy_from(b"012345678"));
    }
}
