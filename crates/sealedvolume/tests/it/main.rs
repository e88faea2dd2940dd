//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod assaults;
mod attacks;
mod begins;
mod beside;
mod checkpoints;
mod clones;
mod crowd;
mod device;
mod directory;
mod follows;
mod header;
mod histories;
mod journal;
mod journal_histories;
mod map;
mod model;
mod parallel;
mod races;
mod rig;
mod size;
mod vectors;
mod waiting;
