//! Ciphers over runs of data units: XTS, CBC, LRW, CTR, ECB, Adiantum, HPolyC, HCTR2 and ChaCha with dm-crypt's IV rules.
//!
//! A [`Mapper`] turns a run of data units (index of the first one, bytes) into the same run encrypted or decrypted,
//! in place or from one buffer to another. It is built from a [`CipherSpec`] (dm-crypt's own strings) and a key, and
//! knows nothing of formats or I/O. [`Xts`] is IEEE 1619 for one data unit of any length from 16 bytes on, [`Adiantum`],
//! [`HPolyC`] and [`Hctr2`] are the wide-block ciphers for one data unit with a tweak of any length,
//! [`CbcCts`] is CBC with ciphertext stealing, [`CbcRuns`] CBC over runs of data units with IVs from the caller.
//!
//! For microcontrollers there are types that are one cipher and nothing else ([`AesXts`], [`AdiantumPlain64`] …), expanded in
//! memory of the caller's ([`KeyPlace`]), and XTS by a peripheral ([`EngineXts`]). [`DataUnitCipher`] is what they have in
//! common with the mapper.
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
//! # Implementations of AES
//!
//! Chosen when a key is set up, by what the CPU says of itself; [`MapperOptions::backend`] forces one of them.
//!
//! | name | needs | at once |
//! |---|---|---|
//! | `vaes-512` | VAES, VPCLMULQDQ, AVX-512 F, BW, DQ and VL, their registers saved by the system | 32 blocks; 16 tweaks; CBC of 32 units |
//! | `vaes-256` | VAES, VPCLMULQDQ, AVX2 | 16 blocks; 8 tweaks; CBC of 16 units |
//! | `aes-ni` | AES-NI, AVX | 8 blocks; 8 tweaks; CBC of 8 units |
//! | `aes-ni-sse` | AES-NI | the same |
//! | `armv8-ce` | Advanced SIMD and the AES instructions of ARMv8 | the same |
//! | `portable` | nothing | what fits in its words |
//!
//! Each gives the same bytes for any data unit, run and alignment. 512 bytes are a whole batch of `vaes-512` and two of
//! `vaes-256`: units of 512, 1024 … 4096 bytes have no tail there.
//!
//! With the feature `aead` there is authenticated encryption too (`aead`), for media that have room for tags.
//!
//! No heap, no I/O, no panic. `unsafe` is confined to the `backend` module.
#![no_std]
#![deny(unsafe_code)]

#[cfg(all(target_arch = "aarch64", feature = "std", not(target_os = "none")))]
extern crate std;

// Bottom up: a module uses those of its own group and of the groups above it, and no two use each other.

// Cipher blocks, runs of data units and their IVs, and what ciphers are made of.
mod block;
mod chacha;
mod gf128;
mod hash;
mod key_error;
mod nh;
mod poly1305;
mod run;
mod tweak;

// Block ciphers in portable code, and rules that make IVs with a key or of the data.
mod data_rule;
mod library;
mod noekeon;
mod speck;
mod twofish;

// Modes, which know no backend.
mod mode;

// What instruction sets do better: implementations of the modes' traits.
mod backend;

// dm-crypt's strings, and what is said beside them.
mod options;
mod spec;

// A key in a mode, for whichever cipher and backend.
mod block64;
mod keyed;
mod multi;

// What callers have.
#[cfg(feature = "aead")]
pub mod aead;
mod aes_block;
mod aes_engine;
mod alone;
mod cbc_runs;
mod data_unit;
mod mapper;
mod one_unit;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

pub use aes_block::AesBlock;
pub use aes_engine::{
    AesEngine, AsyncAesEngine, AsyncEngineXts, EngineError, EngineXts, SharedEngineXts, SoftwareEngine,
    XtsKey,
};
pub use alone::{AdiantumPlain64, AesCbcEssiv, AesXts, HPolyCPlain64, Hctr2Plain64, KeyPlace, Keys, Plain64};
pub use backend::{BackendChoice, VectorChoice};
pub use block::Direction;
pub use cbc_runs::{CbcCipher, CbcRuns, CbcRunsError};
pub use data_unit::DataUnitCipher;
pub use key_error::KeyError;
pub use mapper::Mapper;
pub use one_unit::{Adiantum, CbcCts, CtsError, HPolyC, Hctr2, WideBlockError, Xts, XtsError};
pub use options::MapperOptions;
pub use run::{DataUnitIndex, RunError};
pub use spec::{Cipher, CipherMode, CipherSpec, Feature, SpecError};
