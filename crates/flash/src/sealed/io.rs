//! What of sealed flash waits for the medium or the trusted store: compiled as blocking and as asynchronous code. What waits for nothing
//! is in `mod.rs`, once.

pub(crate) mod cells;
pub(crate) mod correct;
pub(crate) mod damage;
pub(crate) mod device;
pub(crate) mod fast;
pub(crate) mod mount;
pub(crate) mod reader;
pub(crate) mod repair;
#[cfg(feature = "rotate")]
pub(crate) mod rotate;
pub(crate) mod scan;
#[cfg(feature = "rotate")]
pub(crate) mod scratch;
pub mod store;
pub(crate) mod volume;

use super::{FlashDevice, TrustedStore, Unfinished, twin};
#[cfg(feature = "rotate")]
use crate::sealed::two_keys;
use crate::sealed::{
    SealedLayout, error, header, keys, layout, options, record, rotation, serial, slots, table, unfinished,
    verdict,
};

pub use reader::SealedReader;
#[cfg(feature = "rotate")]
pub use rotate::RotatingFlash;
#[cfg(feature = "rotate")]
pub use scratch::WithScratch;
pub use volume::SealedFlash;
