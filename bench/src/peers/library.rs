//! A shared library loaded at run time, its symbols seen by nobody else: several OpenSSLs live in one process.

use std::error::Error;
use std::ffi::{CString, c_void};
use std::path::Path;

/// A library that stays loaded for good.
#[derive(Clone, Copy)]
pub struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Loads what `path` names; `package` is what brings it.
    pub fn open(path: impl AsRef<Path>, package: &str) -> Result<Self, Box<dyn Error>> {
        let path = path.as_ref();
        let name = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the library's constructors run once and are made for being loaded at any time; the name is a C string.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("{} ({package}) is missing: run scripts/setup", path.display()).into());
        }
        Ok(Self { handle })
    }

    /// The function of that name.
    ///
    /// # Safety
    ///
    /// `F` must be the type of a C function pointer, and the one that the library's header declares for `name`.
    pub unsafe fn function<F: Copy>(self, name: &str) -> Result<F, Box<dyn Error>> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let symbol = CString::new(name)?;
        // SAFETY: the library stays loaded for good, the name is a C string.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() {
            return Err(format!("a peer's library has no {name}").into());
        }
        // SAFETY: a pointer of the same size, of the type that the caller answers for, and not null.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
}
