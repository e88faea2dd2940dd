//! libgcrypt: AES-XTS and AES-CBC, a data unit per call.

use std::error::Error;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use super::library::Library;
use super::{Step, essiv};
use crate::case::{Case, Cipher};

// From gcrypt.h.
const AES_128: c_int = 7;
const AES_256: c_int = 9;
const ECB: c_int = 1;
const CBC: c_int = 3;
const XTS: c_int = 13;
const DISABLE_SECURE_MEMORY: c_int = 37;
const INITIALIZATION_FINISHED: c_int = 38;
const PBKDF2: c_int = 34;
const SHA256: c_int = 8;

type Crypt = unsafe extern "C" fn(*mut c_void, *mut u8, usize, *const u8, usize) -> c_uint;
type Derive = unsafe extern "C" fn(
    *const u8,
    usize,
    c_int,
    c_int,
    *const u8,
    usize,
    std::ffi::c_ulong,
    usize,
    *mut u8,
) -> c_uint;

#[derive(Clone, Copy)]
pub struct Gcrypt {
    open: unsafe extern "C" fn(*mut *mut c_void, c_int, c_int, c_uint) -> c_uint,
    close: unsafe extern "C" fn(*mut c_void),
    set_key: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_uint,
    set_iv: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_uint,
    encrypt: Crypt,
    decrypt: Crypt,
    derive: Derive,
}

impl Gcrypt {
    /// The library, and its version.
    pub fn load() -> Result<(Self, String), Box<dyn Error>> {
        let library = Library::open("libgcrypt.so.20", "libgcrypt")?;
        // SAFETY: these are the types that gcrypt.h declares for these functions; `gcry_control` is variadic there.
        unsafe {
            let check: unsafe extern "C" fn(*const c_char) -> *const c_char =
                library.function("gcry_check_version")?;
            let control: unsafe extern "C" fn(c_int, ...) -> c_uint = library.function("gcry_control")?;
            let version = std::ffi::CStr::from_ptr(check(null())).to_string_lossy().into_owned();
            if control(DISABLE_SECURE_MEMORY, 0) != 0 || control(INITIALIZATION_FINISHED, 0) != 0 {
                return Err("libgcrypt can't be initialised".into());
            }
            let this = Self {
                open: library.function("gcry_cipher_open")?,
                close: library.function("gcry_cipher_close")?,
                set_key: library.function("gcry_cipher_setkey")?,
                set_iv: library.function("gcry_cipher_setiv")?,
                encrypt: library.function("gcry_cipher_encrypt")?,
                decrypt: library.function("gcry_cipher_decrypt")?,
                derive: library.function("gcry_kdf_derive")?,
            };
            Ok((this, version))
        }
    }

    /// What it makes of a run, if it has the cipher.
    pub fn step(self, case: &Case) -> Result<Option<Step<'static>>, Box<dyn Error>> {
        let (algorithm, mode) = match case.cipher {
            Cipher::Aes128Xts => (AES_128, XTS),
            Cipher::Aes256Xts => (AES_256, XTS),
            Cipher::CbcEssiv => (AES_256, CBC),
            _ => return Ok(None),
        };
        let key = case.cipher.key();
        let mut data = Handle::new(self, algorithm, mode, &key, case.encrypt)?;
        let unit = case.unit;
        if mode == XTS {
            return Ok(Some(Box::new(move |run| {
                for (number, unit) in run.chunks_exact_mut(unit).enumerate() {
                    data.set_iv(&(number as u128).to_le_bytes());
                    data.update(unit);
                }
            })));
        }
        let mut salted = Handle::new(self, AES_256, ECB, &essiv::salt(&key), true)?;
        let mut ivs = Vec::new();
        Ok(Some(Box::new(move |run| {
            essiv::numbers(&mut ivs, run.len() / unit);
            salted.update(ivs.as_flattened_mut());
            for (iv, unit) in ivs.iter().zip(run.chunks_exact_mut(unit)) {
                data.set_iv(iv);
                data.update(unit);
            }
        })))
    }

    /// PBKDF2-HMAC-SHA256.
    pub fn pbkdf2(self, passphrase: &[u8], salt: &[u8], iterations: u32, key: &mut [u8]) {
        // SAFETY: pointers and lengths belong together.
        let error = unsafe {
            (self.derive)(
                passphrase.as_ptr(),
                passphrase.len(),
                PBKDF2,
                SHA256,
                salt.as_ptr(),
                salt.len(),
                iterations.into(),
                key.len(),
                key.as_mut_ptr(),
            )
        };
        assert_eq!(error, 0, "gcry_kdf_derive failed");
    }
}

/// A key made ready.
struct Handle {
    library: Gcrypt,
    handle: *mut c_void,
    crypt: Crypt,
}

impl Handle {
    fn new(
        library: Gcrypt,
        algorithm: c_int,
        mode: c_int,
        key: &[u8],
        encrypt: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let mut handle = null_mut();
        // SAFETY: writes a handle, or fails.
        if unsafe { (library.open)(&mut handle, algorithm, mode, 0) } != 0 {
            return Err("libgcrypt has not got a cipher".into());
        }
        let crypt = if encrypt { library.encrypt } else { library.decrypt };
        let this = Self { library, handle, crypt };
        // SAFETY: the handle is open, the pointer and the length belong together.
        match unsafe { (library.set_key)(handle, key.as_ptr(), key.len()) } {
            0 => Ok(this),
            error => Err(format!("libgcrypt refused a key: error {error}").into()),
        }
    }

    fn set_iv(&mut self, iv: &[u8; 16]) {
        // SAFETY: the handle is open, the IV has 16 bytes.
        let error = unsafe { (self.library.set_iv)(self.handle, iv.as_ptr(), iv.len()) };
        assert_eq!(error, 0, "gcry_cipher_setiv failed");
    }

    fn update(&mut self, bytes: &mut [u8]) {
        // SAFETY: the handle has its key; without a source it works in place on `bytes`.
        let error = unsafe { (self.crypt)(self.handle, bytes.as_mut_ptr(), bytes.len(), null(), 0) };
        assert_eq!(error, 0, "libgcrypt failed");
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open and not used again.
        unsafe { (self.library.close)(self.handle) };
    }
}
