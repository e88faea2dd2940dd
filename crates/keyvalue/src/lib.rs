//! A small map for configuration on flash memory: names and values, without a heap and without a file system.
//!
//! [`KeyValue`] lies on any [`FlashDevice`](atrest_device::FlashDevice): on `CryptFlash` its values are encrypted, on `SealedFlash` they
//! are authenticated and older states are detected, too. Names are hashed under the key. Wear is spread over all blocks,
//! and a power loss at any moment leaves the map of before a change or of after it. FORMATS.md, "Key-value map", has the
//! bytes, docs/KEY-VALUE.md what it costs.
//!
//! [`its`] has the Internal Trusted Storage of the PSA Certified Secure Storage API over such a map.
//!
//! ```
//! use atrest_device::FlashDevice;
//! use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapKey, MapOptions};
//!
//! fn boots(flash: impl FlashDevice, volume_key: &[u8; 32], uuid: &[u8; 16]) -> Result<u32, MapError> {
//!     let key = MapKey { volume_key, uuid };
//!     let (mut index, mut buffer) = ([IndexEntry::default(); 32], [0; 256]);
//!     let mut map = KeyValue::open(flash, &key, MapOptions::default(), &mut index[..], &mut buffer[..])?;
//!     let mut count = [0; 4];
//!     map.get(b"boots", &mut count)?;
//!     let boots = u32::from_le_bytes(count) + 1;
//!     map.set(b"boots", &boots.to_le_bytes())?;
//!     Ok(boots)
//! }
//! # use atrest_cipher::{AesXts, MapperOptions};
//! # use atrest_flash::CryptFlash;
//! # use atrest_testkit::flash::EmulatedFlash;
//! # let medium = EmulatedFlash::new(atrest_device::FlashGeometry::new(1, 16, 4096, 8).unwrap());
//! # let (key, uuid) = (core::array::from_fn(|i| i as u8), [9; 16]);
//! # let cipher = || AesXts::new(&key, &MapperOptions::default()).unwrap();
//! # let mut flash = CryptFlash::new(medium, cipher(), [0; 256]).unwrap();
//! # let named = MapKey { volume_key: &key, uuid: &uuid };
//! # let (mut index, mut buffer) = ([IndexEntry::default(); 32], [0; 256]);
//! # KeyValue::format(&mut flash, &named, MapOptions::default(), &mut index[..], &mut buffer[..])?;
//! # assert_eq!(boots(&mut flash, &key, &uuid)?, 1);
//! # assert_eq!(boots(&mut flash, &key, &uuid)?, 2);
//! # Ok::<(), MapError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod begin;
mod error;
mod head;
mod index;
pub mod its;
mod key;
mod map;
mod medium;
mod open;
mod shape;

pub use error::MapError;
pub use index::IndexEntry;
pub use key::{ID_LEN, MapKey, NameId};
pub use map::{KeyValue, ValueInfo};
pub use shape::MapOptions;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/KEY-VALUE.md")]
struct Page;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
