//! The directory `.fscrypt` in the root of a filesystem, in which google/fscrypt keeps its policies and protectors.
//!
//! A *policy* is a master key that lies there wrapped, once for each of its *protectors*; a protector is a key of 32 bytes
//! that lies there wrapped by what a person has: a passphrase (hashed by Argon2id, at costs that the protector states) or a
//! file of 32 bytes. [`Metadata::read`] reads all of it from the files of the image, which are not encrypted;
//! [`Metadata::unlock`] turns a protector and its secret into the master keys of all policies that it protects.
//!
//! What is read was writable by whoever had the image: every record is checked whole before it is used, costs before
//! anything is derived, and one record that is damaged takes no other along.

mod error;
mod hex;
mod record;
mod store;
mod unlock;
mod wire;
mod wrap;

pub use error::{MetadataError, RecordDamage, UnlockError};
pub use hex::ProtectorDescriptor;
pub use record::{Hashing, Policy, PolicyKeySlot, Protector, ProtectorSource};
pub use store::{ChooseError, Damaged, Link, Metadata};
pub use unlock::{PolicyKey, Unlocked};
pub use wrap::WrappedKey;

#[doc(hidden)]
pub use record::{parse_policy, parse_protector};
