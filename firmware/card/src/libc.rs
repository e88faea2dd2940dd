//! Functions on C strings that littlefs calls. A bare board has no C library.

use core::ffi::c_char;

/// Bytes before the zero.
///
/// # Safety
/// As in C: `text` ends in a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn strspn(text: *const c_char, accepted: *const c_char) -> usize {
    // SAFETY: the caller's promise, for both.
    unsafe { span(text, |byte| contains(accepted, byte)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strcspn(text: *const c_char, refused: *const c_char) -> usize {
    // SAFETY: the caller's promise, for both.
    unsafe { span(text, |byte| !contains(refused, byte)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    let mut at = 0;
    loop {
        // SAFETY: `from` ends in a zero byte, and `to` has room for it.
        unsafe {
            let byte = from.add(at).read();
            to.add(at).write(byte);
            if byte == 0 {
                return to;
            }
        }
        at += 1;
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strchr(text: *const c_char, byte: i32) -> *const c_char {
    let wanted = byte as c_char;
    let mut at = text;
    // SAFETY: never past the zero byte.
    unsafe {
        loop {
            let byte = at.read();
            if byte == wanted {
                return at;
            }
            if byte == 0 {
                return core::ptr::null();
            }
            at = at.add(1);
        }
    }
}

/// Bytes at the start that fit.
///
/// # Safety
/// `text` ends in a zero byte.
unsafe fn span(text: *const c_char, fits: impl Fn(c_char) -> bool) -> usize {
    let mut len = 0;
    // SAFETY: never past the zero byte.
    while let byte = unsafe { text.add(len).read() }
        && byte != 0
        && fits(byte)
    {
        len += 1;
    }
    len
}

/// Whether a set that ends in a zero byte has a byte that is not zero.
fn contains(set: *const c_char, byte: c_char) -> bool {
    let mut at = set;
    // SAFETY: C's functions on sets of bytes are promised a zero byte at the end.
    unsafe {
        while at.read() != 0 {
            if at.read() == byte {
                return true;
            }
            at = at.add(1);
        }
    }
    false
}
