//! Ciphers over runs of data units: XTS, CBC, LRW, CTR, ECB, Adiantum, HPolyC and HCTR2 with dm-crypt's IV rules.
//!
//! A [`Mapper`] turns a run of data units (index of the first one, bytes) into the same run encrypted or decrypted,
//! in place or from one buffer to another. It is built from a [`CipherSpec`] (dm-crypt's own strings) and a key, and
//! knows nothing of formats or I/O. [`Xts`] is IEEE 1619 for one data unit of any length from 16 bytes on, [`Adiantum`],
//! [`HPolyC`] and [`Hctr2`] are the wide-block ciphers for one data unit with a tweak of any length.
//!
//! ```
//! use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
//!
//! let spec: CipherSpec = "aes-xts-plain64".parse()?;
//! let key: [u8; 64] = core::array::from_fn(|i| i as u8); // a secret, in earnest
//! let mapper = Mapper::new(&spec, &key, &MapperOptions { data_unit: 4096, ..MapperOptions::default() })?;
//! let mut run = vec![0; 3 * 4096];
//! mapper.encrypt(DataUnitIndex(17), &mut run)?;
//! mapper.decrypt(DataUnitIndex(18), &mut run[4096..])?;
//! assert!(run[4096..].iter().all(|byte| *byte == 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No heap, no I/O, no panic. `unsafe` is confined to the `backend` module.
#![no_std]
#![deny(unsafe_code)]

#[cfg(all(target_arch = "aarch64", feature = "std", not(target_os = "none")))]
extern crate std;

mod adiantum;
mod aes_xts;
mod backend;
mod block;
mod block64;
mod chacha;
mod data_rule;
mod gf128;
mod hash;
mod keyed;
mod library;
mod mapper;
mod mode;
mod multi;
mod nh;
mod poly1305;
mod polyval;
mod run;
mod spec;
mod tweak;
mod xts;

pub use adiantum::{Adiantum, HPolyC, Hctr2, WideBlockError};
pub use aes_xts::AesXts;
pub use backend::{BackendChoice, VectorChoice};
pub use mapper::{KeyError, Mapper, MapperOptions};
pub use run::{DataUnitIndex, RunError, SectorIndex};
pub use spec::{Cipher, CipherMode, CipherSpec, Feature, SpecError};
pub use xts::{Xts, XtsError};
