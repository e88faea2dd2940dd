//! Ciphers for one data unit of any length from 16 bytes on: for names and tests, and for media whose units differ in length.

mod cbc_cts;
mod wide_block;
mod xts;

pub use cbc_cts::{CbcCts, CtsError};
pub use wide_block::{Adiantum, HPolyC, Hctr2, WideBlockError};
pub use xts::{Xts, XtsError};
