//! PBKDF2 (RFC 8018, section 5.2) with HMAC (RFC 2104) over any [`Hash`], at once or in steps.

pub(crate) mod chains;
mod steps;

use atrest_secret::with_wiped_stack;

use crate::hash::with_hash;
use crate::{Hash, KdfError, Sha256Backend, to_the_end};

pub use steps::{Pbkdf2, Progress};

/// Fills `out` with PBKDF2-HMAC. `out` may have any length that is not zero.
///
/// With `std`, the time is bounded by a `WorkLimit`.
///
/// # Errors
/// [`KdfError::NoIterations`] for 0 iterations, [`KdfError::OutputLen`] if `out` is empty or longer than 2^32
/// - 1 digests. Then `out` is unchanged.
///
/// With `std`, [`KdfError::TooMuchWork`] as soon as it shows that the caller's
/// [`WorkLimit`](crate::WorkLimit) does not suffice, and [`KdfError::Cancelled`] once its flag is set. Then
/// `out` is zeros.
pub fn pbkdf2(
    hash: Hash,
    passphrase: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<(), KdfError> {
    with_wiped_stack(|| {
        with_hash!(hash, H => {
            let mut run = Pbkdf2::<H>::new(passphrase, salt, iterations, out)?;
            to_the_end(|iterations| run.step(iterations))?;
        });
        Ok(())
    })
}

/// Fills `out` with PBKDF2-HMAC-SHA-256, computed by this backend, otherwise like [`pbkdf2`]. The other functions choose the
/// best backend for themselves.
///
/// # Errors
/// Fails where [`pbkdf2`] does.
pub fn pbkdf2_sha256_with(
    backend: Sha256Backend,
    passphrase: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<(), KdfError> {
    with_wiped_stack(|| {
        let mut run =
            Pbkdf2::<crate::fixed::Sha256>::with_backend(backend, passphrase, salt, iterations, out)?;
        to_the_end(|iterations| run.step(iterations))
    })
}
