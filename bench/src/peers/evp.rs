//! OpenSSL 3.0 and 4.0 and AWS-LC, which have the same interface: one data unit per call, as its users drive it.
//!
//! The first two are loaded at run time, AWS-LC is linked in under names of its own.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::mem::transmute;
use std::path::Path;
use std::ptr::{null, null_mut};

use super::library::Library;
use super::{Step, essiv};
use crate::case::{Case, Cipher};

type Constant = unsafe extern "C" fn() -> *const c_void;
type Init = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const c_uchar,
    *const c_uchar,
    c_int,
) -> c_int;
type Update = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
type Pbkdf2 = unsafe extern "C" fn(
    *const c_char,
    c_int,
    *const c_uchar,
    c_int,
    c_int,
    *const c_void,
    c_int,
    *mut c_uchar,
) -> c_int;
/// AWS-LC's lengths are wider.
type WidePbkdf2 = unsafe extern "C" fn(
    *const c_char,
    usize,
    *const c_uchar,
    usize,
    u32,
    *const c_void,
    usize,
    *mut c_uchar,
) -> c_int;

/// A library with OpenSSL's interface, as far as it is used here.
#[derive(Clone, Copy)]
pub struct Evp {
    new: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    init: Init,
    update: Update,
    padding: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    aes_128_xts: Option<Constant>,
    aes_256_xts: Constant,
    aes_256_cbc: Constant,
    aes_256_ecb: Constant,
    sha256: Constant,
    pbkdf2: AnyPbkdf2,
}

#[derive(Clone, Copy)]
enum AnyPbkdf2 {
    OpenSsl(Pbkdf2),
    AwsLc(WidePbkdf2),
}

impl Evp {
    /// OpenSSL at `path`, and what it calls itself.
    pub fn load(path: impl AsRef<Path>, package: &str) -> Result<(Self, String), Box<dyn Error>> {
        let library = Library::open(path, package)?;
        // SAFETY: these are the types that OpenSSL's evp.h and crypto.h declare for these functions.
        let (this, version) = unsafe {
            let version: unsafe extern "C" fn(c_int) -> *const c_char =
                library.function("OpenSSL_version")?;
            let this = Self {
                new: library.function("EVP_CIPHER_CTX_new")?,
                free: library.function("EVP_CIPHER_CTX_free")?,
                init: library.function("EVP_CipherInit_ex")?,
                update: library.function("EVP_CipherUpdate")?,
                padding: library.function("EVP_CIPHER_CTX_set_padding")?,
                aes_128_xts: Some(library.function("EVP_aes_128_xts")?),
                aes_256_xts: library.function("EVP_aes_256_xts")?,
                aes_256_cbc: library.function("EVP_aes_256_cbc")?,
                aes_256_ecb: library.function("EVP_aes_256_ecb")?,
                sha256: library.function("EVP_sha256")?,
                pbkdf2: AnyPbkdf2::OpenSsl(library.function("PKCS5_PBKDF2_HMAC")?),
            };
            (this, version(0))
        };
        // SAFETY: 0 asked for the version text, a static C string.
        let version = unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned();
        Ok((this, version))
    }

    /// AWS-LC, which has no AES-128-XTS.
    pub fn aws_lc() -> Self {
        use aws_lc_sys as aws;
        type Aws = *const ();
        // SAFETY: the same functions with the same arguments, whose opaque types are `c_void` here.
        unsafe {
            Self {
                new: transmute::<Aws, unsafe extern "C" fn() -> *mut c_void>(aws::EVP_CIPHER_CTX_new as Aws),
                free: transmute::<Aws, unsafe extern "C" fn(*mut c_void)>(aws::EVP_CIPHER_CTX_free as Aws),
                init: transmute::<Aws, Init>(aws::EVP_CipherInit_ex as Aws),
                update: transmute::<Aws, Update>(aws::EVP_CipherUpdate as Aws),
                padding: transmute::<Aws, unsafe extern "C" fn(*mut c_void, c_int) -> c_int>(
                    aws::EVP_CIPHER_CTX_set_padding as Aws,
                ),
                aes_128_xts: None,
                aes_256_xts: transmute::<Aws, Constant>(aws::EVP_aes_256_xts as Aws),
                aes_256_cbc: transmute::<Aws, Constant>(aws::EVP_aes_256_cbc as Aws),
                aes_256_ecb: transmute::<Aws, Constant>(aws::EVP_aes_256_ecb as Aws),
                sha256: transmute::<Aws, Constant>(aws::EVP_sha256 as Aws),
                pbkdf2: AnyPbkdf2::AwsLc(transmute::<Aws, WidePbkdf2>(aws::PKCS5_PBKDF2_HMAC as Aws)),
            }
        }
    }

