//! A small client for TPM 2.0: it seals secrets to the state of a machine and unseals them again.
//!
//! It speaks the commands of TCG's "Trusted Platform Module Library", parts 2 and 3, that sealing needs, over [`Device`]: the kernel's
//! `/dev/tpmrm0`, or the socket of a software TPM. No daemon and no C library stands between.
//!
//! 1. [`Tpm::open`] reaches the TPM.
//! 2. [`Tpm::create_primary`] or [`Tpm::persistent`] names the key above the sealed object, a [`Parent`].
//! 3. [`Tpm::unseal`] loads a [`Sealed`] object, meets its [`Policy`] and returns the secret. [`Tpm::seal`] makes such an object.
//!
//! [`Tpm::counter`] reads a [`Counter`] that can only rise, in a session that proves whose answer it is.
//!
//! The TPM and the wire to it are hostile input: every answer has at most 4096 bytes, is read strictly, and must come within a
//! time limit. The secret crosses the wire encrypted, under a session key that only the owner of the parent key can derive.
#![forbid(unsafe_code)]

mod commands;
mod counter;
mod device;
mod error;
mod exchange;
mod measure;
mod parent;
mod policy;
mod seal;
mod session;
mod signed;
mod unseal;
mod wire;

pub use counter::Counter;
pub use device::{Device, TPM_VARIABLE, Transport};
pub use error::TpmError;
pub use exchange::Tpm;
pub use measure::keyed;
pub use parent::{Parent, Template};
pub use policy::{Bank, Pcrs, Policy};
pub use seal::NewSeal;
pub use signed::{SignedPolicy, SigningKey};
pub use unseal::Sealed;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
