//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod attacks;
mod checkpoints;
mod device;
mod directory;
mod follows;
mod header;
mod histories;
mod parallel;
mod rig;
mod vectors;
