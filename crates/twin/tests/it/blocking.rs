//! The source, made blocking.

use atrest_twin::blocking as twin;

#[path = "source.rs"]
mod source;

pub use source::{Counting, Device, in_every_form};
