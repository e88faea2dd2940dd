//! Where fresh keys and salts come from.

use core::fmt;

/// A source of cryptographically secure random bytes.
pub trait Random {
    /// Fills `out` with random bytes. After a failure `out` holds nothing that could pass for random.
    ///
    /// # Errors
    /// [`RandomError`] if the source yields no bytes, or not all of them.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError>;
}

/// The random source failed. Nothing may be formatted or re-keyed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomError;

impl fmt::Display for RandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the random source failed")
    }
}

impl core::error::Error for RandomError {}

/// The operating system's random source (`getrandom(2)` on Linux), which waits until it is seeded.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

#[cfg(feature = "std")]
impl Random for OsRandom {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        getrandom::fill(out).map_err(|_| {
            crate::wipe(out);
            RandomError
        })
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn the_systems_source_fills_everything_with_other_bytes_each_time() {
        let (mut a, mut b) = ([0; 64], [0; 64]);
        OsRandom.fill(&mut a).expect("random bytes");
        OsRandom.fill(&mut b).expect("random bytes");
        for (a, b) in a.chunks(8).zip(b.chunks(8)) {
            assert!(a != b && a != [0; 8] && b != [0; 8]);
        }
    }
}
