//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod attacks;
mod bad_blocks;
mod capacity;
mod cuts;
mod histories;
mod its;
mod its_histories;
mod map;
mod oracle;
mod rig;
mod wear;
