//! A secret of a size known at compile time, without a heap.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// `N` secret bytes that are wiped on drop. Not `Clone`: a copy must be asked for by name.
pub struct SecretArray<const N: usize>([u8; N]);

impl<const N: usize> SecretArray<N> {
    /// All zeros, to be filled in.
    pub const fn zeroed() -> Self {
        Self([0; N])
    }

    /// Moves bytes in. The caller wipes its own copy.
    pub const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> Deref for SecretArray<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> DerefMut for SecretArray<N> {
    fn deref_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> Drop for SecretArray<N> {
    fn drop(&mut self) {
        crate::wipe(&mut self.0);
    }
}

impl<const N: usize> PartialEq for SecretArray<N> {
    fn eq(&self, other: &Self) -> bool {
        crate::constant_time_eq(&self.0, &other.0)
    }
}

impl<const N: usize> Eq for SecretArray<N> {}

impl<const N: usize> fmt::Debug for SecretArray<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretArray<{N}>(..)")
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use core::mem::MaybeUninit;
    use std::format;

    use super::*;

    #[test]
    fn a_dropped_array_leaves_zeros() {
        let mut place = MaybeUninit::new(SecretArray::new([0xa5; 64]));
        // SAFETY: it was initialised, is dropped once, and its bytes are plain bytes before and after.
        let left = unsafe {
            place.assume_init_drop();
            place.as_ptr().cast::<[u8; 64]>().read_volatile()
        };
        assert_eq!(left, [0; 64]);
    }

    #[test]
    fn arrays_are_equal_when_every_byte_is_and_never_show_them() {
        let array = |last| SecretArray::new([1, 2, 3, last]);
        assert!(array(4) == array(4) && array(4) != array(5));
        assert_eq!(*array(4), [1, 2, 3, 4]);
        let mut filled = SecretArray::zeroed();
        filled.copy_from_slice(&[1, 2, 3, 4]);
        assert!(filled == array(4));
        assert_eq!(*SecretArray::<3>::zeroed(), [0; 3]);
        assert_eq!(format!("{:?}", array(4)), "SecretArray<4>(..)");
    }
}
