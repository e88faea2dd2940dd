//! AES-GCM by this crate's own backends.

use core::fmt;

use atrest_secret::constant_time_eq;

use crate::aead::{Aead, OpenError, SealError};
use crate::backend::{AnyAes, BackendChoice, for_any_aes, make_with_aes};
use crate::block::Block;
use crate::gcm::{Gcm, InGcm, MOST_ASSOCIATED, MOST_DATA};
use crate::key_error::KeyError;
use crate::run::without_traces;

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

    fn tag(&self, nonce: &[u8; 12], associated: &[u8], data: &[u8]) -> Block {
        for_any_aes!(&self.0, gcm => gcm.tag(nonce, associated, data))
    }

    fn ctr(&self, nonce: &[u8; 12], data: &mut [u8]) {
        for_any_aes!(&self.0, gcm => gcm.ctr(nonce, data));
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
                if !fits(associated, data) {
                    return Err(SealError::TooLong { data: data.len(), associated: associated.len() });
                }
                Ok(without_traces(|| {
                    self.ctr(nonce, data);
                    self.tag(nonce, associated, data)
                }))
            }

            fn open(
                &self,
                nonce: &[u8; 12],
                associated: &[u8],
                data: &mut [u8],
                tag: &[u8; 16],
            ) -> Result<(), OpenError> {
                let is_whole = without_traces(|| {
                    let is_whole =
                        fits(associated, data) && constant_time_eq(&self.tag(nonce, associated, data), tag);
                    if is_whole {
                        self.ctr(nonce, data);
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
