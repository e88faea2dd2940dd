//! Debian's OpenSSL 3.0, loaded at run time: AES-256-XTS, one data unit per call, as its users drive it.

use std::error::Error;
use std::ffi::{CStr, c_int, c_uchar, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut};

type Init =
    unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *const c_uchar, *const c_uchar) -> c_int;
type Update = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;

/// A key made ready for one direction.
pub struct OpenSsl {
    context: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    init: Init,
    update: Update,
    version: String,
}

impl OpenSsl {
    /// AES-256-XTS with a key of 64 bytes, for encryption or decryption.
    pub fn new(key: &[u8; 64], encrypt: bool) -> Result<Self, Box<dyn Error>> {
        // SAFETY: the library's constructors run once and are made for being loaded at any time.
        let library = unsafe { libc::dlopen(c"libcrypto.so.3".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libcrypto.so.3 (OpenSSL 3) is missing: run scripts/setup".into());
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library stays loaded for good, the name is a C string.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            if address.is_null() {
                Err(format!("libcrypto.so.3 has no {}", name.to_string_lossy()))
            } else {
                Ok(address)
            }
        };
        let (init, update) = if encrypt {
            (symbol(c"EVP_EncryptInit_ex")?, symbol(c"EVP_EncryptUpdate")?)
        } else {
            (symbol(c"EVP_DecryptInit_ex")?, symbol(c"EVP_DecryptUpdate")?)
        };
        // SAFETY: these are the types that OpenSSL's evp.h and crypto.h declare for these functions.
        let (new, free, cipher, init, update, version) = unsafe {
            (
                transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(symbol(
                    c"EVP_CIPHER_CTX_new",
                )?),
                transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(symbol(c"EVP_CIPHER_CTX_free")?),
                transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(symbol(
                    c"EVP_aes_256_xts",
                )?),
                transmute::<*mut c_void, Init>(init),
                transmute::<*mut c_void, Update>(update),
                transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const libc::c_char>(symbol(
                    c"OpenSSL_version",
                )?),
            )
        };
        // SAFETY: no arguments; the result is checked.
        let context = unsafe { new() };
        if context.is_null() {
            return Err("OpenSSL has no memory for a context".into());
        }
        // SAFETY: 0 asks for the version text, a static C string.
        let version = unsafe { CStr::from_ptr(version(0)) }.to_string_lossy().into_owned();
        let this = Self { context, free, init, update, version };
        // SAFETY: the context is new, the cipher is a static object and the key as long as it wants.
        let result = unsafe { (this.init)(context, cipher(), null_mut(), key.as_ptr(), null()) };
        if result == 1 { Ok(this) } else { Err("OpenSSL refused AES-256-XTS".into()) }
    }

    /// What it calls itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Processes a run in place. IVs count 512-byte sectors from `first_sector`, as LUKS wants it.
    pub fn run(&mut self, first_sector: u64, unit: usize, run: &mut [u8]) {
        let mut sector = first_sector;
        for unit in run.chunks_exact_mut(unit) {
            let mut iv = [0; 16];
            iv[..8].copy_from_slice(&sector.to_le_bytes());
            let mut len = 0;
            // SAFETY: the context is initialised, the IV is 16 bytes long, and XTS may work in place on `unit`,
            // of which it writes as many bytes as it reads.
            let done = unsafe {
                (self.init)(self.context, null(), null_mut(), null(), iv.as_ptr()) == 1
                    && (self.update)(
                        self.context,
                        unit.as_mut_ptr(),
                        &mut len,
                        unit.as_ptr(),
                        unit.len() as c_int,
                    ) == 1
            };
            assert!(done && len as usize == unit.len(), "OpenSSL failed");
            sector += unit.len() as u64 / 512;
        }
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        // SAFETY: the context came from EVP_CIPHER_CTX_new and is not used again.
        unsafe { (self.free)(self.context) };
    }
}
