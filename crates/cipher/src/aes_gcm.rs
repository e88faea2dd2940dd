//! AES-GCM by this crate's own backends.

use core::fmt;

use atrest_secret::constant_time_eq;

use crate::aead::{Aead, OpenError, SealError};
use crate::backend::{AnyAes, BackendChoice, for_any_aes, make_with_aes};
use crate::gcm::{Gcm, InGcm, MOST_ASSOCIATED, MOST_DATA};
use crate::key_error::KeyError;
use crate::run::{WIPED_STACK, without_traces};

/// AES-GCM with keys of `KEY` bytes (16 or 32) by the fastest backend of this CPU, for messages of some thousand bytes.
///
/// It is an [`Aead`] as `aead::Aes128Gcm` and `aead::Aes256Gcm` are, and gives the same bytes. Those are small, for a microcontroller. This one
/// takes several kilobytes for a key, and three times as many bytes a second on a CPU with VAES and VPCLMULQDQ.
///
/// ```
/// use atrest_cipher::AesGcm;
/// use atrest_cipher::aead::Aead;
///
/// let cipher = AesGcm::<32>::new(&[7; 32])?; // a secret, in earnest
/// let nonce = [0; 12]; // never twice
/// let mut block = vec![1; 4096];
/// let tag = cipher.seal(&nonce, b"block 4", &mut block)?;
/// assert!(cipher.open(&nonce, b"block 5", &mut block.clone(), &tag).is_err());
/// cipher.open(&nonce, b"block 4", &mut block, &tag)?;
/// assert_eq!(block, [1; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AesGcm<const KEY: usize>(AnyAes<InGcm>);

impl<const KEY: usize> AesGcm<KEY> {
    /// Expands a key of `KEY` bytes. `backend` forces an implementation of AES; `None` is the best there is. The caller wipes its copy.
    ///
    /// # Errors
    /// [`KeyError::Length`] if the key has another length.
    pub fn with_backend(key: &[u8], backend: Option<BackendChoice>) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if key.len() != KEY {
            return Err(wrong_length);
        }
        let backend = backend.unwrap_or_else(BackendChoice::best);
        let aes = make_with_aes!(backend, expand => Gcm::new(expand(key).ok_or(wrong_length)?));
        Ok(Self(aes))
    }

    /// Name of the implementation in use, as [`Mapper::backend_name`](crate::Mapper::backend_name) has it.
    pub fn backend_name(&self) -> &'static str {
        self.0.name()
    }

    /// Seals and opens several messages. The stack is wiped once, behind the last of them: to wipe it takes a third as long as to seal 4 KiB.
    /// What `work` returns must not hold secrets by value. Its own frames must take less than 16 KiB of the stack.
    pub fn several<R>(&self, work: impl FnOnce(Several<'_, KEY>) -> R) -> R {
        atrest_secret::with_wiped_stack_up_to::<{ WIPED_STACK + (16 << 10) }, R>(|| work(Several(self)))
    }
}

/// What seals and opens one message after another: [`AesGcm::several`].
#[derive(Clone, Copy)]
pub struct Several<'a, const KEY: usize>(&'a AesGcm<KEY>);

impl<const KEY: usize> Several<'_, KEY> {
    /// Encrypts `data` in place and gives the tag of it and of `associated`. No nonce may come twice under one key.
    ///
    /// # Errors
    /// Those of [`Aead::seal`].
    pub fn seal(self, nonce: &[u8; 12], associated: &[u8], data: &mut [u8]) -> Result<[u8; 16], SealError> {
        if !fits(associated, data) {
            return Err(SealError::TooLong { data: data.len(), associated: associated.len() });
        }
        Ok(for_any_aes!(&self.0.0, gcm => {
            gcm.ctr(nonce, data);
            gcm.tag(nonce, associated, data)
        }))
    }

    /// Decrypts `data` in place if the tag is the one that sealing gave. Otherwise `data` is zeros.
    ///
    /// # Errors
    /// Those of [`Aead::open`].
    pub fn open(
        self,
        nonce: &[u8; 12],
        associated: &[u8],
        data: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), OpenError> {
        let is_whole = fits(associated, data)
            && for_any_aes!(&self.0.0, gcm => {
                let is_whole = constant_time_eq(&gcm.tag(nonce, associated, data), tag);
                if is_whole {
                    gcm.ctr(nonce, data);
                }
                is_whole
            });
        if is_whole {
            return Ok(());
        }
        atrest_secret::wipe(data);
        Err(OpenError::Forged)
    }
}

impl<const KEY: usize> fmt::Debug for Several<'_, KEY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether GCM takes so much.
fn fits(associated: &[u8], data: &[u8]) -> bool {
    data.len() as u64 <= MOST_DATA && associated.len() as u64 <= MOST_ASSOCIATED
}

macro_rules! aead {
    ($($key:literal $name:literal)*) => {$(
        impl Aead for AesGcm<$key> {
            const NAME: &'static str = $name;
            const KEY_LEN: usize = $key;

            type Nonce = [u8; 12];
            type Tag = [u8; 16];

            fn new(key: &[u8]) -> Result<Self, KeyError> {
                Self::with_backend(key, None)
            }

            fn seal(&self, nonce: &[u8; 12], associated: &[u8], data: &mut [u8]) -> Result<[u8; 16], SealError> {
                without_traces(|| Several(self).seal(nonce, associated, data))
            }

            fn open(
                &self,
                nonce: &[u8; 12],
                associated: &[u8],
                data: &mut [u8],
                tag: &[u8; 16],
            ) -> Result<(), OpenError> {
                without_traces(|| Several(self).open(nonce, associated, data, tag))
            }
        }
    )*};
}

aead! {
    16 "AES-128-GCM"
    32 "AES-256-GCM"
}

impl<const KEY: usize> fmt::Debug for AesGcm<KEY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcm").field("backend", &self.backend_name()).finish_non_exhaustive()
    }
}
