//! Keys and passphrases: wiped when dropped, compared in constant time, redacted in `Debug`.
//!
//! Without `std` there is [`SecretArray`], which lives where its owner puts it. With `std`, [`Locked`] and
//! [`SecretBytes`] live in pages of their own that are locked in memory, kept out of core dumps and wiped before
//! they are returned. [`VolumeKey`] and [`Passphrase`] say what a secret is for, so that one can't be passed for the other.
#![no_std]
#![cfg_attr(not(feature = "std"), forbid(unsafe_code))]

#[cfg(feature = "std")]
extern crate std;

mod array;
mod random;
mod stack;

#[cfg(feature = "std")]
mod locked;
#[cfg(feature = "std")]
mod process;
#[cfg(feature = "std")]
mod types;

pub use array::SecretArray;
#[cfg(feature = "std")]
pub use locked::{Locked, SecretBytes, unlocked_allocations};
#[cfg(feature = "std")]
pub use process::forbid_core_dumps;
#[cfg(feature = "std")]
pub use random::OsRandom;
pub use random::{Random, RandomError};
#[cfg(feature = "std")]
pub use stack::WIPED_STACK;
pub use stack::{with_wiped_stack, with_wiped_stack_by_depth, with_wiped_stack_of, with_wiped_stack_up_to};
#[cfg(feature = "std")]
pub use types::{Passphrase, VolumeKey};

/// Whether two byte strings are equal, in time that depends on their lengths only.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    use subtle::ConstantTimeEq;
    a.ct_eq(b).into()
}

/// Overwrites bytes with zeros in a way the compiler can't remove.
pub fn wipe(bytes: &mut [u8]) {
    // Many at a time, unlike `Zeroize`, which stores each byte by itself. Blocks of plaintext are wiped as often as they are read.
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

#[cfg(test)]
mod tests {
    use super::{constant_time_eq, wipe};

    #[test]
    fn bytes_are_equal_when_each_of_them_and_their_number_is() {
        assert!(constant_time_eq(b"", b"") && constant_time_eq(b"abc", b"abc"));
        for (a, b) in [("abc", "abd"), ("abc", "bbc"), ("abc", "ab"), ("", "a")] {
            assert!(!constant_time_eq(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }

    #[test]
    fn wiped_bytes_are_zeros_to_the_last() {
        let mut bytes = [0xa5; 33];
        wipe(&mut bytes[..32]);
        assert_eq!((&bytes[..32], bytes[32]), (&[0; 32][..], 0xa5));
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
