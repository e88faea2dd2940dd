//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod attacks;
mod bad_blocks;
mod built;
mod capacity;
mod cuts;
mod damage;
mod histories;
mod its;
mod its_histories;
mod map;
mod oracle;
mod refusals;
mod rig;
mod wear;
