//! Sealed volumes: a block device on an object store that can't be read, changed or rolled back unnoticed.
//!
//! A volume is a log of sealed objects, each made where none of its name was ([`store::ObjectStore::put_new`]). A flush stores one
//! object, and then names it in a trusted store. What an object store may do, and what of it is detected, is in FORMATS.md, "Sealed
//! volumes", with every byte. The format is version 1: a later version may not read what this one writes.
//!
//! All calls block, and one thread at a time has a volume. The trait [`store::ObjectStore`] is where asynchronous code ends.
//!
//! ```
//! use std::sync::Arc;
//!
//! use atrest_device::BlockDevice;
//! use atrest_sealedvolume::SealedVolume;
//! use atrest_sealedvolume::format::Keys;
//! use atrest_sealedvolume::store::MemoryStore;
//! use atrest_sealedvolume::volume::{Access, Freshness, Settings};
//! use atrest_secret::{OsRandom, Random, VolumeKey};
//!
//! let mut format = [0; 16];
//! OsRandom.fill(&mut format)?;
//! let keys = Keys::new(&VolumeKey::generate(32, &mut OsRandom)?, format)?;
//! let store = Arc::new(MemoryStore::new());
//! // 1 TiB, of which nothing is stored. Without a trusted store an older state as a whole is not noticed.
//! let (blocks, window) = (1 << 28, 32);
//! let mut settings = Settings::default();
//! SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (blocks, window), &mut settings)?;
//!
//! let volume = SealedVolume::open(store, keys, Freshness::Nothing, Access::Write, settings)?;
//! volume.write_at(4096, b"what is to be kept")?;
//! volume.flush()?;
//! volume.add_snapshot("first")?;
//! volume.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]
pub mod format;
pub mod header;
mod lru;
pub mod store;
pub mod volume;

pub use volume::SealedVolume;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
