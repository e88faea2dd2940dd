//! Ciphers over runs of data units: XTS, CBC, LRW and ECB with dm-crypt's IV rules.
//!
//! A [`Mapper`] turns a run of data units (index of the first one, bytes) into the same run encrypted or decrypted,
//! in place or from one buffer to another. It is built from a [`CipherSpec`] (dm-crypt's own strings) and a key, and
//! knows nothing of formats or I/O. [`Xts`] is IEEE 1619 for one data unit of any length from 16 bytes on.
//!
//! No heap, no I/O, no panic. `unsafe` is confined to the `backend` module.
#![no_std]
#![deny(unsafe_code)]

#[cfg(all(target_arch = "aarch64", feature = "std", not(target_os = "none")))]
extern crate std;

mod backend;
mod block;
mod gf128;
mod hash;
mod keyed;
mod library;
mod mapper;
mod mode;
mod run;
mod spec;
mod tweak;
mod xts;

pub use backend::BackendChoice;
pub use mapper::{KeyError, Mapper, MapperOptions};
pub use run::{DataUnitIndex, RunError, SectorIndex};
pub use spec::{Cipher, CipherMode, CipherSpec, Feature, SpecError};
pub use xts::{Xts, XtsError};
