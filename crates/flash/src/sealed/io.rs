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
pub(crate) mod scan;
pub mod store;
pub(crate) mod volume;

use super::{FlashDevice, TrustedStore, Unfinished, twin};
use crate::sealed::{
    SealedLayout, error, header, keys, layout, options, record, serial, slots, table, unfinished, verdict,
};

pub use reader::SealedReader;
pub use volume::SealedFlash;
