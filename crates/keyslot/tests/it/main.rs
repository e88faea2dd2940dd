//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod device_key;
mod flash;
mod leftovers;
mod limits;
mod luks1;
mod luks1_stream;
mod previous;
mod wycheproof;
