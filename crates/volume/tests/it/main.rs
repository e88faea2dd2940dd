//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod convert;
mod locks;
mod loopaes;
mod luks1;
mod luks2;
mod plain;