    /// What it makes of a run, if it has the cipher.
    pub fn step(self, case: &Case) -> Result<Option<Step<'static>>, Box<dyn Error>> {
        let cipher = match case.cipher {
            Cipher::Aes128Xts => self.aes_128_xts,
            Cipher::Aes256Xts => Some(self.aes_256_xts),
            Cipher::CbcEssiv => Some(self.aes_256_cbc),
            _ => None,
        };
        let Some(cipher) = cipher else { return Ok(None) };
        let key = case.cipher.key();
        let mut data = Context::new(self, cipher, &key, case.encrypt)?;
        let unit = case.unit;
        if case.cipher != Cipher::CbcEssiv {
            return Ok(Some(Box::new(move |run| {
                for (number, unit) in run.chunks_exact_mut(unit).enumerate() {
                    let mut iv = [0; 16];
                    iv[..8].copy_from_slice(&(number as u64).to_le_bytes());
                    data.unit(&iv, unit);
                }
            })));
        }
        let mut salted = Context::new(self, self.aes_256_ecb, &essiv::salt(&key), true)?;
        let mut ivs = Vec::new();
        Ok(Some(Box::new(move |run| {
            essiv::numbers(&mut ivs, run.len() / unit);
            salted.update(ivs.as_flattened_mut());
            for (iv, unit) in ivs.iter().zip(run.chunks_exact_mut(unit)) {
                data.unit(iv, unit);
            }
        })))
    }

    /// PBKDF2-HMAC-SHA256.
    pub fn pbkdf2(self, passphrase: &[u8], salt: &[u8], iterations: u32, key: &mut [u8]) {
        let passphrase_at = passphrase.as_ptr().cast();
        // SAFETY: pointers and lengths belong together; EVP_sha256 returns a static object.
        let done = unsafe {
            match self.pbkdf2 {
                AnyPbkdf2::OpenSsl(derive) => derive(
                    passphrase_at,
                    passphrase.len() as c_int,
                    salt.as_ptr(),
                    salt.len() as c_int,
                    iterations as c_int,
                    (self.sha256)(),
                    key.len() as c_int,
                    key.as_mut_ptr(),
                ),
                AnyPbkdf2::AwsLc(derive) => derive(
                    passphrase_at,
                    passphrase.len(),
                    salt.as_ptr(),
                    salt.len(),
                    iterations,
                    (self.sha256)(),
                    key.len(),
                    key.as_mut_ptr(),
                ),
            }
        };
        assert_eq!(done, 1, "PKCS5_PBKDF2_HMAC failed");
    }
}

/// A key made ready for one direction.
struct Context {
    evp: Evp,
    context: *mut c_void,
}

impl Context {
    fn new(evp: Evp, cipher: Constant, key: &[u8], encrypt: bool) -> Result<Self, Box<dyn Error>> {
        // SAFETY: no arguments; the result is checked.
        let context = unsafe { (evp.new)() };
        if context.is_null() {
            return Err("a peer has no memory for a context".into());
        }
        let this = Self { evp, context };
        // SAFETY: the context is new, the cipher is a static object and the key as long as it wants.
        let ready = unsafe {
            (evp.init)(context, cipher(), null_mut(), key.as_ptr(), null(), encrypt.into()) == 1
                && (evp.padding)(context, 0) == 1
        };
        if ready { Ok(this) } else { Err("a peer refused a cipher".into()) }
    }

    /// Processes a data unit in place.
    fn unit(&mut self, iv: &[u8; 16], unit: &mut [u8]) {
        // SAFETY: the context has its cipher and key, and the IV is as long as that wants; -1 keeps the direction.
        let done = unsafe { (self.evp.init)(self.context, null(), null_mut(), null(), iv.as_ptr(), -1) };
        assert_eq!(done, 1, "EVP_CipherInit_ex failed");
        self.update(unit);
    }

    /// Processes what comes next, whole cipher blocks, in place.
    fn update(&mut self, bytes: &mut [u8]) {
        let mut len = 0;
        // SAFETY: the context is initialised without padding and works in place on `bytes`, of which it writes as many
        // as it reads.
        let done = unsafe {
            (self.evp.update)(
                self.context,
                bytes.as_mut_ptr(),
                &mut len,
                bytes.as_ptr(),
                bytes.len() as c_int,
            )
        };
        assert!(done == 1 && len as usize == bytes.len(), "EVP_CipherUpdate failed");
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context came from EVP_CIPHER_CTX_new and is not used again.
        unsafe { (self.evp.free)(self.context) };
    }
}
