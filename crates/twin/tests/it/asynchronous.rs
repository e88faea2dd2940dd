//! The source, left asynchronous.

use atrest_twin::asynchronous as twin;

#[path = "source.rs"]
mod source;

pub use source::{Counting, Device, in_every_form};
