//! Argon2id of libargon2 and libsodium.

use std::error::Error;
use std::ffi::{c_char, c_int, c_ulonglong};

use super::library::Library;

/// libargon2, the reference of Argon2's authors.
#[derive(Clone, Copy)]
pub struct LibArgon2 {
    derive: unsafe extern "C" fn(u32, u32, u32, *const u8, usize, *const u8, usize, *mut u8, usize) -> c_int,
}

impl LibArgon2 {
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let library = Library::open("libargon2.so.1", "libargon2-1")?;
        // SAFETY: the type that argon2.h declares for it.
        Ok(Self { derive: unsafe { library.function("argon2id_hash_raw")? } })
    }

    /// Argon2id in one lane.
    pub fn argon2id(
        self,
        passes: u32,
        memory_kib: u32,
        passphrase: &[u8],
        salt: &[u8; 16],
        key: &mut [u8; 32],
    ) {
        // SAFETY: pointers and lengths belong together.
        let error = unsafe {
            (self.derive)(
                passes,
                memory_kib,
                1,
                passphrase.as_ptr(),
                passphrase.len(),
                salt.as_ptr(),
                salt.len(),
                key.as_mut_ptr(),
                key.len(),
            )
        };
        assert_eq!(error, 0, "argon2id_hash_raw failed");
    }
}

/// libsodium, whose Argon2 has one lane always.
#[derive(Clone, Copy)]
pub struct LibSodium {
    derive: unsafe extern "C" fn(
        *mut u8,
        c_ulonglong,
        *const c_char,
        c_ulonglong,
        *const u8,
        c_ulonglong,
        usize,
        c_int,
    ) -> c_int,
}

impl LibSodium {
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let library = Library::open("libsodium.so.23", "libsodium23")?;
        // SAFETY: the types that sodium/core.h and sodium/crypto_pwhash.h declare for them.
        unsafe {
            let init: unsafe extern "C" fn() -> c_int = library.function("sodium_init")?;
            if init() < 0 {
                return Err("libsodium can't be initialised".into());
            }
            Ok(Self { derive: library.function("crypto_pwhash")? })
        }
    }

    /// Argon2id in one lane.
    pub fn argon2id(
        self,
        passes: u32,
        memory_kib: u32,
        passphrase: &[u8],
        salt: &[u8; 16],
        key: &mut [u8; 32],
    ) {
        const ARGON2ID_13: c_int = 2;
        // SAFETY: pointers and lengths belong together; the salt has the 16 bytes that are read.
        let error = unsafe {
            (self.derive)(
                key.as_mut_ptr(),
                key.len() as c_ulonglong,
                passphrase.as_ptr().cast(),
                passphrase.len() as c_ulonglong,
                salt.as_ptr(),
                passes.into(),
                memory_kib as usize * 1024,
                ARGON2ID_13,
            )
        };
        assert_eq!(error, 0, "crypto_pwhash failed");
    }
}
