//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod claims;
mod identity;
mod kinds;
mod partitions;
mod reach;
