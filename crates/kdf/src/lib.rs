//! Key derivation: what turns a passphrase into the key of a keyslot, and how much work that costs.
//!
//! PBKDF2 (RFC 8018) with every hash that LUKS headers name, Catena, plain mode's hashing, HKDF and the digests themselves need
//! no heap; the first two can be done in steps. Argon2 (RFC 9106, from a library crate) and scrypt (RFC 7914) need
//! a heap; with `std` their memory is checked against what the system can give before it is taken, lanes get threads
//! of their own, costs can be calibrated by the clock, and a [`WorkLimit`] bounds what a header may ask for.
//!
//! # Cargo features
//!
//! PBKDF2, plain mode's hashing and SHA-2 are always there. A name whose feature is off is refused with it ([`HashError::NotBuilt`]).
//!
//! | feature | what it brings |
//! |---|---|
//! | `sha1`, `sha3`, `ripemd`, `streebog`, `whirlpool`, `blake2` | hashes; `hashes` is all of them |
//! | `catena` | Catena |
//! | `argon2`, `scrypt` | these, on a heap; each turns on `alloc` |
//! | `std` | all of the above, and what needs an operating system; on by default |
//!
//! # Example
//!
//! A passphrase becomes a key. The salt and the costs come from the header of a volume, so the caller limits the work:
//!
//! ```
//! use std::time::Duration;
//!
//! use atrest_kdf::{Argon2Cost, Argon2Kind, WorkLimit, argon2};
//! use atrest_secret::{Passphrase, SecretBytes};
//!
//! let passphrase = Passphrase::copy_from(b"correct horse");
//! // Low costs, for an example. `calibrate::argon2_cost` yields those for a new volume.
//! let cost = Argon2Cost { kind: Argon2Kind::Id, time: 4, memory_kib: 64, lanes: 1 };
//! let mut key = SecretBytes::zeroed(32);
//! let limit = WorkLimit { time: Duration::from_secs(10), ..WorkLimit::default() };
//! limit.during(|| argon2(&cost, passphrase.expose(), b"a salt of 16 by.", &mut key))?;
//! # assert_ne!(*key, [0; 32]);
//! # Ok::<(), atrest_kdf::KdfError>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod backend;
#[cfg(feature = "std")]
pub mod bitlocker;
mod catena;
mod error;
pub mod fixed;
mod hash;
mod pbkdf2;
pub mod plain;
mod prf;
#[cfg(feature = "std")]
pub mod tcrypt;
pub mod words;

#[cfg(feature = "argon2")]
mod argon2;
#[cfg(feature = "std")]
pub mod calibrate;
#[cfg(feature = "std")]
mod lanes;
#[cfg(feature = "std")]
mod limit;
#[cfg(feature = "std")]
mod memory;
#[cfg(feature = "scrypt")]
mod scrypt;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod secret_bytes;

#[cfg(feature = "argon2")]
pub use crate::argon2::{Argon2Cost, Argon2Kind, argon2};
#[cfg(feature = "scrypt")]
pub use crate::scrypt::{ScryptCost, scrypt};
pub use backend::Sha256Backend;
#[cfg(feature = "catena")]
pub use catena::{Catena, catena, catena_update};
pub use catena::{CatenaCost, CatenaDomain, CatenaGraph, CatenaInput};
pub use error::{CostParameter, KdfError};
pub use hash::{Hash, HashError, digest};
#[cfg(feature = "std")]
pub use limit::WorkLimit;
#[cfg(feature = "std")]
pub use memory::{available_memory, check_memory};
pub use pbkdf2::{Pbkdf2, Progress, pbkdf2, pbkdf2_sha256_with};
pub use prf::{Prf, PrfMessage};

/// Does all steps of a derivation, with `std` as long as its limit permits.
#[cfg_attr(feature = "std", allow(unused_mut))]
fn to_the_end(mut step: impl FnMut(u32) -> Progress) -> Result<(), KdfError> {
    #[cfg(feature = "std")]
    return limit::in_steps(step);
    #[cfg(not(feature = "std"))]
    {
        while step(u32::MAX) != Progress::Done {}
        Ok(())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
