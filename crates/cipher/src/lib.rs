//! Ciphers over runs of data units: XTS, CBC, LRW, CTR, ECB, Adiantum, HPolyC, HCTR2 and ChaCha with dm-crypt's IV rules.
//!
//! A [`Mapper`] turns a run of data units (index of the first one, bytes) into the same run encrypted or decrypted,
//! in place or from one buffer to another. It is built from a [`CipherSpec`] (dm-crypt's own strings) and a key, and
//! knows nothing of formats or I/O. [`Xts`] is IEEE 1619 for one data unit of any length from 16 bytes on, [`Adiantum`],
//! [`HPolyC`] and [`Hctr2`] are the wide-block ciphers for one data unit with a tweak of any length,
//! [`CbcCts`] is CBC with ciphertext stealing, [`CbcRuns`] CBC over runs of data units with IVs from the caller,
//! [`WhitenedCbc`] several ciphers in one chain of CBC whose ciphertext is whitened, [`NarrowLrw`] LRW of ciphers with blocks of eight bytes.
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
//! Serpent has a block in each lane of 32 bits, as [`VectorChoice`] says: 16 with AVX-512, 8 with AVX2, 4 with SSE2 and Advanced SIMD.
//! Twofish and Camellia take 64 blocks at once where the CPU has AVX-512 with VBMI, and GFNI: a byte of each block in a register, and S-boxes in
//! registers. XTS, XEX and LRW hand over as many; other modes 16, which pays, too.
//!
//! [`aead`](mod@aead) is authenticated encryption, for media that have room for tags; [`AesGcm`] is it with these implementations. [`TaggedMapper`] is dm-crypt's: GCM, CCM, AEGIS,
//! ChaCha20-Poly1305, or a cipher with an HMAC, over runs of data units with a tag beside each.
//!
//! # Cargo features
//!
//! AES, ChaCha, every mode and every IV rule but ESSIV are this crate's own and always there: they bring no other crate, and a
//! linker leaves out what a program does not call. What comes from other crates, or is rarely wanted, has a feature each. All but `kuznyechik` are on
//! by default. A specification that names one that is off is refused with that feature's name
//! ([`SpecError::NotBuilt`], [`KeyError::NotBuilt`]).
//!
//! | features | what they bring |
//! |---|---|
//! | `blowfish`, `camellia`, `cast5`, `cast6`, `des`, `noekeon`, `serpent`, `speck`, `twofish` | block ciphers; `ciphers` is all of them |
//! | `kuznyechik` | a block cipher that only VeraCrypt volumes have, with 130 KiB of tables: off by default, and none of `ciphers` |
//! | `blake2`, `ripemd`, `sha1`, `sha2`, `sha3`, `whirlpool` | hashes for ESSIV; `hashes` is all of them. `sha2` brings `AesCbcEssiv` too, and both SHA the HMACs of [`TaggedMapper`] |
//! | `ascon`, `ccm`, `chacha20poly1305`, `gcm` | the ciphers of [`aead`](mod@aead); the feature `aead` is all of them |
//! | `std` | asks the operating system what an aarch64 CPU can do |
//!
//! No heap, no I/O, no panic. `unsafe` is confined to the `backend` module.
#![no_std]
#![deny(unsafe_code)]

#[cfg(all(target_arch = "aarch64", feature = "std", not(target_os = "none")))]
extern crate std;

// Bottom up: a module uses those of its own group and of the groups above it, and no two use each other.

// Cipher blocks, runs of data units and their IVs, and what ciphers are made of.
mod aegis;
mod block;
mod chacha;
mod chacha_poly;
mod gf128;
mod hash;
mod key_error;
mod nh;
mod poly1305;
mod run;
#[cfg(feature = "sha2")]
mod sha2_pads;
mod tweak;

// Block ciphers in portable code, and rules that make IVs with a key or of the data.
#[cfg(all(feature = "camellia", target_arch = "x86_64"))]
mod camellia;
mod data_rule;
#[cfg(any(feature = "camellia", feature = "cast6", feature = "kuznyechik"))]
mod library;
#[cfg(feature = "noekeon")]
mod noekeon;
#[cfg(feature = "serpent")]
mod serpent;
#[cfg(feature = "speck")]
mod speck;
#[cfg(feature = "twofish")]
mod twofish;

// Modes, which know no backend.
mod mode;

// What instruction sets do better: implementations of the modes' traits.
mod backend;

// dm-crypt's strings, and what is said beside them.
mod options;
mod spec;

// A key in a mode, for whichever cipher and backend.
#[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
mod block64;
mod gcm;
mod keyed;
mod multi;
#[cfg(feature = "other-ciphers")]
mod other;

// What callers have.
pub mod aead;
mod aes_block;
mod aes_engine;
mod aes_gcm;
mod alone;
mod cbc_runs;
mod data_unit;
mod mapper;
mod narrow_lrw;
mod one_unit;
mod tagged;
mod tagged_mapper;
mod whitened_cbc;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

pub use aes_block::AesBlock;
pub use aes_engine::{
    AesEncrypt, AesEngine, AsyncAesEngine, AsyncEngineCipher, AsyncEngineXts, CheckedEngine,
    CheckedEngineError, EngineCcm, EngineError, EngineXts, LoadAesKey, SharedEngineXts, SoftwareAes,
    SoftwareEngine, XtsKey, aes_cmac,
};
pub use aes_gcm::{AesGcm, Several};
#[cfg(feature = "sha2")]
pub use alone::AesCbcEssiv;
pub use alone::{AdiantumPlain64, AesXts, HPolyCPlain64, Hctr2Plain64, KeyPlace, Keys, Plain64};
pub use backend::{BackendChoice, VectorChoice};
pub use block::Direction;
pub use cbc_runs::{CbcCipher, CbcRuns, CbcRunsError};
pub use data_unit::{AsyncDataUnitCipher, DataUnitCipher};
pub use key_error::KeyError;
pub use mapper::Mapper;
pub use narrow_lrw::NarrowLrw;
pub use one_unit::{Adiantum, CbcCts, CtsError, HPolyC, Hctr2, WideBlockError, Xts, XtsError};
pub use options::MapperOptions;
pub use run::{DataUnitIndex, RunError};
pub use spec::{Cipher, CipherMode, CipherSpec, Feature, SpecError};
pub use tagged::Tagged;
pub use tagged_mapper::{TaggedMapper, TaggedSpec, TaggedSpecError};
pub use whitened_cbc::WhitenedCbc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
