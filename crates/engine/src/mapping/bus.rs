//! SIGBUS: the handler of the process, and what it has to know.
//!
//! The handler does only what a handler may: it reads and writes atomics, and calls `mmap`, which is a plain system call. In this
//! order: the mark, then the zeros. So nobody can read zeros without a mark.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings at a time. Each open volume has one.
const MAPPINGS: usize = 16;

/// What the handler knows of a mapping. Nothing is mapped here if `len` is 0.
struct Place {
    taken: AtomicBool,
    start: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

static PLACES: [Place; MAPPINGS] = [const {
    Place {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; MAPPINGS];

/// What was done at a SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// A mapping that is looked after, until this is dropped.
#[derive(Debug)]
pub struct Watch(&'static Place);

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Watch {
    /// Looks after the bytes at an address.
    ///
    /// # Errors
    /// The system's error if the handler can't be installed; [`io::ErrorKind::QuotaExceeded`] beyond [`MAPPINGS`].
    pub fn over(start: usize, len: usize) -> io::Result<Self> {
        (*INSTALLED.get_or_init(install)).map_err(io::Error::from_raw_os_error)?;
        let take = |place: &&Place| {
            place.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let place = PLACES.iter().find(take).ok_or(io::ErrorKind::QuotaExceeded)?;
        place.lost.store(false, Ordering::SeqCst);
        place.start.store(start, Ordering::SeqCst);
        place.len.store(len, Ordering::SeqCst);
        Ok(Self(place))
    }

    /// Whether something that was read was not there.
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.len.store(0, Ordering::SeqCst);
        self.0.taken.store(false, Ordering::Release);
    }
}

impl Place {
    fn holds(&self, address: usize) -> bool {
        let (start, len) = (self.start.load(Ordering::SeqCst), self.len.load(Ordering::SeqCst));
        address.checked_sub(start).is_some_and(|offset| offset < len)
    }
}

fn install() -> Result<(), i32> {
    let failed = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE.store(usize::try_from(page).map_err(|_| libc::EINVAL)?, Ordering::SeqCst);
    // SAFETY: `sigaction` is plain data for which zero is a valid value of every field.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call writes the old one to `before`.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } != 0 {
        return Err(failed());
    }
    // Before a signal can ask for it.
    let _ = BEFORE.set(before);
    // SAFETY: `sigaction` is plain data for which zero is a valid value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `on_bus` is a handler of the kind that SA_SIGINFO says, and does only what a handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(failed());
    }
    Ok(())
}

extern "C" fn on_bus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel calls a handler with SA_SIGINFO with a valid `info`.
    let code = unsafe { (*info).si_code };
    // What another process sends has no address.
    if code > 0 {
        // SAFETY: the kernel calls a handler with SA_SIGINFO with a valid `info`, and a SIGBUS of its own has an address.
        let address = unsafe { (*info).si_addr() } as usize;
        if replaced(address) {
            return;
        }
    }
    as_before(signal, info, context);
}

/// Marks the mapping that an address lies in, and puts a page of zeros there. False if there is none.
fn replaced(address: usize) -> bool {
    let Some(place) = PLACES.iter().find(|place| place.holds(address)) else { return false };
    place.lost.store(true, Ordering::SeqCst);
    let page = PAGE.load(Ordering::SeqCst);
    let start = address - address % page;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let errno = errno::get();
    // SAFETY: the page lies in a mapping of ours that is only read, and is replaced by one that can be read as well. The last page
    // of a mapping reaches behind its length, to the end of what the kernel has mapped for it.
    let zeros = unsafe { libc::mmap(start as *mut libc::c_void, page, libc::PROT_READ, flags, -1, 0) };
    errno::set(errno);
    zeros != libc::MAP_FAILED
}

/// Does what was done before there was this handler.
fn as_before(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get();
    match before.map_or(libc::SIG_DFL, |before| before.sa_sigaction) {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: `sigaction` is plain data for which zero is a valid value of every field: the default action. The instruction
            // runs again, and the process ends.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            }
        }
        handler if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: the address is that of a handler that was installed with SA_SIGINFO, and it gets what we got.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the address is that of a handler that was installed without SA_SIGINFO.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Leaves every mapping to whoever was there before, for a test of that.
#[cfg(test)]
pub fn forget_all() {
    for place in &PLACES {
        place.len.store(0, Ordering::SeqCst);
    }
}

/// The error number of this thread: whom the signal interrupted may be about to read it.
mod errno {
    pub fn get() -> libc::c_int {
        // SAFETY: the address of this thread's own number.
        unsafe { *libc::__errno_location() }
    }

    pub fn set(number: libc::c_int) {
        // SAFETY: the address of this thread's own number.
        unsafe { *libc::__errno_location() = number };
    }
}
